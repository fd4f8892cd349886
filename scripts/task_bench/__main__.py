"""Command line of ``scripts/tasks-bench``.

Each system gets the same broker, the same task, as many worker processes, and a filled queue; what
is counted are tasks that have run, in a file that all workers map. The first tenth, in which
processes start, does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

SYSTEMS: Final = ("leveret", "celery", "dramatiq", "taskiq")
ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 300.0
LOOK_S: Final = 0.005
START_S: Final = 20.0


class Rates(NamedTuple):
    """Tasks a second: put into the queue, and run."""

    sent: float
    done: float


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="tasks-bench")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=SYSTEMS)
    parser.add_argument("--url")
    parser.add_argument("--broker-path", default=str(ROOT))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.python = os.path.abspath(given.python)
    if given.send:
        app: Any = importlib.import_module(f"scripts.task_bench.apps.{given.send}")
        began_s = time.perf_counter()
        app.send(given.tasks)
        sys.stdout.write(f"{time.perf_counter() - began_s}\n")
        return

    results: dict[str, list[Rates]] = {name: [] for name in given.only or SYSTEMS}
    with (
        tempfile.TemporaryDirectory(prefix="tasks-bench-") as folder,
        _broker(given, Path(folder)) as url,
    ):
        for _ in range(given.rounds):
            for name, rates in results.items():
                rates.append(_measure(given, name, url, Path(folder)))
                sys.stderr.write(f"{name}: {rates[-1]}\n")

    sys.stdout.write(f"| {given.workers} worker(s) | sent | run |\n|---|---|---|\n")
    for name, rates in results.items():
        sent = statistics.median(one.sent for one in rates)
        done = statistics.median(one.done for one in rates)
        sys.stdout.write(f"| {name} | {sent:,.0f} | {done:,.0f} |\n")


@contextlib.contextmanager
def _broker(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    if given.url:
        yield given.url
        return

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    command = [sys.executable, "-m", "broker", "serve", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--data-dir", str(folder / "data"), "--log-level", "warning"]
    environment = os.environ | {
        "PYTHONPATH": str(Path(given.broker_path).resolve()),
        "PYTHONSAFEPATH": "1",
    }
    process = subprocess.Popen(command, env=environment, cwd=folder)
    try:
        _wait_for(port)
        yield f"amqp://guest:guest@127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int) -> None:
    until_s = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until_s:
                raise

            time.sleep(LOOK_S)
        else:
            return


def _measure(given: argparse.Namespace, name: str, url: str, folder: Path) -> Rates:
    marks = folder / "marks"
    marks.write_bytes(bytes(given.tasks))
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "TASK_BENCH_URL": url,
        "TASK_BENCH_MARKS": str(marks),
        "dramatiq_queue_prefetch": "100",
    }
    sender = [given.python, "-m", "scripts.task_bench", "--send", name, "--tasks", str(given.tasks)]
    sent = subprocess.run(
        sender, env=environment, check=True, capture_output=True, text=True, timeout=LIMIT_S
    )
    app = (ROOT / "scripts" / "task_bench" / "apps" / f"{name}.py").read_text()
    namespace: dict[str, Any] = {}
    body = app[app.index("def worker_command") :]
    exec("from __future__ import annotations\n" + body, namespace)  # noqa: S102 - our own file
    command = [given.python, *namespace["worker_command"](given.workers, given.concurrency)]
    with (folder / f"{name}.log").open("ab") as log:
        worker = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        try:
            done = _rate(marks, given.tasks, worker)
        except RuntimeError:
            sys.stderr.write((folder / f"{name}.log").read_text()[-4000:])
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGTERM)

            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(15)

            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)

            worker.wait(15)

    return Rates(given.tasks / float(sent.stdout.split()[-1]), done)


def _rate(marks: Path, count: int, worker: subprocess.Popen[bytes]) -> float:
    began = int(count * 0.1)
    began_at: tuple[float, int] | None = None
    until_s = time.monotonic() + LIMIT_S
    while True:
        now_s = time.perf_counter()
        done = count - marks.read_bytes().count(0)
        if began_at is None and done >= began:
            began_at = (now_s, done)

        if done >= count and began_at is not None:
            return (done - began_at[1]) / (now_s - began_at[0])

        if time.monotonic() > until_s or worker.poll() is not None:
            raise RuntimeError(f"{done} of {count} tasks have run, exit status {worker.poll()}")

        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
