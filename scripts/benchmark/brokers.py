"""The brokers under test: Leveret, started afresh for each run, and others that run already."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError, Client, Target, parse_target
from scripts.benchmark.machine import cpu_seconds, listening_pids

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Broker",
    "External",
    "Leveret",
    "Running",
    "commit_name",
    "environment_of",
    "prepare_leveret",
]

ROOT: Final = Path(__file__).resolve().parents[2]
START_LIMIT_S: Final = 20.0
STOP_LIMIT_S: Final = 20.0
BUILD_LIMIT_S: Final = 600.0
QUIET_LIMIT_S: Final = 10.0
QUIET_FOR_S: Final = 0.1
QUIET_CPU_S: Final = 0.003
RABBITMQ_HTTP_DISTANCE: Final = 10_000
"""From the port for AMQP to that of the management plugin."""
_RETRY_S: Final = 0.001
_CONFIG: Final = """\
version: 1
management: {{listeners: [{{bind: 127.0.0.1, port: {http_port}}}]}}
metrics: {{prometheus: {{listeners: [{{bind: 127.0.0.1, port: {metrics_port}}}]}}}}
"""
"""As everybody has it, but for the ports: several may run at once."""
_SERVE: Final = ("-m", "broker", "serve", "--host", "127.0.0.1", "--log-level", "warning")


class Running(NamedTuple):
    """A broker that accepts connections."""

    target: Target
    pids: tuple[int, ...]
    """Its processes; empty when it runs on another machine."""
    start_s: float | None
    """From exec to the first accepted connection, when it was started here."""
    python: str = ""
    source: Path | None = None
    """What it was started from, when it was started here."""
    http_port: int = 0
    """Where its HTTP API is to be found; 0 where that is not known."""

    @property
    def is_ours(self) -> bool:
        """Whether it was started here, for this run alone."""
        return self.start_s is not None


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

        http_port = self._target.port + RABBITMQ_HTTP_DISTANCE if pids else 0
        yield Running(self._target, pids, None, http_port=http_port)


class Leveret(Broker):
    """Leveret from this checkout, plain or compiled."""

    def __init__(self, python: str, source: Path, build: str) -> None:
        self.name = f"Leveret {build}"
        self._python = python
        self._source = source

    @contextlib.contextmanager
    def run(self) -> Iterator[Running]:
        """Start a fresh broker on a free port; stop it afterwards."""
        port, http_port, metrics_port = _free_ports(3)
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as folder:
            log = Path(folder) / "log"
            data_dir = str(Path(folder) / "data")
            config = Path(folder) / "leveret.yaml"
            config.write_text(_CONFIG.format(http_port=http_port, metrics_port=metrics_port))
            with log.open("wb") as output:
                started_s = time.monotonic()
                process = subprocess.Popen(
                    [
                        *(self._python, *_SERVE, str(config)),
                        *("--port", str(port), "--data-dir", data_dir),
                    ],
                    cwd=folder,
                    env=environment_of(self._source),
                    stdout=output,
                    stderr=output,
                )

            try:
                start_s = _wait_until_accepting(process, port, started_s)
                target = Target("127.0.0.1", port, "guest", "guest", "/")
                pids = listening_pids(port)
                _wait_until_quiet(pids)
                yield Running(target, pids, start_s, self._python, self._source, http_port)
                if process.poll() is not None:
                    raise BrokerError(f"Leveret ended by itself: {_last_words(log)}")
            except (BrokerError, OSError) as error:
                raise BrokerError(f"{error} {_last_words(log)}".strip()) from error
            finally:
                _stop(process)


def environment_of(source: Path) -> dict[str, str]:
    """Make ``source`` the place that ``broker`` is imported from."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _free_ports(count: int) -> list[int]:
    # All at a time: one that is free again may be found twice.
    with contextlib.ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for server in servers:
            stack.enter_context(server)

        return [server.getsockname()[1] for server in servers]


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


def _wait_until_quiet(pids: tuple[int, ...]) -> None:
    """Let it do what it does after it has begun to accept, such as to load its HTTP API."""
    deadline = time.monotonic() + QUIET_LIMIT_S
    before_s = cpu_seconds(pids)
    while time.monotonic() < deadline:
        time.sleep(QUIET_FOR_S)
        now_s = cpu_seconds(pids)
        if now_s - before_s < QUIET_CPU_S:
            return

        before_s = now_s


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


def prepare_leveret(python: str, build: str, folder: Path) -> Leveret:
    """Take a copy of the wanted build into ``folder``.

    A copy, so that a run of an hour measures one state of the tree, whoever works in it meanwhile.
    """
    if build == "compiled":
        # It says itself what it does and what went wrong.
        command = [python, str(ROOT / "scripts" / "support" / "compiled_copy.py")]
        if subprocess.run(command, check=False, timeout=BUILD_LIMIT_S).returncode:
            raise BrokerError("there is no compiled build to measure")

        original, ignore = ROOT / ".build" / "compiled", shutil.ignore_patterns("__pycache__")
    else:
        original, ignore = ROOT, shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")

    source = folder / build
    shutil.copytree(original / "broker", source / "broker", ignore=ignore)
    if build == "compiled":
        # mypyc's shared library lies beside the package.
        for library in [*original.glob("*.so"), *original.glob("*.pyd")]:
            shutil.copy2(library, source)

    # As an installation has it: else every start would compile the modules to byte code.
    command = [python, "-m", "compileall", "-q", str(source)]
    subprocess.run(command, check=True, timeout=BUILD_LIMIT_S)
    is_compiled = any(source.rglob("*.so")) or any(source.rglob("*.pyd"))
    if is_compiled != (build == "compiled"):
        raise BrokerError(f"the build is not {build}")

    return Leveret(python, source, build)
