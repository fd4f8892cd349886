"""Connections and names for the pika suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pika
import pytest

from interop.support.names import unique_name

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

NameMaker = Callable[[str], str]


@pytest.fixture
def parameters(url: str) -> pika.URLParameters:
    """Parameters that a test may change before it connects."""
    return pika.URLParameters(url)


@pytest.fixture
def connection(parameters: pika.URLParameters) -> Iterator[pika.BlockingConnection]:
    """A blocking connection, closed after the test if the test has not done it."""
    opened = pika.BlockingConnection(parameters)
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """A channel without confirms."""
    return connection.channel()


@pytest.fixture
def make_name(url: str) -> Iterator[NameMaker]:
    """Make names of queues and exchanges; what bears them is deleted after the test."""
    made: list[str] = []

    def make(kind: str) -> str:
        made.append(unique_name(kind))
        return made[-1]

    yield make
    if made:
        with pika.BlockingConnection(pika.URLParameters(url)) as cleaner:
            channel = cleaner.channel()
            for name in made:
                channel.queue_delete(name)
                channel.exchange_delete(name)
