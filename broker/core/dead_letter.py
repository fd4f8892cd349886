"""Dead-lettering: what becomes of messages that were rejected, expired or dropped (rules DL).

A death is written into the message's headers, and kept beside them as the broker's own history: a
publisher's x-death is data, not history (rule DL-09), and the header has room for so many.
Dead letters are published from a list, not from within one another, so that a chain of queues that
all drop costs no stack.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from broker.core.message import NO_TTL, Address, Message, content_with_properties
from broker.core.routing import NO_KEEPERS
from broker.limits import DEATHS_BYTES_MAX
from broker.wire.properties import set_encoded_headers, without_expiration
from broker.wire.tables import Arguments, Field, encode_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.binding import Destination
    from broker.core.exchange.base import Exchange
    from broker.core.queue.arguments import QueueSettings
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = ["DeadLetters", "Death", "DeathHistory", "RetainedLetter", "is_cycle", "record_death"]


class Death(NamedTuple):
    """One entry of x-death: the deaths of a message in one queue for one reason (rule DL-07)."""

    queue: str
    reason: str
    exchange: str
    routing_keys: list[str]
    time_s: int
    original_expiration: str | None
    times: int = 1

    def again(self) -> Death:
        """The same death once more: the count grows, the rest keeps its first values (DL-06)."""
        return self._replace(times=self.times + 1)

    def to_field(self) -> Field:
        """The entry as it stands in the x-death array."""
        table: Arguments = {
            "count": Field("l", self.times),
            "reason": Field("S", self.reason),
            "queue": Field("S", self.queue),
            "time": Field("T", self.time_s),
            "exchange": Field("S", self.exchange),
            "routing-keys": Field("A", [Field("S", key) for key in self.routing_keys]),
        }
        if self.original_expiration is not None:
            table["original-expiration"] = Field("S", self.original_expiration)

        return Field("F", table)


class DeathHistory:
    """All deaths of a message, newest first, and which one was the very first (DL-06, DL-08).

    Attributes:
        encoded: the entries as they stand in x-death: on a long way through dead letters they
            would be encoded again with every step.

    """

    __slots__ = ("encoded", "entries", "first")

    def __init__(self, entries: list[Death], encoded: list[bytes], first: Death) -> None:
        self.entries = entries
        self.encoded = encoded
        self.first = first

    def to_headers(self) -> dict[str, bytes]:
        """The headers that tell the history: x-death, the first and the last death by name."""
        first = self.first
        last = self.entries[0]
        headers = {"x-death": self._array()}
        for key, text in (
            ("x-first-death-reason", first.reason),
            ("x-first-death-queue", first.queue),
            ("x-first-death-exchange", first.exchange),
            ("x-last-death-reason", last.reason),
            ("x-last-death-queue", last.queue),
            ("x-last-death-exchange", last.exchange),
        ):
            headers[key] = encode_field(Field("S", text))

        return headers

    def _array(self) -> bytes:
        """The newest entries, as many as there is room for; one at least."""
        shown: list[bytes] = []
        room = DEATHS_BYTES_MAX
        for entry in self.encoded:
            room -= len(entry)
            if room < 0:
                break

            shown.append(entry)

        if not shown:
            # Its many routing keys come from the header CC, which the message still has.
            newest = self.entries[0]
            newest = newest._replace(routing_keys=newest.routing_keys[:1])
            shown.append(encode_field(newest.to_field()))

        array = b"".join(shown)
        return b"A" + len(array).to_bytes(4, "big") + array


def record_death(history: DeathHistory | None, death: Death) -> DeathHistory:
    """The history with one more death in front (rule DL-06). The one given is not changed."""
    entries: list[Death] = []
    encoded: list[bytes] = []
    first = death
    if history is not None:
        first = history.first
        entries.extend(history.entries)
        encoded.extend(history.encoded)
        for place, entry in enumerate(entries):
            if entry.queue == death.queue and entry.reason == death.reason:
                death = entry.again()
                del entries[place]
                del encoded[place]
                break

    entries.insert(0, death)
    encoded.insert(0, encode_field(death.to_field()))
    return DeathHistory(entries, encoded, first)


def is_cycle(history: DeathHistory, target: str) -> bool:
    """Whether a copy for ``target`` would go round without anybody having refused it (DL-11)."""
    for death in history.entries:
        if death.reason == "rejected":
            return False

        if death.queue == target:
            return True

    return False


class RetainedLetter:
    """A dead letter that stays with its queue until all its targets have it (rule DL-13).

    Args:
        message: as it died.
        reason: of what.
        on_answer: told after each try whether it has arrived everywhere.

    Attributes:
        taken_by: those that have it already.

    """

    __slots__ = ("message", "on_answer", "reason", "taken_by")

    def __init__(
        self,
        message: Message,
        reason: str,
        on_answer: Callable[[RetainedLetter, bool], None],
    ) -> None:
        self.message = message
        self.reason = reason
        self.on_answer = on_answer
        self.taken_by: dict[Destination, None] = {}


class _Burial:
    """A dead message on its way; ``retained`` if its queue wants to know how it went.

    No named tuple: compiled, one looks for the classes of its fields when this module is imported,
    which is before the module of queues is.
    """

    __slots__ = ("message", "queue", "reason", "retained", "settings")

    def __init__(
        self,
        queue: Queue,
        message: Message,
        reason: str,
        settings: QueueSettings,
        retained: RetainedLetter | None,
    ) -> None:
        self.queue = queue
        self.message = message
        self.reason = reason
        self.settings = settings
        self.retained = retained


class DeadLetters:
    """The dead letters of one virtual host, waiting to be routed."""

    __slots__ = ("_is_running", "_pending", "_vhost")

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._pending: deque[_Burial] = deque()
        self._is_running = False

    def dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        """Send a message that has left its queue on to the queue's DLX, if it has one (DL-03)."""
        settings = queue.settings
        is_sent = settings.dead_letter_exchange in self._vhost.exchanges
        strategy = "at_most_once" if is_sent else "disabled"
        self._vhost.tally.count_death(queue.type, reason, strategy)
        if self._vhost.witness is not None:
            self._vhost.witness.died(queue, message, reason)

        if settings.dead_letter_exchange is None:
            return

        self._start(_Burial(queue, message, reason, settings, None))

    def deliver(self, queue: Queue, letter: RetainedLetter) -> None:
        """Try to bring a letter to the targets that do not have it yet (rule DL-13)."""
        self._start(_Burial(queue, letter.message, letter.reason, queue.settings, letter))

    def _start(self, burial: _Burial) -> None:
        self._pending.append(burial)
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        try:
            while self._pending:
                burial = self._pending.popleft()
                is_taken = self._publish(burial)
                retained = burial.retained
                if retained is not None:
                    if is_taken:
                        tally = self._vhost.tally
                        tally.count_death(burial.queue.type, "confirmed", "at_least_once")

                    retained.on_answer(retained, is_taken)
        finally:
            self._is_running = False

    def _publish(self, burial: _Burial) -> bool:
        """Bring a dead message to its targets; whether there are any and all have taken it."""
        name = burial.settings.dead_letter_exchange
        exchange = self._vhost.exchanges.get(name) if name is not None else None
        if exchange is None or name is None:
            return False

        letter = self._letter(burial)
        exchange.publish_in += 1
        address = letter.address
        keys = [address.routing_key, *(address.cc_keys or []), *(address.bcc_keys or [])]
        targets, depends_on_headers = self._vhost.route_queues(exchange, keys, None)
        keepers = NO_KEEPERS
        if depends_on_headers:
            # Seldom; the headers of one that died often are long.
            properties = letter.properties()
            targets, keepers = self._vhost.route_message(exchange, keys, properties)

        history = letter.history
        assert history is not None
        if burial.reason != "rejected":
            targets = [target for target in targets if not is_cycle(history, target.name)]

        exchange.publish_out += len(targets)
        witness = self._vhost.witness
        if witness is not None:
            witness.buried(burial.queue, burial.message, letter, targets)

        if burial.retained is not None:
            return _hand_over_certainly(burial.retained, letter, targets, keepers)

        for keeper in keepers:
            keeper.keep(letter, is_returned=False)

        for target in targets:
            target.enqueue(letter.copy(), NO_TTL)

        return True

    def _letter(self, burial: _Burial) -> Message:
        """The message under its new address, with the death in its headers (DL-04..DL-08)."""
        queue, message, settings = burial.queue, burial.message, burial.settings
        old = message.address
        properties = message.properties()
        death = Death(
            queue.name,
            burial.reason,
            exchange=old.exchange,
            routing_keys=[old.routing_key, *(old.cc_keys or [])],
            time_s=self._vhost.deadlines.wall_ms // 1000,
            original_expiration=properties.expiration,
        )
        history = record_death(message.history, death)
        exchange_name = settings.dead_letter_exchange
        assert exchange_name is not None
        key = settings.dead_letter_routing_key
        if key is None:
            address = Address(exchange_name, old.routing_key, old.cc_keys, old.bcc_keys, history)
        else:
            address = Address(exchange_name, key, history=history)

        raw = set_encoded_headers(without_expiration(properties.raw), history.to_headers())
        content = content_with_properties(message.content, raw)
        return Message(address, content, message.body_size, message.is_persistent, message.priority)


def _hand_over_certainly(
    retained: RetainedLetter, letter: Message, targets: list[Queue], keepers: list[Exchange]
) -> bool:
    """Give a letter to those that do not have it yet; whether there are any, and all have it."""
    taken_by = retained.taken_by
    for keeper in keepers:
        if keeper not in taken_by:
            keeper.keep(letter, is_returned=False)
            taken_by[keeper] = None

    is_taken = bool(targets) or bool(keepers)
    for target in targets:
        if target in taken_by:
            continue

        if target.enqueue(letter.copy(), NO_TTL):
            taken_by[target] = None
        else:
            is_taken = False

    return is_taken
