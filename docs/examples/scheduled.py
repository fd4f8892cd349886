"""Scheduled jobs: every few seconds, by a cron expression, in a while, at a moment.

Run a broker (`leveret serve`) and as many workers as you like
(`leveret worker scheduled:tasks`): each tick happens once. Then run this for the other two.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from broker.tasks import Tasks, current

tasks = Tasks(sys.argv[1] if len(sys.argv) > 1 and "://" in sys.argv[1] else "amqp://localhost/")


@tasks.every(1)
async def look_around() -> None:
    """Once a second, whatever number of workers there are."""
    print("looking around, tick", current().id.partition("@")[2])


@tasks.every("0 6 * * mon-fri", tz="Europe/Berlin", overlap="skip", missed="last")
async def wake_up() -> None:
    """At six on working days, on Berlin's clocks; once, if it was missed; never two at a time."""
    print("good morning")


@tasks.task
async def remind(text: str) -> str:
    return f"remember: {text}"


async def main() -> None:
    async with tasks:
        soon = await remind.sched(delay=0.2)("the carrots")
        later = await remind.later(datetime.now(UTC) + timedelta(seconds=0.4), "the lettuce")
        print(await soon.result(timeout=30))
        print(await later.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
