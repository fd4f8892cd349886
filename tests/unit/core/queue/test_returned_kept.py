"""What was given back is in the checkpoint, whichever place it has gone back to (rule A-05)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.store.disk import SystemDisk
from tests.helpers.session import publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from pathlib import Path

PERSISTENT = b"\x18\x00\x02\x01"
"""Delivery mode 2, priority 1."""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="classic"),
        pytest.param({"x-max-priority": 5}, id="priorities"),
        pytest.param({"x-queue-type": "quorum"}, id="quorum"),
    ],
)
def test_messages_given_back_are_in_the_checkpoint(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    world = StoredWorld(SystemDisk(), str(tmp_path))
    client = world.open(1)
    client.send(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    for number in range(4):
        client.feed(publish(1, "q", b"hare %d" % number, PERSISTENT))

    for tag in (1, 2):
        client.send(1, "basic.get", queue="q")
        client.send(1, "basic.reject", delivery_tag=tag, requeue=True)

    world.checkpoint()
    world.abandon()
    world = StoredWorld(SystemDisk(), str(tmp_path))
    bodies = [world.vhost.queues["q"].take(no_ack=True) for _ in range(4)]
    assert len([one for one in bodies if one is not None]) == 4


def test_bytes_of_a_message_given_back_are_counted_once(tmp_path: Path) -> None:
    world = StoredWorld(SystemDisk(), str(tmp_path))
    client = world.open(1)
    arguments = {"x-queue-type": "quorum"}
    client.send(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    for _ in range(2):
        client.feed(publish(1, "q", b"ten octets", PERSISTENT))

    client.send(1, "basic.get", queue="q")
    client.send(1, "basic.reject", delivery_tag=1, requeue=True)
    world.abandon()
    world = StoredWorld(SystemDisk(), str(tmp_path))
    queue = world.vhost.queues["q"]
    assert (int(queue.ready_count), int(queue.ready_bytes)) == (2, 20)
