"""How long a broker takes to start on a deep queue, and how much memory: scripts/soak backlog."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.crash.process import BrokerProcess, write_configuration
from tests.crash.session import Delivery, Session, commands
from tests.helpers.untyped import pamqp

__all__: list[str] = []

QUEUE: Final = "backlog"
BURST_COUNT: Final = 500
WINDOW_COUNT: Final = 20_000
SAMPLE_COUNT: Final = 5_000
"""Messages looked at after each start."""


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def resident_mib(pid: int) -> float:
    """Memory of a process, where the system tells."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024

    return 0.0


async def fill(port: int, count: int, size: int) -> None:
    """Publish so many persistent messages, each with its number, and wait for all confirms."""
    session = await Session.open(port)
    await session.ask(commands.Queue.Declare(queue=QUEUE, durable=True))
    await session.ask(commands.Confirm.Select())
    confirmed = 0
    changed = asyncio.Event()

    def take(tag: int, multiple: bool, is_ack: bool) -> None:
        nonlocal confirmed
        confirmed = tag if multiple else confirmed + 1
        assert is_ack
        changed.set()

    session.on_confirm = take
    properties = commands.Basic.Properties(delivery_mode=2)
    head = pamqp.frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1)
    head += pamqp.frame.marshal(
        pamqp.header.ContentHeader(body_size=size, properties=properties), 1
    )
    body_head = b"\x03\x00\x01" + size.to_bytes(4, "big")
    for start in range(0, count, BURST_COUNT):
        numbers = range(start, min(start + BURST_COUNT, count))
        bodies = [str(number).encode().ljust(size, b".") for number in numbers]
        session.write(b"".join([head + body_head + body + b"\xce" for body in bodies]))
        await session.drain()
        while start - confirmed > WINDOW_COUNT:
            changed.clear()
            await changed.wait()

    while confirmed < count:
        changed.clear()
        await changed.wait()

    session.close()
    await session.end


async def look(port: int, count: int) -> None:
    """See that the queue has them all, and that the first are the first."""
    session = await Session.open(port)
    declared = await session.ask(commands.Queue.Declare(queue=QUEUE, passive=True))
    assert declared.message_count == count, f"{declared.message_count} of {count} are there"
    waiting: asyncio.Queue[Delivery] = asyncio.Queue()
    session.on_delivery = waiting.put_nowait
    await session.ask(commands.Basic.Qos(prefetch_count=SAMPLE_COUNT))
    await session.ask(commands.Basic.Consume(queue=QUEUE))
    for number in range(min(SAMPLE_COUNT, count)):
        delivery = await waiting.get()
        assert int(delivery.body.rstrip(b".")) == number, delivery.body

    session.close()
    await session.end


def start(config: Path, data: Path, what: str) -> BrokerProcess:
    """Start a broker and tell how long that took."""
    began = time.monotonic()
    broker = BrokerProcess(config, data)
    broker.wait_started()
    taken = time.monotonic() - began
    build = broker.events("server.started")[0]["build"]
    progress = len(broker.events("store.recovering") + broker.events("store.reading"))
    memory = resident_mib(broker.process.pid)
    say(f"{what}: ready after {taken:.2f} s, {memory:.0f} MiB, {progress} progress lines ({build})")
    return broker


def run(directory: Path, count: int, size: int) -> None:
    config = write_configuration(directory / "broker.yaml", segment_size="16MiB")
    data = directory / "data"
    broker = start(config, data, "empty")
    began = time.monotonic()
    asyncio.run(fill(broker.wait_started(), count, size))
    taken = time.monotonic() - began
    memory = resident_mib(broker.process.pid)
    say(f"{count} messages of {size} bytes confirmed in {taken:.1f} s, {memory:.0f} MiB")
    broker.kill()
    for what, end in (("after a kill", signal.SIGTERM), ("after a clean stop", signal.SIGKILL)):
        broker = start(config, data, what)
        asyncio.run(look(broker.wait_started(), count))
        say(f"  {resident_mib(broker.process.pid):.0f} MiB after some deliveries")
        broker.stop(end)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/soak backlog")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leveret-backlog-") as directory:
        run(Path(directory), options.count, options.size)


if __name__ == "__main__":
    main()
