"""Where a crash simulation plays: the broker, the model of it, and what was promised to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.store.log import GROUP, INTERVAL, NONE
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.methods import BY_INDEX
from tests.simulation.crash_client import (
    ACK,
    CLOSES,
    CONSUMING,
    DELIVER,
    GET_EMPTY,
    GET_OK,
    NACK,
    RETURN,
    CrashClient,
    Said,
    Subscription,
)
from tests.simulation.crash_model import Copy, Model, ModelQueue, Picture
from tests.simulation.crash_world import CrashWorld

if TYPE_CHECKING:
    from random import Random

__all__ = ["Stage"]

CLIENTS: Final = 3


class Stage:
    """A broker and all that is known about it.

    Args:
        random: decides everything.

    Attributes:
        sync: the mode of the log.
        pictures: what the model had when each batch of this life was handed over, by number.
        promised: the last batch that somebody was told is safe.
        published: messages so far.

    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sync = random.choice((GROUP, GROUP, GROUP, GROUP, INTERVAL, NONE))
        self.disk = FakeDisk(random)
        self.world = CrashWorld(self.disk, random, self.sync, 0)
        self.model = Model(self.world.wall_ms)
        self.pictures: list[Picture] = [self.model.picture()]
        self.promised = 0
        self.published = 0
        self.clients: list[CrashClient] = []
        self.note_batches()

    def come_back(self, world: CrashWorld, model: Model, picture: Picture) -> None:
        """Another broker has found what the last one left.

        Args:
            world: the broker.
            model: of what it is now.
            picture: what it has found, before it looked at the clock.

        """
        self.world = world
        self.model = model
        self.pictures = [picture] * (1 + world.committer.sealed)
        self.promised = 0
        self.clients = []

    # -- steps

    def begin(self) -> None:
        """Something is about to happen."""
        self.model.step += 1
        self.model.touched = False

    def end(self) -> None:
        """It has: hear what was said, and note what was handed to the log."""
        self.follow()
        self.note_batches()
        self.learn()
        assert not self.world.bugs, self.world.bugs[0]

    def note_batches(self) -> None:
        """Keep a picture for each batch that was handed over."""
        while len(self.pictures) <= self.world.committer.sealed:
            self.pictures.append(self.model.picture())

    @property
    def batch(self) -> int:
        """The batch that takes what is done now."""
        return len(self.pictures)

    def promise(self, batch: int | None) -> None:
        """Somebody was told that a batch is safe, if any."""
        if batch is not None:
            committer = self.world.committer
            safe = committer.synced if self.sync == GROUP else committer.written
            assert batch <= safe, f"batch {batch} is promised, and {safe} is safe"
            self.promised = max(self.promised, batch)

    def ask(self, client: CrashClient, name: str, answer: str, /, **arguments: object) -> None:
        """Call a method; its answer means that what it did in the model is safe."""
        client.ask(CONSUMING, name, answer, **arguments)
        if self.model.touched:
            client.promise(self.batch)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.world.wall_ms + milliseconds
        is_due = True
        while is_due:
            self.begin()
            self.model.safe = self.world.committer.sealed - self.world.log.is_writing
            is_due = self.world.pass_until(end_ms)
            self.model.now = self.world.wall_ms
            self.model.tick()
            self.end()

    # -- clients

    def connect_all(self) -> None:
        """Replace those that are gone."""
        while len(self.clients) < CLIENTS:
            is_transactional = self.random.random() < 0.3
            client = CrashClient(self.world.connect(), is_transactional=is_transactional)
            self.clients.append(client)

    def listener(self) -> CrashClient | None:
        """A client that the broker reads from now."""
        found = [client for client in self.clients if client.is_listened_to]
        return self.random.choice(found) if found else None

    def lose(self, client: CrashClient) -> None:
        """A client is gone: what it has is given back."""
        self.clients.remove(client)
        by_queue: dict[ModelQueue, list[Copy]] = {}
        held = [client.unacked[tag] for tag in sorted(client.unacked)]
        for copy, queue in [*held, *[one[:2] for one in client.settled]]:
            by_queue.setdefault(queue, []).append(copy)

        for queue, copies in by_queue.items():
            queue.give_back(copies)

        client.session.lose()

    # -- what the broker says

    def follow(self) -> None:
        """Do in the model what the broker has done."""
        for client in self.clients:
            for said in client.take():
                self._follow(client, said)

    def _follow(self, client: CrashClient, said: Said) -> None:
        payload = said.payload
        assert said.method not in CLOSES, f"{CLOSES[said.method]}: {payload!r}"
        if said.method == DELIVER:
            end = 1 + payload[0]
            subscription = client.subscriptions[payload[1:end].decode()]
            self._delivered(client, subscription, payload[end:], said.body)
        elif said.method == GET_OK:
            self._delivered(client, client.gets.popleft(), payload, said.body)
        elif said.method == GET_EMPTY:
            queue = client.gets.popleft().queue
            assert not queue.ready(), f"{queue.name} is not empty"
        elif said.method == RETURN:
            assert _number_of(said.body) == client.returns.popleft()

    def _delivered(
        self, client: CrashClient, subscription: Subscription, payload: bytes, body: bytes
    ) -> None:
        queue = subscription.queue
        copy = queue.take(_number_of(body))
        assert len(body) == copy.size
        assert bool(payload[8]) == copy.redelivered, f"redelivered flag of {copy.number}"
        if subscription.no_ack:
            self.model.touched |= queue.is_kept(copy)
        else:
            queue.hold(copy)
            client.unacked[int.from_bytes(payload[:8], "big")] = (copy, queue)

        queue.expire()

    def learn(self) -> None:
        """Note what has left the broker: it must be true for ever."""
        for client in self.clients:
            for said in client.seen():
                self._learn(client, said)

    def _learn(self, client: CrashClient, said: Said) -> None:
        if said.method in (ACK, NACK):
            number = int.from_bytes(said.payload[:8], "big")
            numbers = [number]
            if said.payload[8] & 1:
                numbers = [one for one in client.unconfirmed if one <= number]

            for one in numbers:
                publication = client.unconfirmed.pop(one)
                assert publication.is_refused == (said.method == NACK)
                self.promise(publication.batch if said.method == ACK else None)
        elif said.method not in (DELIVER, GET_OK, GET_EMPTY, RETURN):
            name = BY_INDEX[said.method]
            if name != "basic.cancel":
                expected, batch = client.answers.popleft()
                assert name == expected
                self.promise(batch)


def _number_of(body: bytes) -> int:
    return int(body.split(b" ", 1)[0])
