"""Mixed load with connections that come and go, and what is left of it: scripts/soak mixed.

Clients of several kinds publish, consume, get, reject, declare, delete, break off and ask the HTTP
API, for as long as is said. Every few seconds the broker is looked at from outside: memory, file
descriptors, threads, and through the API what there is of connections, channels, queues and
messages. At the end, with nobody connected, it has to be as it was when it was warm: no file
descriptor more, no connection, no channel, no queue of anybody's, and memory as flat as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import aio_pika
import aiohttp

from tests.crash.process import BrokerProcess
from tests.helpers.raw_client import commands, raw_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pamqp.common import FieldTable

__all__: list[str] = []

WARM_S: Final = 60.0
SETTLE_S: Final = 40.0
"""After the load: what was left behind is given back, samples of what is gone run out."""

LOOK_S: Final = 10.0
GROWTH_MIB_MAX: Final = 12.0
"""By how much the memory may be more in the last quarter of the load than in the second."""

FILES_MORE_MAX: Final = 24
"""Segments of logs and streams come and go; what leaks does so without end."""

KEPT: Final = ("soak.work", "soak.dead", "soak.quorum", "soak.stream")
BODY_SIZES: Final = (10, 100, 1_000, 20_000, 300_000)


class Look(NamedTuple):
    """The broker at one moment."""

    at_s: float
    memory_mib: float
    sockets: int
    files: int
    threads: int
    connections: int
    channels: int
    queues: int
    messages: int
    published: int

    def __str__(self) -> str:
        return (
            f"{self.at_s:7.0f} s  {self.memory_mib:7.1f} MiB  {self.sockets:4} sockets"
            f"  {self.files:4} files"
            f"  {self.threads:2} threads  {self.connections:4} connections"
            f"  {self.channels:4} channels"
            f"  {self.queues:4} queues  {self.messages:7} messages  {self.published:9} published"
        )


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


class Scene:
    """A broker and everybody who works with it.

    Attributes:
        url: of AMQP.
        api: where the HTTP API is.
        done: what was done how often, by kind.

    """

    def __init__(self, process: BrokerProcess, port: int, seed: int) -> None:
        self.process = process
        self.port = port
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self.api = ""
        self.random = random.Random(seed)  # to repeat a run
        self.done: dict[str, int] = {}
        self.faults: list[str] = []
        self.is_over = False

    def count(self, kind: str) -> None:
        self.done[kind] = self.done.get(kind, 0) + 1

    def body(self) -> bytes:
        size = self.random.choice(BODY_SIZES if self.random.random() < 0.1 else BODY_SIZES[:3])
        return bytes(size)

    async def look(self, session: aiohttp.ClientSession, at_s: float) -> Look:
        """See how the broker is."""
        facts = await self.ask(session, "/overview")
        pid = self.process.process.pid
        totals, depths = facts["object_totals"], facts["queue_totals"]
        status = await asyncio.to_thread(_read_status, pid)
        return Look(
            at_s,
            status["VmRSS"] / 1024,
            status["sockets"],
            status["files"],
            status["Threads"],
            totals["connections"],
            totals["channels"],
            totals["queues"],
            depths["messages"],
            facts["message_stats"].get("publish", 0),
        )

    async def ask(self, session: aiohttp.ClientSession, path: str) -> dict[str, dict[str, int]]:
        async with session.get(f"{self.api}/api{path}") as response:
            answer: dict[str, dict[str, int]] = json.loads(await response.read())
            return answer


def _read_status(pid: int) -> dict[str, int]:
    place = Path(f"/proc/{pid}")
    found = {"sockets": 0, "files": 0}
    for entry in (place / "fd").iterdir():
        with contextlib.suppress(OSError):
            kind = "sockets" if os.readlink(entry).startswith("socket:") else "files"
            found[kind] += 1

    for line in (place / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "Threads"):
            found[key] = int(value.split()[0])

    return found


# -- those who work with it


async def topology(scene: Scene) -> None:
    async with await aio_pika.connect(scene.url) as connection:
        channel = await connection.channel()
        dead = await channel.declare_queue(
            "soak.dead", durable=True, arguments={"x-max-length": 500}
        )
        await channel.declare_queue(
            "soak.work",
            durable=True,
            arguments={
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": dead.name,
                "x-max-length": 20_000,
            },
        )
        quorum: FieldTable = {
            "x-queue-type": "quorum",
            "x-delivery-limit": 3,
            "x-max-length": 5_000,
        }
        await channel.declare_queue("soak.quorum", durable=True, arguments=quorum)
        stream: FieldTable = {"x-queue-type": "stream", "x-max-length-bytes": 20_000_000}
        stream["x-stream-max-segment-size-bytes"] = 1_000_000
        await channel.declare_queue("soak.stream", durable=True, arguments=stream)
        await channel.declare_exchange("soak.topic", "topic", durable=True)


async def publish(scene: Scene) -> None:
    """A publisher that stays for a while: confirms, persistent or not, of all sizes."""
    async with await aio_pika.connect(scene.url) as connection:
        channel = await connection.channel()
        for _ in range(scene.random.randrange(1, 400)):
            if scene.is_over:
                return

            queue = scene.random.choice((*KEPT[:1], *KEPT[2:]))
            message = aio_pika.Message(
                scene.body(),
                delivery_mode=scene.random.choice((1, 2)),
                expiration=scene.random.choice((None, None, 2)),
                headers={"n": scene.random.randrange(10)},
            )
            with contextlib.suppress(aio_pika.exceptions.DeliveryError):
                await channel.default_exchange.publish(message, queue)

            scene.count("publish")


async def consume(scene: Scene) -> None:
    """A consumer that acknowledges, rejects, gives back, and leaves some when it goes."""
    async with await aio_pika.connect(scene.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(scene.random.choice((1, 20, 200)))
        queue = await channel.get_queue(scene.random.choice(("soak.work", "soak.quorum")))
        left = scene.random.randrange(1, 800)
        over = asyncio.Event()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            nonlocal left
            left -= 1
            chance = scene.random.random()
            if chance < 0.05:
                await message.nack(requeue=True)
            elif chance < 0.1:
                await message.reject(requeue=False)
            elif chance < 0.98:
                await message.ack()

            scene.count("take")
            if left <= 0:
                over.set()

        tag = await queue.consume(take)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), scene.random.uniform(0.5, 10))

        if scene.random.random() < 0.5:
            await queue.cancel(tag)


async def read_stream(scene: Scene) -> None:
    async with await aio_pika.connect(scene.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(100)
        queue = await channel.get_queue("soak.stream")
        offset = scene.random.choice(("first", "last", "next"))

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await message.ack()
            scene.count("stream")

        await queue.consume(take, arguments={"x-stream-offset": offset})
        await asyncio.sleep(scene.random.uniform(0.2, 3))


async def come_and_go(scene: Scene) -> None:
    """Exclusive and passing queues, bindings, gets, a transaction, an error that ends a channel."""
    connection = await aio_pika.connect(scene.url)
    try:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(
            exclusive=True, auto_delete=True, arguments={"x-expires": 60_000}
        )
        topic = await channel.get_exchange("soak.topic")
        for number in range(scene.random.randrange(1, 20)):
            await queue.bind(topic, f"k.{number}.#")

        for number in range(scene.random.randrange(1, 20)):
            message = aio_pika.Message(scene.body())
            await topic.publish(message, f"k.{number}.x", mandatory=False)

        while (got := await queue.get(fail=False)) is not None:
            await got.ack()
            scene.count("get")

        for _ in range(scene.random.randrange(4)):
            other = await connection.channel(publisher_confirms=False)
            async with other.transaction():
                await other.default_exchange.publish(aio_pika.Message(b"tx"), "soak.work")

        if scene.random.random() < 0.3:
            wrong = await connection.channel()
            with contextlib.suppress(aio_pika.exceptions.ChannelNotFoundEntity):
                await wrong.get_queue("soak.nowhere")
    finally:
        await connection.close()


async def break_off(scene: Scene) -> None:
    """Somebody who never says goodbye: cut off in the handshake, or with a consumer."""
    if scene.random.random() < 0.5:
        _, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(b"AMQP\0\0\x09\x01"[: scene.random.randrange(9)])
        with contextlib.suppress(OSError):
            await writer.drain()

        writer.transport.abort()
        return

    async with raw_client("127.0.0.1", scene.port) as peer:
        await peer.open()
        await peer.ask(
            1, commands.Queue.Declare(queue=f"soak.cut.{scene.random.random()}", exclusive=True)
        )
        await peer.ask(1, commands.Basic.Consume(queue="soak.work"))
        peer.writer.transport.abort()


async def manage(scene: Scene) -> None:
    """The HTTP API: lists, a queue made and deleted, a policy, a virtual host."""
    number = scene.random.randrange(1_000)
    auth = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    async with aiohttp.ClientSession(headers=auth) as session:
        for path in ("/queues", "/channels", "/connections?page=1", "/overview", "/consumers"):
            async with session.get(f"{scene.api}/api{path}") as response:
                await response.read()

            scene.count("http")

        policy = {"pattern": f"^soak.{number}$", "definition": {"max-length": 5}}
        for verb, path, body in (
            ("PUT", f"/vhosts/soak-{number}", {}),
            ("PUT", f"/queues/soak-{number}/q", {"durable": True}),
            ("PUT", f"/policies/%2F/soak-{number}", policy),
            ("GET", "/queues/%2F/soak.work/browse?limit=20", None),
            ("DELETE", f"/policies/%2F/soak-{number}", None),
            ("DELETE", f"/vhosts/soak-{number}", None),
        ):
            async with session.request(verb, f"{scene.api}/api{path}", json=body) as response:
                assert response.status < 500, (verb, path, await response.text())

            scene.count("http")


WORKERS: Final[tuple[tuple[Callable[[Scene], Awaitable[None]], int], ...]] = (
    (publish, 4),
    (consume, 5),
    (read_stream, 1),
    (come_and_go, 3),
    (break_off, 1),
    (manage, 1),
)


async def work(scene: Scene, job: Callable[[Scene], Awaitable[None]]) -> None:
    """Do something again and again."""
    while not scene.is_over:
        try:
            await job(scene)
        except (
            aio_pika.exceptions.AMQPError,
            OSError,
            AssertionError,
            aiohttp.ClientError,
        ) as fault:
            if not scene.is_over:
                scene.faults.append(f"{job.__name__}: {fault!r}")
                await asyncio.sleep(0.5)

        scene.count(job.__name__)
        await asyncio.sleep(scene.random.uniform(0, 0.1))


# -- the run


async def soak(scene: Scene, seconds: float) -> list[Look]:
    """Put it under load, and look at it; the last look is when all is over."""
    auth = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
    await topology(scene)
    looks: list[Look] = []
    start_s = time.monotonic()
    async with aiohttp.ClientSession(headers=auth) as session:
        await scene.look(session, 0)
        tasks = [
            asyncio.create_task(work(scene, job)) for job, count in WORKERS for _ in range(count)
        ]
        while (at_s := time.monotonic() - start_s) < seconds:
            await asyncio.sleep(min(LOOK_S, seconds - at_s))
            looks.append(await scene.look(session, time.monotonic() - start_s))
            say(str(looks[-1]))

        scene.is_over = True
        await asyncio.wait(tasks, timeout=30)
        for task in tasks:
            task.cancel()

        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(SETTLE_S)
        looks.append(await scene.look(session, time.monotonic() - start_s))
        say(f"{looks[-1]}  at rest")

    return looks


def judge(looks: list[Look], before: Look) -> list[str]:
    """What is not as it should be."""
    wrong: list[str] = []
    rest = looks[-1]
    if rest.sockets > before.sockets:
        wrong.append(f"{rest.sockets} sockets, {before.sockets} at the start")

    if rest.files > max(one.files for one in looks[:3]) + FILES_MORE_MAX:
        wrong.append(f"{rest.files} files, {looks[0].files} soon after the start")

    if rest.threads > max(one.threads for one in looks[:3]):
        wrong.append(f"{rest.threads} threads")

    if rest.connections or rest.channels:
        wrong.append(f"{rest.connections} connections and {rest.channels} channels are left")

    if rest.queues != len(KEPT):
        wrong.append(f"{rest.queues} queues are left, of which {len(KEPT)} should be")

    load = [one for one in looks[:-1] if one.at_s >= WARM_S]
    quarter = len(load) // 4
    if quarter >= 3:
        early = _median([one.memory_mib for one in load[quarter : 2 * quarter]])
        late = _median([one.memory_mib for one in load[-quarter:]])
        say(f"memory: {early:.1f} MiB in the second quarter, {late:.1f} MiB in the last")
        if late - early > GROWTH_MIB_MAX:
            wrong.append(f"memory has grown by {late - early:.1f} MiB")

    return wrong


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def run(seconds: float, seed: int, directory: Path) -> list[str]:
    """One soak; what went wrong."""
    config = directory / "soak.yaml"
    config.write_text(
        "version: 1\n"
        "listeners: {amqp: [{bind: 127.0.0.1, port: 0}]}\n"
        "management: {listeners: [{bind: 127.0.0.1, port: 0}]}\n"
        "metrics: {prometheus: {enabled: false}}\n"
        "log: {levels: {connection: warning, login: warning, channel: error}}\n"
        "storage: {segment_size: 4MiB}\n"
        "alarms: {disk: {free_limit: 1}}\n"
    )
    process = BrokerProcess(config, directory / "data")
    try:
        scene = Scene(process, process.wait_started(), seed)
        listening = process.wait_event("management.started")["listening"]
        scene.api = f"http://{listening.split()[0]}"

        async def all_of_it() -> tuple[Look, list[Look]]:
            auth = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
            async with aiohttp.ClientSession(headers=auth) as session:
                before = await scene.look(session, 0)

            return before, await soak(scene, seconds)

        before, looks = asyncio.run(all_of_it())
        wrong = judge(looks, before)
        wrong += scene.faults[:20]
        say(f"done: {scene.done}")
        status = process.stop()
        if status != 0:
            wrong.append(f"exit status {status}")

        bugs = [
            one for one in process.records if one["event"] in ("connection.bug", "server.fault")
        ]
        wrong += [str(one) for one in bugs[:5]]
    finally:
        if process.process.poll() is None:
            process.process.kill()

    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak mixed", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=1, help="of what the clients do (1)")
    parser.add_argument("--directory", help="keep the broker's directory there")
    given = parser.parse_args()
    # What clients say of what was done to them on purpose.
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="leveret-soak-") as scratch:
        directory = Path(given.directory or scratch)
        directory.mkdir(parents=True, exist_ok=True)
        wrong = run(given.minutes * 60, given.seed, directory)

    for line in wrong:
        say(f"WRONG: {line}")

    say("mixed soak: " + ("failed" if wrong else "all is well"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
