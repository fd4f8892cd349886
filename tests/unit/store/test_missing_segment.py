"""A segment that is gone with messages in it is told of at the start, and not when they are due."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from broker.errors import StoreError
from broker.store.disk import SystemDisk
from tests.helpers.session import publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from pathlib import Path

PERSISTENT = b"\x10\x00\x02"
"""Delivery mode 2."""


def test_a_missing_segment_older_than_the_checkpoint_is_told(tmp_path: Path) -> None:
    world = StoredWorld(SystemDisk(), str(tmp_path))
    client = world.open(1)
    client.send(1, "queue.declare", queue="q", durable=True)
    client.feed(publish(1, "q", b"hare", PERSISTENT))
    world.checkpoint()
    world.abandon()
    (tmp_path / "00000001.log").unlink()
    with pytest.raises(StoreError, match=r"00000001\.log is missing, with 1 messages"):
        StoredWorld(SystemDisk(), str(tmp_path))


def test_a_segment_that_was_cut_between_two_batches_is_told(tmp_path: Path) -> None:
    """Nothing in the file itself says that there was more."""
    world = StoredWorld(SystemDisk(), str(tmp_path))
    client = world.open(1)
    client.send(1, "queue.declare", queue="q", durable=True)
    path = tmp_path / "00000001.log"
    client.feed(publish(1, "q", b"hare", PERSISTENT))
    size = int(world.log.segments[1].size)
    client.feed(publish(1, "q", b"leveret", PERSISTENT))
    world.checkpoint()
    world.abandon()
    os.truncate(path, size)
    with pytest.raises(StoreError, match=rf"00000001\.log is cut short at offset {size}:"):
        StoredWorld(SystemDisk(), str(tmp_path))


@pytest.mark.parametrize("name", ["²³.log", "1.log", "000000009.log", "9.checkpoint", "x.log"])
def test_files_of_other_names_are_left_alone(tmp_path: Path, name: str) -> None:
    StoredWorld(SystemDisk(), str(tmp_path)).abandon()
    (tmp_path / name).write_bytes(b"hare")
    StoredWorld(SystemDisk(), str(tmp_path)).abandon()
    assert (tmp_path / name).read_bytes() == b"hare"
