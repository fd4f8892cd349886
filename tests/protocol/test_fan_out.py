"""A little input that makes much of itself: wide fan-outs, webs of exchanges, transactions.

A publish of fifty octets to 5,000 queues is 700 kilobytes in them, and one read holds thousands of
such: without a pause between them the memory alarm would have no chance to stop it.
"""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Final

from broker.core.queue.queue import Queue
from broker.limits import COPIES_PER_TURN_MAX, FAN_OUT_WIDE, UNCOMMITTED_PER_CHANNEL_MAX
from tests.helpers.session import World, assert_channel_closed, header, method, publish

if TYPE_CHECKING:
    from tests.helpers.session import Session

QUEUES: Final = 500
COPY_BYTES_MAX: Final = 200
"""What one more queue may cost for a message that others have too."""

TO_ALL: Final = method(1, "basic.publish", exchange="amq.fanout") + header(1, 0)


def wide_world(count: int) -> tuple[World, Session]:
    world = World()
    session = world.open(1, 2)
    for number in range(count):
        session.send(1, "queue.declare", queue=f"q{number}")
        session.send(1, "queue.bind", queue=f"q{number}", exchange="amq.fanout")

    session.take_bytes()
    return world, session


def copies_in(world: World) -> int:
    return sum(int(queue.ready_count) for queue in world.vhost.queues.values())


def test_wide_publishes_of_one_read_leave_turns_to_others() -> None:
    world, session = wide_world(QUEUES)
    session.send(1, "confirm.select")
    session.take_bytes()
    publishes = 3 * COPIES_PER_TURN_MAX // QUEUES + 5
    session.connection.receive_data(TO_ALL * publishes + method(2, "queue.delete", queue="q0"))
    assert COPIES_PER_TURN_MAX <= copies_in(world) < COPIES_PER_TURN_MAX + QUEUES
    assert session.link.is_paused
    assert world.node.wants_turn()

    # Nothing is lost, and all of it comes in its order.
    world.settle()
    assert not session.link.is_paused
    assert copies_in(world) == publishes * (QUEUES - 1)
    assert set(session.names()) == {"basic.ack", "queue.delete-ok"}


def test_the_memory_alarm_has_its_say_between_them() -> None:
    world, session = wide_world(QUEUES)
    session.connection.receive_data(TO_ALL * (10 * COPIES_PER_TURN_MAX // QUEUES))
    world.node.set_alarm("memory", True)
    world.settle()
    # Rule MA-02: it is the first content under the alarm that blocks.
    assert copies_in(world) <= COPIES_PER_TURN_MAX + QUEUES
    assert session.connection.is_blocked

    world.node.set_alarm("memory", False)
    world.settle()
    assert copies_in(world) == 10 * COPIES_PER_TURN_MAX
    assert not session.connection.is_blocked


def test_a_wide_publish_that_comes_in_pieces_under_an_alarm_blocks_its_connection() -> None:
    """Rule MA-02, and it is the others' turn besides."""
    world, session = wide_world(FAN_OUT_WIDE + 1)
    output = session.connection.output
    output.copies = COPIES_PER_TURN_MAX - 1
    world.node.set_alarm("memory", True)
    session.feed(publish(1, "", b"x" * 10, exchange="amq.fanout"))
    assert session.connection.is_blocked
    world.node.set_alarm("memory", False)
    world.settle()
    assert copies_in(world) == FAN_OUT_WIDE + 1


def test_narrow_publishes_go_on_as_before() -> None:
    world, session = wide_world(FAN_OUT_WIDE)
    session.connection.receive_data(TO_ALL * (2 * COPIES_PER_TURN_MAX // FAN_OUT_WIDE))
    assert not session.link.is_paused
    assert copies_in(world) == 2 * COPIES_PER_TURN_MAX


def test_a_large_body_is_kept_once_for_all_queues() -> None:
    world, session = wide_world(2_000)
    data = publish(1, "", b"x" * 100_000, exchange="amq.fanout")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        session.feed(data)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert copies_in(world) == 2_000
    assert after - before < 2 * len(data) + 2_000 * COPY_BYTES_MAX


def test_a_web_of_exchanges_brings_each_queue_one_copy() -> None:
    """Rules E-70, E-71: a million ways through twenty levels, and a way back to the first."""
    world = World()
    session = world.open(1)
    levels = [[f"{level}{side}" for side in "ab"] for level in range(20)]
    names = [name for level in levels for name in level]
    for name in names:
        session.send(1, "exchange.declare", exchange=name, type="fanout")

    for above, below in zip(levels, [*levels[1:], levels[0]], strict=True):
        for source in above:
            for destination in below:
                session.send(1, "exchange.bind", source=source, destination=destination)

    session.send(1, "queue.declare", queue="q")
    for name in names:
        session.send(1, "queue.bind", queue="q", exchange=name)

    session.feed(method(1, "basic.publish", exchange="0a") + header(1, 0))
    queue = world.vhost.queues["q"]
    assert isinstance(queue, Queue)
    assert queue.ready_count == 1


def test_a_transaction_counts_every_queue_that_a_publish_reaches() -> None:
    world, session = wide_world(QUEUES)
    session.ask(1, "tx.select")
    allowed = (UNCOMMITTED_PER_CHANNEL_MAX - 1) // QUEUES + 1
    session.feed(TO_ALL * allowed)
    assert session.names() == []
    session.feed(TO_ALL)
    text = (
        f"PRECONDITION_FAILED - transaction too large: more than {UNCOMMITTED_PER_CHANNEL_MAX} "
        "uncommitted publishes and acknowledgements on one channel"
    )
    assert_channel_closed(session, 1, 406, text, (60, 40))
    assert copies_in(world) == 0
