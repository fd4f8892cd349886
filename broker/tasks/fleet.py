"""Toolkit, tasks: several workers under one command, as processes or as threads.

Invariant: the first signal to stop drains every worker, the second one kills them. A worker process
that dies is replaced, and the new one gives back what the dead one had claimed. Workers whose
parent is gone stop by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_any
from typing import TYPE_CHECKING, Any, Final

from broker.client.errors import InvalidValue
from broker.tasks.loading import load_app
from broker.tasks.worker import LEASE_S, THREAD_NAME, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from types import FrameType

    from broker.tasks.app import Tasks
    from broker.tasks.board import Snapshot
    from broker.tasks.mode import Mode
    from broker.tasks.options import Guarantee

__all__ = ["Fleet", "Plan", "leave"]

LOG: Final = logging.getLogger("leveret.tasks")

REPORT_S: Final = 0.5
RESTART_S: Final = 0.5
RESTART_MAX_S: Final = 30.0
STABLE_S: Final = 10.0
"""A worker that has lived so long did not die of how it was started."""
LEAVE_S: Final = 0.2
KILL_MARGIN_S: Final = 10.0
"""How much longer than its grace a worker may take to stop before it is killed."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to run. Everything in it can be sent to a process."""

    app: str
    modules: tuple[str, ...] = ()
    workers: int = 1
    mode: Mode = "processes"
    concurrency: int = 10
    prefetch: int | None = None
    queues: tuple[str, ...] | None = None
    guarantee: Guarantee | None = None
    grace: float = 30.0
    lease: float = LEASE_S
    url: str | None = None
    log_level: str = "INFO"

    def load(self) -> Tasks:
        """Import the application."""
        app = load_app(self.app, self.modules)
        if self.url is not None:
            app.url = self.url

        return app

    def worker(self, app: Tasks) -> Worker:
        """Return a worker for the running event loop."""
        return Worker(
            app,
            concurrency=self.concurrency,
            prefetch=self.prefetch,
            queues=self.queues,
            guarantee=self.guarantee,
            grace=self.grace,
            lease=self.lease,
        )


class Fleet:
    """Runs workers until it is told to stop.

    Args:
        plan: what to run.
        view: called now and then with what each worker is doing.

    """

    def __init__(self, plan: Plan, view: Callable[[list[Snapshot]], None] | None = None) -> None:
        self._plan = plan
        self._view = view
        self._signals = 0

    def run(self) -> None:
        """Run them; return when all have stopped.

        Raises:
            LoadError: the application cannot be loaded.
            ToolkitError: it cannot be run like that, or no broker could be reached.

        """
        # In the parent too, so that what is wrong with it is said once, and first.
        app = self._plan.load()
        asyncio.run(_checked(self._plan, app))
        with self._handlers():
            if self._plan.workers == 1 or self._plan.mode == "threads":
                self._run_threads(app)
            else:
                self._run_processes()

    @contextlib.contextmanager
    def _handlers(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 2:
            raise SystemExit(1)

    # -- threads

    def _run_threads(self, app: Tasks) -> None:
        crews = [_Thread(self._plan, app, number) for number in range(self._plan.workers)]
        for one in crews:
            one.start()

        is_stopping = False
        while any(one.is_alive() for one in crews):
            time.sleep(REPORT_S / 5)
            self._show([shot for one in crews if (shot := one.snapshot()) is not None])
            failed = next((one.error for one in crews if one.error is not None), None)
            if (self._signals or failed) and not is_stopping:
                is_stopping = True
                for one in crews:
                    one.stop(None)

            if self._signals > 1:
                for one in crews:
                    one.stop(0.0)

        for one in crews:
            one.join()
            if one.error is not None:
                raise one.error

    # -- processes

    def _run_processes(self) -> None:
        members = [_Process(self._plan, number) for number in range(self._plan.workers)]
        for one in members:
            one.start()

        stopped_s = 0.0
        while members:
            pipes = [one.pipe for one in members if one.pipe is not None]
            wait_for_any(pipes, timeout=REPORT_S / 5)
            for one in members:
                one.read()

            self._show([one.last for one in members if one.last is not None])
            if self._signals and not stopped_s:
                stopped_s = time.monotonic()
                for one in members:
                    one.terminate()

            is_late = stopped_s and time.monotonic() - stopped_s > (
                self._plan.grace + KILL_MARGIN_S
            )
            if self._signals > 1 or is_late:
                for one in members:
                    one.kill()

            members = [one for one in members if one.is_wanted(is_stopping=bool(stopped_s))]

    def _show(self, snapshots: list[Snapshot]) -> None:
        if self._view is not None:
            self._view(snapshots)


async def _checked(plan: Plan, app: Tasks) -> None:
    """Find out what is wrong with a plan before there are processes."""
    worker = plan.worker(app)
    are_several = plan.workers > 1 and plan.mode == "processes"
    if are_several and worker.remembers and app.once is not None and not app.once.is_shared:
        raise InvalidValue(
            f"{type(app.once).__name__} is of one process, and these are {plan.workers}, none of "
            "which would know what the others have done: take SqliteOnce, RedisOnce or "
            "PostgresOnce, or --workers 1"
        )

    try:
        link = await app.link()
        for name, spec in app.queues().items():
            await link.declare(name, spec)
    finally:
        await app.close()


class _Thread(threading.Thread):
    """A worker in a thread, with an event loop of its own."""

    def __init__(self, plan: Plan, app: Tasks, number: int) -> None:
        super().__init__(name=f"worker-{number}", daemon=True)
        self._plan = plan
        self._app = app
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._grace: list[float | None] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as problem:  # told by the fleet, in its thread
            self.error = problem

    def stop(self, grace: float | None) -> None:
        """Stop it; from any thread."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._request_stop, grace)

    def snapshot(self) -> Snapshot | None:
        """Return what it is doing."""
        return None if self._worker is None else self._worker.snapshot()

    async def _work(self) -> None:
        self._worker = self._plan.worker(self._app)
        self._loop = asyncio.get_running_loop()
        await self._worker.run()

    def _request_stop(self, grace: float | None) -> None:
        assert self._worker is not None
        self._worker.request_stop(grace)


class _Process:
    """A worker in a process, started again when it dies."""

    def __init__(self, plan: Plan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._process: SpawnProcess | None = None
        self._began_s = 0.0
        self._wait_s = RESTART_S
        self._restart_at_s = 0.0
        self.pipe: Connection | None = None
        self.last: Snapshot | None = None

    def start(self) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        owner = self.last.worker if self.last is not None else None
        self._process = context.Process(
            target=run_in_process, args=(self._plan, theirs, owner), name=f"worker-{self._number}"
        )
        self._process.start()
        theirs.close()
        self._began_s = time.monotonic()

    def read(self) -> None:
        """Take what it has said."""
        try:
            while self.pipe is not None and self.pipe.poll():
                self.last = self.pipe.recv()
        except (EOFError, OSError):
            if self.pipe is not None:
                self.pipe.close()

            self.pipe = None

    def terminate(self) -> None:
        """Tell it to stop."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()

    def is_wanted(self, *, is_stopping: bool) -> bool:
        """Start it again if it died; say whether it is still to be looked after."""
        process = self._process
        if process is not None and process.is_alive():
            return True

        if is_stopping:
            return False

        now_s = time.monotonic()
        if process is not None:
            LOG.error("worker %d died (%s)", self._number, _reason(process.exitcode))
            is_stable = now_s - self._began_s > STABLE_S
            self._wait_s = RESTART_S if is_stable else min(self._wait_s * 2, RESTART_MAX_S)
            self._restart_at_s = now_s + (0.0 if is_stable else self._wait_s)
            self._process = None

        if now_s >= self._restart_at_s:
            self.start()

        return True


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-code).name}"

    return f"exit status {code}"


def run_in_process(plan: Plan, pipe: Connection, dead_owner: str | None) -> None:
    """Be a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it as well, and tells us
    from broker.tasks.log import set_up_log

    set_up_log(plan.log_level)
    app = plan.load()
    asyncio.run(_work(plan, app, pipe, dead_owner))
    leave()


def leave() -> None:
    """End the process, if it will not end by itself: Python waits for functions in threads.

    Nothing can stop such a function, and its task was handed back when its time was over.
    """
    threads = [one for one in threading.enumerate() if one.name.startswith(THREAD_NAME)]
    for one in threads:
        one.join(LEAVE_S / len(threads))  # those that have nothing to do are about to end

    if any(one.is_alive() for one in threads):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _work(plan: Plan, app: Tasks, pipe: Connection, dead_owner: str | None) -> None:
    worker = plan.worker(app)
    loop = asyncio.get_running_loop()

    def on_signal(*_: Any) -> None:
        loop.call_soon_threadsafe(worker.request_stop, None)

    signal.signal(signal.SIGTERM, on_signal)
    _stop_with_parent(on_signal)
    if dead_owner is not None and app.once is not None:
        await app.once.release_owner(dead_owner)

    reporting = loop.create_task(_report(worker, pipe))
    try:
        await worker.run()
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        with contextlib.suppress(OSError):
            pipe.send(worker.snapshot())


async def _report(worker: Worker, pipe: Connection) -> None:
    while True:
        with contextlib.suppress(OSError):
            pipe.send(worker.snapshot())

        await asyncio.sleep(REPORT_S)


def _stop_with_parent(stop: Callable[[], None]) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        stop()

    threading.Thread(target=watch, name="parent", daemon=True).start()
