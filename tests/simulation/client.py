"""A simulated client: it knows what it asked for, and checks what it gets.

Bytes it wants to send wait in an outbox and are fed in pieces of any size; what the broker writes
waits in an inbox and is acted upon later. `SimulatedClient.tap` sees it the moment it is written.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from broker.protocol.states import CHANNEL_RUNNING, CLOSING
from broker.wire.properties import parse_properties
from tests.helpers.session import handshake, method, publish
from tests.simulation.ledger import Copy, Ledger, Publication
from tests.simulation.topology import ADDRESSES, NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.helpers.session import Heard, Session

__all__ = ["SimulatedChannel", "SimulatedClient", "copy_number", "trail_of"]

CAPABILITIES: Final = ("consumer_cancel_notify", "connection.blocked")


def copy_number(body: bytes) -> int:
    """The number that a message carries in front of its filling."""
    return int(body.split(b" ", 1)[0])


def trail_of(raw: bytes) -> tuple[str, ...]:
    """The deaths of a message, by its x-death header."""
    if not raw[0] & 0x20:
        return ()

    field = parse_properties(raw).headers().get("x-death")
    if field is None:
        return ()

    assert isinstance(field.value, list)
    entries = [entry.value for entry in field.value]
    return tuple(
        f"{entry['queue'].value} {entry['reason'].value} {entry['count'].value}"
        for entry in entries
    )


class SimulatedChannel:
    """One incarnation of a channel.

    Attributes:
        mode: ``plain``, ``confirm`` or ``tx``.
        unacked: copies by delivery tag, as far as no settlement was sent.
        seen: the tags of those that the client has read.
        uncommitted: what was settled in the transaction, by tag.
        unanswered: publications by publish number.
        owed: publications to nowhere that must come back.

    """

    def __init__(self, channel_id: int) -> None:
        self.channel_id = channel_id
        self.mode = "plain"
        self.is_open = False
        self.is_over = False
        self.prefetch = 0
        self.limit = 0
        self.published = 0
        self.delivered = 0
        self.tag = 0
        self.queues: dict[str, str] = {}
        self.prefetches: dict[str, int] = {}
        self.no_ack: set[str] = set()
        self.no_ack_tags: set[int] = set()
        self.cancelled: set[str] = set()
        self.got_from: deque[tuple[str, bool]] = deque()
        self.unacked: dict[int, Copy] = {}
        self.consumer_of: dict[int, str] = {}
        self.seen: set[int] = set()
        self.uncommitted: dict[int, tuple[Copy, str]] = {}
        self.uncommitted_publications: list[Publication] = []
        self.unanswered: dict[int, Publication] = {}
        self.owed: list[Publication] = []

    def __repr__(self) -> str:
        return f"channel {self.channel_id} ({self.mode})"


class SimulatedClient:
    """One connection.

    Args:
        name: for messages and queue names.
        session: a connection that has said nothing yet.
        ledger: the book shared by all.
        random: where decisions come from.

    """

    def __init__(self, name: str, session: Session, ledger: Ledger, random: Random) -> None:
        self.name = name
        self.session = session
        self.ledger = ledger
        self.random = random
        self.channels: dict[int, SimulatedChannel] = {}
        self.closing: dict[int, SimulatedChannel] = {}
        self.inbox: deque[tuple[SimulatedChannel | None, Heard]] = deque()
        self.is_over = False
        self.is_unwell = False
        self._outbox = b""
        self._sent = 0
        self._fed = 0
        self._awaiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.send(handshake(capabilities=CAPABILITIES))

    # -- bytes to the broker

    def send(self, data: bytes, when_taken: Callable[[], None] | None = None) -> None:
        """Queue bytes; call back when the broker must have acted on the last of them."""
        self._outbox += data
        self._sent += len(data)
        if when_taken is not None:
            self._awaiting.append((self._sent, when_taken))

    def call(self, channel: SimulatedChannel, name: str, /, **arguments: object) -> None:
        self.send(method(channel.channel_id, name, **arguments))

    @property
    def has_output(self) -> bool:
        return bool(self._outbox) and not self.session.link.is_paused

    def feed(self, size: int) -> None:
        """Let the broker read so many bytes."""
        data = self._outbox[:size]
        self._outbox = self._outbox[size:]
        self._fed += len(data)
        self.session.feed(data)
        self.settle_taken()

    def settle_taken(self) -> None:
        """Call back for what the broker has certainly taken by now."""
        connection = self.session.connection
        if connection.is_blocked or connection.state >= CLOSING:
            return

        while self._awaiting and self._awaiting[0][0] <= self._fed:
            self._awaiting.popleft()[1]()

    def is_taken(self, channel: SimulatedChannel) -> bool:
        """Whether the broker has the channel open: then it has done all it was told on it."""
        theirs = self.session.connection.channels.get(channel.channel_id)
        return not channel.is_over and theirs is not None and theirs.state == CHANNEL_RUNNING

    # -- publishing

    def open_channel(self, channel_id: int, mode: str, limit: int) -> None:
        channel = SimulatedChannel(channel_id)
        channel.mode = mode
        channel.limit = limit
        self.channels[channel_id] = channel
        self.call(channel, "channel.open")
        if limit:
            self.call(channel, "basic.qos", prefetch_count=limit, global_=True)

        if mode == "confirm":
            self.call(channel, "confirm.select", nowait=self.random.random() < 0.3)
        elif mode == "tx":
            self.call(channel, "tx.select")

    def publish(
        self, channel: SimulatedChannel, address: tuple[str, str], size: int, expiration: str
    ) -> None:
        """Publish one message; what is to become of it is known."""
        random = self.random
        priority = random.choice((0, 0, 3, 9))
        channel.published += 1
        publication = Publication(
            ADDRESSES.get(address, frozenset()),
            channel,
            channel.published,
            perishable=bool(expiration),
            priority=min(priority, 5),
        )
        number = self.ledger.publish(publication)
        exchange, key = address
        mandatory = random.random() < 0.5
        if channel.mode == "confirm":
            channel.unanswered[channel.published] = publication
        elif channel.mode == "tx":
            channel.uncommitted_publications.append(publication)
            publication.is_void = True

        if address == NOWHERE and mandatory:
            channel.owed.append(publication)

        data = publish(
            channel.channel_id,
            key,
            b"%d " % number + b"." * size,
            _properties(priority, expiration, persistent=random.random() < 0.5),
            exchange=exchange,
            mandatory=mandatory,
        )

        def taken() -> None:
            if channel.mode != "tx" and self.is_taken(channel):
                publication.is_certain = True

        self.send(data, taken)

    def commit(self, channel: SimulatedChannel) -> None:
        publications = channel.uncommitted_publications
        settled = channel.uncommitted
        channel.uncommitted_publications = []
        channel.uncommitted = {}
        for publication in publications:
            publication.is_void = False

        def taken() -> None:
            if self.is_taken(channel):
                for publication in publications:
                    publication.is_certain = True

                self._finish(settled)

        self.send(method(channel.channel_id, "tx.commit"), taken)

    def rollback(self, channel: SimulatedChannel) -> None:
        """Publishes are forgotten, settlements undone; those requeued were held all the time."""
        channel.owed = [one for one in channel.owed if not one.is_void]
        channel.uncommitted_publications = []
        for tag, (copy, _) in channel.uncommitted.items():
            self.ledger.hold_again(copy, channel, tag)
            channel.unacked[tag] = copy
            channel.seen.add(tag)

        channel.uncommitted = {}
        self.call(channel, "tx.rollback")

    # -- consuming

    def consume(self, channel: SimulatedChannel, queue: str, prefetch: int, no_ack: bool) -> None:
        channel.tag += 1
        tag = f"t{channel.tag}"
        if prefetch != channel.prefetch and not channel.limit:
            # Prefetch for each consumer takes the channel's own limit away (rule QS-02).
            channel.prefetch = prefetch
            self.call(channel, "basic.qos", prefetch_count=prefetch)

        channel.queues[tag] = queue
        channel.prefetches[tag] = 0 if no_ack else channel.prefetch
        if no_ack:
            channel.no_ack.add(tag)

        self.call(
            channel,
            "basic.consume",
            queue=queue,
            consumer_tag=tag,
            no_ack=no_ack,
            nowait=self.random.random() < 0.2,
            arguments={"x-priority": self.random.choice((0, 0, 5))},
        )

    def get(self, channel: SimulatedChannel, queue: str, no_ack: bool) -> None:
        channel.got_from.append((queue, no_ack))
        self.call(channel, "basic.get", queue=queue, no_ack=no_ack)

    def settle(self, channel: SimulatedChannel, how: str, tag: int, multiple: bool) -> None:
        """Send a settlement of what the client has read; ``how`` is ack, requeue or reject."""
        tags = [one for one in sorted(channel.seen) if one <= tag] if multiple else [tag]
        settled = {one: (channel.unacked.pop(one), how) for one in tags}
        channel.seen.difference_update(tags)
        for copy, _ in settled.values():
            if how == "requeue":
                self.ledger.release(copy, channel)
            else:
                self.ledger.settle(copy, channel)

        if channel.mode == "tx":
            channel.uncommitted.update(settled)

        def taken() -> None:
            if channel.mode != "tx" and self.is_taken(channel):
                self._finish(settled)

        if how == "ack":
            data = method(channel.channel_id, "basic.ack", delivery_tag=tag, multiple=multiple)
        else:
            data = method(
                channel.channel_id,
                "basic.nack",
                delivery_tag=tag,
                multiple=multiple,
                requeue=how == "requeue",
            )

        self.send(data, taken)

    def recover(self, channel: SimulatedChannel) -> None:
        """Everything unacked goes back, whatever is on its way meanwhile."""
        self.release_unacked(channel)
        channel.seen.clear()
        self.call(channel, "basic.recover", requeue=True)

    def release_unacked(self, channel: SimulatedChannel) -> None:
        """What the channel holds may come again."""
        for copy in channel.unacked.values():
            self.ledger.release(copy, channel)

    def _finish(self, settled: dict[int, tuple[Copy, str]]) -> None:
        for copy, how in settled.values():
            if how != "requeue":
                self.ledger.finish(copy, is_rejection=how == "reject")

    # -- the end of channels and of the connection

    def close_channel(self, channel: SimulatedChannel) -> None:
        self.call(channel, "channel.close")
        self.release_channel(channel)
        self.closing[channel.channel_id] = self.channels.pop(channel.channel_id)

    def release_channel(self, channel: SimulatedChannel) -> None:
        """The channel is ending: what it holds may go to others."""
        channel.is_over = True
        self.release_unacked(channel)

    def release_all(self) -> None:
        self.is_over = True
        for channel in self.channels.values():
            self.release_channel(channel)

    def close(self) -> None:
        """Say goodbye, after everything that was said."""
        self.send(method(0, "connection.close", reply_code=200))
        if not self.session.link.is_paused:
            self.feed(self._sent)

    # -- what the broker writes

    def tap(self) -> list[tuple[SimulatedChannel | None, Heard]]:
        """Take what was written, and note the ends of channels before anything else."""
        found: list[tuple[SimulatedChannel | None, Heard]] = []
        for heard in self.session.heard():
            channel = self.channels.get(heard.channel) or self.closing.get(heard.channel)
            found.append((channel, heard))
            if heard.name == "channel.close" and channel is not None:
                self.release_channel(channel)
            elif heard.name == "connection.close":
                self.is_unwell = True
                self.release_all()

        self.inbox.extend(found)
        return found

    # -- what the client reads of it, later

    def read(self, count: int) -> None:
        """Act on so much of the inbox."""
        for _ in range(min(count, len(self.inbox))):
            channel, heard = self.inbox.popleft()
            if channel is None:
                continue

            if heard.name in ("basic.deliver", "basic.get-ok"):
                tag = heard.arguments["delivery_tag"]
                assert isinstance(tag, int)
                if tag in channel.unacked:
                    channel.seen.add(tag)
            elif heard.name == "channel.open-ok":
                channel.is_open = True
            elif heard.name == "channel.close":
                self.call(channel, "channel.close-ok")
                self.channels.pop(channel.channel_id, None)
            elif heard.name == "channel.close-ok":
                self.closing.pop(channel.channel_id)


def _properties(priority: int, expiration: str, *, persistent: bool) -> bytes:
    """delivery-mode, priority, and expiration where there is one."""
    flags = 0x1800 | (0x0100 if expiration else 0)
    text = bytes((len(expiration),)) + expiration.encode() if expiration else b""
    return flags.to_bytes(2, "big") + bytes((2 if persistent else 1, priority)) + text
