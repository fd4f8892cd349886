"""A broker as a process of its own, on a directory that outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BrokerProcess", "write_configuration"]

Record = dict[str, Any]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


def write_configuration(path: Path, *, segment_size: str = "64KiB", free_limit: str = "1") -> Path:
    """A configuration for one listener on whatever port is free."""
    path.write_text(
        "version: 1\n"
        "listeners: {amqp: [{bind: 127.0.0.1, port: 0}]}\n"
        "management: {enabled: false}\n"
        "metrics: {prometheus: {enabled: false}}\n"
        f"storage: {{segment_size: {segment_size}}}\n"
        f"alarms: {{disk: {{free_limit: {free_limit}}}}}\n"
    )
    return path


class BrokerProcess:
    """One run of ``leveret serve``.

    Args:
        config: its configuration.
        data: its data directory.

    Attributes:
        records: what it has logged so far.

    """

    def __init__(self, config: Path, data: Path) -> None:
        self._command = [sys.executable, "-m", "broker", "serve", str(config)]
        self._command += ["--data-dir", str(data), "--log-format", "json"]
        self.records: list[Record] = []
        self.noise: list[str] = []
        self._started = threading.Event()
        self.process = subprocess.Popen(
            self._command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                record = json.loads(line)
            except ValueError:
                self.noise.append(line)
                continue

            self.records.append(record)
            if record["event"] == "server.started":
                self._started.set()

        self._started.set()

    def events(self, name: str) -> list[Record]:
        """The log's records of one kind."""
        return [record for record in self.records if record["event"] == name]

    def wait_started(self) -> int:
        """Wait until it accepts connections; the port."""
        assert self._started.wait(START_TIMEOUT_S), f"no start: {self.records[-5:]}"
        started = self.events("server.started")
        assert started, f"it did not start: {self.records[-5:]} {''.join(self.noise)}"
        return int(started[0]["listening"].split()[0].rpartition(":")[2])

    def wait_event(self, name: str, timeout_s: float = 15.0) -> Record:
        """Wait for a line of the log."""
        deadline = time.monotonic() + timeout_s
        while not self.events(name):
            assert time.monotonic() < deadline, f"no {name} in {self.records[-20:]} {self.noise}"
            assert self.process.poll() is None or self._reader.is_alive(), self.records[-20:]
            time.sleep(0.01)

        return self.events(name)[-1]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would end it, but for what the system has not written yet."""
        self.process.kill()
        self._join()

    def stop(self, *signals: int) -> int:
        """End it as an operator would; the exit status."""
        for one in signals or (signal.SIGTERM,):
            self.send(one)

        return self.wait_end()

    def wait_end(self) -> int:
        """Wait for an end that has been asked for; the exit status."""
        self.process.wait(STOP_TIMEOUT_S)
        self._join()
        return self.process.returncode

    def _join(self) -> None:
        self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        faults = self.events("server.fault") + self.events("connection.fault")
        assert not faults, faults
        assert not any("Traceback" in line for line in self.noise), "".join(self.noise)
