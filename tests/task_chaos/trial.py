"""Tasks and workers that are killed at random; what was done, how often, and what was lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TaskTrial", "TickTrial", "Verdict", "judge_ticks"]

ROOT = Path(__file__).resolve().parents[2]
TABLES = """
CREATE TABLE IF NOT EXISTS started (number INTEGER);
CREATE TABLE IF NOT EXISTS done (number INTEGER);
CREATE TABLE IF NOT EXISTS ticks (id TEXT);
"""


@dataclass
class Verdict:
    """What became of the tasks."""

    count: int
    lost: int
    doubled: int
    wrong_results: int
    started: int
    """How often a task was begun; what a killed worker had begun is begun again."""

    kills: int
    fleet_kills: int
    seconds: float
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether each task was done once."""
        return not (self.lost or self.doubled or self.wrong_results)

    def __str__(self) -> str:
        return (
            f"{self.count} tasks, {self.kills} workers and {self.fleet_kills} fleets killed, "
            f"{self.started} begun: {self.lost} lost, {self.doubled} done more than once, "
            f"{self.wrong_results} wrong results, in {self.seconds:.1f} s"
        )


class _Crew:
    """A ``leveret worker`` with several processes, of which now and then one is killed."""

    def __init__(self, environment: dict[str, str], workers: int, log: Path) -> None:
        self._command = [sys.executable, "-m", "broker", "worker", "tests.task_chaos.app:tasks"]
        self._command += ["-w", str(workers), "-c", "10", "--no-live"]
        self._command += ["-m", "processes", "--grace", "10"]
        if environment["TASK_CHAOS_GUARANTEE"] == "effectively_once":
            self._command += ["--lease", "3"]

        self._environment = (
            os.environ
            | environment
            | {"PYTHONPATH": os.environ.get("PYTHONPATH", "") + os.pathsep + str(ROOT)}
        )
        self._log = log
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def children(self) -> list[int]:
        """The worker processes."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            found = [
                pid
                for pid in map(int, path.read_text().split())
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]

        return found

    def kill_one(self, chance: random.Random) -> bool:
        """Kill one of the workers, if there is one."""
        children = self.children()
        if not children:
            return False

        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(children), signal.SIGKILL)

        return True

    def kill_all(self) -> None:
        """Kill the whole command, and begin another one."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

        self.process.wait()
        self.process = self._start()

    def stop(self) -> int:
        """Stop it as one should; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class _Trial:
    url: str
    folder: Path
    workers: int = 3
    seed: int = 1
    name: str = "task-chaos"
    guarantee: str = "effectively_once"
    limit_s: float = 600.0
    kill_every_s: float = 2.0
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> Path:
        return self.folder / "once.sqlite"

    def prepare(self) -> None:
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(TABLES)

        self.environment |= {
            "TASK_CHAOS_URL": self.url,
            "TASK_CHAOS_DATABASE": str(self.database),
            "TASK_CHAOS_NAME": self.name,
            "TASK_CHAOS_GUARANTEE": self.guarantee,
        }

    def rows(self, statement: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as database:
            return [row[0] for row in database.execute(statement)]

    @contextlib.contextmanager
    def crew(self) -> Iterator[_Crew]:
        crew = _Crew(self.environment, self.workers, self.folder / "workers.log")
        try:
            yield crew
        finally:
            crew.stop()


@dataclass
class TaskTrial(_Trial):
    """``count`` tasks, sent at once; workers are killed until all are done."""

    count: int = 10_000
    kills_max: int = 1_000_000
    fleet_kills: int = 1

    async def run(self) -> Verdict:
        """Run it."""
        from broker.tasks import ResultTimeout, TaskFailed, Tasks

        self.prepare()
        chance = random.Random(self.seed)
        began_s = time.monotonic()
        sender = Tasks(self.url, name=self.name)

        @sender.task(name="chaos.run")
        async def run(number: int) -> int:
            raise AssertionError(number)

        notes: list[str] = []
        async with sender:
            handles = await run.q_many((number,) for number in range(self.count))
            with self.crew() as crew:
                kills, fleets = await self._kill_until_done(crew, chance)
                wrong = 0
                for number, handle in enumerate(handles):
                    try:
                        wrong += await handle.result(timeout=15) != number * 3
                    except (ResultTimeout, TaskFailed) as problem:
                        wrong += 1
                        notes.append(f"{number}: {problem}")

            link = await sender.link()
            client = await link.client()
            for queue in (self.name, f"{self.name}.dead"):
                await client.delete(queue)

        done = Counter(self.rows("SELECT number FROM done"))
        return Verdict(
            count=self.count,
            lost=sum(number not in done for number in range(self.count)),
            doubled=sum(times > 1 for times in done.values()),
            wrong_results=wrong,
            started=len(self.rows("SELECT number FROM started")),
            kills=kills,
            fleet_kills=fleets,
            seconds=time.monotonic() - began_s,
            notes=notes[:20],
        )

    async def _kill_until_done(self, crew: _Crew, chance: random.Random) -> tuple[int, int]:
        kills, fleets = 0, 0
        until_s = time.monotonic() + self.limit_s
        next_s = time.monotonic() + self.kill_every_s
        while time.monotonic() < until_s:
            await asyncio.sleep(0.1)
            done = self.rows("SELECT COUNT(DISTINCT number) FROM done")[0]
            if done >= self.count:
                break

            if time.monotonic() < next_s or not 0 < done < self.count * 0.95:
                continue

            next_s = time.monotonic() + chance.uniform(0.2, 2) * self.kill_every_s
            if fleets < self.fleet_kills and done > self.count / 2:
                crew.kill_all()
                fleets += 1
            elif kills < self.kills_max:
                kills += crew.kill_one(chance)

        return kills, fleets


@dataclass
class TickTrial(_Trial):
    """A task every second for ``seconds``; workers are killed all the while."""

    seconds: float = 30.0

    async def run(self) -> tuple[int, list[str]]:
        """Run it; how many ticks there were, and what was wrong."""
        self.guarantee = "at_least_once"
        self.environment["TASK_CHAOS_TICKS"] = "1"
        self.prepare()
        chance = random.Random(self.seed)
        with self.crew() as crew:
            async with asyncio.timeout(self.limit_s):
                await until(lambda: bool(self.rows("SELECT id FROM ticks")))

            until_s = time.monotonic() + self.seconds
            restart_s = time.monotonic() + self.seconds / 2
            while time.monotonic() < until_s:
                await asyncio.sleep(chance.uniform(0.2, 2) * self.kill_every_s)
                if time.monotonic() > restart_s:
                    restart_s = until_s + 1
                    crew.kill_all()
                else:
                    crew.kill_one(chance)

            # The next leader's ticks, and those that were begun and have to be begun again.
            seen = len(self.rows("SELECT id FROM ticks"))
            async with asyncio.timeout(60):
                await until(lambda: len(self.rows("SELECT id FROM ticks")) > seen + 3)

        return judge_ticks(self.rows("SELECT id FROM ticks"))


def judge_ticks(ids: list[str]) -> tuple[int, list[str]]:
    """How many ticks there were, and which are missing or came more than once."""
    times = Counter(datetime.fromisoformat(one.partition("@")[2]) for one in ids)
    wrong = [f"{tick} came {count} times" for tick, count in times.items() if count > 1]
    tick = min(times)
    while tick < max(times):
        if tick not in times:
            wrong.append(f"{tick} is missing")

        tick += timedelta(seconds=1)

    return len(times), wrong
