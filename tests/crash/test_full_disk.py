"""A broker on a file system that is filled to the brim (rules MA-01, CF-06, DU-01)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.crash.evidence import Evidence
from tests.crash.process import BrokerProcess, write_configuration
from tests.crash.session import Delivery, Session, commands

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

DISK_BYTES = 16 * 1024 * 1024
BODY_BYTES = 20_000
QUEUE = "full"
WAIT_S = 12.0
PAUSE_S = 0.01

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("this system does not mount file systems")

    command = [mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "leveret-test", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root may mount a file system of the test's own")

    yield path
    subprocess.run([umount, str(path)], check=True)


class Life:
    """A broker on a small disk, and what its clients know."""

    def __init__(self, disk: Path, directory: Path) -> None:
        self.disk = disk
        self.evidence = Evidence(set())
        self._config = write_configuration(directory / "broker.yaml", segment_size="1MiB")
        self.broker = self._start()
        self._publishers = 0
        self._sessions: list[Session] = []

    def _start(self) -> BrokerProcess:
        broker = BrokerProcess(self._config, self.disk / "data")
        broker.wait_started()
        return broker

    def kill_and_start(self) -> None:
        self.broker.kill()
        self.evidence.era += 1
        self.evidence.run += 1
        self.broker = self._start()

    def stop_and_start(self) -> None:
        # The second one does not wait for clients that are blocked.
        self.broker.stop(signal.SIGTERM, signal.SIGTERM)
        self.evidence.run += 1
        self.broker = self._start()

    def free_bytes(self) -> int:
        facts = os.statvfs(self.disk)
        return facts.f_bavail * facts.f_frsize

    def fill_the_rest(self) -> None:
        """Somebody else takes what is left."""
        with suppress(OSError), open(self.disk / "other", "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def give_back(self) -> None:
        (self.disk / "other").unlink()

    async def open(self) -> Session:
        session = await Session.open(self.broker.wait_started())
        self._sessions.append(session)
        await session.ask(commands.Queue.Declare(queue=QUEUE, durable=True))
        return session

    async def close(self) -> None:
        for session in self._sessions:
            session.close()
            await session.end

    async def publisher(self) -> Publisher:
        self._publishers += 1
        publisher = Publisher(self.evidence, f"p{self._publishers}", await self.open())
        await publisher.session.ask(commands.Confirm.Select())
        return publisher

    async def consume(self, count: int = 10**9) -> int:
        """Take so many messages, or all there are; how many."""
        session = await self.open()
        waiting: asyncio.Queue[Delivery] = asyncio.Queue()
        session.on_delivery = waiting.put_nowait
        await session.ask(commands.Basic.Qos(prefetch_count=50))
        await session.ask(commands.Basic.Consume(queue=QUEUE))
        taken = 0
        with suppress(TimeoutError):
            while taken < count:
                one = await asyncio.wait_for(waiting.get(), 0.4)
                key = self.evidence.deliver(QUEUE, one.body, QUEUE, redelivered=one.redelivered)
                session.send(commands.Basic.Ack(delivery_tag=one.tag))
                self.evidence.settle(QUEUE, key)
                taken += 1

        # What was sent before is heard of before the answer to this.
        await session.ask(commands.Basic.Qos(prefetch_count=1))
        session.close()
        await session.end
        return taken


class Publisher:
    """Publishes as fast as it is let."""

    def __init__(self, evidence: Evidence, name: str, session: Session) -> None:
        self.session = session
        self._evidence = evidence
        self._name = name
        self._open: dict[int, None] = {}
        self._sent = 0
        session.on_confirm = self._confirmed

    def _confirmed(self, tag: int, multiple: bool, is_ack: bool) -> None:
        for number in [one for one in self._open if one == tag or (multiple and one < tag)]:
            del self._open[number]
            self._evidence.confirm(self._name, number, is_ack=is_ack)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            body = self._evidence.publish(self._name, ((QUEUE,),), BODY_BYTES)
            self.session.publish("", QUEUE, body)
            self._sent += 1
            self._open[self._sent] = None

    async def publish_until_blocked(self) -> None:
        """Publish until the broker says that it cannot take more."""
        async with asyncio.timeout(WAIT_S):
            while self.session.is_free.is_set():
                self.publish(10)
                await self.session.drain()
                if self.open_count > 200:
                    await asyncio.sleep(PAUSE_S)

        assert self.session.block_reasons[-1] == "low on disk"


async def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(int(WAIT_S / PAUSE_S)):
        if condition():
            return

        await asyncio.sleep(PAUSE_S)

    raise AssertionError(f"not within {WAIT_S} s: {what}")


# -- what may happen


async def consumers_empty_it(life: Life) -> None:
    """Nobody else has to help."""
    publisher = await life.publisher()
    await publisher.publish_until_blocked()
    life.fill_the_rest()
    assert await life.consume() > 100
    await until(publisher.session.is_free.is_set, "connection.unblocked")
    publisher.publish(20)
    await until(lambda: publisher.open_count == 0, "all confirmed")
    await until(lambda: life.free_bytes() > DISK_BYTES // 8, "space is given back")


async def killed_when_full(life: Life) -> None:
    publisher = await life.publisher()
    await publisher.publish_until_blocked()
    life.kill_and_start()
    await go_on(life)


async def killed_when_others_fill_it_too(life: Life) -> None:
    publisher = await life.publisher()
    await publisher.publish_until_blocked()
    for _ in range(3):
        life.fill_the_rest()
        life.kill_and_start()

    life.give_back()
    await go_on(life)


async def go_on(life: Life) -> None:
    publisher = await life.publisher()
    await life.consume(300)
    await until(publisher.session.is_free.is_set, "connection.unblocked")
    publisher.publish(20)
    await until(lambda: publisher.open_count == 0, "all confirmed")


async def others_fill_it_and_give_back(life: Life) -> None:
    publisher = await life.publisher()
    publisher.publish(100)
    await until(lambda: publisher.open_count == 0, "all confirmed")
    life.fill_the_rest()
    await publisher.publish_until_blocked()
    life.fill_the_rest()
    publisher.publish(50)
    life.give_back()
    await until(lambda: publisher.open_count == 0, "all confirmed")
    await until(publisher.session.is_free.is_set, "connection.unblocked")


async def stopped_when_full(life: Life) -> None:
    publisher = await life.publisher()
    await publisher.publish_until_blocked()
    life.fill_the_rest()
    life.stop_and_start()
    life.give_back()


@pytest.mark.parametrize(
    "story",
    [
        consumers_empty_it,
        killed_when_full,
        killed_when_others_fill_it_too,
        others_fill_it_and_give_back,
        stopped_when_full,
    ],
    ids=lambda story: story.__name__,
)
def test_nothing_confirmed_is_lost_on_a_full_disk(
    disk: Path, tmp_path: Path, story: Callable[[Life], Awaitable[None]]
) -> None:
    life = Life(disk, tmp_path)

    async def run() -> None:
        try:
            await story(life)
            await life.consume()
            life.evidence.check()
        finally:
            await life.close()

    try:
        # Not in the loop of pytest: its debug mode is too slow for this.
        asyncio.run(run())
    finally:
        life.broker.kill()
