"""Runs a long trial: ``python -m tests.crash --rounds 50``. See scripts/soak."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.crash.trial import ENDS, Trial, say


async def run(trial: Trial, random: Random, rounds: int, ends: list[str]) -> None:
    """Rounds of all kinds."""
    for place in range(rounds):
        end = random.choice(ends or [*ENDS, "kill", "kill"])
        kills = random.choice((0, 0, 0, 1, 2))
        if random.random() < 0.2 and place:
            trial.move_directory()

        say(f"round {place + 1}: {kills} kills at start, {end}; {trial.summary()}")
        await trial.round(end, seconds=random.uniform(0.05, 2), kills_at_start=kills)

    await trial.finish()
    say(f"all there: {trial.summary()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/soak crash")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=Random().randrange(10**6))
    parser.add_argument("--body-bytes-max", type=int, default=2_000)
    parser.add_argument("--end", action="append", choices=[*ENDS], help="the default is any")
    parser.add_argument("--directory", type=Path, help="is kept; the default is a fresh one")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="leveret-crash-") as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        trial = Trial(directory, options.seed, body_bytes_max=options.body_bytes_max)
        try:
            asyncio.run(run(trial, Random(options.seed), options.rounds, options.end))
        except AssertionError as fault:
            say(f"{fault}\nafter {trial.summary()}")
            sys.exit(1)


if __name__ == "__main__":
    main()
