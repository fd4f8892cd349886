"""C: librabbitmq, and the tools of the command line that are built on it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from interop.support.behaviours import BEHAVIOURS
from interop.support.names import unique_name
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
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")
PACKAGES = "install the packages librabbitmq-dev and amqp-tools"
pytestmark = pytest.mark.timeout(BUILD_AND_RUN_S)


@pytest.fixture(scope="session")
def report(url: str, blocked_url: str | None) -> Report:
    assert Path("/usr/include/amqp.h").exists(), PACKAGES
    program = build_folder("c") / "program"
    command(["gcc", *FLAGS, "-o", program, *SOURCES.glob("*.c"), "-lrabbitmq"], within=SOURCES)
    return run_program("c", [program], url=url, blocked_url=blocked_url)


def test_program_ends_well(report: Report) -> None:
    assert report.status == 0


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_librabbitmq(report: Report, behaviour: str) -> None:
    report.check(behaviour)


def tool(name: str, *words: str, url: str, text: str = "") -> subprocess.CompletedProcess[str]:
    assert shutil.which(name), PACKAGES
    address = url.removesuffix("/")  # The tools take a lone slash for a nameless virtual host.
    return subprocess.run(
        [name, f"--url={address}", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_tools_declare_publish_get_consume_and_delete(url: str) -> None:
    queue = unique_name("tools")
    declared = tool("amqp-declare-queue", "--queue", queue, "--durable", url=url)
    assert declared.stdout.strip() == queue
    for body in ("one", "two", "three"):
        sent = tool("amqp-publish", "--routing-key", queue, "--persistent", "--body", body, url=url)
        assert sent.returncode == 0, sent.stderr

    assert tool("amqp-get", "--queue", queue, url=url).stdout == "one"
    consumed = tool("amqp-consume", "--queue", queue, "--count", "2", "cat", url=url)
    assert consumed.stdout == "twothree"
    # Status 2 says that there is none.
    assert tool("amqp-get", "--queue", queue, url=url).returncode == 2
    deleted = tool("amqp-delete-queue", "--queue", queue, url=url)
    assert (deleted.returncode, deleted.stdout.strip()) == (0, "0")


def test_tools_tell_why_they_were_refused(url: str) -> None:
    refused = tool("amqp-get", "--queue", unique_name("missing"), url=url)
    assert refused.returncode == 1
    assert "server channel error 404, message: NOT_FOUND - no queue" in refused.stderr
