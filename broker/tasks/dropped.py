"""Toolkit, tasks: tasks that the broker has taken out of their queue, so that no worker runs them.

They have expired, were too many, or were handed out too often. The broker makes dead letters of
them and says why; copies of these are in the queue ``<name>.dropped`` of the application. Senders
and workers of tasks that this can happen to consume it, and whoever gets one stores the outcome
where its sender looks for it.

Invariant: what was dropped is told once, whoever is there, and never in place of a final outcome.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker.client import wire
from broker.client.errors import ToolkitError
from broker.client.patience import end_all
from broker.client.spec import DEAD_EXCHANGE, QueueSpec
from broker.tasks.beat import DONE, SCHEDULE
from broker.tasks.frames import template
from broker.tasks.identity import key_of
from broker.tasks.outcome import Failure, Outcome, Status
from broker.tasks.results.base import Stored
from broker.tasks.sender import NO_RESULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.tasks.app import Tasks
    from broker.tasks.intake import Received
    from broker.tasks.link import Link

__all__ = ["Dropped", "TaskDropped", "dropped_queue", "may_drop"]

LOG: Final = logging.getLogger("leveret.tasks")

SPEC: Final = QueueSpec(
    dead_letter=False, max_length=10_000, max_bytes=64 << 20, on_full="drop-oldest"
)
"""Of the queue of what was dropped: a bound for when nobody is there to tell of it."""
PREFETCH: Final = 100
FAULT_S: Final = 1.0
"""How long until the next try, when the back end has failed."""


class TaskDropped(ToolkitError):
    """The broker has taken a task out of its queue, and no worker runs it."""


def dropped_queue(app_name: str) -> str:
    """Return the name of the queue that copies of what was dropped are in."""
    return f"{app_name}.dropped"


def may_drop(spec: QueueSpec) -> bool:
    """Say whether the broker may take messages out of a queue by itself, and tell of it."""
    has_limit = spec.max_length is not None or spec.max_bytes is not None
    return spec.has_dead_letters and (
        spec.message_ttl is not None
        or spec.kind == "quorum"
        or (has_limit and spec.on_full == "drop-oldest")
    )


class Dropped:
    """Tells of tasks that were dropped, in one event loop."""

    def __init__(self, app: Tasks, link: Link) -> None:
        self.link = link
        self._app = app
        self._queue = dropped_queue(app.name)
        self._watched: set[str] = set()
        self._lock = asyncio.Lock()
        self._arrived: asyncio.Queue[Received] = asyncio.Queue()
        self._telling: asyncio.Task[None] | None = None

    async def watch(self, queue: str) -> None:
        """Have copies of what is dropped from a queue of tasks, which was declared before."""
        if queue in self._watched:
            return

        async with self._lock:
            if self._telling is None:
                await self.link.declare(self._queue, SPEC)
                await self.link.on_open("dropped", self._consume)
                self._telling = asyncio.get_running_loop().create_task(self._tell_all())

            if queue not in self._watched:
                await self.link.on_open(f"dropped from {queue}", lambda: self._bind(queue))
                self._watched.add(queue)

    async def close(self) -> None:
        """Tell of no more; others do, or this application when it is there again."""
        telling, self._telling = self._telling, None
        if telling is not None:
            await end_all({telling})

    async def _consume(self) -> None:
        port = self.link.port
        if port.work_channel is not None:
            await self.link.declare(self._queue, SPEC)
            await port.consume(
                self._queue, self._arrived.put_nowait, prefetch=PREFETCH, restore=self._restore
            )

    async def _restore(self) -> None:
        """Somebody has deleted the queue: make it again, and go on."""
        self.link.forget_declared(self._queue)
        await self._consume()
        for queue in self._watched:
            await self._bind(queue)

    async def _bind(self, queue: str) -> None:
        work = self.link.port.work_channel
        if work is not None:
            await work.queue_bind(self._queue, DEAD_EXCHANGE, routing_key=queue)

    async def _tell_all(self) -> None:
        port = self.link.port
        while True:
            message = await self._arrived.get()
            try:
                await self._tell(message)
            except Exception:
                # The back end or the connection: it stays in the queue.
                LOG.warning("of a dropped task nobody is told yet", exc_info=True)
                await asyncio.sleep(FAULT_S)
                port.nack(message, requeue=True)
            else:
                port.ack(message)

    async def _tell(self, message: Received) -> None:
        given = message.properties
        headers = given.headers or {}
        results = self._app.results
        reason, queue = _death(headers)
        if not reason or wire.REASON in headers:
            return  # a worker has made it a dead letter, and has told

        name, task_id = given.message_type or "", given.message_id or ""
        schedule = headers.get(SCHEDULE)
        if schedule:
            # A run that is not to overlap with the next one has come to an end.
            done = template("", DONE).with_id(task_id)
            self.link.port.post(str(schedule), done, b"")

        if results is None or NO_RESULT in headers:
            return

        task = self._app.registered.get(name)
        if task is not None and not task.options.result:
            return

        is_old = reason == "expired"
        level = logging.INFO if is_old else logging.WARNING
        LOG.log(level, "%s %s was dropped from %s: %s", name, task_id, queue, reason)
        outcome = Outcome(Status.EXPIRED)
        if not is_old:
            problem = TaskDropped(f"the broker has dropped it from the queue {queue!r}: {reason}")
            outcome = Outcome(Status.FAILED, failure=Failure.of(problem))

        key, link = key_of(name, task_id), self.link
        if results.is_shared:
            there = await results.get(key, link=link)
            if there is not None and there.is_final:
                return

        body, content_type = outcome.write(self._app.codecs)
        stored = Stored(content_type, body, gives_way=True)
        await results.store(key, stored, link=link, reply_to=given.reply_to or "")


def _death(headers: Mapping[str, object]) -> tuple[str, str]:
    """Return why and from where the broker has dropped a message, the last time it did."""
    deaths = headers.get("x-death")
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(last, dict):
        return "", ""

    return str(last.get("reason") or ""), str(last.get("queue") or "")
