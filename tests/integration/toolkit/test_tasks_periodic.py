"""Periodic tasks: once per tick, whoever leads, and whatever happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from pamqp.commands import Basic

from broker.client import connect
from broker.client.spec import QueueSpec
from broker.embedded import Broker
from broker.tasks import Partitions, Tasks, Worker, current
from broker.tasks.beat import DONE, SCHEDULE, Beat
from broker.tasks.periodic import Tick
from tests.helpers.toolkit import needs_leveret
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INTERVAL_S = 0.2


class Cluster:
    """Several workers of one application, each with connections of its own."""

    def __init__(self, url: str, **every: Any) -> None:
        self._url = url
        self._every = {"missed": "all"} | every
        self.name = f"toolkit-test.beat-{time.time_ns():x}"
        self.ticks: list[str] = []
        self.workers: list[Worker] = []
        self.running = 0
        self.overlapped = 0
        self.seconds = 0.0

    def has_ticked(self, count: int) -> bool:
        return len(self.ticks) >= count

    async def add(self) -> Worker:
        tasks = Tasks(self._url, name=self.name, results=None)

        @tasks.every(INTERVAL_S, name="tick", **self._every)
        async def tick() -> None:
            self.running += 1
            self.overlapped += self.running > 1
            self.ticks.append(current().id)
            await asyncio.sleep(self.seconds)
            self.running -= 1

        worker = Worker(tasks)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def kill_leader(self) -> None:
        """What a broker sees when a worker is killed: its connections end."""
        await until(lambda: any(one.snapshot().is_leader for one in self.workers))
        leader = next(one for one in self.workers if one.snapshot().is_leader)
        self.workers.remove(leader)
        for task in leader._background:
            task.cancel()

        link = await leader.tasks.link()
        link.forget(f"worker {leader.owner}")
        await link.port.close()
        with contextlib.suppress(TimeoutError):
            await leader.stop(grace=0.1)

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.stop()

        async with connect(self._url) as client:
            for queue in (self.name, f"{self.name}.dead", f"{self.name}.beat"):
                await client.delete(queue)

    def judge(self) -> list[str]:
        """What is missing, and what came more than once."""
        times = Counter(datetime.fromisoformat(one.partition("@")[2]) for one in self.ticks)
        wrong = [f"{tick}: {count} times" for tick, count in times.items() if count != 1]
        tick = min(times)
        while tick < max(times):
            tick += timedelta(seconds=INTERVAL_S)
            if tick not in times:
                wrong.append(f"{tick}: missing")

        return wrong


async def test_three_workers_fire_each_tick_once_while_leaders_die(url: str) -> None:
    cluster = Cluster(url)
    for _ in range(3):
        await cluster.add()

    await until(lambda: len(cluster.ticks) >= 5)
    assert sum(one.snapshot().is_leader for one in cluster.workers) == 1
    for _ in range(2):
        await cluster.kill_leader()
        await until(partial(cluster.has_ticked, len(cluster.ticks) + 5))

    await cluster.add()
    seen = len(cluster.ticks)
    await until(lambda: len(cluster.ticks) >= seen + 3)
    await cluster.stop()
    assert cluster.judge() == []


@needs_leveret
async def test_ticks_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    config = {"version": 1, "storage": {"data_dir": str(tmp_path / "data")}}
    async with Broker(config, log_level="error") as broker:
        port = broker.port
        cluster = Cluster(broker.url)
        for _ in range(3):
            await cluster.add()

        await until(lambda: len(cluster.ticks) >= 5)

    async with Broker(config, port=port, log_level="error"):
        seen = len(cluster.ticks)
        await until(lambda: len(cluster.ticks) >= seen + 10)
        await cluster.stop()

    assert cluster.judge() == []


async def test_a_run_that_must_not_overlap_does_not(url: str) -> None:
    cluster = Cluster(url, overlap="skip")
    cluster.seconds = 2.5 * INTERVAL_S
    await cluster.add()
    await cluster.add()
    await until(lambda: len(cluster.ticks) >= 4)
    await cluster.stop()
    assert cluster.overlapped == 0
    # Ticks were skipped, and later ones came all the same.
    assert len(cluster.judge()) >= 2


async def test_all_workers_may_stop_and_begin_again(url: str) -> None:
    cluster = Cluster(url)
    await cluster.add()
    await until(lambda: len(cluster.ticks) >= 3)
    await cluster.workers.pop().stop()
    await cluster.add()
    seen = len(cluster.ticks)
    await until(lambda: len(cluster.ticks) >= seen + 3)
    await cluster.stop()
    assert cluster.judge() == []


async def test_ticks_of_partitioned_tasks_come_and_others_too(url: str) -> None:
    name = f"toolkit-test.beat-{time.time_ns():x}"
    tasks = Tasks(url, name=name, results=None)
    seen: Counter[str] = Counter()

    def by(order: int) -> int:
        return order

    @tasks.every(INTERVAL_S, queue=f"{name}.parts", partitions=Partitions(2, by=by))
    async def parted(order: int = 1) -> None:
        seen["parted"] += 1

    @tasks.every(INTERVAL_S)
    async def plain() -> None:
        seen["plain"] += 1

    async with tasks, Worker(tasks):
        await until(lambda: seen["parted"] >= 2 and seen["plain"] >= 2)


async def test_a_tick_that_cannot_be_sent_keeps_no_other_from_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Tasks(url, name=f"toolkit-test.beat-{time.time_ns():x}", results=None)
    ran: list[str] = []
    make = Beat._make

    def fail(self: Beat, tick: Tick) -> Any:
        if tick.name == "wrong":
            raise ZeroDivisionError

        return make(self, tick)

    monkeypatch.setattr(Beat, "_make", fail)

    @tasks.every(INTERVAL_S, name="wrong")
    async def wrong() -> None: ...

    @tasks.every(INTERVAL_S, name="right")
    async def right() -> None:
        ran.append(current().id)

    async with tasks, Worker(tasks):
        await until(lambda: len(ran) >= 2)


async def test_a_tick_has_the_priority_and_the_ttl_of_its_task(url: str) -> None:
    spec = QueueSpec(max_priority=10)
    tasks = Tasks(url, name=f"toolkit-test.beat-{time.time_ns():x}", results=None, spec=spec)

    @tasks.every(60, name="tick", priority=9, ttl=1)
    async def tick() -> None: ...

    _, properties, _ = Beat(tasks)._make(Tick("tick", datetime.now(UTC)))
    assert (properties.priority, properties.expiration) == (9, "1000")


async def test_of_a_tick_that_is_refused_the_beat_is_told(url: str) -> None:
    """Else the next ones would wait for its end."""
    name = f"toolkit-test.beat-{time.time_ns():x}"
    tasks = Tasks(url, name=name, results=None)

    @tasks.task
    async def known() -> None: ...

    async with tasks, Worker(tasks):
        link = await tasks.link()
        channel = await link.port.channel()
        await channel.queue_declare(f"{name}.told")
        properties = Basic.Properties(
            message_type="unknown", message_id="unknown@1", headers={SCHEDULE: f"{name}.told"}
        )
        await channel.basic_publish(b"[[], {}]", routing_key=name, properties=properties)
        told: list[tuple[str | None, str | None]] = []
        async with asyncio.timeout(10):
            while not told:
                await asyncio.sleep(0.02)
                found = await channel.basic_get(f"{name}.told", no_ack=True)
                given = found.header.properties
                if given is not None and given.message_type is not None:
                    told.append((given.message_type, given.message_id))

        await channel.queue_delete(f"{name}.told")

    assert told == [(DONE, "unknown@1")]
