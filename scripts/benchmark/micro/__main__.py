"""Run by the benchmark in the interpreter and with the build that are measured; prints JSON."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from scripts.benchmark.micro import queues, routes, store, wire

if TYPE_CHECKING:
    from scripts.benchmark.micro.knob import Micro

MICROS: Final = (*wire.MICROS, *routes.MICROS, *queues.MICROS, *store.MICROS)
SAMPLES: Final = 5
OPERATIONS_MIN: Final = 100
MARKED_VALUE_MAX: Final = 20_000
"""A tool that counts instructions would prepare more than this for minutes."""


def main() -> int:
    """Time each micro-benchmark at each value of its knob."""
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmark.micro")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument(
        "--marked",
        action="store_true",
        help="run each once, between two calls of getppid(2) that a tool can recognise",
    )
    given = parser.parse_args()
    found = [
        _measure(micro, value, given.scale, is_marked=given.marked)
        for micro in MICROS
        if given.only in micro.name
        for value in micro.values
        if not given.marked or value <= MARKED_VALUE_MAX
    ]
    json.dump(found, sys.stdout)
    return 0


def _measure(micro: Micro, value: int, scale: float, *, is_marked: bool) -> dict[str, object]:
    wanted = max(OPERATIONS_MIN, round(micro.operations * scale))
    nanoseconds: list[float] = []
    operations = 0
    if is_marked:
        # What a first run builds once is not what an operation costs.
        micro.prepare(value, OPERATIONS_MIN)()

    for _ in range(1 if is_marked else SAMPLES):
        act = micro.prepare(value, wanted)
        # What was prepared is not looked through again and again; what the operations leave is.
        gc.collect()
        gc.freeze()
        if is_marked:
            os.getppid()

        begin = time.perf_counter_ns()
        operations = act()
        nanoseconds.append((time.perf_counter_ns() - begin) / operations)
        if is_marked:
            os.getppid()

    return {
        "name": micro.name,
        "knob": micro.knob,
        "value": value,
        "operations": operations,
        # The fastest: everything that disturbs makes it slower.
        "nanoseconds": min(nanoseconds),
    }


if __name__ == "__main__":
    sys.exit(main())
