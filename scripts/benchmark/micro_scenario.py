"""Runs the micro-benchmarks of a build in a process of its own, timed or counted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.benchmark.brokers import ROOT, environment_of
from scripts.benchmark.client import BrokerError
from scripts.benchmark.measurement import Measurement, Options

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running

__all__ = ["instruction_counter", "run_instructions", "run_micro"]

LIMIT_S: Final = 600.0
INSTRUCTIONS_SCALE: Final = 0.01
"""Counting is exact but fifty times slower than running: a few operations are enough."""
_MARK: Final = "getppid"


def run_micro(running: Running, options: Options) -> list[Measurement]:
    """Nanoseconds of each operation."""
    found = _run(running, [], options.scale)
    return [_measurement(entry, entry["nanoseconds"], "ns") for entry in found]


def run_instructions(running: Running, options: Options) -> list[Measurement]:
    """Machine instructions of each operation: they do not vary with what else the machine does."""
    if instruction_counter() == "none":
        raise BrokerError("instructions cannot be counted: there is no valgrind")

    # The counters of the processor could be read by perf stat for a whole process only; valgrind
    # writes its count down, and starts anew, whenever a given function is entered.
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as folder:
        tool = [
            "valgrind",
            "--tool=callgrind",
            "--cache-sim=no",
            f"--dump-before={_MARK}",
            f"--callgrind-out-file={folder}/out",
        ]
        found = _run(running, tool, min(options.scale, 1.0) * INSTRUCTIONS_SCALE)
        counts = _counts(Path(folder))

    # Marks come in pairs: what was counted up to the second of each is the operations'.
    wanted = counts[1::2]
    if len(wanted) < len(found):
        raise BrokerError(f"{len(counts)} counts for {len(found)} operations")

    return [
        _measurement(entry, count / int(str(entry["operations"])), "instructions")
        for entry, count in zip(found, wanted, strict=False)
    ]


def instruction_counter() -> str:
    """What counts instructions here: ``valgrind`` or ``none``."""
    return "valgrind" if shutil.which("valgrind") else "none"


def _measurement(entry: dict[str, object], value: object, unit: str) -> Measurement:
    name = f"{entry['name']} ({entry['knob']})"
    suffix = "" if unit == "ns" else f" {unit}"
    return Measurement(name + suffix, float(str(value)), unit, size=int(str(entry["value"])))


def _run(running: Running, tool: list[str], scale: float) -> list[dict[str, object]]:
    assert running.source is not None
    environment = environment_of(running.source)
    # The benchmark's own modules come from the checkout, the broker's from the build.
    environment["PYTHONPATH"] = f"{running.source}:{ROOT}"
    environment["PYTHONHASHSEED"] = "0"
    command = [running.python, "-m", "scripts.benchmark.micro", "--scale", str(scale)]
    done = subprocess.run(
        [*tool, *command, *(["--marked"] if tool else [])],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
    )
    if done.returncode:
        raise BrokerError(f"the micro-benchmarks failed: {done.stderr.strip()[-500:]}")

    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def _counts(folder: Path) -> list[int]:
    """The instructions of each part, in the order in which they ran."""
    parts = sorted(folder.glob("out.*"), key=lambda path: int(path.suffix[1:]))
    found = [
        re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE) for path in parts
    ]
    return [int(match.group(1)) for match in found if match is not None]
