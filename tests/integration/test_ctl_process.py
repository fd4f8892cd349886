"""ctl as a process beside a broker that is one: how it is found, and stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.local_socket import socket_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEVERET = (sys.executable, "-m", "broker")
STAND_IN = "from broker.cli.ctl.command import run_as_rabbitmqctl as run; run()"

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual data directory of these processes."""
    path = tmp_path / "data"
    monkeypatch.setenv("LEVERET_DATA_DIR", str(path))
    return path


@contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*LEVERET, "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "management.started" in line:
                    break

            yield process
        finally:
            process.kill()


def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*LEVERET, "ctl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=15)


def test_without_options_it_finds_the_broker_of_the_usual_directory(directory: Path) -> None:
    with serving() as process:
        assert os.path.exists(socket_in(str(directory)))
        listed = ctl("list_users", "-s")
        assert (listed.returncode, listed.stdout) == (0, "guest\t[administrator]\n")
        status = ctl("status", "-q")
        assert f"OS PID: {process.pid}\n" in status.stdout


def test_stop_ends_the_process_and_returns_when_it_has_ended(directory: Path) -> None:
    with serving() as process:
        stopped = ctl("-q", "stop")
        assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
        assert process.wait(timeout=10) == 0
        assert not os.path.exists(socket_in(str(directory)))


def test_a_broker_comes_back_over_the_socket_of_one_that_was_killed(directory: Path) -> None:
    with serving() as process:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)

    assert os.path.exists(socket_in(str(directory)))
    failed = ctl("--data-dir", str(directory), "ping")
    assert failed.returncode == 69
    assert f"{directory}/ctl.sock (connection refused)" in failed.stderr
    with serving():
        assert ctl("ping", "-q").stdout == "Ping succeeded\n"


def test_a_script_waits_for_the_start_by_a_pid_file(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with serving() as process:
        pid_file.write_text(f"{process.pid}\n")
        assert ctl("-q", "wait", str(pid_file)).returncode == 0
        assert ctl("-q", "await_startup").returncode == 0
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        waited = ctl("-q", "wait", str(pid_file))
        assert waited.returncode == 69
        assert f"there is no process {process.pid}" in waited.stderr


def test_under_rabbitmqs_name_it_does_the_same_and_takes_any_node() -> None:
    with serving():
        command = [sys.executable, "-c", STAND_IN, "-n", "rabbit@nowhere", "list_users", "-q"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=15)
        assert (listed.returncode, listed.stdout) == (0, "user\ttags\nguest\t[administrator]\n")


def test_the_client_imports_nothing_of_the_broker() -> None:
    """It is started often, by scripts that wait for it."""
    code = (
        "import sys; import broker.cli.ctl.command;"
        "print(*(name for name in ('aiohttp', 'asyncio', 'structlog', 'msgspec', 'yaml',"
        " 'broker.core', 'broker.config.loader', 'broker.management') if name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=15)
    assert (found.returncode, found.stdout) == (0, "\n")
