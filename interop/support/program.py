"""Builds and runs a client program of another language, and reads what it prints.

A program takes the broker's address from INTEROP_URL, and from INTEROP_BLOCKED_URL that of a broker
that is low on memory, where there is one. It prints `client NAME VERSION`, `broker PRODUCT VERSION`
and a line for each behaviour; its exit status is 0 when none failed. Everything that is built lies
below .build/interop, and so does the result of each program, as one JSON object in a file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from interop.support.behaviours import BEHAVIOURS
from interop.support.process import COMMAND_VARIABLE, BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["BUILD_AND_RUN_S", "Report", "blocked_url", "build_folder", "command", "run_program"]

BUILD_AND_RUN_S: Final = 1800
"""The first build on a fresh machine fetches and compiles the client; later ones do nothing."""

RUN_S: Final = 180
CACHE: Final = Path(__file__).resolve().parents[2] / ".build" / "interop"
SHORT_OF_MEMORY: Final = "version: 1\nalarms: {memory: {limit: 1MiB}}\n"
LINE: Final = re.compile(r"(ok|skipped|FAILED) (\w+)(?:: (.*))?")


class Line(NamedTuple):
    verdict: str
    why: str


class Report:
    """What one run of a program said."""

    def __init__(self, output: str, status: int) -> None:
        self.status = status
        self.client = _word_after("client", output)
        self.broker = _word_after("broker", output)
        self.lines = {
            match.group(2): Line(match.group(1), match.group(3) or "")
            for match in map(LINE.fullmatch, output.splitlines())
            if match
        }

    def check(self, behaviour: str) -> None:
        """Raise, or skip the test, unless the behaviour is reported as it should be."""
        line = self.lines.get(behaviour)
        if line is None:
            pytest.fail(f"the program says nothing of {behaviour}")

        if line.verdict == "skipped":
            pytest.skip(line.why)

        assert line.verdict == "ok", line.why

    def summary(self) -> dict[str, object]:
        """Return one row of a table of clients."""
        verdicts = [line.verdict for line in self.lines.values()]
        return {
            "client": self.client,
            "broker": self.broker,
            "ok": verdicts.count("ok"),
            "skipped": {name: self.lines[name].why for name in sorted(self._names("skipped"))},
            "failed": sorted(set(BEHAVIOURS) - self._names("ok") - self._names("skipped")),
        }

    def _names(self, verdict: str) -> set[str]:
        return {name for name, line in self.lines.items() if line.verdict == verdict}


def build_folder(language: str) -> Path:
    """Return where to build the program of the language; not in the tree of sources."""
    folder = CACHE / "programs" / language
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def command(words: Sequence[str | Path], *, within: Path, **settings: str) -> None:
    """Run one step of a build; skip the tests where the machine lacks the tool for it."""
    tool = str(words[0])
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}, which is not on this machine")

    step = subprocess.run(
        [str(word) for word in words],
        cwd=within,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert step.returncode == 0, f"{tool} ended with {step.returncode}:\n{step.stdout}"


def run_program(
    language: str, words: Sequence[str | Path], *, url: str, blocked_url: str | None
) -> Report:
    """Run the program that has been built, show what it prints and keep its result."""
    settings = {**os.environ, "INTEROP_URL": url}
    settings.pop("INTEROP_BLOCKED_URL", None)
    if blocked_url is not None:
        settings["INTEROP_BLOCKED_URL"] = blocked_url

    run = subprocess.run(
        [str(word) for word in words],
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    sys.stdout.write(run.stdout)
    report = Report(run.stdout, run.returncode)
    results = CACHE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{language}.json").write_text(json.dumps(report.summary()) + "\n")
    return report


@pytest.fixture(scope="session")
def blocked_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """A broker with less memory than it needs to stand still; none where --url was given."""
    serve = os.environ.get(COMMAND_VARIABLE)
    if serve is None:
        yield None
        return

    config = tmp_path_factory.mktemp("blocked") / "leveret.yaml"
    config.write_text(SHORT_OF_MEMORY)
    with BrokerProcess(serve, arguments=(str(config),)) as process:
        yield process.url


def _word_after(word: str, output: str) -> str:
    match = re.search(rf"^{word} (.+)$", output, re.MULTILINE)
    return match.group(1) if match else ""
