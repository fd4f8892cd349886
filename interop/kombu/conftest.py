"""Connections and names for the kombu suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import kombu
import pytest

from interop.support.names import unique_name

NameMaker = Callable[[str], str]


@pytest.fixture
def connection(url: str) -> Iterator[kombu.Connection]:
    """A connected connection."""
    with kombu.Connection(url) as opened:
        opened.connect()
        yield opened


@pytest.fixture
def make_name(url: str) -> Iterator[NameMaker]:
    """Make names of queues and exchanges; what bears them is deleted after the test."""
    made: list[str] = []

    def make(kind: str) -> str:
        made.append(unique_name(kind))
        return made[-1]

    yield make
    if made:
        with kombu.Connection(url) as cleaner, cleaner.channel() as channel:
            for name in made:
                channel.queue_delete(name)
                channel.exchange_delete(name)
