"""Command line of ``scripts/soak tasks``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from broker.embedded import Broker
from tests.task_chaos.trial import TaskTrial, TickTrial

__all__ = ["main"]


def main() -> int:
    """Run what is asked for; 1 when something was lost or done twice."""
    parser = argparse.ArgumentParser(prog="soak tasks")
    parser.add_argument("what", choices=("work", "ticks"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fleet-kills", type=int, default=1)
    parser.add_argument("--guarantee", default="effectively_once")
    parser.add_argument("--url", help="another broker than one that is made for this")
    parser.add_argument("--kill-every", type=float, default=2.0, metavar="SECONDS")
    given = parser.parse_args()
    # Whatever goes wrong, what was started ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="soak-tasks-") as folder:
        if given.url:
            return _run(given, given.url, Path(folder))

        with Broker.in_thread() as broker:
            return _run(given, broker.url, Path(folder))


def _run(given: argparse.Namespace, url: str, folder: Path) -> int:
    if given.what == "ticks":
        ticks = TickTrial(
            url, folder, workers=given.workers, seed=given.seed, seconds=given.seconds
        )
        ticks.kill_every_s = given.kill_every
        count, wrong = asyncio.run(ticks.run())
        sys.stdout.write(f"{count} ticks, {len(wrong)} wrong\n" + "\n".join(wrong))
        return bool(wrong)

    work = TaskTrial(url, folder, workers=given.workers, seed=given.seed, count=given.count)
    work.kill_every_s = given.kill_every
    work.guarantee = given.guarantee
    work.fleet_kills = given.fleet_kills
    verdict = asyncio.run(work.run())
    sys.stdout.write(f"{verdict}\n" + "\n".join(verdict.notes))
    return not verdict.is_good


if __name__ == "__main__":
    sys.exit(main())
