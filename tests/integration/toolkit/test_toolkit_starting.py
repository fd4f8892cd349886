"""What fails while it starts leaves no connection behind."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from broker.client import (
    AccessRefused,
    Client,
    InvalidName,
    Options,
    QueueSpec,
    SpecConflict,
    Unavailable,
    connect,
    sync,
)
from broker.client.errors import ToolkitError
from broker.client.spec import dead_queue_name
from broker.embedded import Broker
from broker.errors import StartError
from broker.queues import Pump
from broker.tasks import Tasks, Worker
from broker.tasks.fleet import Fleet, Plan
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from tests.helpers.proxy import Proxy

WAIT_S = 10
REFUSED = [("guest:guest", "/no-such-vhost"), ("guest:wrong", "/")]
APPLICATION = """
from broker.tasks import Tasks

tasks = Tasks({url!r}, name={name!r})


@tasks.every(60)
async def tick() -> None: ...
"""


def application(url: str, name: str) -> Tasks:
    tasks = Tasks(url, name=name)

    @tasks.every(60)
    async def tick() -> None: ...

    return tasks


async def enter(one: Any) -> None:
    async with one:
        pytest.fail("it has started")


async def start_client(url: str, _: str) -> None:
    await enter(connect(url))


async def await_client(url: str, _: str) -> None:
    await connect(url)


async def start_sync_client(url: str, _: str) -> None:
    await asyncio.to_thread(sync.connect, url)


async def start_tasks(url: str, name: str) -> None:
    await enter(application(url, name))


async def start_worker(url: str, name: str) -> None:
    await enter(Worker(application(url, name)))


async def run_worker(url: str, name: str) -> None:
    await Worker(application(url, name)).run()


async def send_task(url: str, name: str) -> None:
    tasks = application(url, name)
    for task in tasks.registered.values():
        await tasks.send(task, (), {})


@pytest.mark.parametrize("wrong", REFUSED, ids=["vhost", "password"])
@pytest.mark.parametrize(
    "start",
    [
        start_client,
        await_client,
        start_sync_client,
        start_tasks,
        start_worker,
        run_worker,
        send_task,
    ],
    ids=lambda start: start.__name__,
)
async def test_who_is_not_let_in_leaves_nothing(
    proxy: Proxy,
    name: Callable[[str], str],
    start: Callable[[str, str], Coroutine[Any, Any, None]],
    wrong: tuple[str, str],
) -> None:
    account, path = wrong
    place = urlsplit(proxy.url).netloc.rpartition("@")[2]
    with pytest.raises(AccessRefused):
        await asyncio.wait_for(start(f"amqp://{account}@{place}{path}", name("tasks")), WAIT_S)

    await until(lambda: not proxy.count)


@pytest.mark.parametrize("start", [start_worker, run_worker], ids=lambda start: start.__name__)
async def test_a_worker_whose_queue_is_another_one_leaves_nothing(
    proxy: Proxy,
    client: Client,
    name: Callable[[str], str],
    start: Callable[[str, str], Coroutine[Any, Any, None]],
) -> None:
    queue = name("tasks")
    await client.declare(queue, QueueSpec(max_length=7))
    with pytest.raises(SpecConflict):
        await asyncio.wait_for(start(proxy.url, queue), WAIT_S)

    await until(lambda: not proxy.count)


async def test_a_worker_that_could_not_start_can_be_started(
    proxy: Proxy, client: Client, name: Callable[[str], str]
) -> None:
    queue = name("tasks")
    await client.declare(queue, QueueSpec(max_length=7))
    tasks = Tasks(proxy.url, name=queue)

    @tasks.task
    async def double(number: int) -> int:
        return 2 * number

    worker = Worker(tasks)
    with pytest.raises(SpecConflict):
        await worker.start()

    await client.delete(queue)
    await client.delete(dead_queue_name(queue))
    async with worker:
        assert await (await double.q(2)).result(timeout=WAIT_S) == 4

    await tasks.close()
    await until(lambda: not proxy.count)


async def test_a_fleet_that_cannot_start_leaves_nothing(
    proxy: Proxy,
    client: Client,
    name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = name("tasks")
    module = queue.replace(".", "_").replace("-", "_")
    path = tmp_path / f"{module}.py"
    path.write_text(APPLICATION.format(url=proxy.url, name=queue), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    await client.declare(queue, QueueSpec(max_length=7))
    fleet = Fleet(Plan(app=f"{module}:tasks"))
    with pytest.raises(SpecConflict):
        await asyncio.to_thread(fleet.run)

    await until(lambda: not proxy.count)


@dataclass
class Use:
    """Something that is begun on a client, and fails."""

    begin: Callable[[Client, str], Coroutine[Any, Any, object]]
    error: type[Exception]


async def draining(client: Client, name: str) -> None:
    queue = client.queue(name, spec=QueueSpec(max_length=8))
    async with Pump(queue, asyncio.sleep).draining(2):
        await asyncio.Event().wait()


USES = {
    "consume": Use(lambda client, name: client.consume(f"{name}.none", print), ToolkitError),
    "get": Use(lambda client, name: client.get(f"{name}.none", wait=5), ToolkitError),
    "subscribe": Use(lambda client, _: client.subscribe("a" * 300, print), InvalidName),
    "queue": Use(
        lambda client, name: enter(client.queue(name, spec=QueueSpec(max_length=8))), SpecConflict
    ),
    "pump": Use(draining, SpecConflict),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_what_cannot_be_begun_leaves_no_channel(
    proxy: Proxy, client: Client, name: Callable[[str], str], use: Use
) -> None:
    queue = name("queue")
    await client.declare(queue, QueueSpec(max_length=7))
    async with connect(proxy.url) as other:
        await other.exists(queue)
        link = await other.core.session.link()
        before = _channels(link)
        for _ in range(3):
            with pytest.raises(use.error):
                await asyncio.wait_for(use.begin(other, queue), WAIT_S)

        await until(lambda: _channels(link) <= before)

    await until(lambda: not proxy.count)


def _channels(link: Any) -> int:
    return sum(one is not None and not one.is_closed for one in link._connection.channels.values())


async def test_listening_that_fails_half_way_ends_what_it_has_begun(
    url: str, name: Callable[[str], str]
) -> None:
    tasks = Tasks(url, name=name("tasks"))
    async with tasks:
        client = await (await tasks.link()).client()
        with pytest.raises(InvalidName):
            await tasks.listen(print, "started", "a" * 300)

        assert not client._running


async def test_a_broker_that_could_not_start_can_be_started() -> None:
    async with Broker(log_level="error") as first:
        second = Broker(port=first.port, log_level="error")
        with pytest.raises(StartError):
            await second.start()

    async with second, connect(second.url) as client:
        assert client.connected


async def await_small_client(url: str, _: str) -> None:
    await connect(url, options=Options(timeout=0.3))


async def start_small_tasks(url: str, name: str) -> None:
    await Tasks(url, name=name, timeout=0.3).link()


def head(size: int) -> bytes:
    return b"\1\0\0" + size.to_bytes(4) + b"\0\x0a\0\x0a"


@pytest.mark.parametrize(
    "greeting",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", head(2**32 - 1), head(1_000_000)],
    ids=["nothing", "http", "4GiB", "1MB"],
)
@pytest.mark.parametrize(
    "start", [await_small_client, start_small_tasks], ids=lambda start: start.__name__
)
async def test_who_is_no_broker_is_hung_up_on(
    start: Callable[[str, str], Coroutine[Any, Any, None]], greeting: bytes
) -> None:
    """The library would wait for all that is announced, and for a silent one not even hang up."""
    there = 0

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal there
        there += 1
        with contextlib.suppress(ConnectionError):
            writer.write(greeting)
            while await reader.read(1000):
                pass

        there -= 1
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await start(f"amqp://127.0.0.1:{port}/", "tasks")

        await until(lambda: not there)


@pytest.mark.parametrize(
    "start", [await_client, start_tasks, start_worker], ids=lambda start: start.__name__
)
async def test_who_is_interrupted_while_it_starts_leaves_nothing(
    proxy: Proxy,
    name: Callable[[str], str],
    start: Callable[[str, str], Coroutine[Any, Any, None]],
) -> None:
    proxy.freeze()
    starting = asyncio.create_task(start(proxy.url, name("tasks")))
    await until(lambda: proxy.count > 0)
    starting.cancel()
    await asyncio.wait((starting,), timeout=WAIT_S)
    assert starting.cancelled()
    proxy.thaw()
    await until(lambda: not proxy.count)
