"""A client of the crash simulation: what it was told, and when it really was.

The broker's words are read twice. At once, though they may wait for the log: these are what the
broker has done, and the model follows them. And when they have left: these are what a client knows,
and what the broker has promised by them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.helpers.methods import encode_method
from tests.helpers.session import frame, handshake, method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.helpers.session import Session
    from tests.simulation.crash_model import Copy, ModelQueue

__all__ = [
    "ACK",
    "CLOSES",
    "CONSUMING",
    "DELIVER",
    "GET_EMPTY",
    "GET_OK",
    "NACK",
    "PUBLISHING",
    "RETURN",
    "CrashClient",
    "Publication",
    "Said",
    "Subscription",
]

PUBLISHING: Final = 1
CONSUMING: Final = 2

ACK: Final = 0x3C0050
NACK: Final = 0x3C0078
DELIVER: Final = 0x3C003C
GET_OK: Final = 0x3C0047
GET_EMPTY: Final = 0x3C0048
RETURN: Final = 0x3C0032
CLOSES: Final = {0x140028: "channel.close", 0x0A0032: "connection.close"}
GREETING: Final = 5
"""Methods at the start: connection.start, tune, open-ok, and two of channel.open-ok."""

OPENING: Final = handshake() + b"".join(
    method(channel, "channel.open") for channel in (PUBLISHING, CONSUMING)
)


class Said(NamedTuple):
    """One method of the broker."""

    channel: int
    method: int
    payload: bytes
    body: bytes
    end: int
    """Where it ends in all that the broker says on this connection."""


class Publication:
    """A message that was published.

    Attributes:
        number: its own.
        batch: the batch that it is in; None where nothing has to outlive the broker.
        is_refused: a queue did not take it.

    """

    __slots__ = ("batch", "is_refused", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.batch: int | None = None
        self.is_refused = False


class Subscription(NamedTuple):
    """A consumer, or (no tag) a basic.get that is not answered yet."""

    tag: str
    queue: ModelQueue
    no_ack: bool


class CrashClient:
    """One connection with a channel to publish on, and one to consume on.

    Args:
        session: fresh.
        is_transactional: both channels are in tx mode; otherwise the first is in confirm mode.

    Attributes:
        unacked: what the model says that was delivered and not settled, by tag; on `CONSUMING`.
        publications: of the transaction: number, targets, and what lets it happen in the model.
        settled: in the transaction: copy, queue and delivery tag.
        settled_how: all of these.
        unconfirmed: by publish number.
        answers: what is to come on both channels, and the batch that has to be safe by then.

    """

    def __init__(self, session: Session, *, is_transactional: bool) -> None:
        self.session = session
        self.is_transactional = is_transactional
        self.subscriptions: dict[str, Subscription] = {}
        self.gets: deque[Subscription] = deque()
        self.unacked: dict[int, tuple[Copy, ModelQueue]] = {}
        self.publications: list[tuple[int, list[ModelQueue], Callable[[], bool]]] = []
        self.settled: list[tuple[Copy, ModelQueue, int]] = []
        self.settled_how = ""
        self.published = 0
        self.unconfirmed: dict[int, Publication] = {}
        self.answers: deque[tuple[str, int | None]] = deque()
        self.returns: deque[int] = deque()
        self._tags = 0
        self._taken = 0
        self._left = 0
        self._sent_writes = 0
        self._unseen: deque[Said] = deque()
        greeting = OPENING
        if is_transactional:
            greeting += method(PUBLISHING, "tx.select") + method(CONSUMING, "tx.select")
        else:
            greeting += method(PUBLISHING, "confirm.select")

        session.feed(greeting)
        said = [one.method for one in self.take()]
        assert len(said) == GREETING + (2 if is_transactional else 1), said
        self._unseen.clear()

    # -- to the broker

    @property
    def is_listened_to(self) -> bool:
        """Whether the broker reads what is sent now."""
        session = self.session
        connection = session.connection
        return not (connection.output.is_gated or session.link.is_paused or connection.is_blocked)

    def call(self, channel: int, name: str, /, **arguments: object) -> None:
        self.session.feed(frame(1, channel, encode_method(name, arguments)))

    def ask(self, channel: int, name: str, answer: str, /, **arguments: object) -> None:
        """Call something that is answered; `promise` says later what the answer means."""
        self.answers.append((answer, None))
        self.call(channel, name, **arguments)

    def promise(self, batch: int) -> None:
        """The answer to come means that this batch is safe."""
        name, _ = self.answers.pop()
        self.answers.append((name, batch))

    def new_tag(self, queue: ModelQueue, *, no_ack: bool) -> str:
        self._tags += 1
        tag = f"{queue.name}#{self._tags}"
        self.subscriptions[tag] = Subscription(tag, queue, no_ack)
        return tag

    # -- from the broker

    def take(self) -> Iterator[Said]:
        """What the broker has said since, whether or not it has left."""
        output = self.session.connection.output
        writes = self.session.link.writes
        if len(writes) == self._sent_writes and not output.pieces:
            return

        fresh = b"".join(writes[self._sent_writes :])
        self._sent_writes = len(writes)
        begun = self._left
        self._left += len(fresh)
        data = fresh + b"".join(output.pieces)
        data = data[self._taken - begun :]
        for said in _methods(data, self._taken):
            self._taken = said.end
            self._unseen.append(said)
            yield said

    def seen(self) -> Iterator[Said]:
        """What has left since."""
        unseen = self._unseen
        while unseen and unseen[0].end <= self._left:
            yield unseen.popleft()


def _methods(data: bytes, offset: int) -> Iterator[Said]:
    place = 0
    size = len(data)
    while place < size:
        channel = data[place + 1] << 8 | data[place + 2]
        start = place + 7
        stop = start + int.from_bytes(data[place + 3 : start], "big")
        index = int.from_bytes(data[start : start + 4], "big")
        payload = data[start + 4 : stop]
        place = stop + 1
        body = b""
        if index in (DELIVER, GET_OK, RETURN):
            start = place + 7
            stop = start + int.from_bytes(data[place + 3 : start], "big")
            left = int.from_bytes(data[start + 4 : start + 12], "big")
            place = stop + 1
            while left:
                start = place + 7
                stop = start + int.from_bytes(data[place + 3 : start], "big")
                body += data[start:stop]
                left -= stop - start
                place = stop + 1

        yield Said(channel, index, payload, body, offset + place)
