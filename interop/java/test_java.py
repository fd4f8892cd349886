"""Java: RabbitMQ's own amqp-client."""

from __future__ import annotations

import os
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
COPY_CLIENT = ("mvn", "-q", "-B", "dependency:copy-dependencies")
pytestmark = pytest.mark.timeout(BUILD_AND_RUN_S)


@pytest.fixture(scope="session")
def report(url: str, blocked_url: str | None) -> Report:
    build = build_folder("java")
    fetch_client(build)
    jars = f"{build / 'lib'}{os.sep}*"
    compiler = ["javac", "-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp", jars]
    command([*compiler, "-d", build / "classes", *SOURCES.glob("*.java")], within=SOURCES)
    classes = os.pathsep.join([str(build / "classes"), jars])
    return run_program("java", ["java", "-cp", classes, "Main"], url=url, blocked_url=blocked_url)


def fetch_client(build: Path) -> None:
    """Have Maven copy the jars, unless they are those of this very pom.xml."""
    project, done = SOURCES / "pom.xml", build / "pom.xml"
    if done.exists() and done.read_bytes() == project.read_bytes():
        return

    shutil.rmtree(build / "lib", ignore_errors=True)
    command([*COPY_CLIENT, f"-DoutputDirectory={build / 'lib'}"], within=SOURCES)
    shutil.copy(project, done)


def test_program_ends_well(report: Report) -> None:
    assert report.status == 0


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_amqp_client(report: Report, behaviour: str) -> None:
    report.check(behaviour)
