"""Core: x-delayed-message: messages that are routed when their time has come (rules E-110..E-117).

**While a message waits** it has gone nowhere: no binding has been looked at, its publisher has its
confirm, and a mandatory one is returned although it will be delivered (rule E-113); an alternate
exchange gets it at once. With the argument ``x-delay-mandatory`` that is otherwise: what would
reach a queue if it were due now counts as routed, only what would not is returned, and then does
not wait either; an alternate exchange gets what is due and reaches nothing.

**When it is due** the exchange it was held by routes it, with the bindings of then, as the exchange
type named by ``x-delayed-type`` does. Messages wait by due time, then in the order they came; one
timer stands for the first of them.

**Where it waits**: in a heap in memory. With a journal only those are there that are due soon; the
others lie on disk once they are safe, and are read when they are due.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import HOLDS, KEEPS, Exchange
from broker.core.exchange.delay_recovery import RecoveredDelays
from broker.core.exchange.due import Due, DueMessages
from broker.core.exchange.values import INTEGER_KINDS, parse_integer
from broker.core.forwarding import forward
from broker.core.message import content_with_properties
from broker.errors import PreconditionFailed
from broker.limits import DELAYED_HOT_MAX, DELAYED_PER_TURN_MAX
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

SOON_MS: Final = 5_000
"""A shorter delay is not worth a reading."""


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

    __slots__ = (
        "_fresh",
        "_held",
        "_inner",
        "_is_mandatory",
        "_later",
        "_number",
        "_timer",
        "_vhost",
    )

    def __init__(self, settings: ExchangeSettings, inner: Exchange) -> None:
        super().__init__(settings)
        self.depends_on_headers = True
        self.depends_on_properties = True
        self._inner: Exchange = inner
        self._is_mandatory: bool = False
        self._vhost: VirtualHost | None = None
        self._held: list[tuple[int, int, Message]] = []
        """A heap: due time, number of arrival, message."""
        self._later: DueMessages = DueMessages()
        # What is to go there when it is safe. The position is the number of arrival.
        self._fresh: deque[Message] = deque()
        self._number: int = 0
        self.keeps_all = True
        self._timer: Timer | None = None

    @property
    def messages_delayed(self) -> int:
        """How many messages wait (rule E-116)."""
        return len(self._held) + len(self._fresh) + self._later.count

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
            for positions in self._later.positions():
                journal.forget_positions(positions)

        self._held.clear()
        self._fresh.clear()
        self._later.clear()
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
        if journal is None:
            heapq.heappush(self._held, (due_ms, self._number, held))
            self._arm()
            return

        # For the log its time is over when it is due.
        held.deadline_ms = due_ms
        held.position = self._number
        journal.add(self, held)
        if delay_ms > SOON_MS or len(self._held) >= DELAYED_HOT_MAX:
            self._fresh.append(held)
        else:
            heapq.heappush(self._held, (due_ms, self._number, held))
            self._arm()

    # -- what lies on disk

    def awaits_log(self) -> bool:
        """Whether there is something to be left to the disk."""
        return bool(self._fresh)

    def written(self, journal: Journal) -> bool:
        """The log has messages: those that are due later are read back then."""
        fresh = self._fresh
        vhost = self._vhost
        if vhost is None:
            return False

        wall_offset_ms = int(vhost.deadlines.wall_offset_ms)
        while fresh and 0 < fresh[0].record < journal.written_until:
            held = fresh.popleft()
            due_ms = int(held.deadline_ms) + wall_offset_ms
            self._later.add(Due(due_ms, int(held.position), int(held.record)))

        self._arm()
        return bool(fresh)

    def _read_due(self, vhost: VirtualHost, journal: Journal) -> None:
        """Bring back what is due before anything in memory is."""
        held = self._held
        later = self._later
        now_ms = vhost.deadlines.wall_ms
        wall_offset_ms = int(vhost.deadlines.wall_offset_ms)
        while later.count:
            due_ms, number = later.first()
            if due_ms > now_ms or (held and held[0][:2] < (due_ms - wall_offset_ms, number)):
                return

            taken = later.take(now_ms)
            messages = self._load(journal, sorted([one.position for one in taken]))
            for one in taken:
                message = messages[one.position]
                message.position = one.number
                message.deadline_ms = one.due_ms - wall_offset_ms
                heapq.heappush(held, (one.due_ms - wall_offset_ms, one.number, message))

    def _load(self, journal: Journal, positions: list[int]) -> dict[int, Message]:
        found: dict[int, Message] = {}
        place = 0
        while place < len(positions):
            for message in journal.load(self, positions[place:]):
                found[int(message.record)] = message
                place += 1

        return found

    def stored_messages(self) -> list[Message]:
        if self.journal is None:
            return []

        return [*[entry[2] for entry in self._held], *self._fresh]

    def append_held(self, records: list[list[bytes]]) -> None:
        vhost = self._vhost
        assert vhost is not None
        wall_offset_ms = int(vhost.deadlines.wall_offset_ms)
        in_memory = DueMessages()
        for message in self.stored_messages():
            if message.record > 0:
                due_ms = int(message.deadline_ms) + wall_offset_ms
                in_memory.add(Due(due_ms, int(message.position), int(message.record)))

        # In this order whole chunks are taken over at the start.
        self._later.append_state(records, int(self.log_id))
        in_memory.append_state(records, int(self.log_id))

    def places_in(self, numbers: set[int]) -> list[int]:
        return self._later.places_in(numbers)

    def move_cold(self, places: dict[int, int]) -> list[int]:
        return self._later.move(places)

    def restore(self, journal: Journal, found: Recovered) -> None:
        assert isinstance(found, RecoveredDelays)
        self._later = found.messages
        self._number = found.number
        self._arm()

    # -- time

    def _first_due_ms(self) -> int | None:
        """When the first of all is due; None where there is none, or it is not safe yet."""
        vhost = self._vhost
        due: list[int] = []
        if self._held:
            due.append(self._held[0][0])

        if self._later.count and vhost is not None:
            due.append(self._later.first()[0] - int(vhost.deadlines.wall_offset_ms))

        return min(due) if due else None

    def _arm(self) -> None:
        """Have the timer stand for the first message."""
        vhost = self._vhost
        if vhost is None:
            return

        timer = self._timer
        due_ms = self._first_due_ms()
        if timer is not None:
            if due_ms is not None and timer.due_ms == due_ms:
                return

            vhost.deadlines.cancel(timer)
            self._timer = None

        if due_ms is not None:
            self._timer = vhost.deadlines.schedule(due_ms, self._release)

    def _release(self) -> None:
        """Route what is due; of very much, the rest a millisecond later, after everybody else."""
        self._timer = None
        vhost = self._vhost
        assert vhost is not None
        held = self._held
        journal = self.journal
        now_ms = int(vhost.deadlines.now_ms)
        for _ in range(DELAYED_PER_TURN_MAX):
            if journal is not None and self._later.count:
                self._read_due(vhost, journal)

            if not held or held[0][0] > now_ms:
                break

            self._route_due(vhost, heapq.heappop(held)[2])

        due_ms = self._first_due_ms()
        if due_ms is not None and due_ms <= now_ms:
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
