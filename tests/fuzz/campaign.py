"""Several targets one after the other, each in a process of its own, within one time.

Invariant: a target that fails ends the turn of that target alone; what it leaves of the time goes
to those behind it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Outcome", "Turn", "run_campaign", "summary_of"]

ROOT: Final = Path(__file__).resolve().parents[2]

COUNTS: Final = (
    re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE),
    re.compile(r"^\w+: (\d+) inputs in ", re.MULTILINE),
)
"""How atheris and our own engine say how many inputs they have tried."""

ARTIFACT: Final = re.compile(r"(\.build/fuzz/\S+/(?:crash|timeout|oom|leak)-[0-9a-f]+)")


class Turn(NamedTuple):
    """What one process is to do."""

    target: str
    seconds: int
    seed: int
    engine: str

    @property
    def command(self) -> list[str]:
        options = ["--seconds", str(self.seconds), "--seed", str(self.seed)]
        module = [sys.executable, "-m", "tests.fuzz", self.target]
        return [*module, *options, "--engine", self.engine]


class Outcome(NamedTuple):
    """What came of a turn.

    Attributes:
        target: its name.
        inputs: how many it was tried with; None where that was not told.
        seconds: how long it took.
        status: of the process.
        findings: files with inputs that it failed on.

    """

    target: str
    inputs: int | None
    seconds: float
    status: int
    findings: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return self.status == 0 and not self.findings


def run_campaign(
    targets: Sequence[str],
    seconds: int,
    *,
    seed: int,
    engine: str,
    run: Callable[[Turn], tuple[int, str]] | None = None,
) -> list[Outcome]:
    """Try all of them.

    Args:
        targets: their names.
        seconds: for all together.
        seed: of the changes.
        engine: what looks for inputs.
        run: does one turn, and tells its status and what it wrote.

    """
    end_s = time.monotonic() + seconds
    outcomes = []
    for place, target in enumerate(targets):
        began_s = time.monotonic()
        share = max(1, round((end_s - began_s) / (len(targets) - place)))
        status, text = (run or _run)(Turn(target, share, seed, engine))
        took_s = time.monotonic() - began_s
        outcomes.append(outcome_of(target, status, text, took_s))

    return outcomes


def outcome_of(target: str, status: int, text: str, seconds: float) -> Outcome:
    """Read what an engine has written."""
    counts = [match[1] for form in COUNTS for match in form.finditer(text)]
    findings = tuple(dict.fromkeys(ARTIFACT.findall(text)))
    return Outcome(target, int(counts[-1]) if counts else None, seconds, status, findings)


def summary_of(outcomes: Sequence[Outcome]) -> str:
    """A line for each target."""
    width = max(len(one.target) for one in outcomes)
    lines = []
    for one in outcomes:
        inputs = "not told" if one.inputs is None else f"{one.inputs:,}"
        verdict = "no findings" if one.is_good else " ".join(one.findings) or f"exit {one.status}"
        lines.append(f"{one.target:{width}}  {inputs:>12} inputs {one.seconds:7.0f} s  {verdict}\n")

    return "".join(lines)


def _run(turn: Turn) -> tuple[int, str]:
    """Do a turn, and let it be seen."""
    # Where the folder that one is in does not count, the tree comes behind what is installed.
    path = [one for one in (os.environ.get("PYTHONPATH"), str(ROOT)) if one]
    process = subprocess.Popen(
        turn.command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    lines: list[str] = []
    with process.stderr as stream:
        for line in stream:
            sys.stderr.write(line)
            lines.append(line)

    return process.wait(), "".join(lines)
