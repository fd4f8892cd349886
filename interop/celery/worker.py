"""A real worker in a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from interop.celery.app import BACKEND_VARIABLE, PREFIX_VARIABLE, URL_VARIABLE
from interop.support.deadline import eventually
from interop.support.names import unique_name

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from celery import Celery

__all__ = ["Worker"]

START_S = 40.0
STOP_S = 20.0


class Worker:
    """Starts ``celery worker``; ready when it answers a ping by remote control."""

    def __init__(
        self, app: Celery, folder: Path, *, queues: list[str] | None = None, concurrency: int = 2
    ) -> None:
        self.name = f"{unique_name('worker')}@localhost"
        self._app = app
        self._log_path = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        program = [sys.executable, "-m", "celery", "-A", "interop.celery.app", "worker"]
        options = ["-n", self.name, "-c", str(concurrency), "-E", "-l", "info"]
        self._command = [*program, *options, "-Q", ",".join(queues or [self._default_queue])]

    @property
    def _default_queue(self) -> str:
        name: str = self._app.conf.task_default_queue
        return name

    def start(self) -> None:
        """Return when the worker takes part in remote control."""
        conf = self._app.conf
        settings = {
            **os.environ,
            URL_VARIABLE: conf.broker_url,
            BACKEND_VARIABLE: conf.result_backend,
            PREFIX_VARIABLE: self._default_queue,
        }
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=settings, start_new_session=True
            )

        try:
            eventually(self._is_ready, within=START_S)
        except BaseException:
            self.kill()
            raise AssertionError(f"no worker:\n{self.log_text()}") from None

    def stop(self) -> None:
        """Shut down warmly: running tasks are finished, prefetched ones given back."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with its children, as the kernel does when memory is short."""
        self._end(signal.SIGKILL, group=True)

    def log_text(self) -> str:
        """Return the last of what the worker logged."""
        return "\n".join(self._log_path.read_text("utf-8", "replace").splitlines()[-60:])

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the worker ended"
        return bool(self._app.control.ping(destination=[self.name], timeout=0.5, limit=1))

    def _end(self, number: signal.Signals, *, group: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return

        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(process.pid, number)

        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

            process.wait()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
