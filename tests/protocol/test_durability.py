"""What outlives the broker, and when that is said (sections DU, CF-06, TX-05)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.policy import Policy
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import Session, method, publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    World = Callable[..., StoredWorld]

PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"


@pytest.fixture
def world() -> World:
    """Makes worlds, one after the other, with the same log."""
    disk = FakeDisk(Random(0))

    def make(**options: Any) -> StoredWorld:
        return StoredWorld(disk, "/log", **options)

    return make


def declare(session: Session, queue: str, **options: object) -> None:
    session.feed(method(1, "queue.declare", queue=queue, **options))
    assert session.names()[-1] == "queue.declare-ok"


def drain(session: Session, queue: str) -> list[tuple[bytes, bool]]:
    """Bodies, and whether they were delivered before."""
    found: list[tuple[bytes, bool]] = []
    while True:
        session.feed(method(1, "basic.get", queue=queue, no_ack=True))
        heard = session.heard()[-1]
        if heard.name == "basic.get-empty":
            return found

        found.append((heard.body, heard.arguments["redelivered"] is True))


def end(world: StoredWorld, *, cleanly: bool) -> None:
    assert world.bugs == []
    if cleanly:
        world.stop()
    else:
        world.abandon()


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize(
    ("queue_type", "properties", "survives"),
    [
        ("classic", PERSISTENT, True),
        ("classic", TRANSIENT, False),
        ("classic", b"\x00\x00", False),
        ("quorum", PERSISTENT, True),
        ("quorum", TRANSIENT, True),
    ],
)
def test_which_messages_survive(
    world: World, queue_type: str, properties: bytes, survives: bool, cleanly: bool
) -> None:
    """The table of section DU, and DU-02: after a clean end what was not delivered is as new."""
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True, arguments={"x-queue-type": queue_type})
    for number in range(3):
        session.feed(publish(1, "q", b"%d" % number, properties))

    end(first, cleanly=cleanly)

    second = world()
    expected = [(b"%d" % number, not cleanly) for number in range(3)] if survives else []
    assert drain(second.open(1), "q") == expected


@pytest.mark.parametrize("cleanly", [True, False])
def test_what_was_unacked_returns_to_its_place_as_redelivered(world: World, cleanly: bool) -> None:
    """DU-02, DU-03."""
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True)
    for number in range(4):
        session.feed(publish(1, "q", b"%d" % number, PERSISTENT))

    session.feed(method(1, "basic.get", queue="q") * 3)
    session.feed(method(1, "basic.ack", delivery_tag=2))
    end(first, cleanly=cleanly)

    second = world()
    assert drain(second.open(1), "q") == [(b"0", True), (b"2", True), (b"3", not cleanly)]


@pytest.mark.parametrize("cleanly", [True, False])
def test_what_is_declared_survives_if_it_is_durable(world: World, cleanly: bool) -> None:
    """DU: queues, exchanges, bindings, policies; DU-05, DU-06."""
    first = world()
    session = first.open(1)
    declare(session, "lasting", durable=True, auto_delete=True)
    declare(session, "passing")
    declare(session, "own", durable=True, exclusive=True)
    for name, durable in (("e-lasting", True), ("e-passing", False)):
        session.feed(method(1, "exchange.declare", exchange=name, type="topic", durable=durable))
        session.feed(
            method(
                1,
                "queue.bind",
                queue="lasting",
                exchange=name,
                routing_key="a.#",
                arguments={"n": 1},
            )
        )

    session.feed(method(1, "queue.bind", queue="lasting", exchange="amq.fanout"))
    session.feed(method(1, "queue.bind", queue="lasting", exchange="amq.direct", routing_key="k"))
    session.feed(method(1, "queue.unbind", queue="lasting", exchange="amq.direct", routing_key="k"))
    first.vhost.set_policy(Policy("p", "^lasting$", {"max-length": 7}))
    first.vhost.set_policy(Policy("gone", "^x$", {"max-length": 7}))
    first.vhost.clear_policy("gone")
    first.settle()
    end(first, cleanly=cleanly)

    second = world()
    assert set(second.vhost.queues) == {"lasting"}
    queue = second.vhost.queues["lasting"]
    assert queue.auto_delete
    assert queue.settings.length_max == 7
    assert [policy.name for policy in second.vhost.policies.policies] == ["p"]
    assert "e-lasting" in second.vhost.exchanges
    assert "e-passing" not in second.vhost.exchanges
    sources = sorted((one.source.name, one.routing_key) for one in queue.incoming)
    assert sources == [("amq.fanout", ""), ("e-lasting", "a.#")]
    session = second.open(1)
    session.feed(publish(1, "a.b", b"1", PERSISTENT, exchange="e-lasting"))
    session.feed(publish(1, "", b"2", PERSISTENT, exchange="amq.fanout"))
    session.feed(publish(1, "lasting", b"3", PERSISTENT))
    assert [body for body, _ in drain(session, "lasting")] == [b"1", b"2", b"3"]


def test_a_deleted_queue_stays_deleted_and_a_new_one_of_its_name_is_empty(world: World) -> None:
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True)
    session.feed(publish(1, "q", b"old", PERSISTENT))
    session.feed(method(1, "queue.delete", queue="q"))
    declare(session, "q", durable=True)
    session.feed(publish(1, "q", b"new", PERSISTENT))
    end(first, cleanly=False)

    second = world()
    assert [body for body, _ in drain(second.open(1), "q")] == [b"new"]


def test_a_purged_queue_keeps_what_is_unacked(world: World) -> None:
    """Q-55."""
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True)
    for number in range(5):
        session.feed(publish(1, "q", b"%d" % number, PERSISTENT))

    session.feed(method(1, "basic.get", queue="q"))
    session.feed(method(1, "queue.purge", queue="q"))
    session.feed(publish(1, "q", b"later", PERSISTENT))
    end(first, cleanly=False)

    second = world()
    assert [body for body, _ in drain(second.open(1), "q")] == [b"0", b"later"]


def test_a_confirm_leaves_when_its_batch_is_safe(world: World) -> None:
    """CF-06, CF-08: what is persistent waits for the disk, what is transient does not."""
    one = world(is_prompt=False)
    session = one.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    assert session.names() == []
    one.write()
    assert session.names() == ["queue.declare-ok"]
    session.feed(method(1, "confirm.select"))
    session.heard()
    session.feed(publish(1, "q", b"1", PERSISTENT))
    session.feed(publish(1, "q", b"2", TRANSIENT))
    session.feed(publish(1, "q", b"3", PERSISTENT))
    assert [(one.name, one.arguments["delivery_tag"]) for one in session.heard()] == [
        ("basic.ack", 2)
    ]
    one.write()
    acked = [(one.arguments["delivery_tag"], one.arguments["multiple"]) for one in session.heard()]
    assert acked == [(1, False), (3, False)]


def test_nobody_is_read_from_while_the_disk_does_not_keep_up(world: World) -> None:
    """MA-07."""
    one = world(is_prompt=False)
    session = one.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    one.write()
    session.feed(method(1, "confirm.select"))
    session.heard()
    for _ in range(50):
        session.feed(publish(1, "q", bytes(1_000_000), PERSISTENT))

    queue = one.vhost.queues["q"]
    assert 33 <= queue.ready_count <= 36
    assert one.journal.pending_bytes < 36_000_000
    assert session.link.is_paused
    one.write()
    assert not session.link.is_paused
    one.write()
    assert queue.ready_count == 50
    confirmed = [heard.arguments["delivery_tag"] for heard in session.heard()]
    assert confirmed[-1] == 50


def test_a_commit_is_answered_when_it_is_safe_and_holds_as_a_whole(world: World) -> None:
    """TX-05."""
    one = world(is_prompt=False)
    session = one.open(1)
    for queue in ("a", "b"):
        session.feed(method(1, "queue.declare", queue=queue, durable=True))
        one.write()

    session.feed(method(1, "tx.select"))
    session.heard()
    session.feed(publish(1, "a", b"1", PERSISTENT) + publish(1, "b", b"2", PERSISTENT))
    session.feed(method(1, "tx.commit"))
    assert session.names() == []
    one.write()
    assert session.names() == ["tx.commit-ok"]
    session.feed(publish(1, "a", b"never", PERSISTENT))
    one.abandon()

    second = world()
    session = second.open(1)
    assert [body for body, _ in drain(session, "a")] == [b"1"]
    assert [body for body, _ in drain(session, "b")] == [b"2"]


def test_a_message_settled_before_its_batch_is_handed_over_is_never_written(world: World) -> None:
    one = world(is_prompt=False)
    session = one.open(1)
    session.feed(method(1, "queue.declare", queue="q", durable=True))
    one.write()
    session.feed(method(1, "confirm.select"))
    session.heard()
    session.feed(
        publish(1, "q", b"gone", PERSISTENT)
        + method(1, "basic.get", queue="q", no_ack=True)
        + publish(1, "q", b"here", PERSISTENT)
    )
    one.write()
    assert session.names() == ["basic.get-ok", "basic.ack"]
    assert sum(segment.total for segment in one.log.segments.values()) == 1


@pytest.mark.parametrize("cleanly", [True, False])
def test_what_a_message_carries_survives(world: World, cleanly: bool) -> None:
    """DU-04: time to live, priority, x-death; delivery count of quorum queues (QQ-04)."""
    first = world()
    session = first.open(1)
    declare(session, "dead", durable=True)
    dlx = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(session, "q", durable=True, arguments={"x-message-ttl": 5_000, **dlx})
    declare(session, "p", durable=True, arguments={"x-max-priority": 5})
    declare(session, "qq", durable=True, arguments={"x-queue-type": "quorum"})
    session.feed(publish(1, "q", b"rejected", PERSISTENT))
    session.feed(method(1, "basic.get", queue="q"))
    session.feed(method(1, "basic.reject", delivery_tag=1, requeue=False))
    session.feed(publish(1, "q", b"expires", PERSISTENT))
    session.feed(publish(1, "p", b"low", b"\x18\x00\x02\x01"))
    session.feed(publish(1, "p", b"high", b"\x18\x00\x02\x04"))
    session.feed(publish(1, "qq", b"back", PERSISTENT))
    session.feed(method(1, "basic.get", queue="qq"))
    session.feed(method(1, "basic.nack", delivery_tag=2, requeue=True))
    session.heard()
    end(first, cleanly=cleanly)

    second = world()
    session = second.open(1)
    assert [body for body, _ in drain(session, "p")] == [b"high", b"low"]
    session.feed(method(1, "basic.get", queue="dead"))
    heard = session.heard()[0]
    assert heard.body == b"rejected"
    assert b"x-death" in heard.properties
    session.feed(method(1, "basic.get", queue="qq"))
    assert b"x-delivery-count" in session.heard()[0].properties
    second.wait(6)
    assert drain(session, "q") == []
    assert [body for body, _ in drain(session, "dead")] == [b"expires"]


def test_a_delayed_message_survives_and_is_routed_when_it_is_due(world: World) -> None:
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True)
    session.feed(
        method(
            1,
            "exchange.declare",
            exchange="later",
            type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "direct"},
        )
    )
    session.feed(method(1, "queue.bind", queue="q", exchange="later", routing_key="k"))
    headers = b"\x07x-delayI" + (10_000).to_bytes(4, "big")
    properties = b"\x30\x00" + len(headers).to_bytes(4, "big") + headers + b"\x02"
    session.feed(publish(1, "k", b"later", properties, exchange="later"))
    end(first, cleanly=False)

    second = world()
    session = second.open(1)
    assert drain(session, "q") == []
    second.wait(11)
    assert [body for body, _ in drain(session, "q")] == [b"later"]
    end(second, cleanly=False)
    assert drain(world().open(1), "q") == []


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("count", [4_096, 4_097, 10_000])
def test_a_deep_queue_keeps_its_order_on_disk(world: World, count: int, cleanly: bool) -> None:
    first = world()
    session = first.open(1)
    declare(session, "q", durable=True)
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        session.feed(b"".join(publish(1, "q", b"%d" % one, PERSISTENT) for one in numbers))

    queue = first.vhost.queues["q"]
    assert len(queue.hot_messages()) <= 4_200
    assert queue.ready_count == count
    end(first, cleanly=cleanly)

    second = world()
    queue = second.vhost.queues["q"]
    assert queue.hot_messages() == []
    assert queue.ready_count == count
    assert queue.ready_bytes == sum(len(b"%d" % one) for one in range(count))
    assert [int(body) for body, _ in drain(second.open(1), "q")] == list(range(count))


def test_transient_messages_go_to_the_disk_when_memory_is_short(world: World) -> None:
    one = world()
    session = one.open(1)
    declare(session, "q")
    declare(session, "lasting", durable=True)
    for number in range(3_000):
        session.feed(publish(1, "q", b"%d" % number, TRANSIENT))
        session.feed(publish(1, "lasting", b"%d" % number, (PERSISTENT, TRANSIENT)[number % 2]))

    one.node.memory_is_short()
    for _ in range(4):
        one.journal.mark_dirty()
        one.settle()

    for name in ("q", "lasting"):
        queue = one.vhost.queues[name]
        assert len(queue.hot_messages()) <= 256
        assert queue.ready_count == 3_000

    assert [int(body) for body, _ in drain(session, "q")] == list(range(3_000))
    end(one, cleanly=True)

    second = world()
    assert set(second.vhost.queues) == {"lasting"}
    left = [int(body) for body, _ in drain(second.open(1), "lasting")]
    assert left == list(range(0, 3_000, 2))


def test_space_comes_back_when_a_queue_is_emptied(world: World) -> None:
    one = world(segment_bytes=256 * 1024)
    session = one.open(1)
    declare(session, "q", durable=True)
    declare(session, "straggler", durable=True)
    session.feed(publish(1, "straggler", b"here", PERSISTENT))
    for _ in range(80):
        session.feed(publish(1, "q", bytes(100_000), PERSISTENT))

    session.feed(publish(1, "straggler", b"there", PERSISTENT))
    grown = sum(segment.size for segment in one.log.segments.values())
    session.feed(method(1, "queue.purge", queue="q"))
    one.checkpoint()
    one.wait(5)
    one.write()
    left = sum(segment.size for segment in one.log.segments.values())
    assert grown > 8_000_000
    assert left < 100_000
    end(one, cleanly=False)

    assert [body for body, _ in drain(world().open(1), "straggler")] == [b"here", b"there"]


def test_a_deep_queue_that_is_drained_leaves_little(world: World) -> None:
    """What a checkpoint costs is reckoned anew: the last one told of thousands of messages."""
    one = world()
    session = one.open(1)
    declare(session, "q", durable=True)
    for _ in range(300):
        session.feed(publish(1, "q", b"", PERSISTENT) * 500)

    one.checkpoint()
    session.feed(method(1, "queue.purge", queue="q"))
    for _ in range(20):
        session.feed(publish(1, "q", bytes(300), PERSISTENT) * 250)

    drain(session, "q")
    one.wait(5)
    one.write()
    assert sum(segment.size for segment in one.log.segments.values()) < 1_100_000
