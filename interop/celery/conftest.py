"""The application, one worker for all tests that do not hurt it, and a log of what tasks did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import kombu
import pytest

from interop.celery.app import make_app
from interop.celery.worker import Worker
from interop.support.names import unique_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from celery import Celery

__all__ = ["Journal", "delete_queues"]


def delete_queues(url: str, app: Celery) -> None:
    """Leave nothing of an application's behind."""
    with kombu.Connection(url) as connection:
        for queue in app.conf.task_queues:
            channel = connection.channel()
            if not queue.auto_delete:
                channel.queue_delete(queue.name)

            channel.exchange_delete(queue.exchange.name)


@pytest.fixture(scope="session")
def app(url: str) -> Iterator[Celery]:
    """The application with results by rpc://."""
    made = make_app(url, prefix=unique_name("celery"))
    yield made
    made.close()
    delete_queues(url, made)


@pytest.fixture
def lonely_app(url: str) -> Iterator[Celery]:
    """An application of the test's own, with no worker yet."""
    made = make_app(url, prefix=unique_name("celery"))
    yield made
    made.close()
    delete_queues(url, made)


@pytest.fixture(scope="session")
def worker(app: Celery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker that lives through the session; do not kill it."""
    with Worker(app, tmp_path_factory.mktemp("worker")) as started:
        yield started


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Where tasks note what they did."""
    return Journal(tmp_path / "journal")


class Journal:
    """Reads what tasks noted, a line for each."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._path = path

    def read(self) -> list[dict[str, Any]]:
        """Return all notes so far."""
        text = self._path.read_text() if self._path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def has(self, number: int) -> bool:
        """Tell whether so many notes are there."""
        return len(self.read()) == number
