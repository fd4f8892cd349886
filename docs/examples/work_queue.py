"""A work queue: pictures are scaled down by workers, with retries, and the results come back.

Run a broker (`leveret serve`), some workers (`leveret worker work_queue:tasks -w 2`), then this.
"""

from __future__ import annotations

import asyncio
import sys
import time

from broker.tasks import Exponential, Retry, TaskFailed, Tasks, current

tasks = Tasks(sys.argv[1] if len(sys.argv) > 1 and "://" in sys.argv[1] else "amqp://localhost/")


@tasks.task(retry=Retry(3, Exponential(0.1), on=(OSError,)), timeout=30)
def shrink(picture: str, width: int, *, quality: int = 80) -> str:
    """A function that blocks; each worker runs as many of them at once as its concurrency says."""
    time.sleep(0.01)
    if picture == "flaky.png" and current().attempt == 1:
        raise OSError("the disk is tired")  # tried again

    if not picture.endswith(".png"):
        raise ValueError(f"{picture} is no picture")  # not tried again

    return f"{picture} at {width} pixels, quality {quality}"


async def main() -> None:
    async with tasks:
        handles = [
            await shrink.q(name, 640, quality=70) for name in ("hare.png", "flaky.png", "essay.txt")
        ]
        for handle in handles:
            try:
                print(await handle.result(timeout=30))
            except TaskFailed as problem:
                print(f"failed: {problem}")


if __name__ == "__main__":
    asyncio.run(main())
