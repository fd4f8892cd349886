"""A checkpoint tells of the messages of a queue in serving order (rule DU-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.store.disk import SystemDisk
from tests.helpers.session import publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from pathlib import Path

PERSISTENT = b"\x10\x00\x02"
"""Delivery mode 2."""


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_came_after_a_restart_stands_behind_what_was_there(tmp_path: Path, kind: str) -> None:
    for body in (b"first", b"second", b"third"):
        world = StoredWorld(SystemDisk(), str(tmp_path))
        client = world.open(1)
        client.send(1, "queue.declare", queue="q", durable=True, arguments={"x-queue-type": kind})
        client.feed(publish(1, "q", body, PERSISTENT))
        world.checkpoint()
        world.abandon()

    client = StoredWorld(SystemDisk(), str(tmp_path)).open(1)
    for body in (b"first", b"second", b"third"):
        client.send(1, "basic.get", queue="q", no_ack=True)
        assert client.heard()[-1].body == body
