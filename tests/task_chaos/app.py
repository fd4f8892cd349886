"""The application under test. What it does is counted in a SQLite file, by effects or by hand."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3

from broker.tasks import Fixed, MemoryOnce, Retry, SqliteOnce, Tasks, current

__all__ = ["RESULT", "run", "tasks", "tick"]

URL = os.environ.get("TASK_CHAOS_URL", "amqp://guest:guest@localhost/")
DATABASE = os.environ.get("TASK_CHAOS_DATABASE", "")
NAME = os.environ.get("TASK_CHAOS_NAME", "task-chaos")
GUARANTEE = os.environ.get("TASK_CHAOS_GUARANTEE", "effectively_once")
IS_TICKING = "TASK_CHAOS_TICKS" in os.environ

RESULT = 3
"""What is multiplied with a task's number for its result."""

IS_ONCE = GUARANTEE == "effectively_once"
tasks = Tasks(
    URL,
    name=NAME,
    guarantee="effectively_once" if IS_ONCE else "at_least_once",
    once=SqliteOnce(DATABASE) if DATABASE else MemoryOnce(),
)


class Hiccup(Exception):
    """What some tasks raise in their first attempt."""


def _write(statement: str, *arguments: object) -> None:
    with sqlite3.connect(DATABASE, timeout=30) as database:
        database.execute(statement, arguments)


@tasks.task(name="chaos.run", retry=Retry(10, Fixed(0.05), on=(Hiccup,)))
async def run(number: int) -> int:
    """Do something that must happen once, in a moment in which anything can happen."""
    running = current()
    await asyncio.to_thread(_write, "INSERT INTO started VALUES (?)", number)
    await asyncio.sleep(random.uniform(0, 0.01))
    if number % 97 == 0 and running.attempt == 1:
        raise Hiccup

    if IS_ONCE:
        running.effect("INSERT INTO done VALUES (?)", number)
    else:
        await asyncio.to_thread(_write, "INSERT INTO done VALUES (?)", number)

    return number * RESULT


async def _tick() -> None:
    """Say which tick this is."""
    await asyncio.to_thread(_write, "INSERT INTO ticks VALUES (?)", current().id)


tick = (
    tasks.every(1, name="chaos.tick", missed="all", guarantee="at_least_once")(_tick)
    if IS_TICKING
    else None
)
