"""Node.js: amqplib's promises."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interop.support.behaviours import BEHAVIOURS
from interop.support.program import (
    BUILD_AND_RUN_S,
    Report,
    blocked_url,
    build_folder,
    command,
    run_program,
)

__all__ = ["blocked_url"]

SOURCES = Path(__file__).parent
pytestmark = pytest.mark.timeout(BUILD_AND_RUN_S)


@pytest.fixture(scope="session")
def report(url: str, blocked_url: str | None) -> Report:
    build = build_folder("node")
    locked = (SOURCES / "package-lock.json").read_bytes()
    installed = build / "package-lock.json"
    is_stale = not installed.exists() or installed.read_bytes() != locked
    for source in SOURCES.glob("*.mjs"):
        shutil.copy(source, build)

    if is_stale:
        for name in ("package.json", ".npmrc"):
            shutil.copy(SOURCES / name, build)

        shutil.copy(SOURCES / "package-lock.json", build)
        command(["npm", "ci", "--no-audit", "--no-fund"], within=build)

    return run_program("node", ["node", build / "main.mjs"], url=url, blocked_url=blocked_url)


def test_program_ends_well(report: Report) -> None:
    assert report.status == 0


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_amqplib(report: Report, behaviour: str) -> None:
    report.check(behaviour)
