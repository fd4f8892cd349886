"""A start on a long log says how far it is, whatever of the log is in the checkpoint."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from broker.store import replay
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    import pytest

PERSISTENT = b"\x10\x00\x02"
"""Delivery mode 2."""


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "PROGRESS_BYTES", 100_000)
    disk = FakeDisk(Random(1))
    world = StoredWorld(disk, "/log")
    client = world.open(1)
    client.send(1, "queue.declare", queue="q", durable=True)
    for _ in range(5):
        client.feed(publish(1, "q", bytes(50_000), PERSISTENT))

    world.stop()
    later = StoredWorld(disk, "/log")
    told = [fields["bytes"] for event, fields in later.logged if event == "store.reading"]
    assert len(set(told)) == len(told) == 2
