"""Publishers and consumers that put a broker under load until it is gone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.crash.evidence import Evidence, Key
from tests.crash.session import CutOffError, Delivery, Session, commands

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from random import Random

__all__ = ["UNREAD", "Load", "declare", "drain"]

HOUR_MS: Final = 3_600_000
FANOUT: Final = "crash.all"
DEAD: Final = "crash.dead"

QUORUM: Final[dict[str, Any]] = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}

QUEUES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "shared": {},
    "certain": QUORUM,
    "all.plain": {"x-message-ttl": HOUR_MS},
    "all.certain": QUORUM,
    "all.unread": {},
    "all.stream": {"x-queue-type": "stream"},
    "rejected": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD},
    DEAD: {},
    "source": {},
    "target": {},
    "levels": {"x-max-priority": 3},
}

UNREAD: Final = {"all.unread", "all.stream", "target"}
"""Nobody takes messages out of these before the very end."""

TO_ALL: Final = tuple((name,) for name in QUEUES if name.startswith("all."))


class Flow(NamedTuple):
    """What one publisher does."""

    name: str
    exchange: str
    key: str
    places: tuple[tuple[str, ...], ...]
    is_expiring: bool = False


FLOWS: Final = (
    Flow("p", "", "plain", (("plain",),), is_expiring=True),
    Flow("s", "", "shared", (("shared",),)),
    Flow("c", "", "certain", (("certain",),)),
    Flow("a", FANOUT, "", TO_ALL),
    Flow("r", "", "rejected", (("rejected", DEAD),)),
    Flow("m", "", "source", (("source", "target"),)),
)
TRANSACTIONS: Final = Flow("t", FANOUT, "", TO_ALL)
LEVELS: Final = Flow("l", "", "levels", (("levels",),))


async def declare(port: int) -> None:
    """Declare everything; again is fine, and tells whether it is what it was."""
    session = await Session.open(port)
    await session.ask(
        commands.Exchange.Declare(exchange=FANOUT, exchange_type="fanout", durable=True)
    )
    for name, arguments in QUEUES.items():
        await session.ask(commands.Queue.Declare(queue=name, durable=True, arguments=arguments))
        if name.startswith("all."):
            await session.ask(commands.Queue.Bind(queue=name, exchange=FANOUT, routing_key=""))

    session.close()
    await session.end


class Load:
    """All clients of one run of the broker.

    Args:
        evidence: the book.
        random: decides what they do.
        run: the number of the run; publishers of each have names of their own.
        body_bytes_max: of most messages.

    """

    def __init__(
        self, evidence: Evidence, random: Random, run: int, body_bytes_max: int = 2_000
    ) -> None:
        self._evidence = evidence
        self._random = random
        self._run = run
        self._body_bytes_max = body_bytes_max
        self.sessions: list[Session] = []

    async def run(self, port: int) -> None:
        """Work until the broker is gone."""
        workers: list[Coroutine[Any, Any, None]] = [
            self._publish(port, flow, level=0) for flow in FLOWS
        ]
        workers += [self._publish(port, LEVELS, level=level) for level in (1, 3)]
        workers.append(self._transact(port))
        workers.append(self._move(port))
        for queue in ("plain", "shared", "shared", "certain", "all.plain", "all.certain", "levels"):
            workers.append(self._consume(port, queue))

        workers.append(self._consume(port, "rejected", rejects=True))
        await asyncio.gather(*(self._until_cut_off(worker) for worker in workers))

    async def _until_cut_off(self, work: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(CutOffError):
            await work

    async def _open(self, port: int) -> Session:
        session = await Session.open(port)
        self.sessions.append(session)
        return session

    def _size(self) -> int:
        if self._random.random() < 0.002:
            return 300_000

        return self._random.randrange(40, self._body_bytes_max)

    # -- publishers

    async def _publish(self, port: int, flow: Flow, *, level: int) -> None:
        publisher = f"{flow.name}{level or ''}.{self._run}"
        session = await self._open(port)
        confirms = Confirms(self._evidence, publisher, session)
        await session.ask(commands.Confirm.Select())
        window = self._random.choice((1, 20, 400))
        while True:
            await session.is_free.wait()
            await session.drain()
            properties: dict[str, Any] = {"priority": level} if level else {}
            if flow.is_expiring and self._random.random() < 0.5:
                properties["expiration"] = str(HOUR_MS)

            body = self._evidence.publish(publisher, flow.places, self._size())
            session.publish(flow.exchange, flow.key, body, **properties)
            await confirms.wait_below(window)
            if self._random.random() < 0.1:
                await asyncio.sleep(0.005)

    async def _transact(self, port: int) -> None:
        """Publish in transactions; of some the answer to the commit is never seen."""
        flow = TRANSACTIONS
        publisher = f"{flow.name}.{self._run}"
        session = await self._open(port)
        await session.ask(commands.Tx.Select())
        number = 0
        while True:
            await session.is_free.wait()
            await session.drain()
            keys: list[Key] = []
            for _ in range(self._random.randrange(1, 12)):
                number += 1
                keys.append(Key(publisher, number))
                body = self._evidence.publish(publisher, flow.places, self._size())
                session.publish(flow.exchange, flow.key, body)

            answer = self._evidence.group(keys)
            await session.ask(commands.Tx.Commit())
            answer.append(True)
            for key in keys:
                self._evidence.confirm(*key)

    # -- consumers

    async def _consume(self, port: int, queue: str, *, rejects: bool = False) -> None:
        session = await self._open(port)
        settler = Settler(self._evidence, self._random, session, queue)
        settler.rejects = rejects
        # Two consumers share a queue: each sees the messages that it gets in order.
        settler.receiver = session if queue == "shared" else queue
        session.on_delivery = settler.take
        await session.ask(commands.Basic.Qos(prefetch_count=self._random.choice((1, 10, 200))))
        await session.ask(commands.Basic.Consume(queue=queue))
        await session.end

    async def _move(self, port: int) -> None:
        """Take messages from one queue and publish them to another, in transactions."""
        session = await self._open(port)
        waiting: asyncio.Queue[Delivery | None] = asyncio.Queue()
        session.on_delivery = waiting.put_nowait
        session.end.add_done_callback(lambda _end: waiting.put_nowait(None))
        await session.ask(commands.Tx.Select())
        await session.ask(commands.Basic.Qos(prefetch_count=20))
        await session.ask(commands.Basic.Consume(queue="source"))
        while True:
            moved: list[Key] = []
            delivery = await waiting.get()
            while delivery is not None:
                moved.append(self._move_one(session, delivery))
                if waiting.empty() or len(moved) == 10:
                    break

                delivery = waiting.get_nowait()

            await session.ask(commands.Tx.Commit())
            for key in moved:
                self._evidence.finish("source", key)

    def _move_one(self, session: Session, delivery: Delivery) -> Key:
        key = self._evidence.deliver(
            "source", delivery.body, "source", redelivered=delivery.redelivered
        )
        session.publish("", "target", delivery.body)
        session.send(commands.Basic.Ack(delivery_tag=delivery.tag))
        return key


class Confirms:
    """The publishes of a channel that are not answered yet."""

    def __init__(self, evidence: Evidence, publisher: str, session: Session) -> None:
        self._evidence = evidence
        self._publisher = publisher
        self._session = session
        self._open: dict[int, None] = {}
        self._sent = 0
        self._changed = asyncio.Event()
        session.on_confirm = self._take
        session.end.add_done_callback(lambda _end: self._changed.set())

    def _take(self, tag: int, multiple: bool, is_ack: bool) -> None:
        self._changed.set()
        numbers = [number for number in self._open if number <= tag] if multiple else [tag]
        for number in numbers:
            del self._open[number]
            self._evidence.confirm(self._publisher, number, is_ack=is_ack)

    async def wait_below(self, window: int) -> None:
        """One more was sent: wait until fewer than so many are open."""
        self._sent += 1
        self._open[self._sent] = None
        while len(self._open) >= window and not self._session.end.done():
            self._changed.clear()
            await self._changed.wait()


class Settler:
    """Settles the deliveries of one consumer: one by one, several at once, or back with them.

    Attributes:
        rejects: some become dead letters.
        receiver: who sees the messages of a publisher in order.

    """

    def __init__(self, evidence: Evidence, random: Random, session: Session, queue: str) -> None:
        self._evidence = evidence
        self._random = random
        self._session = session
        self._queue = queue
        self._held: list[tuple[int, Key]] = []
        self._batch = random.choice((1, 10))
        self.rejects = False
        self.receiver: object = queue

    def take(self, delivery: Delivery) -> None:
        """A message has come."""
        receiver = self.receiver
        if self._queue == "levels":
            # Each level has an order of its own, and each has a publisher of its own too.
            receiver = (receiver, delivery.body[:2])
        elif self._queue == "shared" and delivery.redelivered:
            # It was on its way to the other one, and comes behind what follows it.
            receiver = object()

        key = self._evidence.deliver(
            self._queue, delivery.body, receiver, redelivered=delivery.redelivered
        )
        chance = self._random.random()
        if chance < 0.05:
            self._give_back(delivery.tag)
        elif self.rejects and chance < 0.3:
            self._ack()
            self._session.send(commands.Basic.Reject(delivery_tag=delivery.tag, requeue=False))
        else:
            self._held.append((delivery.tag, key))
            # With the window as small as it may be, nothing comes until this is settled.
            if len(self._held) >= self._batch or chance > 0.8:
                self._ack()

    def _ack(self) -> None:
        if not self._held:
            return

        is_multiple = len(self._held) > 1
        self._session.send(commands.Basic.Ack(delivery_tag=self._held[-1][0], multiple=is_multiple))
        for _, key in self._held:
            self._evidence.settle(self._queue, key)

        self._held.clear()

    def _give_back(self, tag: int) -> None:
        is_multiple = bool(self._held)
        self._session.send(
            commands.Basic.Nack(delivery_tag=tag, multiple=is_multiple, requeue=True)
        )
        self._held.clear()


# -- the very end

IDLE_S: Final = 10.0
"""How long a queue that is not empty may take to deliver the next message."""


async def drain(port: int, evidence: Evidence) -> None:
    """Take everything out of all queues."""
    for queue in QUEUES:
        await _drain_queue(port, evidence, queue)


async def _drain_queue(port: int, evidence: Evidence, queue: str) -> None:
    session = await Session.open(port)
    is_stream = QUEUES[queue].get("x-queue-type") == "stream"
    declared = await session.ask(commands.Queue.Declare(queue=queue, passive=True))
    waiting: asyncio.Queue[Delivery] = asyncio.Queue()
    session.on_delivery = waiting.put_nowait
    await session.ask(commands.Basic.Qos(prefetch_count=500))
    arguments = {"x-stream-offset": "first"} if is_stream else {}
    await session.ask(commands.Basic.Consume(queue=queue, arguments=arguments))
    for place in range(declared.message_count):
        try:
            delivery = await asyncio.wait_for(waiting.get(), IDLE_S)
        except TimeoutError:
            missing = declared.message_count - place
            raise AssertionError(f"{queue}: {missing} messages do not come") from None

        receiver: object = queue
        if queue == "levels":
            receiver = (queue, delivery.body[:2])
        elif queue == DEAD:
            # Dead letters come in the order of their rejections.
            receiver = object()

        key = evidence.deliver(queue, delivery.body, receiver, redelivered=delivery.redelivered)
        evidence.leave(queue, key)
        if place % 100 == 99:
            session.send(commands.Basic.Ack(delivery_tag=delivery.tag, multiple=True))

    session.send(commands.Basic.Ack(delivery_tag=0, multiple=True))
    left = await session.ask(commands.Queue.Declare(queue=queue, passive=True))
    if not is_stream:
        assert left.message_count == 0, f"{left.message_count} messages more in {queue}"

    session.close()
    await session.end
