"""A checkpoint of a log to which nothing was added since the last one (rule DU-01)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.store.disk import SystemDisk
from tests.helpers.stored import StoredCoreWorld

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_second_checkpoint_of_the_same_state_takes_the_place_of_the_first(
    tmp_path: Path, times: int
) -> None:
    directory = str(tmp_path / "log")
    world = StoredCoreWorld(SystemDisk(), directory)
    world.client().declare("q", durable=True)
    world.client().publish("q", b"hare", delivery_mode=2)
    for _ in range(times):
        world.checkpoint()

    world.wait(1)
    world.stop()
    queue = StoredCoreWorld(SystemDisk(), directory).queue("q")
    assert queue.ready_count == 1
