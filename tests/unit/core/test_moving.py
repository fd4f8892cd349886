"""Moving messages from a queue to other places, and looking at queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.browsing import Browser
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import (
    BindingRequest,
    bind,
    declare_exchange,
    delete_exchange,
)
from broker.core.message import content_body
from broker.core.moving import Mover, MoveTarget
from broker.core.queue_commands import delete_queue
from broker.store.disk import SystemDisk
from tests.helpers.core import ready_bodies
from tests.helpers.stored import StoredCoreWorld

if TYPE_CHECKING:
    from pathlib import Path

    from broker.core.moving import Wanted


def world_with(directory: str, count: int) -> StoredCoreWorld:
    world = StoredCoreWorld(SystemDisk(), directory)
    client = world.client()
    client.declare("a", durable=True)
    client.declare("b", durable=True)
    for number in range(count):
        client.publish("a", b"%d" % number, delivery_mode=2)

    world.write()
    return world


TO_B = MoveTarget(queue="b")


def mover(world: StoredCoreWorld, wanted: Wanted | None = None, target: MoveTarget = TO_B) -> Mover:
    actor = world.node.own_actor(world.vhost)
    return Mover(world.vhost, actor, world.queue("a"), target, wanted=wanted, count_max=100)


@pytest.mark.parametrize("is_safe", [False, True])
def test_a_kill_in_the_middle_neither_loses_nor_doubles_a_message(
    tmp_path: Path, is_safe: bool
) -> None:
    directory = str(tmp_path / "log")
    world = world_with(directory, 6)
    mover(world).step(4)
    if is_safe:
        world.write()

    world.abandon()
    again = StoredCoreWorld(SystemDisk(), directory)
    left, moved = ready_bodies(again.queue("a")), ready_bodies(again.queue("b"))
    assert sorted(left + moved) == [b"%d" % number for number in range(6)]
    assert len(moved) == (4 if is_safe else 0)


def test_what_is_held_back_is_in_a_checkpoint(tmp_path: Path) -> None:
    """Messages that were passed over are as unacked as those that a client has."""
    directory = str(tmp_path / "log")
    world = world_with(directory, 4)
    moving = mover(world, lambda message: content_body(message.content) in (b"1", b"3"))
    moving.step(3)
    world.checkpoint()
    world.abandon()
    again = StoredCoreWorld(SystemDisk(), directory)
    assert ready_bodies(again.queue("a")) == [b"0", b"2", b"3"]
    assert ready_bodies(again.queue("b")) == [b"1"]


def test_counts_of_deliveries_are_as_if_nothing_had_been_taken(tmp_path: Path) -> None:
    world = world_with(str(tmp_path / "log"), 4)
    queue = world.queue("a")
    moving = mover(world, lambda message: content_body(message.content) == b"1")
    moving.step(100)
    moving.finish()
    assert ready_bodies(queue) == [b"0", b"2", b"3"]
    assert (queue.get_count, queue.ack_count, queue.redeliver_count) == (0, 0, 0)
    assert (queue.ready_count, queue.unacked_count) == (3, 0)
    assert (moving.moved, moving.passed, moving.total) == (1, 3, 4)
    assert moving.is_done


def test_messages_that_come_meanwhile_are_left_alone(tmp_path: Path) -> None:
    world = world_with(str(tmp_path / "log"), 2)
    moving = mover(world)
    moving.step(1)
    world.client().publish("a", b"late", delivery_mode=2)
    moving.step(100)
    assert moving.is_done
    assert ready_bodies(world.queue("a")) == [b"late"]


def test_a_queue_that_is_deleted_ends_its_move(tmp_path: Path) -> None:
    world = world_with(str(tmp_path / "log"), 3)
    before = list(world.vhost.deliveries)
    moving = mover(world, lambda _message: False)
    moving.step(1)
    world.vhost.remove_queue(world.queue("a"))
    moving.step(1)
    moving.finish()
    assert moving.is_done
    assert moving.lost == "the queue"
    assert list(world.vhost.deliveries) == before


@pytest.mark.parametrize(
    ("target", "lost"),
    [
        pytest.param(MoveTarget(queue="b"), "the destination 'b'", id="a queue"),
        pytest.param(MoveTarget(exchange="x"), "the exchange 'x'", id="an exchange"),
    ],
)
def test_a_move_to_what_is_deleted_ends_and_leaves_the_rest_where_it_was(
    tmp_path: Path, target: MoveTarget, lost: str
) -> None:
    world = world_with(str(tmp_path / "log"), 4)
    vhost = world.vhost
    actor = world.node.own_actor(vhost)
    declare_exchange(vhost, actor, ExchangeSettings("x", "fanout", True, False, False, {}))
    bind(vhost, actor, BindingRequest("x", "b", True, "", {}))
    moving = mover(world, lambda message: content_body(message.content) != b"0", target=target)
    moving.step(2)
    assert ready_bodies(world.queue("b")) == [b"1"]
    delete_queue(vhost, actor, "b", if_unused=False, if_empty=False)
    delete_exchange(vhost, actor, "x", if_unused=False)

    moving.step(100)
    moving.finish()
    assert (moving.is_done, moving.lost) == (True, lost)
    assert (moving.moved, moving.refused, moving.passed) == (1, 0, 1)
    assert ready_bodies(world.queue("a")) == [b"0", b"2", b"3"]
    assert world.queue("a").unacked_count == 0


def test_a_move_that_is_over_has_lost_nothing(tmp_path: Path) -> None:
    world = world_with(str(tmp_path / "log"), 2)
    moving = mover(world)
    moving.step(100)
    assert (moving.is_done, moving.lost) == (True, "")


def test_a_browser_goes_on_where_it_was_while_messages_leave(tmp_path: Path) -> None:
    world = world_with(str(tmp_path / "log"), 5)
    queue = world.queue("a")
    browser = Browser(queue)
    assert browser.skip(1) == 1
    assert [content_body(one.content) for one in browser.take(2)] == [b"1", b"2"]
    queue.purge()
    assert [content_body(one.content) for one in browser.take(9)] == [b"3", b"4"]
    assert browser.take(9) == []
    assert Browser(queue).take(9) == []
