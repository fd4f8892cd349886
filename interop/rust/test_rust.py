"""Rust: lapin on tokio."""

from __future__ import annotations

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
    build = build_folder("rust")
    command(["cargo", "build", "--quiet", "--target-dir", build], within=SOURCES)
    program = build / "debug" / "leveret-interop-rust"
    return run_program("rust", [program], url=url, blocked_url=blocked_url)


def test_program_ends_well(report: Report) -> None:
    assert report.status == 0


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_lapin(report: Report, behaviour: str) -> None:
    report.check(behaviour)
