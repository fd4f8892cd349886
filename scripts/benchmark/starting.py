"""Scenarios of how fast it is there: as a program, as a module, within another program."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from scripts.benchmark.brokers import environment_of
from scripts.benchmark.client import BrokerError
from scripts.benchmark.measurement import Measurement, Options

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running

__all__ = ["run_embedded_start", "run_import", "run_start"]

LIMIT_S: Final = 60.0
RUNS: Final = 5

_IMPORT: Final = """
import time
begin = time.perf_counter()
import {module}
print(time.perf_counter() - begin)
"""
_EMBEDDED: Final = """
import asyncio, time
from broker.embedded import Broker

async def main():
    begin = time.perf_counter()
    async with Broker():
        print(time.perf_counter() - begin)

asyncio.run(main())
"""


def run_start(running: Running, options: Options) -> list[Measurement]:
    """From exec to the first accepted connection."""
    assert running.start_s is not None
    return [Measurement("start", running.start_s * 1e3, "ms")]


def run_import(running: Running, options: Options) -> list[Measurement]:
    """``import broker`` in a fresh interpreter, and what a program needs that runs a broker."""
    return [
        Measurement(name, _seconds(running, _IMPORT.format(module=module)) * 1e3, "ms")
        for name, module in (("import", "broker"), ("import-embedded", "broker.embedded"))
    ]


def run_embedded_start(running: Running, options: Options) -> list[Measurement]:
    """``async with Broker()`` in a program that has imported it and runs a loop."""
    return [Measurement("embedded", _seconds(running, _EMBEDDED) * 1e3, "ms")]


def _seconds(running: Running, program: str) -> float:
    """What a program says about itself: the middle one of a few runs."""
    assert running.source is not None
    found = []
    for _ in range(RUNS):
        done = subprocess.run(
            [running.python, "-c", program],
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment_of(running.source),
        )
        if done.returncode:
            raise BrokerError(f"the program failed: {done.stderr.strip()[-500:]}")

        found.append(float(done.stdout))

    return sorted(found)[RUNS // 2]
