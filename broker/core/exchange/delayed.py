"""Core: x-delayed-message: messages that are routed when their time has come (rules E-110..E-117).

**While a message waits** it has gone nowhere: no binding has been looked at, its publisher has its
confirm, and a mandatory one is returned although it will be delivered (rule E-113); an alternate
exchange gets it at once. With the argument ``x-delay-mandatory`` that is otherwise: what would
reach a queue if it were due now counts as routed, only what would not is returned, and then does
not wait either; an alternate exchange gets what is due and reaches nothing.

**When it is due** the exchange it was held by routes it, with the bindings of then, as the exchange
type named by ``x-delayed-type`` does. Messages wait in a heap, by due time and then in the order
they came; one timer stands for the first of them.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import HOLDS, KEEPS, Exchange
from broker.core.exchange.values import INTEGER_KINDS, parse_integer
from broker.core.forwarding import forward
from broker.core.message import content_with_properties
from broker.errors import PreconditionFailed
from broker.limits import DELAYED_PER_TURN_MAX
from broker.wire.properties import parse_properties, set_headers
from broker.wire.tables import Field

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.deadlines import Timer
    from broker.core.exchange.base import ExchangeSettings
    from broker.core.journal import Journal
    from broker.core.message import Message
    from broker.core.recovered import Recovered
    from broker.core.vhost import VirtualHost
    from broker.wire.properties import Properties
    from broker.wire.tables import Arguments

__all__ = ["DELAYED_MESSAGE", "DELAY_MS_MAX", "DelayedExchange", "delay_of", "delayed_type_of"]

DELAYED_MESSAGE: Final = "x-delayed-message"
TYPE_ARGUMENT: Final = "x-delayed-type"
MANDATORY_ARGUMENT: Final = "x-delay-mandatory"
DELAY_HEADER: Final = "x-delay"
DELAY_MS_MAX: Final = (1 << 32) - 1
"""A longer delay is none (rule E-112)."""

NO_DELAY: Final = 0


def delayed_type_of(arguments: Arguments) -> str:
    """Return the type that routes in the end, as the declaration names it (rule E-110).

    Raises:
        PreconditionFailed: it names none, or x-delayed-message itself.

    """
    field = arguments.get(TYPE_ARGUMENT)
    if field is None or field.kind != "S" or not isinstance(field.value, str):
        raise PreconditionFailed(
            f"Invalid argument, '{TYPE_ARGUMENT}' must be an existing exchange type"
        )

    if field.value == DELAYED_MESSAGE:
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_MESSAGE}' can't be used for '{TYPE_ARGUMENT}'"
        )

    return field.value


def delay_of(properties: Properties) -> int:
    """Return the delay that a message asks for, in milliseconds; 0 where it asks for none (E-112).

    A message that has been delayed has the negative of it, which asks for none (rule E-114).
    """
    field = properties.headers().get(DELAY_HEADER)
    if field is None:
        return NO_DELAY

    delay_ms: int | None = None
    value = field.value
    if isinstance(value, float):
        delay_ms = int(value)
    elif isinstance(value, int) and field.kind in INTEGER_KINDS:
        delay_ms = value
    elif isinstance(value, str):
        delay_ms = parse_integer(value)

    return delay_ms if delay_ms is not None and 0 < delay_ms <= DELAY_MS_MAX else NO_DELAY


def _raw_when_due(properties: Properties, delay_ms: int) -> bytes:
    """The properties as they are delivered: the delay has become its negative (rule E-114)."""
    return set_headers(properties.raw, {DELAY_HEADER: Field("l", -delay_ms)})


class DelayedExchange(Exchange):
    """Holds messages for the time they ask for, and leaves the rest to another type.

    Args:
        settings: as declared.
        inner: an exchange of the type that routes, for this one alone; it holds the index of the
            bindings, not the bindings.

    """

    __slots__ = ("_held", "_inner", "_is_mandatory", "_number", "_timer", "_vhost")

    def __init__(self, settings: ExchangeSettings, inner: Exchange) -> None:
        super().__init__(settings)
        self.depends_on_headers = True
        self.depends_on_properties = True
        self._inner: Exchange = inner
        self._is_mandatory: bool = False
        self._vhost: VirtualHost | None = None
        self._held: list[tuple[int, int, Message]] = []
        """A heap: due time, number of arrival, message."""
        self._number: int = 0
        self.keeps_all = True
        self._timer: Timer | None = None

    @property
    def messages_delayed(self) -> int:
        """How many messages wait (rule E-116)."""
        return len(self._held)

    # -- what every exchange does

    def validate(self) -> None:
        field = self.arguments.get(MANDATORY_ARGUMENT)
        if field is None:
            return

        if not isinstance(field.value, bool):
            raise PreconditionFailed(f"Invalid argument, '{MANDATORY_ARGUMENT}' must be a boolean")

        self._is_mandatory = field.value

    def attach(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._inner.attach(vhost)

    def detach(self) -> None:
        # Rule E-115: what waits is lost with its exchange.
        journal = self.journal
        if journal is not None:
            journal.forget(self.stored_messages())

        self._held.clear()
        self._arm()
        self._vhost = None
        self._inner.detach()

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        self._inner.validate_binding(routing_key, arguments)

    def validate_destination(self, destination: Destination) -> None:
        self._inner.validate_destination(destination)

    def bound(self, binding: Binding) -> None:
        self._inner.bound(binding)

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        return self._inner.match(routing_keys, headers)

    def match_properties(
        self, routing_keys: list[str], properties: Properties
    ) -> list[Destination]:
        if delay_of(properties):
            return []

        inner = self._inner
        if inner.depends_on_properties:
            return inner.match_properties(routing_keys, properties)

        return inner.match(routing_keys, properties.headers())

    def _index(self, binding: Binding) -> None:
        self._inner._index(binding)

    def _unindex(self, binding: Binding) -> None:
        self._inner._unindex(binding)

    def _clear_index(self) -> None:
        self._inner._clear_index()

    # -- delays

    def keeps(self, properties: Properties) -> int:
        if delay_of(properties):
            return HOLDS if self._is_mandatory else KEEPS

        return self._inner.keeps(properties)

    def vouches_for(self, routing_keys: list[str], properties: Properties) -> bool:
        delay_ms = delay_of(properties)
        if not self._is_mandatory or not delay_ms:
            return False

        vhost = self._vhost
        if vhost is None:
            return False

        due = parse_properties(_raw_when_due(properties, delay_ms))
        return bool(vhost.route_message(self, routing_keys, due)[0])

    def keep(self, message: Message, *, is_returned: bool) -> None:
        delay_ms = delay_of(message.properties())
        if not delay_ms:
            self._inner.keep(message, is_returned=is_returned)
            return

        vhost = self._vhost
        if vhost is None or (is_returned and self._is_mandatory):
            # Rule E-115: in a transaction the exchange may be gone before the message comes.
            return

        self._number += 1
        due_ms = int(vhost.deadlines.now_ms) + delay_ms
        held = message.copy()
        journal = self.journal
        if journal is not None:
            # For the log its time is over when it is due.
            held.deadline_ms = due_ms
            journal.add(self, held)

        heapq.heappush(self._held, (due_ms, self._number, held))
        self._arm()

    def stored_messages(self) -> list[Message]:
        if self.journal is None:
            return []

        return [entry[2] for entry in sorted(self._held)]

    def restore(self, journal: Journal, found: Recovered) -> None:
        positions = list(found.level(0).positions)
        place = 0
        while place < len(positions):
            for message in journal.load(self, positions[place : place + DELAYED_PER_TURN_MAX]):
                place += 1
                self._number += 1
                heapq.heappush(self._held, (int(message.deadline_ms), self._number, message))

        self._arm()

    def _arm(self) -> None:
        """Have the timer stand for the first message in the heap."""
        vhost = self._vhost
        if vhost is None:
            return

        timer = self._timer
        held = self._held
        if timer is not None:
            if held and timer.due_ms == held[0][0]:
                return

            vhost.deadlines.cancel(timer)
            self._timer = None

        if held:
            self._timer = vhost.deadlines.schedule(held[0][0], self._release)

    def _release(self) -> None:
        """Route what is due; of very much, the rest a millisecond later, after everybody else."""
        self._timer = None
        vhost = self._vhost
        assert vhost is not None
        held = self._held
        now_ms = int(vhost.deadlines.now_ms)
        for _ in range(DELAYED_PER_TURN_MAX):
            if not held or held[0][0] > now_ms:
                break

            self._route_due(vhost, heapq.heappop(held)[2])

        if held and held[0][0] <= now_ms:
            self._timer = vhost.deadlines.schedule(now_ms + 1, self._release)
        else:
            self._arm()

    def _route_due(self, vhost: VirtualHost, message: Message) -> None:
        properties = message.properties()
        raw = _raw_when_due(properties, delay_of(properties))
        delayed = message.copy()
        delayed.content = content_with_properties(message.content, raw)
        self.publish_out += forward(vhost, self, delayed)
        journal = self.journal
        if journal is not None:
            journal.settled(self, message)
