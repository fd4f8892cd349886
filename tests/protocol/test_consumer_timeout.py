"""Deliveries that nobody settles close their channel (rules MA-10, MA-12)."""

from __future__ import annotations

import pytest

from broker.core.policy import Policy
from broker.core.settings import NodeSettings
from broker.protocol.delivery_age import MARKS_MAX
from tests.helpers.session import Session, World, assert_channel_closed, publish

HALF_HOUR_MS = 1_800_000


def text_of(channel: int, timeout_ms: int) -> str:
    return (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. "
        f"Timeout value used: {timeout_ms} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )


def assert_timed_out(session: Session, channel: int = 1, timeout_ms: int = HALF_HOUR_MS) -> None:
    assert_channel_closed(session, channel, 406, text_of(channel, timeout_ms), (0, 0))


def plain(arguments: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "-"): value for name, value in arguments.items()}


def declare(session: Session, name: str = "q", /, **arguments: object) -> None:
    session.send(1, "queue.declare", queue=name, durable=True, arguments=plain(arguments))


def hold(session: Session, name: str = "q", channel: int = 1, /, **arguments: object) -> None:
    """Consume the queue, and one message of it that is then left unacked."""
    table = plain(arguments)
    session.send(channel, "basic.consume", queue=name, consumer_tag="c", arguments=table)
    session.feed(publish(channel, name))
    assert session.names()[-1] == "basic.deliver"


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("after_s", [1, 59, 60, 119])
def test_an_unsettled_delivery_closes_its_channel_after_half_an_hour(
    world: World, after_s: int, queue_type: str
) -> None:
    """Rule MA-10: at the first look at which it is older than that."""
    session = world.open(1)
    declare(session, x_queue_type=queue_type)
    world.wait(after_s)
    hold(session)
    world.wait(1_800 - 1)
    assert session.names() == []
    world.wait(61)
    assert_timed_out(session)
    assert world.vhost.queues["q"].ready_count == 1
    assert session.is_running is True


@pytest.mark.parametrize("timeout_ms", [1, 1_000, 7_000, 59_000])
def test_a_short_timeout_is_noticed_within_twice_its_time(timeout_ms: int) -> None:
    """Rule MA-10: or within two seconds."""
    world = World(NodeSettings(consumer_timeout_ms=timeout_ms))
    session = world.open(1)
    declare(session)
    hold(session)
    world.wait(timeout_ms / 1000 - 0.001)
    assert session.names() == []
    world.wait(max(timeout_ms / 1000, 2.0) + 0.001)
    assert_timed_out(session, timeout_ms=timeout_ms)


def test_other_channels_go_on(world: World) -> None:
    session = world.open(1, 2)
    declare(session)
    declare(session, "other")
    hold(session, "q", 2)
    world.wait(900)
    hold(session, "other")
    world.wait(961)
    assert_timed_out(session, 2)
    world.wait(900)
    assert_timed_out(session, 1)


def test_what_is_settled_in_time_counts_no_more(world: World) -> None:
    """Rule A-12: only the oldest is looked at, and each has its own time."""
    session = world.open(1)
    declare(session)
    hold(session)
    for tag in range(1, 6):
        world.wait(1_700)
        session.feed(publish(1, "q"))
        assert session.names() == ["basic.deliver"]
        session.send(1, "basic.ack", delivery_tag=tag)

    assert session.names() == []
    world.wait(1_861)
    assert_timed_out(session)


def test_deliveries_of_basic_get_count_too(world: World) -> None:
    session = world.open(1)
    declare(session)
    session.feed(publish(1, "q"))
    session.send(1, "basic.get", queue="q")
    session.heard()
    world.wait(1_861)
    assert_timed_out(session)


def test_deliveries_without_acknowledgement_do_not(world: World) -> None:
    session = world.open(1)
    declare(session)
    session.send(1, "basic.consume", queue="q", consumer_tag="c", no_ack=True)
    session.feed(publish(1, "q"))
    session.heard()
    world.wait(4_000)
    assert session.names() == []


@pytest.mark.parametrize(
    ("node_ms", "argument_ms", "policy_ms", "consumer_ms", "used_ms"),
    [
        pytest.param(120_000, None, None, None, 120_000, id="node"),
        pytest.param(120_000, 240_000, None, None, 240_000, id="argument-replaces-node"),
        pytest.param(120_000, None, 240_000, None, 240_000, id="policy-replaces-node"),
        pytest.param(120_000, 300_000, 240_000, None, 240_000, id="policy-is-lower"),
        pytest.param(120_000, 180_000, 240_000, None, 180_000, id="argument-is-lower"),
        pytest.param(120_000, 180_000, 240_000, 600_000, 600_000, id="consumer-wins"),
        pytest.param(120_000, None, None, 1_000, 1_000, id="consumer-asks-for-less"),
        pytest.param(0, 180_000, None, None, 180_000, id="argument-without-node"),
        pytest.param(0, None, None, None, 0, id="none"),
        pytest.param(120_000, 0, None, None, 0, id="argument-disables"),
        pytest.param(120_000, None, None, 0, 0, id="consumer-disables"),
    ],
)
def test_the_timeout_is_of_the_consumer_the_queue_or_the_node(
    node_ms: int,
    argument_ms: int | None,
    policy_ms: int | None,
    consumer_ms: int | None,
    used_ms: int,
) -> None:
    """Rule MA-12."""
    world = World(NodeSettings(consumer_timeout_ms=node_ms))
    session = world.open(1)
    queue = {"x_queue_type": "quorum", "x_consumer_timeout": argument_ms}
    declare(session, **{key: value for key, value in queue.items() if value is not None})
    if policy_ms is not None:
        world.vhost.set_policy(Policy("p", "", {"consumer-timeout": policy_ms}))

    hold(session, **({} if consumer_ms is None else {"x_consumer_timeout": consumer_ms}))
    if used_ms == 0:
        world.wait(86_400)
        assert session.names() == []
    else:
        world.wait(used_ms / 1000 - 1)
        assert session.names() == []
        world.wait(62)
        assert_timed_out(session, timeout_ms=used_ms)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param("abc", '"expected integer, got longstr"', id="text"),
        pytest.param(True, '"expected integer, got bool"', id="boolean"),
        pytest.param(-1, "{value_negative,-1}", id="negative"),
    ],
)
def test_a_consumer_of_a_quorum_queue_cannot_ask_for_any_timeout(
    world: World, value: object, fault: str
) -> None:
    """Rule CO-08, as RabbitMQ 4.3 answers."""
    session = world.open(1)
    declare(session, x_queue_type="quorum")
    table = {"x-consumer-timeout": value}
    session.send(1, "basic.consume", queue="q", arguments=table)
    text = f"invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': {fault}"
    assert_channel_closed(session, 1, 406, f"PRECONDITION_FAILED - {text}", (60, 20))


def test_very_long_timeouts_are_kept_with_few_notes() -> None:
    """A day is 1,440 looks; what is remembered of them is bounded, and the time still told."""
    world = World(NodeSettings(consumer_timeout_ms=86_400_000))
    session = world.open(1)
    declare(session)
    hold(session)
    world.wait(86_399)
    assert session.names() == []
    assert session.connection.ages.mark_count <= MARKS_MAX
    world.wait(86_400 / MARKS_MAX * 4)
    assert_timed_out(session, timeout_ms=86_400_000)


def test_a_closed_connection_is_watched_no_more(world: World) -> None:
    session = world.open(1)
    declare(session)
    hold(session)
    session.lose()
    world.wait(4_000)
    assert world.node.next_deadline() is None


def test_a_connection_that_only_publishes_is_not_watched(world: World) -> None:
    session = world.open(1)
    declare(session)
    session.feed(publish(1, "q"))
    assert world.node.next_deadline() is None


def test_a_connection_without_anything_unacked_is_watched_no_more(world: World) -> None:
    session = world.open(1)
    declare(session)
    hold(session)
    session.send(1, "basic.ack", delivery_tag=1)
    session.send(1, "basic.cancel", consumer_tag="c")
    world.wait(60)
    assert world.node.next_deadline() is None
