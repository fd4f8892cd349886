"""The brokers under test: Leveret, started afresh for each run, and others that run already."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmark.client import BrokerError, Client, Target, parse_target
from benchmark.machine import listening_pids

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Broker", "External", "Leveret", "Running", "commit_name", "prepare_leveret"]

ROOT: Final = Path(__file__).resolve().parents[2]
START_LIMIT_S: Final = 20.0
STOP_LIMIT_S: Final = 20.0
BUILD_LIMIT_S: Final = 600.0
_RETRY_S: Final = 0.001
_SERVE: Final = ("-m", "broker", "serve", "--host", "127.0.0.1", "--log-level", "warning")


class Running(NamedTuple):
    """A broker that accepts connections."""

    target: Target
    pids: tuple[int, ...]
    """Its processes; empty when it runs on another machine."""
    start_s: float | None
    """From exec to the first accepted connection, when it was started here."""


class Broker:
    """Something that scenarios can run against."""

    name: str

    def run(self) -> AbstractContextManager[Running]:
        """Have the broker running while the context lasts."""
        raise NotImplementedError


class External(Broker):
    """A broker that was started by somebody else."""

    def __init__(self, url: str) -> None:
        self._target = parse_target(url)
        with Client(self._target) as client:
            self.name = f"{client.product} {client.version}"

    @contextlib.contextmanager
    def run(self) -> Iterator[Running]:
        """See that it accepts connections; it goes on running afterwards."""
        with Client(self._target):
            pids = listening_pids(self._target.port)

        yield Running(self._target, pids, None)


class Leveret(Broker):
    """Leveret from this checkout, plain or compiled."""

    def __init__(self, python: str, source: Path, build: str) -> None:
        self.name = f"Leveret {build}"
        self._python = python
        self._source = source

    @contextlib.contextmanager
    def run(self) -> Iterator[Running]:
        """Start a fresh broker on a free port; stop it afterwards."""
        port = _free_port()
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as folder:
            log = Path(folder) / "log"
            with log.open("wb") as output:
                started_s = time.monotonic()
                process = subprocess.Popen(
                    [self._python, *_SERVE, "--port", str(port)],
                    cwd=folder,
                    env=leveret_environment(self._source),
                    stdout=output,
                    stderr=output,
                )

            try:
                start_s = _wait_until_accepting(process, port, started_s)
                target = Target("127.0.0.1", port, "guest", "guest", "/")
                yield Running(target, listening_pids(port), start_s)
                if process.poll() is not None:
                    raise BrokerError(f"Leveret ended by itself: {_last_words(log)}")
            except (BrokerError, OSError) as error:
                raise BrokerError(f"{error} {_last_words(log)}".strip()) from error
            finally:
                _stop(process)


def leveret_environment(source: Path) -> dict[str, str]:
    """Make ``source`` the place that ``broker`` is imported from."""
    return {**os.environ, "PYTHONPATH": str(source)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_until_accepting(process: subprocess.Popen[bytes], port: int, started_s: float) -> float:
    while time.monotonic() < started_s + START_LIMIT_S:
        if process.poll() is not None:
            raise BrokerError("Leveret did not start:")

        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(_RETRY_S)
        else:
            return time.monotonic() - started_s

    raise BrokerError(f"Leveret did not accept within {START_LIMIT_S:.0f} s:")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " | ".join(lines[-3:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def commit_name() -> str:
    """Name the commit of the checkout, with a plus sign when files differ from it."""
    git = shutil.which("git")
    if git is None:
        return "unknown"

    # Only what is measured counts: the broker's sources and how they are built.
    parts = ["--", "broker", "setup.py", "pyproject.toml"]
    try:
        commit = _output([git, "rev-parse", "--short=12", "HEAD"])
        changes = _output([git, "status", "--porcelain", *parts])
    except subprocess.CalledProcessError:
        return "unknown"

    return f"{commit}+" if changes else commit


def _output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def prepare_leveret(python: str, build: str) -> Leveret:
    """Make the wanted build of the checkout ready to run.

    The plain build is a copy of the sources, so that compiled modules which lie beside them are
    not picked up; the compiled build is installed into a folder named after the sources' digest.
    """
    digest = _source_digest()
    folder = ROOT / "build" / "bench" / f"{build}-{digest}"
    if not folder.exists():
        staging = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            _build_into(staging, python, build)
            with contextlib.suppress(FileExistsError):
                staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    compiled = any(folder.glob("**/*.so")) or any(folder.glob("**/*.pyd"))
    if compiled != (build == "compiled"):
        raise BrokerError(f"the build in {folder} is not {build}; is a C compiler there?")

    return Leveret(python, folder, build)


def _build_into(folder: Path, python: str, build: str) -> None:
    if build == "plain":
        ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(ROOT / "broker", folder / "broker", ignore=ignore)
        # As an installation would have it: without this the first start compiles every module.
        subprocess.run(
            [python, "-m", "compileall", "-q", str(folder)], check=True, timeout=BUILD_LIMIT_S
        )
        return

    sys.stderr.write("bench: compiling the broker, once for these sources\n")
    # A copy, because a build leaves its traces in the tree it builds.
    with tempfile.TemporaryDirectory(prefix="leveret-build-") as copy:
        ignore = shutil.ignore_patterns(
            ".git", ".venv", "build", "*.so", "__pycache__", "tests", "interop"
        )
        shutil.copytree(ROOT, copy, dirs_exist_ok=True, ignore=ignore)
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), copy],
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        if done.returncode:
            raise BrokerError(f"the compiled build failed: {done.stderr[-2000:]}")


def _source_digest() -> str:
    digest = hashlib.sha256()
    files = sorted((ROOT / "broker").rglob("*.py"))
    for path in [ROOT / "setup.py", ROOT / "pyproject.toml", *files]:
        if path.exists():
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())

    return digest.hexdigest()[:12]
