"""Fixtures that every client's suite gets: where the broker is, and how to stop it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from interop.support.process import COMMAND_VARIABLE, BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

URL_VARIABLE = "INTEROP_URL"


def pytest_configure() -> None:
    """End on SIGTERM as on an interrupt: fixtures stop the processes they have started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def url() -> str:
    """The broker of this run, which other tests use too: delete what you declare."""
    address = os.environ.get(URL_VARIABLE)
    if address is None:
        pytest.fail(f"run me through scripts/interop (it sets {URL_VARIABLE})")

    return address


@pytest.fixture
def broker_command() -> str:
    """The command that serves; the test is skipped when the run has none."""
    command = os.environ.get(COMMAND_VARIABLE)
    if command is None:
        pytest.skip("needs a broker that can be stopped; --url names one that is not ours")

    return command


@pytest.fixture
def broker_process(broker_command: str) -> Iterator[BrokerProcess]:
    """A broker of this test's own, which it may stop and start again."""
    with BrokerProcess(broker_command) as process:
        yield process
