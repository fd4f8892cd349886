"""A message that was given back and settled later is gone for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.store.disk import SystemDisk
from tests.helpers.session import publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from pathlib import Path

PERSISTENT = b"\x18\x00\x02\x01"
"""Delivery mode 2, priority 1."""


def test_a_message_given_back_and_settled_later_does_not_come_again(tmp_path: Path) -> None:
    """Its return stands in the log, and so does its end."""
    world = StoredWorld(SystemDisk(), str(tmp_path))
    client = world.open(1)
    client.send(1, "queue.declare", queue="q", durable=True, arguments={"x-queue-type": "quorum"})
    client.feed(publish(1, "q", b"hare", PERSISTENT))
    client.send(1, "basic.get", queue="q")
    client.send(1, "basic.reject", delivery_tag=1, requeue=True)
    client.send(1, "basic.get", queue="q")
    client.send(1, "basic.ack", delivery_tag=2)
    world.abandon()
    world = StoredWorld(SystemDisk(), str(tmp_path))
    assert world.vhost.queues["q"].ready_count == 0
