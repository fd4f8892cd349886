"""A broker in a process of its own, which a suite may stop and start again on the same port."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["COMMAND_VARIABLE", "BrokerProcess", "free_port"]

COMMAND_VARIABLE = "INTEROP_BROKER_COMMAND"
"""Environment variable with the command that serves; ``{port}`` in it becomes the port."""

DATA_VARIABLE = "LEVERET_DATA_DIR"
"""Environment variable that tells the broker where to keep what lasts."""

START_S = 600.0  # The first start on a fresh machine installs the broker.
STOP_S = 20.0
_PAUSE_S = 0.02


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BrokerProcess:
    """Runs the broker's command; a context manager that never leaves the process behind.

    Args:
        command: what serves on the port, in a shell's words.
        arguments: more words for it, such as a configuration file.
        log_path: where its output is appended; a temporary file otherwise.

    """

    def __init__(
        self, command: str, *, arguments: tuple[str, ...] = (), log_path: Path | None = None
    ) -> None:
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self._command = [*shlex.split(command.replace("{port}", str(self.port))), *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        if log_path is None:
            handle, name = tempfile.mkstemp(prefix=f"interop-broker-{self.port}-", suffix=".log")
            os.close(handle)
            log_path = Path(name)

        self.log_path = log_path
        # Kept between stop and start, as that of any broker that is started again.
        self._data_path = tempfile.mkdtemp(prefix=f"interop-data-{self.port}-")

    def start(self) -> None:
        """Start it and return when it answers an AMQP header; raise when it ends before that."""
        assert self._process is None, "already started"
        with self.log_path.open("ab") as log:
            self._process = _spawn(self._command, self._data_path, log)

        try:
            self._wait_until_it_serves(self._process)
        except BaseException:
            # A test's own timeout may come first; nobody else would stop the process then.
            self.stop()
            raise

    def _wait_until_it_serves(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_S
        while not _answers(self.port):
            if process.poll() is not None:
                raise RuntimeError(f"the broker ended before it served:\n{self.log_text()}")

            if time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not serve in time:\n{self.log_text()}")

            time.sleep(_PAUSE_S)

    def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word, as a crash would."""
        self._end(signal.SIGKILL)

    def log_text(self) -> str:
        """Return the last lines of what the process wrote."""
        lines = self.log_path.read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-40:])

    def _end(self, first: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return

        # The command may be a script that starts the broker as a child: both are of one group.
        _signal_group(process.pid, first)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._data_path, ignore_errors=True)


def _spawn(command: list[str], data_path: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, DATA_VARIABLE: data_path},
    )


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return probe.recv(1) == b"\x01"
    except OSError:
        return False
