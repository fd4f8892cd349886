"""What the page about tasks shows, and its examples, can be done so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import runpy
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from aiohttp.test_utils import TestClient, TestServer

from broker.tasks import Tasks, Worker
from tests.helpers.pages import blocks, cells, run
from tests.helpers.toolkit import needs_leveret
from tests.helpers.waiting import until
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

pytestmark = needs_leveret

PAGE = PROJECT / "docs" / "tasks.md"
EXAMPLES = PROJECT / "docs" / "examples"


def _example(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, url])
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


async def _run(example: dict[str, Any]) -> None:
    """Run the example's main, and its tasks by a worker of another application object."""
    tasks: Tasks = example["tasks"]
    async with Worker(_copy_of(tasks)):
        await example["main"]()


def _copy_of(tasks: Tasks) -> Tasks:
    """What another process would have."""
    copy = Tasks(tasks.url, name=tasks.name, results=tasks.results)
    for name, task in tasks.registered.items():
        copy.register(task, tasks.periodic.get(name))

    return copy


async def test_the_page_of_tasks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(sqlite3.connect("shop.sqlite")) as database:
        database.execute("CREATE TABLE sold (id INTEGER, hares INTEGER)")
        database.commit()

    names: dict[str, Any] = {"__name__": "page"}
    for snippet in blocks(PAGE):
        await run(snippet._replace(source=snippet.source.replace("amqp://localhost/", url)), names)

    assert "50 percent" in capsys.readouterr().out
    shop = names["shop"]
    async with Worker(shop):
        await until(lambda: _sold() == [(7, 2)])

    assert _sold() == [(7, 2)]
    await names["worker"].stop()


def _sold() -> list[Any]:
    with contextlib.closing(sqlite3.connect("shop.sqlite")) as database:
        return database.execute("SELECT id, hares FROM sold").fetchall()


def test_the_tests_that_the_page_names_are_there() -> None:
    rows = [snippet.source for snippet in cells(PAGE) if "::" in snippet.source]
    assert len(rows) > 10
    for row in rows:
        file, _, function = row.partition("::")
        [path] = (PROJECT / "tests").rglob(file)
        assert f"def {function}(" in path.read_text(encoding="utf-8"), row


async def test_the_work_queue(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await _run(_example("work_queue", url, monkeypatch))
    assert capsys.readouterr().out.splitlines() == [
        "hare.png at 640 pixels, quality 70",
        "flaky.png at 640 pixels, quality 70",
        "failed: ValueError: essay.txt is no picture",
    ]


async def test_the_scheduled_jobs(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = _example("scheduled", url, monkeypatch)
    printed: list[str] = []

    def has_ticked() -> bool:
        printed.extend(capsys.readouterr().out.splitlines())
        return any(line.startswith("looking around") for line in printed)

    async with Worker(_copy_of(example["tasks"])):
        await example["main"]()
        await until(has_ticked)

    assert [line for line in printed if not line.startswith("looking")] == [
        "remember: the carrots",
        "remember: the lettuce",
    ]


async def test_the_web_application(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = _example("web_app", url, monkeypatch)
    async with (
        Worker(_copy_of(example["tasks"])),
        TestClient(TestServer(example["make_app"]())) as browser,
    ):
        begun = await browser.post("/reports", data={"name": "Ada"})
        assert begun.status == 202
        place = (await begun.json())["at"]
        answers: list[Any] = []

        async def is_done() -> bool:
            answer = await browser.get(place)
            answers.append(await answer.json())
            return answer.status == 200

        await until(is_done)
        assert answers[0] == {"status": "pending"}
        assert answers[-1] == {"title": "Report for Ada"}


async def test_the_command_in_a_process_drains(url: str, tmp_path: Path) -> None:
    """``leveret worker`` with two processes: it does tasks, and ends by itself at SIGTERM."""
    import signal
    import subprocess

    (tmp_path / "drained.py").write_text(
        "import os, time\nfrom broker.tasks import Tasks\n"
        f"tasks = Tasks({url!r}, name='toolkit-test.drained')\n"
        "@tasks.task\ndef pid() -> int:\n    time.sleep(0.2)\n    return os.getpid()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT), str(tmp_path)])}
    command = [sys.executable, "-m", "broker", "worker", "drained:tasks", "--workers", "2"]
    command += ["-c", "2", "--mode", "processes"]
    process = subprocess.Popen(  # noqa: ASYNC220 - it does not take long to begin
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        pids, pending = await _send_to_the_command(tmp_path, process)
        assert len(pids) == 2
        assert process.pid not in pids
        _, log = await asyncio.to_thread(process.communicate, timeout=15)
        assert process.returncode == 0, log
        assert pending == 0
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()


async def _send_to_the_command(folder: Path, process: Any) -> tuple[set[int], int]:
    tasks: Tasks = runpy.run_path(str(folder / "drained.py"), run_name="drained")["tasks"]
    pid = tasks.registered["drained.pid"]
    async with tasks:
        handles = await pid.q_many([()] * 12)
        pids = set()
        for one in handles:
            pids.add(await one.result(timeout=15))

        last = await pid.q_many([()] * 4)
        await asyncio.sleep(0.1)
        process.terminate()
        await asyncio.gather(*(one.wait(15) for one in last))
        states = [await one.status() for one in last]
        return pids, sum(not state.is_final for state in states)
