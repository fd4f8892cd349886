"""``leveret worker`` as a command: it works, and ends as its user wants."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.embedded import Broker
from broker.tasks import Tasks
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[3]
WAIT_S = 20
APP = """
import time
from pathlib import Path
from broker.tasks import Tasks

tasks = Tasks({url!r})


@tasks.task(name="add")
async def add(x: int, y: int) -> int:
    return x + y


@tasks.task(name="block")
def block(path: str) -> None:
    Path(path).touch()
    time.sleep(600)
"""


@asynccontextmanager
async def at_work(folder: Path, url: str, *options: str) -> AsyncIterator[Process]:
    """Run a worker whose application is in a folder."""
    (folder / "app.py").write_text(APP.format(url=url))
    command = [sys.executable, "-P", "-m", "broker", "worker", "app:tasks", "--no-live", *options]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=log
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def sender(url: str) -> tuple[Tasks, Any, Any]:
    """Return what sends the tasks of the application."""
    tasks = Tasks(url)

    @tasks.task(name="add")
    async def add(x: int, y: int) -> int:
        return x + y

    @tasks.task(name="block")
    def block(path: str) -> None: ...

    return tasks, add, block


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_it_works_until_a_signal(tmp_path: Path, workers: str, number: int) -> None:
    async with Broker(log_level="error") as broker:
        tasks, add, _ = sender(broker.url)
        async with tasks, at_work(tmp_path, broker.url, "-w", workers) as process:
            assert await (await add.q(2, 3)).result(timeout=WAIT_S) == 5
            process.send_signal(number)
            status = await asyncio.wait_for(process.wait(), WAIT_S)

    log = (tmp_path / "log").read_text()
    assert status == 0, log
    assert "Traceback" not in log


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_function_that_does_not_end_does_not_keep_it(tmp_path: Path, workers: str) -> None:
    """It runs in a thread, which nothing can stop; its task is handed back."""
    begun = tmp_path / "begun"
    async with Broker(log_level="error") as broker:
        tasks, _, block = sender(broker.url)
        options = ("-w", workers, "--grace", "0.1")
        async with tasks, at_work(tmp_path, broker.url, *options) as process:
            await block.q(str(begun))
            await until(begun.exists)
            process.send_signal(signal.SIGTERM)
            # Less than after what a worker process is killed.
            status = await asyncio.wait_for(process.wait(), 8)
            client = await (await tasks.link()).client()
            left = await client.stats("tasks")

    assert status == 0, (tmp_path / "log").read_text()
    assert left.ready == 1
