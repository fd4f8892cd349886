"""Toolkit, tasks: a worker: takes tasks from their queues and runs them, in one event loop.

Invariant: no more tasks than ``concurrency`` run at once, and no more than ``prefetch`` are taken
from the broker before others can have them. A worker that stops takes no more, hands back what it
has not begun, and lets what runs end; what does not end in time is handed back as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import math
from collections import deque
from collections.abc import Awaitable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from broker.client.checks import check_count, check_flag, check_kind, check_seconds, shown
from broker.client.errors import InvalidValue, ToolkitError
from broker.client.intake import PREFETCH_MAX
from broker.client.patience import ANSWER_S, CLOSE_S, YIELD_S, at_most, carried, end_all
from broker.tasks.app import AT_WORK, Tasks
from broker.tasks.beat import Beat
from broker.tasks.board import Board, Snapshot
from broker.tasks.execution import Execution
from broker.tasks.identity import new_owner
from broker.tasks.options import (
    ONCE_AND_AGAIN,
    Guarantee,
    WorkerSettings,
    checked_guarantee,
)

if TYPE_CHECKING:
    from types import TracebackType

    from broker.tasks.intake import Received
    from broker.tasks.link import Link

__all__ = ["LEASE_S", "THREAD_NAME", "Worker"]

LOG: Final = logging.getLogger("leveret.tasks")

CONCURRENCY: Final = 10
GRACE_S: Final = 30.0
FAULT_S: Final = 1.0
THREAD_NAME: Final = "leveret-task"
"""How the names of the threads begin in which functions run that are not async."""
LEASE_S: Final = 15.0
"""How long after a worker's death its tasks are still its own. It says every third of that that it
lives; a store's clock and a busy machine need some room."""


class Worker:
    """Runs the tasks of an application, in the running event loop.

    ::

        async with Worker(tasks):           # in a test
            assert await (await add.q(2, 3)).result(timeout=10) == 5

        await Worker(tasks).run()           # until it is stopped

    Args:
        tasks: the application.
        concurrency: how many tasks may run at once.
        prefetch: how many may be here and not with others; by default as many as may run.
        queues: of all the queues of the tasks, only these.
        guarantee: instead of the application's.
        settings: ``grace``, ``beat`` and ``lease``; see :class:`WorkerSettings`.

    """

    def __init__(
        self,
        tasks: Tasks,
        *,
        concurrency: int = CONCURRENCY,
        prefetch: int | None = None,
        queues: Iterable[str] | None = None,
        guarantee: Guarantee | None = None,
        **settings: Unpack[WorkerSettings],
    ) -> None:
        check_kind("tasks", tasks, Tasks, "Tasks('amqp://localhost/')")
        check_count("concurrency", concurrency)
        if prefetch is not None:
            check_count("prefetch", prefetch, low=concurrency, high=PREFETCH_MAX)

        unknown = set(settings) - WorkerSettings.__annotations__.keys()
        if unknown:
            raise InvalidValue(f"no such setting of a worker: {', '.join(sorted(unknown))}")

        self.tasks = tasks
        self.concurrency = concurrency
        self.prefetch = prefetch or concurrency
        self.guarantee: Guarantee = checked_guarantee(
            tasks.guarantee if guarantee is None else guarantee
        )
        self.grace = settings.get("grace", GRACE_S)
        self.owner = new_owner()
        self.board = Board(self.owner)
        self._lease_s = settings.get("lease", LEASE_S)
        self._queues = self._chosen(queues)
        self._check_guarantees(guarantee)
        check_seconds("grace", self.grace, is_zero_ok=True, high=math.inf)
        check_seconds("lease", self._lease_s)
        check_flag("beat", settings.get("beat", True))
        self._has_beat = settings.get("beat", True) and bool(tasks.periodic)
        self._beat: Beat | None = None
        self._link: Link | None = None
        self._execution: Execution | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._consumer_tags: dict[str, str] = {}
        self._running: dict[asyncio.Task[None], Received] = {}
        self._waiting: deque[Received] = deque()
        self._background: set[asyncio.Task[None]] = set()
        self._leading: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._stopped = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._cancels: Any = None

    def _chosen(self, queues: Iterable[str] | None) -> list[str]:
        known = self.tasks.queues()
        if queues is None:
            return list(known)

        if not isinstance(queues, Iterable):
            raise InvalidValue(f"queues are names of queues, not {shown(queues)}")

        chosen = []
        for name in (queues,) if isinstance(queues, str) else queues:
            # The name of a queue that is split stands for all its parts.
            parts = [one for one in known if one == name or one.rpartition(".")[0] == name]
            if not parts:
                raise InvalidValue(
                    f"no task uses the queue {shown(name)}; there are {', '.join(known) or 'none'}"
                )

            chosen += parts

        if not chosen:
            raise InvalidValue("queues is empty: a worker of no queue does nothing; None is all")

        return chosen

    def _check_guarantees(self, given: Guarantee | None) -> None:
        """Refuse what would not be heeded: a store, a lease or a policy that nothing here uses."""
        tasks = self.tasks.registered.values()
        guarantees = {task.options.guarantee or self.guarantee for task in tasks}
        self.remembers = "effectively_once" in guarantees | {self.guarantee}
        """Whether it uses the idempotency store."""

        if self.remembers and self.tasks.once is None:
            raise InvalidValue(
                "effectively_once needs an idempotency store: Tasks(once=SqliteOnce(...)), "
                "RedisOnce, PostgresOnce or, within one process, MemoryOnce"
            )

        if not self.remembers and given is None and self.tasks.once is not None:
            # No error: tasks can be registered later.
            LOG.warning(
                "there is an idempotency store, and no task uses it: say "
                "guarantee='effectively_once', or leave once= out"
            )

        if not self.remembers and self._lease_s != LEASE_S:
            raise InvalidValue("lease is about tasks that are effectively_once, and there are none")

        if self.guarantee == "at_most_once":
            for task in tasks:
                if task.options.guarantee is None and task.options.retry.attempts > 1:
                    raise InvalidValue(f"{task.name}: {ONCE_AND_AGAIN}")

    # -- running

    async def run(self) -> None:
        """Work until :meth:`stop` or :meth:`request_stop` is called, or this is cancelled."""
        await self.start()
        try:
            await self._stop_requested.wait()
        finally:
            await self.stop()

    def request_stop(self, grace: float | None = None) -> None:
        """Let :meth:`run` stop, from a callback of the event loop; a second time, at once.

        Args:
            grace: how many seconds what runs may take.

        """
        if grace is not None:
            self.grace = grace

        self._stop_requested.set()
        if self._is_stopping and grace is not None:
            for task in self._running:
                task.cancel()

    async def start(self) -> None:
        """Connect and begin to work. Of what fails half way nothing is left open.

        Raises:
            Unavailable: no broker could be reached.
            AccessRefused: the broker did not let us in.
            SpecConflict: a queue is there and is declared otherwise.

        """
        # What is begun here, the readers of the connections included, inherits it.
        token = AT_WORK.set(True)
        try:
            await self._start()
        except BaseException:
            await carried(self._stop(0))
            self._link = self._execution = self._executor = self._cancels = self._beat = None
            self._background.clear()
            self._leading.clear()
            raise
        finally:
            AT_WORK.reset(token)

    async def _start(self) -> None:
        app = self.tasks
        link = self._link = await app.link()
        link.workers += 1
        for name, spec in app.queues().items():
            await link.declare(name, spec)

        await app.watch_all(link)
        self._executor = ThreadPoolExecutor(
            self.concurrency, thread_name_prefix=f"{THREAD_NAME}-{app.name}"
        )
        self._execution = Execution(
            app,
            link,
            self.board,
            guarantee=self.guarantee,
            lease_s=self._lease_s,
            executor=self._executor,
        )
        client = await link.client()
        self._cancels = await client.subscribe(
            f"{app.name}.control.cancel", self._on_cancel, type=str
        )
        loop = asyncio.get_running_loop()
        if app.once is not None:
            self._background.add(loop.create_task(self._keep_claims()))

        if self._has_beat:
            self._beat = Beat(app)
            self._leading.add(loop.create_task(self._beat.run()))

        await link.on_open(f"worker {self.owner}", self._consume)

    async def stop(self, grace: float | None = None) -> None:
        """Stop taking tasks, hand back those not begun, and wait for those that run.

        The application's connections in this event loop are closed by the last worker that stops,
        unless the program has used them as well: then it closes them, with ``tasks.close()``.

        It takes the grace and three seconds more at most, whatever has become of the broker, the
        stores and the tasks: one that does not end when it is cancelled is left behind, and so is a
        function in a thread. What is not settled by then the broker gives to somebody else.

        Args:
            grace: how many seconds to wait; what still runs then is cancelled and handed back.

        """
        self._stop_requested.set()
        if self._is_stopping:
            await self._stopped.wait()
            return

        self._is_stopping = True
        self.board.is_draining = True
        # Who is interrupted leaves nothing half stopped.
        await carried(self._stop_in(self.grace if grace is None else grace))

    async def _stop_in(self, grace: float) -> None:
        try:
            await self._stop(grace)
        finally:
            self._stopped.set()

    async def _stop(self, grace: float) -> None:
        loop = asyncio.get_running_loop()
        drained_at = loop.time() + grace
        link = self._link
        if link is not None:
            link.forget(f"worker {self.owner}")
            # No task that was handed back is to come again, so these are answered first.
            cancels = [link.port.cancel(tag) for tag in self._consumer_tags.values()]
            await at_most(YIELD_S, asyncio.gather(end_all(self._leading), *cancels))

        self._hand_back()
        await self._drain(drained_at)
        ended_at = max(drained_at, loop.time()) + ANSWER_S
        await at_most(ended_at - loop.time(), self._say_goodbye())
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

        await at_most(ended_at + CLOSE_S - loop.time(), self._leave())

    async def _say_goodbye(self) -> None:
        """Do what needs the broker, the store or callbacks, none of which keeps the others."""
        app = self.tasks
        await end_all(self._background)
        steps: list[Awaitable[object]] = [app.callbacks.finish()]
        if self._execution is not None:
            steps.append(self._execution.finish())

        if self._cancels is not None:
            steps.append(self._cancels.cancel())

        if app.once is not None:
            steps.append(app.once.release_owner(self.owner))

        for problem in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(problem, BaseException):
                LOG.warning("not stopped in order: %r", problem)

    async def _leave(self) -> None:
        """Close what the application has opened, unless others use it in this loop."""
        link = self._link
        if link is None:
            return

        link.workers -= 1
        if self.tasks.current_link() is link and (link.workers or link.is_kept):
            # What was settled and handed back is so when this has stopped.
            with contextlib.suppress(ToolkitError):
                await link.port.barrier()
        else:
            await self.tasks.close(0)

    async def __aenter__(self) -> Self:
        """Begin to work."""
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Stop."""
        await self.stop()

    def snapshot(self) -> Snapshot:
        """Return what it is doing now."""
        return self.board.snapshot(is_leader=self._beat is not None and self._beat.is_leader)

    # -- inside

    async def _consume(self) -> None:
        """Consume everything on a new connection; what came over the last one is lost to us."""
        self._waiting.clear()
        self._consumer_tags.clear()
        for queue in self._queues:
            await self._consume_one(queue)

    async def _consume_one(self, queue: str) -> None:
        link = self._link
        assert link is not None
        spec = self.tasks.queues()[queue]
        # A partition is in order, so one task at a time.
        prefetch = 1 if spec.single_active_consumer else self.prefetch
        restore = functools.partial(self._restore, queue)
        try:
            await link.declare(queue, spec)
            self._consumer_tags[queue] = await link.port.consume(
                queue, self._receive, prefetch=prefetch, restore=restore
            )
        except BaseException:
            # If that was because it is gone, it is there the next time.
            link.forget_declared(queue)
            raise

    async def _restore(self, queue: str) -> None:
        """Somebody has deleted the queue: make it again, and go on."""
        if self._is_stopping or self._link is None:
            return

        LOG.warning("the queue %s is gone, and is declared anew", queue)
        self._link.forget_declared(queue)
        await self._consume_one(queue)

    def _receive(self, message: Received) -> None:
        if len(self._running) < self.concurrency and not self._is_stopping:
            self._begin(message)
        else:
            self._waiting.append(message)
            if self._is_stopping:
                self._hand_back()

    def _begin(self, message: Received) -> None:
        assert self._execution is not None
        task = asyncio.get_running_loop().create_task(self._execution.run(message))
        self._running[task] = message
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        message = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The store, the results or the broker failed, not the task: it is not settled, and goes
            # to somebody else.
            LOG.error("handed back, because of: %r", error, exc_info=error)
            # Not at once: it would come back at once, to fail again.
            asyncio.get_running_loop().call_later(FAULT_S, self._nack, message)
        elif task.cancelled():
            self._nack(message)

        if self._waiting and not self._is_stopping:
            self._begin(self._waiting.popleft())

    def _nack(self, message: Received) -> None:
        if self._link is not None:
            self._link.port.nack(message, requeue=True)

    def _hand_back(self) -> None:
        while self._waiting:
            self._nack(self._waiting.popleft())

    async def _drain(self, until_s: float) -> None:
        if self._running:
            LOG.info("waiting for %d running tasks", len(self._running))
            seconds = until_s - asyncio.get_running_loop().time()
            await asyncio.wait(set(self._running), timeout=max(0.0, seconds))

        left = set(self._running)
        if left:
            LOG.warning("%d tasks have not ended in time and are handed back", len(left))
            await end_all(left)

        for message in self._running.values():
            # It does not care, and is too late now for anything that it may still do.
            self._nack(message)

    async def _keep_claims(self) -> None:
        once = self.tasks.once
        assert once is not None
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                await once.renew(self.owner, lease_s=self._lease_s)
            except Exception as problem:  # whatever the store's library raises
                LOG.warning("the idempotency store does not answer: %r", problem)

    async def _on_cancel(self, message: Any) -> None:
        # Async, so that it is called in the event loop: what is cancelled runs there.
        if self._execution is not None:
            self._execution.cancel(str(message.body))
