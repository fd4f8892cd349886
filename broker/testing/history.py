"""What has become of every message, to look at and to assert on. Layer: testing.

Invariant: events are in the order in which the broker did things, and an event that is there is
never changed.
"""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from broker.core.exchange.delayed import DelayedExchange, delay_of
from broker.core.message import content_body
from broker.core.queue.stream import StreamQueue
from broker.core.watcher import Witness
from broker.testing.events import Event, Events, RecordedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.core.consumer import Consumer, Deliveries
    from broker.core.message import Message
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost

__all__ = ["History", "Ledger"]

EVENTS_MAX: Final = 200_000
"""Events that are kept; a test that makes more has another purpose than to read them."""

STORY_EVENTS_MAX: Final = 60

DIED_BY_TIME: Final = "expired"
DEATHS: Final = (DIED_BY_TIME, "rejected", "maxlen", "delivery_limit")
KINDS: Final = (
    *("published", "returned", "unroutable", "confirmed", "refused", "delivered", "acked"),
    *("nacked", "rejected", "requeued", "expired", "dead-lettered", "dropped", "purged"),
    *("deleted", "note", "maxlen", "delivery_limit", "uncommitted", "rolled-back", "turned-away"),
)

PUBLISHES: Final = ("published", "confirmed", "refused", "uncommitted", "rolled-back")
CHANGED_HEADERS: Final = frozenset({"x-delay", "x-stream-offset"})
"""Headers that the broker changes on the way of a message, or adds."""

REASONS: Final = {
    "recover": "basic.recover",
    "closed": "its channel was closed",
}


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
        # What was published on a channel in confirm mode, by publish number, until it is answered.
        self._to_confirm: dict[tuple[str, int], list[RecordedMessage | None]] = {}
        # What was published on a channel in tx mode and is not committed: the event to be, and
        # whether the message goes back.
        self._uncommitted: dict[tuple[str, int], list[tuple[Event, Message, bool]]] = {}
        # The messages that are on their way to their queues for the first time.
        self._on_their_way: set[RecordedMessage] = set()

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

        self._on_their_way.clear()
        self._let_go(vhost)

    def _let_go(self, vhost: str | None) -> None:
        """Forget the messages that are nowhere any more."""
        alive = _Alive(self.node, vhost)
        alive.records.update(
            event.message for waiting in self._uncommitted.values() for event, _, _ in waiting
        )

        def stays(record: RecordedMessage, content: bytes | None = None) -> bool:
            is_elsewhere = vhost not in (None, record.vhost)
            return is_elsewhere or record in alive.records or alive.has(record, content)

        known = self._by_content.items()
        self._by_content = {key: one for key, one in known if stays(one[1], one[0])}
        left = {record for _, record in self._by_content.values()}
        self._by_bytes = {
            key: one for key, one in self._by_bytes.items() if one in left or stays(one)
        }
        for key, alike in list(self._alike.items()):
            kept = {name: one for name, one in alike.items() if one in left or stays(one)}
            if kept:
                self._alike[key] = kept
            else:
                del self._alike[key]

    def lost_in(self, vhost: str | None) -> int:
        """How many events of a virtual host, or at all, were not kept."""
        return sum(self.lost.values()) if vhost is None else self.lost.get(vhost, 0)

    def forget(self, vhost: str) -> None:
        """A virtual host is gone for good: forget its messages as well."""
        self.events = [one for one in self.events if one.vhost != vhost]
        self.lost.pop(vhost, None)
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
        if deliveries.transaction is not None:
            self._add(event._replace(kind="uncommitted"))
            waiting = self._uncommitted.setdefault(_channel_of(deliveries), [])
            waiting.append((event, message, is_returned))
            return

        self._on_their_way = {record}
        self._add_publish(event, message, is_returned)
        numbered = self._to_confirm.get(_channel_of(deliveries))
        if numbered is not None:
            numbered.append(record)

    def _add_publish(self, event: Event, message: Message, is_returned: bool) -> None:
        self._add(event)
        more = event._replace(queue="", to=())
        if is_returned:
            self._add(more._replace(kind="returned", reason="312 NO_ROUTE"))
        elif not event.to and not self._is_kept(event.vhost, message):
            self._add(more._replace(kind="unroutable"))

    def committing(self, deliveries: Deliveries) -> None:
        waiting = self._uncommitted.pop(_channel_of(deliveries), [])
        if not waiting:
            # The HTTP API publishes so, one message at a time, which has been told of.
            return

        self._on_their_way = {event.message for event, _, _ in waiting if event.message}
        for event, message, is_returned in waiting:
            self._add_publish(event._replace(at_s=self.now_s), message, is_returned)

    def rolled_back(self, deliveries: Deliveries) -> None:
        for event, _, _ in self._uncommitted.pop(_channel_of(deliveries), []):
            self._add(event._replace(kind="rolled-back", at_s=self.now_s))

    def turned_away(self, queue: Queue, message: Message) -> None:
        record = self._record_of(queue, message)
        if record in self._on_their_way:
            # No dead letter, but the message itself.
            record.refused_by.add(queue.name)

        self._add(Event("turned-away", self.now_s, queue.vhost.name, record, queue.name))

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
        record.went.update(names)
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
            if record is None:
                return

            numbered[number - 1] = None
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


class _Alive:
    """What is still in a broker of its messages, in one virtual host or in all.

    Those on disk and those of streams are not looked at: what went to such a queue counts as there.
    """

    def __init__(self, node: Node | None, vhost: str | None) -> None:
        self.records: set[RecordedMessage | None] = set()
        self._contents: set[int] = set()
        self._deep: set[tuple[str, str]] = set()
        # An exchange that has messages wait is asked for none of them.
        self._has_delays: set[str] = set()
        for host in () if node is None else node.vhosts.values():
            if vhost in (None, host.name):
                self._look_into(host)

    def _look_into(self, host: VirtualHost) -> None:
        for queue in host.queues.values():
            if isinstance(queue, StreamQueue) or queue.cold_chunks():
                self._deep.add((host.name, queue.name))
            else:
                self._add(queue.hot_messages())

        for deliveries in host.deliveries:
            self._add(deliveries.unacked.messages())
            transaction = deliveries.transaction
            if transaction is not None:
                self._add(transaction.settled_messages())

        if any(isinstance(one, DelayedExchange) for one in host.exchanges.values()):
            self._has_delays.add(host.name)

    def _add(self, messages: list[Message]) -> None:
        for message in messages:
            self._contents.add(id(message.content))
            self._contents.add(id(message.logged_content()))

    def has(self, record: RecordedMessage, content: bytes | None) -> bool:
        """Whether a message may still be there; known by its content, or else by its queues."""
        if content is not None and id(content) in self._contents:
            return True

        vhost = record.vhost
        return vhost in self._has_delays or any((vhost, name) in self._deep for name in record.went)


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

    def __init__(
        self,
        ledger: Ledger,
        vhost: str | None,
        describe: Callable[[str], str],
        run: Callable[[Callable[[], None]], None],
    ) -> None:
        self._ledger = ledger
        self._vhost = vhost
        self._describe = describe
        # In the broker's thread, or here where it has ended.
        self._run = run

    @property
    def events(self) -> Events:
        """Everything that has happened."""
        events = list(self._ledger.events)
        return Events(one for one in events if self._vhost in (None, one.vhost))

    def clear(self) -> None:
        """Forget what has happened so far; in all virtual hosts, if this is a broker's.

        Messages that are still in the broker are known when they move on; the others are gone from
        memory too.
        """
        self._run(lambda: self._ledger.clear(self._vhost))

    def published(self, **filters: str | bytes) -> Events:
        """Messages that the broker took, whether they reached a queue or not.

        In a transaction it takes them with the commit. One that all its queues refused, since they
        were full, was not taken; see :meth:`turned_away`.
        """
        return self.find("published", **filters)

    def uncommitted(self, **filters: str | bytes) -> Events:
        """Publishes in a transaction, as they came; whatever became of it."""
        return self.find("uncommitted", **filters)

    def rolled_back(self, **filters: str | bytes) -> Events:
        """Those whose transaction was rolled back, or ended with its channel."""
        return self.find("rolled-back", **filters)

    def turned_away(self, **filters: str | bytes) -> Events:
        """Messages that a queue refused since it was full, whether the publisher heard of it."""
        return self.find("turned-away", **filters)

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
            if one.kind == kind
            and _was_taken(one)
            and all(test(one, value) for test, value in tests)
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


def _was_taken(event: Event) -> bool:
    """Whether a publish is one: not if all its queues were full, and refused it."""
    message = event.message
    if event.kind != "published" or message is None or not message.refused_by:
        return True

    return not message.refused_by.issuperset(event.to)


def _is_in_queue(event: Event, name: str | bytes) -> bool:
    message = event.message
    if event.kind == "published" and message is not None and name in message.refused_by:
        return False

    if event.kind in PUBLISHES:
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
