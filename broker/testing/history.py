"""What has become of every message, to look at and to assert on. Layer: testing.

Invariant: events are in the order in which the broker did things, and an event that is there is
never changed.
"""

from __future__ import annotations

import json
import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.exchange.delayed import DelayedExchange, delay_of
from broker.core.message import content_body
from broker.core.watcher import Witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.message import Message
    from broker.core.node import Node
    from broker.core.queue.queue import Queue

__all__ = ["Event", "Events", "History", "Ledger", "RecordedMessage"]

EVENTS_MAX: Final = 200_000
"""Events that are kept; a test that makes more has another purpose than to read them."""

STORY_EVENTS_MAX: Final = 60
BODY_CHARACTERS_MAX: Final = 60

DIED_BY_TIME: Final = "expired"
DEATHS: Final = (DIED_BY_TIME, "rejected", "maxlen", "delivery_limit")
KINDS: Final = (
    *("published", "returned", "unroutable", "confirmed", "refused", "delivered", "acked"),
    *("nacked", "rejected", "requeued", "expired", "dead-lettered", "dropped", "purged"),
    *("deleted", "note", "maxlen", "delivery_limit"),
)

CHANGED_HEADERS: Final = frozenset({"x-delay", "x-stream-offset"})
"""Headers that the broker changes on the way of a message, or adds."""

REASONS: Final = {
    "recover": "basic.recover",
    "closed": "its channel was closed",
}


class RecordedMessage:
    """One message that was published, wherever it has been since.

    Attributes:
        number: 1 for the first message of the history.
        vhost: the virtual host it was published in.
        exchange: as the publisher named it; empty for the default exchange.
        routing_key: likewise.
        body: as bytes.
        routed_to: the queues that it reached at first.

    """

    def __init__(
        self, number: int, vhost: str, message: Message, routed_to: tuple[str, ...]
    ) -> None:
        self.number = number
        self.vhost = vhost
        self.exchange = message.address.exchange
        self.routing_key = message.address.routing_key
        self.routed_to = routed_to
        self.body = content_body(message.content)
        self.properties: dict[str, object] = message.properties().to_plain()
        """Those that were set, by their AMQP names; what was published, not what came of it."""

    @property
    def headers(self) -> dict[str, object]:
        """The table of headers; empty where there is none."""
        headers = self.properties.get("headers", {})
        assert isinstance(headers, dict)
        return headers

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def json(self) -> object:
        """The body as the JSON that it holds."""
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"#{self.number} {shown(self.body)}"


class Event(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: ``published``, ``returned``, ``unroutable``, ``confirmed``, ``refused``,
            ``delivered``, ``acked``, ``nacked``, ``rejected``, ``requeued``, ``expired``,
            ``dead-lettered``, ``dropped``, ``purged``, ``deleted`` or ``note``.
        at_s: seconds of the broker's clock since it started.
        vhost: the virtual host; empty where it concerns the whole broker.
        message: None where it concerns no single message.
        queue: where it happened; of ``published``, the only queue that was reached.
        consumer: the consumer tag; empty for basic.get.
        client: connection and channel.
        reason: why a message died or went back; what a note says.
        to: the queues that a published message or a dead letter reached.
        is_redelivered: the flag of a delivery.
        tag: the delivery tag.
        is_automatic: a delivery that needs no acknowledgement.

    """

    kind: str
    at_s: float
    vhost: str
    message: RecordedMessage | None = None
    queue: str = ""
    consumer: str = ""
    client: str = ""
    reason: str = ""
    to: tuple[str, ...] = ()
    is_redelivered: bool = False
    tag: int = 0
    is_automatic: bool = False

    @property
    def body(self) -> bytes:
        """The body of its message; empty where there is none."""
        return self.message.body if self.message is not None else b""

    def __str__(self) -> str:
        subject = repr(self.message) if self.message is not None else ""
        text = " ".join(part for part in (f"{self.kind:<13}", subject, _details(self)) if part)
        return f"{self.at_s:+12.3f} s  {text}"


class Events(tuple[Event, ...]):
    """Events that were asked for, in order."""

    __slots__ = ()

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of their messages."""
        return [one.body for one in self]

    @property
    def messages(self) -> list[RecordedMessage]:
        """Their messages."""
        return [one.message for one in self if one.message is not None]

    @property
    def times(self) -> list[float]:
        """When they happened, in seconds of the broker's clock since it started."""
        return [one.at_s for one in self]

    def one(self) -> Event:
        """The only one.

        Raises:
            AssertionError: there is none, or more than one.

        """
        listed = "".join(f"\n  {one}" for one in self)
        assert len(self) == 1, f"expected one event, found {len(self)}{listed}"
        return self[0]

    def __str__(self) -> str:
        return "\n".join(str(one) for one in self)


def _details(event: Event) -> str:
    kind = event.kind
    message = event.message
    who = f"consumer {event.consumer!r}" if event.consumer else "basic.get"
    where = f"queue {event.queue!r}"
    text = event.reason
    if kind == "published" and message is not None:
        exchange = message.exchange or "(default)"
        reached = ", ".join(event.to) or "no queue"
        text = f"to exchange {exchange!r} with key {message.routing_key!r} -> {reached}"
    elif kind == "delivered":
        again = ", redelivered" if event.is_redelivered else ""
        how = "no ack needed" if event.is_automatic else f"tag {event.tag}"
        text = f"from {where} to {who} ({how}{again})"
    elif kind in ("acked", "nacked", "rejected"):
        text = f"by {who} of {where} (tag {event.tag})"
    elif kind == "requeued":
        text = f"to {where}" + (f": {event.reason}" if event.reason else "")
    elif kind == "dead-lettered":
        reached = ", ".join(event.to) or "no queue"
        text = f"from {where} ({event.reason}) -> {reached}"
    elif kind == "dropped":
        text = f"from {where} ({event.reason}), which has no dead letter exchange"
    elif event.queue:
        text = f"in {where}" + (f": {event.reason}" if event.reason else "")

    return text


def shown(body: bytes) -> str:
    """A body for people to read."""
    if len(body) <= BODY_CHARACTERS_MAX:
        return repr(body)

    return f"{body[:BODY_CHARACTERS_MAX]!r}... ({len(body)} bytes)"


class Ledger(Witness):
    """Writes the history of one broker; called in the broker's own thread.

    Args:
        clock: the broker's.
        on_event: called after each event.

    Attributes:
        node: the broker, as soon as there is one.
        events: what has happened, as far as it is kept.
        lost: how many events were beyond what is kept, by virtual host.
        count: events there ever were.
        freed_count: deliveries that nothing more need be heard of, though their consumers may well
            be at work on them: acknowledged ones, and those without acknowledgement.
        freed_s: when the last one of them became that, in real seconds.

    """

    def __init__(self, clock: Clock, on_event: Callable[[], None]) -> None:
        self._clock = clock
        self._on_event = on_event
        self._started_s = clock.monotonic()
        self.node: Node | None = None
        self.events: list[Event] = []
        self.lost: dict[str, int] = {}
        self.count = 0
        self.freed_count = 0
        self.freed_s = 0.0
        self._message_count = 0
        # Copies of a message share its content, which is what tells it from others of equal bytes.
        # The content is kept, so that no other one can be in its place in memory.
        self._by_content: dict[int, tuple[bytes, RecordedMessage]] = {}
        self._by_bytes: dict[tuple[str, bytes], RecordedMessage] = {}
        # By body: the last one of each likeness, and under no likeness the last one of all.
        self._alike: dict[tuple[str, bytes], dict[str, RecordedMessage]] = {}
        # What was published on a channel in confirm mode, by publish number.
        self._to_confirm: dict[tuple[str, int], list[RecordedMessage]] = {}

    @property
    def now_s(self) -> float:
        """Seconds of the broker's clock since it started."""
        return self._clock.monotonic() - self._started_s

    def clear(self, vhost: str | None) -> None:
        """Forget what has happened in a virtual host, or everywhere.

        Messages that are still there keep their numbers.
        """
        self.events = [one for one in self.events if vhost not in (None, one.vhost)]
        if vhost is None:
            self.lost.clear()
        else:
            self.lost.pop(vhost, None)

    def lost_in(self, vhost: str | None) -> int:
        """How many events of a virtual host, or at all, were not kept."""
        return sum(self.lost.values()) if vhost is None else self.lost.get(vhost, 0)

    def forget(self, vhost: str) -> None:
        """A virtual host is gone for good: forget its messages as well."""
        self.clear(vhost)
        known = self._by_content.items()
        self._by_content = {key: one for key, one in known if one[1].vhost != vhost}
        self._by_bytes = {key: one for key, one in self._by_bytes.items() if key[0] != vhost}
        self._alike = {key: one for key, one in self._alike.items() if key[0] != vhost}

    def note(self, vhost: str, text: str, client: str = "") -> None:
        """Something that happened to no message in particular."""
        self._add(Event("note", self.now_s, vhost, reason=text, client=client))

    def _add(self, event: Event) -> None:
        self.count += 1
        if len(self.events) >= EVENTS_MAX:
            self.lost[event.vhost] = self.lost.get(event.vhost, 0) + 1
        else:
            self.events.append(event)

        self._on_event()

    # -- what the core tells

    def published(
        self, message: Message, queues: list[Queue], deliveries: Deliveries, is_returned: bool
    ) -> None:
        names = tuple(queue.name for queue in queues)
        vhost = _vhost_of(deliveries)
        record = self._new_record(vhost, message, names)
        client = _client_of(deliveries)
        only = names[0] if len(names) == 1 else ""
        event = Event("published", self.now_s, vhost, record, only, client=client, to=names)
        self._add(event)
        if is_returned:
            reason = "312 NO_ROUTE"
            self._add(Event("returned", self.now_s, vhost, record, client=client, reason=reason))
        elif not names and not self._is_kept(vhost, message):
            self._add(Event("unroutable", self.now_s, vhost, record, client=client))

        numbered = self._to_confirm.get(_channel_of(deliveries))
        if numbered is not None:
            numbered.append(record)

    def _freed(self) -> None:
        self.freed_count += 1
        self.freed_s = time.monotonic()

    def delivered(self, message: Message, consumer: Consumer, no_ack: bool) -> None:
        if no_ack:
            self._freed()

        queue = consumer.queue
        self._add(
            Event(
                "delivered",
                self.now_s,
                queue.vhost.name,
                self._record_of(queue, message),
                queue.name,
                consumer.tag,
                _client_of(consumer.deliveries),
                is_redelivered=message.redelivered,
                tag=0 if no_ack else int(message.delivery_tag),
                is_automatic=no_ack,
            )
        )

    def settling(self, messages: list[Message], how: str) -> None:
        verb, _, back = how.partition("-")
        kind = {"ack": "acked", "nack": "nacked", "reject": "rejected"}.get(verb, "requeued")
        if verb == "ack":
            self._freed()

        for message in messages:
            consumer = message.consumer
            assert consumer is not None
            queue = consumer.queue
            event = Event(
                kind,
                self.now_s,
                queue.vhost.name,
                self._record_of(queue, message),
                queue.name,
                consumer.tag,
                _client_of(consumer.deliveries),
                REASONS.get(how, ""),
                tag=int(message.delivery_tag),
            )
            self._add(event)
            if back:
                self._add(event._replace(kind="requeued", reason=f"basic.{verb}"))

    def died(self, queue: Queue, message: Message, reason: str) -> None:
        record = self._record_of(queue, message)
        event = Event(reason, self.now_s, queue.vhost.name, record, queue.name, reason=reason)
        if reason == DIED_BY_TIME:
            self._add(event._replace(reason=""))

        if queue.settings.dead_letter_exchange not in queue.vhost.exchanges:
            self._add(event._replace(kind="dropped"))

    def buried(self, queue: Queue, message: Message, letter: Message, targets: list[Queue]) -> None:
        record = self._record_of(queue, message)
        self._know(queue.vhost.name, letter, record)
        names = tuple(target.name for target in targets)
        vhost, history = queue.vhost.name, letter.history
        reason = history.entries[0].reason if history is not None else ""
        self._add(
            Event("dead-lettered", self.now_s, vhost, record, queue.name, reason=reason, to=names)
        )

    def dropped(self, queue: Queue, count: int, why: str) -> None:
        reason = f"{count} ready"
        self._add(Event(why, self.now_s, queue.vhost.name, queue=queue.name, reason=reason))

    # -- what the wire tells

    def confirms_begin(self, connection: str, channel: int) -> None:
        """A channel's publishes are numbered from now on."""
        self._to_confirm.setdefault((connection, channel), [])

    def connection_ends(self, connection: str) -> None:
        """A socket is gone: nobody hears what becomes of the publishes that came by it."""
        for channel in [key for key in self._to_confirm if key[0] == connection]:
            del self._to_confirm[channel]

    def channel_begins(self, connection: str, channel: int) -> None:
        """A channel is opened: nothing that another one of its number did counts any more."""
        self._to_confirm.pop((connection, channel), None)

    def answered(self, connection: str, channel: int, number: int, is_acked: bool) -> None:
        """A publish is confirmed to its publisher, or refused."""
        numbered = self._to_confirm.get((connection, channel), [])
        if 0 < number <= len(numbered):
            record = numbered[number - 1]
            kind = "confirmed" if is_acked else "refused"
            client = f"{connection} ({channel})"
            self._add(Event(kind, self.now_s, record.vhost, record, client=client, tag=number))

    def _is_kept(self, vhost: str, message: Message) -> bool:
        """Whether an exchange has a message wait, to be routed later."""
        host = None if self.node is None else self.node.vhosts.get(vhost)
        exchange = None if host is None else host.exchanges.get(message.address.exchange)
        return isinstance(exchange, DelayedExchange) and delay_of(message.properties()) > 0

    # -- which message is which

    def _new_record(self, vhost: str, message: Message, names: tuple[str, ...]) -> RecordedMessage:
        self._message_count += 1
        record = RecordedMessage(self._message_count, vhost, message, names)
        self._know(vhost, message, record)
        alike = self._alike.setdefault((vhost, record.body), {})
        alike[_likeness(record.properties)] = alike[""] = record
        return record

    def _know(self, vhost: str, message: Message, record: RecordedMessage) -> None:
        content = message.content
        self._by_content[id(content)] = (content, record)
        self._by_bytes[(vhost, content)] = record

    def _record_of(self, queue: Queue, message: Message) -> RecordedMessage:
        vhost = queue.vhost.name
        for content in (message.logged_content(), message.content):
            known = self._by_content.get(id(content))
            if known is not None:
                return known[1]

            # It was on the disk in between.
            record = self._by_bytes.get((vhost, content))
            if record is not None:
                return record

        # The broker has changed it on its way (a delayed message, one of a stream), or it was
        # there before the history began.
        alike = self._alike.get((vhost, content_body(message.content)), {})
        record = alike.get(_likeness(message.properties().to_plain())) or alike.get("")
        if record is not None:
            self._know(vhost, message, record)
            return record

        return self._new_record(vhost, message, (queue.name,))


def _likeness(properties: dict[str, object]) -> str:
    """What tells messages of equal bodies apart, and stays when the broker changes a header."""
    headers = properties.get("headers")
    if isinstance(headers, dict):
        kept = {name: value for name, value in headers.items() if name not in CHANGED_HEADERS}
        # There may have been none before.
        properties = {**properties, "headers": kept or None}

    return repr(sorted(item for item in properties.items() if item[1] is not None))


def _vhost_of(deliveries: Deliveries) -> str:
    actor = deliveries.actor
    return "" if actor is None else actor.vhost_name


def _channel_of(deliveries: Deliveries) -> tuple[str, int]:
    actor = deliveries.actor
    return ("" if actor is None else actor.connection_name, int(deliveries.channel_id))


def _client_of(deliveries: Deliveries) -> str:
    name, channel = _channel_of(deliveries)
    return f"{name} ({channel})"


class History:
    """The history of a broker, or of one of its virtual hosts.

    Every question takes the same filters, all of which must hold:

    ``queue``
        where it happened: of publishes, a queue that was reached; of dead letters, the one left.
    ``exchange``, ``routing_key``, ``body``
        of the message, as it was published.
    ``consumer``
        the consumer tag.
    ``reason``
        of a death: ``expired``, ``rejected``, ``maxlen`` or ``delivery_limit``.
    ``to``
        a queue that a publish or a dead letter reached.
    """

    def __init__(self, ledger: Ledger, vhost: str | None, describe: Callable[[str], str]) -> None:
        self._ledger = ledger
        self._vhost = vhost
        self._describe = describe

    @property
    def events(self) -> Events:
        """Everything that has happened."""
        events = list(self._ledger.events)
        return Events(one for one in events if self._vhost in (None, one.vhost))

    def clear(self) -> None:
        """Forget what has happened so far; in all virtual hosts, if this is a broker's."""
        self._ledger.clear(self._vhost)

    def published(self, **filters: str | bytes) -> Events:
        """Messages that the broker took, whether they reached a queue or not."""
        return self.find("published", **filters)

    def returned(self, **filters: str | bytes) -> Events:
        """Mandatory messages that went back, since they reached no queue."""
        return self.find("returned", **filters)

    def unroutable(self, **filters: str | bytes) -> Events:
        """Messages that reached no queue, of which nobody was told."""
        return self.find("unroutable", **filters)

    def confirmed(self, **filters: str | bytes) -> Events:
        """Publishes that were confirmed to their publishers."""
        return self.find("confirmed", **filters)

    def refused(self, **filters: str | bytes) -> Events:
        """Publishes that were answered with a nack."""
        return self.find("refused", **filters)

    def delivered(self, **filters: str | bytes) -> Events:
        """Deliveries, also in answer to basic.get."""
        return self.find("delivered", **filters)

    def acked(self, **filters: str | bytes) -> Events:
        """Deliveries that were acknowledged."""
        return self.find("acked", **filters)

    def nacked(self, **filters: str | bytes) -> Events:
        """Deliveries that were given up with basic.nack, whether they went back or not."""
        return self.find("nacked", **filters)

    def rejected(self, **filters: str | bytes) -> Events:
        """Deliveries that were given up with basic.reject, whether they went back or not."""
        return self.find("rejected", **filters)

    def requeued(self, **filters: str | bytes) -> Events:
        """Deliveries that went back to their queue, for whatever reason."""
        return self.find("requeued", **filters)

    def expired(self, **filters: str | bytes) -> Events:
        """Messages whose time to live was over in their queue."""
        return self.find("expired", **filters)

    def dead_lettered(self, **filters: str | bytes) -> Events:
        """Messages that went to a dead letter exchange."""
        return self.find("dead-lettered", **filters)

    def dropped(self, **filters: str | bytes) -> Events:
        """Messages that died where there was no dead letter exchange."""
        return self.find("dropped", **filters)

    def find(self, kind: str, **filters: str | bytes) -> Events:
        """Events of a kind (see :class:`Event`)."""
        unknown = set(filters) - set(_FILTERS)
        if unknown:
            known = ", ".join(_FILTERS)
            raise TypeError(f"there is no filter {min(unknown)!r}; there are {known}")

        lost = self._ledger.lost_in(self._vhost)
        if lost:
            # The answer might well be among those.
            raise AssertionError(
                f"{lost} events were not kept, after the first {EVENTS_MAX}: call history.clear()"
                " in between"
            )

        _check_question(kind, filters)
        tests = [(_FILTERS[name], value) for name, value in filters.items()]
        return Events(
            one
            for one in self.events
            if one.kind == kind and all(test(one, value) for test, value in tests)
        )

    def check(self, kind: str, count: int | None, **filters: str | bytes) -> Events:
        """Assert how many events of a kind there are; None is at least one.

        Raises:
            AssertionError: there are others, with the story of what has happened.

        """
        if count is not None and count < 0:
            raise ValueError(f"there cannot be {count} of anything")

        found = self.find(kind, **filters)
        if len(found) == count or (count is None and found):
            return found

        wanted = "at least 1" if count is None else str(count)
        about = ", ".join(f"{name}={value!r}" for name, value in filters.items())
        queue = filters.get("queue")
        name = queue if isinstance(queue, str) else ""
        lines = [
            f"expected {wanted} {kind}, found {len(found)}" + (f" ({about})" if about else ""),
            *([self._describe(name)] if name else []),
            self.story(name),
        ]
        raise AssertionError("\n".join(lines))

    def story(self, queue: str = "", *, events_max: int = STORY_EVENTS_MAX) -> str:
        """What has happened, for people to read: all of it, or what concerns a queue."""
        events = [one for one in self.events if not queue or _concerns(one, queue)]
        title = f"The story of queue {queue!r}:" if queue else "What has happened:"
        if not events:
            return f"{title} nothing"

        skipped = len(events) - events_max
        lines = [title]
        if skipped > 0:
            lines.append(f"  ... {skipped} earlier events")

        lines += [f"  {one}" for one in events[-events_max:]]
        lost = self._ledger.lost_in(self._vhost)
        if lost:
            lines.append(f"  ... and {lost} that were not kept")

        return "\n".join(lines)


def _check_question(kind: str, filters: dict[str, str | bytes]) -> None:
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        raise ValueError(
            f"there is no kind of event {kind!r}"
            + (f"; is {near[0]!r} meant?" if near else f"; there are {', '.join(KINDS)}")
        )

    for name, value in filters.items():
        if not isinstance(value, str | bytes):
            raise TypeError(
                f"{name} is {'bytes or ' if name == 'body' else ''}a text, not {value!r}"
            )

    reason = filters.get("reason")
    if reason is not None and kind in ("dead-lettered", "dropped") and reason not in DEATHS:
        raise ValueError(f"nothing dies of {reason!r}; there are {', '.join(DEATHS)}")


def _concerns(event: Event, queue: str) -> bool:
    return queue == event.queue or queue in event.to or event.kind == "note"


def _is_in_queue(event: Event, name: str | bytes) -> bool:
    if event.kind in ("published", "confirmed", "refused"):
        message = event.message
        return name in event.to or (message is not None and name in message.routed_to)

    return event.queue == name


def _has_exchange(event: Event, name: str | bytes) -> bool:
    return event.message is not None and event.message.exchange == name


def _has_key(event: Event, key: str | bytes) -> bool:
    return event.message is not None and event.message.routing_key == key


def _has_body(event: Event, body: str | bytes) -> bool:
    wanted = body.encode() if isinstance(body, str) else body
    return event.message is not None and event.message.body == wanted


def _goes_to(event: Event, name: str | bytes) -> bool:
    return name in event.to


_FILTERS: Final[dict[str, Callable[[Event, str | bytes], bool]]] = {
    "queue": _is_in_queue,
    "exchange": _has_exchange,
    "routing_key": _has_key,
    "body": _has_body,
    "consumer": lambda event, tag: event.consumer == tag,
    "reason": lambda event, reason: event.reason == reason,
    "to": _goes_to,
}
