"""Client processes: started by fork, steered by one pipe each, and never waited for without end."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from scripts.benchmark.client import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkProcess
    from types import TracebackType

__all__ = ["Crew", "Pipe", "Worker"]

Pipe: TypeAlias = Connection
_Plan = TypeVar("_Plan")
_CONTEXT = multiprocessing.get_context("fork")
_END_LIMIT_S = 5.0


class _WorkerError(Exception):
    """What went wrong in a client process, as text."""


class Worker:
    """One client process and our end of its pipe."""

    __slots__ = ("_pipe", "_process")

    def __init__(self, process: ForkProcess, pipe: Pipe) -> None:
        self._process = process
        self._pipe = pipe

    def tell(self, message: object) -> None:
        """Send the process something it waits for."""
        self._pipe.send(message)

    def hear(self, limit_s: float) -> object:
        """Wait for what the process has to say next; its failure is raised here."""
        if not self._pipe.poll(limit_s):
            raise BrokerError(f"a client process said nothing for {limit_s:.0f} s")

        try:
            message: object = self._pipe.recv()
        except EOFError:
            raise BrokerError("a client process died") from None

        if isinstance(message, _WorkerError):
            raise BrokerError(str(message))

        return message

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def end(self) -> None:
        """See the process gone."""
        self._process.join(_END_LIMIT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

        self._pipe.close()


class Crew:
    """The client processes of one run; a context manager that leaves none behind."""

    __slots__ = ("_workers",)

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for worker in self._workers:
                worker.kill()

        for worker in self._workers:
            worker.end()

    def start(self, run: Callable[[_Plan, Pipe], None], plan: _Plan, limit_s: float) -> Worker:
        """Start a process and wait until it is ready."""
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_run_guarded, args=(run, plan, theirs), daemon=True)
        process.start()
        theirs.close()
        worker = Worker(process, ours)
        self._workers.append(worker)
        worker.hear(limit_s)
        return worker


def _run_guarded(run: Callable[[_Plan, Pipe], None], plan: _Plan, pipe: Pipe) -> None:
    # The parent is interrupted too, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        run(plan, pipe)
    except BlockingIOError:
        pipe.send(_WorkerError("the broker neither read nor wrote for the limit of a wait"))
    except (OSError, BrokerError, ValueError, EOFError) as error:
        pipe.send(_WorkerError(f"{type(error).__name__}: {error}"))
