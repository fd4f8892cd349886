"""``python -m tests.simulation.soak NAME``: run a simulation with very many seeds.

What fails is told at once, with the way to run it again; the exit status says whether any did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from typing import Final

from tests.helpers.small import SMALL, homes_of_bounds
from tests.simulation.crash import CrashSimulation
from tests.simulation.simulation import Simulation

CHUNK_SEEDS: Final = 20
TELL_S: Final = 10.0
TESTS: Final = {"crash": "test_crash.py", "clients": "test_simulation.py"}


def main() -> int:
    options = _parse_options()
    seeds = range(options.first, options.first + options.seeds)
    chunks = [
        (options.name, start, min(start + CHUNK_SEEDS, seeds.stop))
        for start in range(seeds.start, seeds.stop, CHUNK_SEEDS)
    ]
    begun_s = told_s = time.monotonic()
    done = failed = 0
    with multiprocessing.Pool(options.jobs, _prepare) as pool:
        for count, failures in pool.imap_unordered(_run, chunks):
            done += count
            failed += len(failures)
            for failure in failures:
                _tell(failure)

            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                rate = done / (told_s - begun_s)
                _tell(f"{done} of {len(seeds)} seeds, {rate:.0f} a second, {failed} failed")

            if failed and options.exit_first:
                break

    _tell(f"{done} seeds in {time.monotonic() - begun_s:.0f} s, {failed} failed")
    return 1 if failed else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/soak simulation",
        description=(__doc__ or "").partition(": ")[2].partition("\n")[0],
    )
    parser.add_argument("name", choices=TESTS)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first one (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once (%(default)s)")
    parser.add_argument("--exit-first", action="store_true", help="end with the first that fails")
    return parser.parse_args()


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _prepare() -> None:
    for module, name in homes_of_bounds():
        setattr(module, name, SMALL[name])


def _run(chunk: tuple[str, int, int]) -> tuple[int, list[str]]:
    """Run some seeds; returns how many, and what is wrong with those that failed."""
    name, start, stop = chunk
    simulation = CrashSimulation if name == "crash" else Simulation
    failures: list[str] = []
    for seed in range(start, stop):
        try:
            simulation(seed).run()
        except Exception as error:
            again = f"SEED={seed} scripts/test --plain tests/simulation/{TESTS[name]}"
            failures.append(f"{again}\n    {type(error).__name__}: {error}")

    return stop - start, failures


if __name__ == "__main__":
    sys.exit(main())
