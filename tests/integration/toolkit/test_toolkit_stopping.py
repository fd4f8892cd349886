"""Stopping takes as long as it was told to, whatever has become of the broker and the handlers."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import Delivery, connect, sync
from broker.client.patience import GOODBYE_S
from broker.client.source import Source
from broker.queues import Pump
from broker.tasks import MemoryOnce, Tasks, Worker
from tests.helpers.toolkit import needs_leveret
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.helpers.proxy import Proxy

GRACE_S = 0.1
SLACK_S = 1.0
"""For a machine that has other things to do."""
WAIT_S = 20


class Trouble:
    """What goes wrong, and how long it takes then to stop.

    Args:
        proxy: the way to the broker.
        fault: of the broker: ``killed``, ``frozen`` or ``none``.
        kind: of handlers, of which none comes to an end by itself: ``endless``, ``stubborn``, which
            does not care that it is cancelled, or ``blocking``, in a thread.

    """

    def __init__(self, proxy: Proxy, fault: str, kind: str) -> None:
        self.url = proxy.url
        self.kind = kind
        self.begun = asyncio.Event()
        self._proxy = proxy
        self._fault = fault
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Barrier(len(STOPS))
        self._thread_may_end = threading.Event()
        self._may_end = asyncio.Event()

    async def handle(self, *_: object) -> None:
        """Handle something."""
        self.begun.set()
        try:
            await self._may_end.wait()
        except asyncio.CancelledError:
            if self.kind != "stubborn":
                raise

            await self._may_end.wait()

    def handle_in_thread(self, *_: object) -> None:
        """Handle something where nobody can cancel it."""
        self._loop.call_soon_threadsafe(self.begun.set)
        self._thread_may_end.wait()

    @property
    def handler(self) -> Callable[..., Any]:
        """Something that handles."""
        return self.handle_in_thread if self.kind == "blocking" else self.handle

    async def strike(self) -> float:
        """When everybody is ready for it: let it go wrong. Return when that was."""
        await self._ready.wait()
        if self._fault == "killed":
            await self._proxy.close()
        elif self._fault == "frozen":
            self._proxy.freeze()

        return self._loop.time()

    def end(self) -> None:
        """Let handlers end."""
        self._thread_may_end.set()
        self._may_end.set()


def begun(trouble: Trouble) -> Trouble:
    """Return one more of the same, of which nobody has begun."""
    one = Trouble.__new__(Trouble)
    one.__dict__ |= trouble.__dict__ | {"begun": asyncio.Event()}
    return one


async def stop_consumer(trouble: Trouble, name: str) -> float:
    client = await connect(trouble.url)
    await client.declare(name)
    consumer = await client.consume(name, trouble.handler)
    await client.send(name, 1)
    await trouble.begun.wait()
    began = await trouble.strike()
    await consumer.cancel(GRACE_S)
    took = asyncio.get_running_loop().time() - began
    await client.close(0)
    return took


async def stop_client(trouble: Trouble, name: str) -> float:
    client = await connect(trouble.url)
    await client.declare(name)
    await client.consume(name, trouble.handler)
    await client.subscribe(name, trouble.handler)
    await client.send(name, 1)
    await client.publish(name, 1)
    await trouble.begun.wait()
    began = await trouble.strike()
    await client.close(GRACE_S)
    return asyncio.get_running_loop().time() - began


async def stop_sync_client(trouble: Trouble, name: str) -> float:
    client = await asyncio.to_thread(sync.connect, trouble.url)
    await asyncio.to_thread(client.declare, name)
    await asyncio.to_thread(client.consume, name, trouble.handle_in_thread)
    await asyncio.to_thread(client.send, name, 1)
    await trouble.begun.wait()
    began = await trouble.strike()
    await asyncio.to_thread(client.close, GRACE_S)
    return asyncio.get_running_loop().time() - began


async def stop_pump(trouble: Trouble, name: str) -> float:
    client = await connect(trouble.url)
    queue = client.queue(name)

    async def dispatch(_: object) -> None:
        if trouble.kind == "blocking":
            await asyncio.to_thread(trouble.handle_in_thread)
        else:
            await trouble.handle()

    async with Pump(queue, dispatch).draining(2, graceful=True, timeout=GRACE_S):
        await queue.send(1)
        await trouble.begun.wait()
        began = await trouble.strike()

    took = asyncio.get_running_loop().time() - began
    await client.close(0)
    return took


async def stop_queue(trouble: Trouble, name: str) -> float:
    client = await connect(trouble.url)
    async with client.queue(name) as queue:
        await queue.send(1)
        await queue.send(2)
        assert await queue.take(2) is not None
        began = await trouble.strike()

    took = asyncio.get_running_loop().time() - began
    await client.close(0)
    return took


async def begin_tasks(trouble: Trouble, name: str) -> tuple[Tasks, Worker]:
    tasks = Tasks(trouble.url, name=name, publish_events=True)
    if trouble.kind == "blocking":

        @tasks.task(name="run")
        def in_thread() -> None:
            trouble.handle_in_thread()

    else:

        @tasks.task(name="run")
        async def run() -> None:
            await trouble.handle()

    @tasks.on("started")
    async def never_done(_: object) -> None:
        await trouble.handle()

    worker = Worker(tasks)
    await worker.start()
    await tasks.send(tasks.registered["run"], (), {})
    await trouble.begun.wait()
    return tasks, worker


async def stop_worker(trouble: Trouble, name: str) -> float:
    tasks, worker = await begin_tasks(trouble, name)
    began = await trouble.strike()
    await worker.stop(GRACE_S)
    took = asyncio.get_running_loop().time() - began
    await tasks.close(0)
    return took


async def stop_tasks(trouble: Trouble, name: str) -> float:
    tasks, worker = await begin_tasks(trouble, name)
    began = await trouble.strike()
    await tasks.close(GRACE_S)
    took = asyncio.get_running_loop().time() - began
    await worker.stop(0)
    return took


STOPS: list[Callable[[Trouble, str], Coroutine[Any, Any, float]]] = [
    stop_consumer,
    stop_client,
    stop_sync_client,
    stop_pump,
    stop_queue,
    stop_worker,
    stop_tasks,
]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("none", "stubborn"),
        ("killed", "endless"),
        ("killed", "blocking"),
        ("frozen", "stubborn"),
        ("frozen", "blocking"),
    ],
)
async def test_it_takes_its_grace_and_a_little_more(
    proxy: Proxy, name: Callable[[str], str], fault: str, kind: str
) -> None:
    trouble = Trouble(proxy, fault, kind)
    try:
        async with asyncio.timeout(WAIT_S):
            seconds = await asyncio.gather(*(stop(begun(trouble), name("stop")) for stop in STOPS))
    finally:
        trouble.end()

    limit = GRACE_S + GOODBYE_S + SLACK_S
    took = {stop.__name__: one for stop, one in zip(STOPS, seconds, strict=True)}
    assert {stop for stop, one in took.items() if one > limit} == set(), took


@needs_leveret
@pytest.mark.parametrize("kind", ["endless", "stubborn"])
async def test_what_was_in_hand_comes_again(
    proxy: Proxy, url: str, name: Callable[[str], str], kind: str
) -> None:
    """The broker has heard of nothing by then but that the connection is gone."""
    trouble = Trouble(proxy, "frozen", kind)
    queue = name("queue")
    async with connect(url) as other:
        client = await connect(trouble.url)
        await client.declare(queue)
        await client.consume(queue, trouble.handle)
        await client.send(queue, "one")
        await trouble.begun.wait()
        proxy.freeze()
        await client.close(0)
        proxy.thaw()
        again: Delivery[Any] | None = await other.get(queue, wait=WAIT_S)
        assert again is not None
        assert again.body == "one"
        trouble.end()
        assert await again.ack()


async def test_a_task_that_was_settled_first_is_not_handed_back(
    url: str, name: Callable[[str], str]
) -> None:
    """A broker closes the channel on whoever settles twice, and with it that of other workers."""
    tasks = Tasks(url, name=name("once"), guarantee="at_most_once")
    has_begun = asyncio.Event()

    @tasks.task
    async def work() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async with tasks:
        channel = (await tasks.link()).port.work_channel
        async with Worker(tasks, grace=0):
            await work.q()
            await asyncio.wait_for(has_begun.wait(), WAIT_S)

        link = await tasks.link()
        await link.port.barrier()
        assert link.port.work_channel is channel


async def test_who_has_a_message_does_not_wait_for_more(
    proxy: Proxy, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has come when the broker stops answering: there is nothing more to be told."""
    queue = name("queue")
    cancel = Source.cancel

    async def freeze(source: Source[Any], tag: str) -> None:
        proxy.freeze()
        await cancel(source, tag)

    monkeypatch.setattr(Source, "cancel", freeze)
    client = await connect(proxy.url)
    await client.declare(queue)
    await client.send(queue, "one")
    async with asyncio.timeout(GOODBYE_S + SLACK_S):
        delivery = await client.get(queue, wait=WAIT_S)

    assert delivery is not None
    assert delivery.body == "one"
    await client.close(0)


class Counting(MemoryOnce):
    """Tells when it is told that a worker lives."""

    def __init__(self) -> None:
        super().__init__()
        self.was_renewed = asyncio.Event()

    async def renew(self, owner: str, *, lease_s: float) -> None:
        await super().renew(owner, lease_s=lease_s)
        self.was_renewed.set()


async def test_what_may_still_end_stays_claimed(url: str, name: Callable[[str], str]) -> None:
    """Else another worker takes it for abandoned, if its key is sent again meanwhile."""
    once = Counting()
    tasks = Tasks(url, name=name("once"), guarantee="effectively_once", once=once)
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    @tasks.task
    async def work() -> str:
        has_begun.set()
        await may_end.wait()
        return "done"

    worker = Worker(tasks, lease=0.3)
    async with tasks:
        await worker.start()
        handle = await work.q()
        await has_begun.wait()
        stopping = asyncio.create_task(worker.stop(WAIT_S))
        await until(lambda: worker.board.is_draining)
        once.was_renewed.clear()
        await asyncio.wait_for(once.was_renewed.wait(), WAIT_S)
        may_end.set()
        await stopping
        assert await handle.result(timeout=WAIT_S) == "done"
