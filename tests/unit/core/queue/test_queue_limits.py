"""Length limits, overflow and priorities of a queue (sections Q.9 and Q.10)."""

from __future__ import annotations

import pytest

from tests.helpers.core import CoreClient, CoreWorld, ready_bodies


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def fill(client: CoreClient, *bodies: bytes) -> None:
    for body in bodies:
        client.publish("q", body)


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        pytest.param({"x-max-length": 2}, [b"ccc", b"dddd"], id="count"),
        pytest.param({"x-max-length-bytes": 8}, [b"ccc", b"dddd"], id="bytes"),
        pytest.param({"x-max-length-bytes": 7}, [b"ccc", b"dddd"], id="bytes-exactly"),
        pytest.param({"x-max-length-bytes": 6}, [b"dddd"], id="bytes-less-by-one"),
        pytest.param({"x-max-length-bytes": 3}, [], id="too-large-alone"),
        pytest.param({"x-max-length": 3, "x-max-length-bytes": 7}, [b"ccc", b"dddd"], id="both"),
        pytest.param({"x-max-length": 1, "x-max-length-bytes": 99}, [b"dddd"], id="either"),
        pytest.param({"x-max-length": 0}, [], id="none-at-all"),
        pytest.param({"x-max-length": 2, "x-overflow": "drop-head"}, [b"ccc", b"dddd"], id="named"),
        pytest.param({"x-max-length": 2, "x-overflow": "reject-publish"}, [b"a", b"bb"], id="rej"),
        pytest.param(
            {"x-max-length-bytes": 6, "x-overflow": "reject-publish"},
            [b"a", b"bb", b"ccc"],
            id="reject-bytes",
        ),
        pytest.param(
            {"x-max-length": 2, "x-overflow": "reject-publish-dlx"}, [b"a", b"bb"], id="reject-dlx"
        ),
    ],
)
def test_what_is_left_of_four(
    client: CoreClient, arguments: dict[str, object], left: list[bytes]
) -> None:
    """Rules Q-80, Q-83: of a, bb, ccc, dddd."""
    queue = client.declare_with("q", arguments)
    fill(client, b"a", b"bb", b"ccc", b"dddd")
    assert ready_bodies(queue) == left
    assert queue.ready_count == len(left)
    assert queue.ready_bytes == sum(map(len, left))


@pytest.mark.parametrize(
    ("overflow", "confirms"),
    [
        pytest.param("drop-head", [("ack", 2, True)], id="drop-head"),
        pytest.param("reject-publish", [("ack", 1, False), ("nack", 2, False)], id="reject"),
        pytest.param("reject-publish-dlx", [("ack", 1, False), ("nack", 2, False)], id="dlx"),
    ],
)
def test_the_publisher_is_told(
    client: CoreClient, overflow: str, confirms: list[tuple[str, int, bool]]
) -> None:
    """Rules Q-83, CF-07; dropping the head is no refusal."""
    client.declare_with("q", {"x-max-length": 1, "x-overflow": overflow})
    client.confirm_select()
    fill(client, b"a", b"b")
    assert client.confirmed() == confirms


def test_one_refusal_of_several_queues_is_a_nack(client: CoreClient) -> None:
    """Rule CF-07: the others have it all the same."""
    client.declare_with("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    queue = client.declare("q")
    client.confirm_select()
    client.publish("q", headers={"CC": ["full"]})
    assert client.confirmed() == [("nack", 1, True)]
    assert queue.ready_count == 1


def test_a_waiting_consumer_gets_it_whatever_the_limit(client: CoreClient) -> None:
    """Rule Q-81."""
    queue = client.declare_with("q", {"x-max-length": 0})
    client.consume(queue, prefetch=1)
    fill(client, b"a", b"b")
    assert client.bodies() == [b"a"]
    assert queue.ready_count == 0


def test_a_refusal_comes_before_a_waiting_consumer(client: CoreClient) -> None:
    """Rule Q-83."""
    queue = client.declare_with("q", {"x-max-length": 0, "x-overflow": "reject-publish"})
    client.consume(queue)
    fill(client, b"a")
    assert client.bodies() == []


def test_unacked_messages_do_not_count(client: CoreClient) -> None:
    """Rules Q-80, Q-83."""
    queue = client.declare_with("q", {"x-max-length": 1, "x-overflow": "reject-publish"})
    fill(client, b"a")
    client.get(queue)
    fill(client, b"b")
    assert ready_bodies(queue) == [b"b"]


@pytest.mark.parametrize(
    ("overflow", "left"),
    [
        pytest.param("drop-head", [b"c", b"d"], id="drop-head"),
        pytest.param("reject-publish", [b"a", b"b", b"c", b"d"], id="reject-publish"),
        pytest.param("reject-publish-dlx", [b"a", b"b", b"c", b"d"], id="reject-publish-dlx"),
    ],
)
def test_requeueing_over_the_limit(client: CoreClient, overflow: str, left: list[bytes]) -> None:
    """Rule Q-82. RabbitMQ: a queue that refuses publishes drops nothing that it once took."""
    queue = client.declare_with("q", {"x-max-length": 2, "x-overflow": overflow})
    fill(client, b"a", b"b")
    client.get(queue)
    client.get(queue)
    fill(client, b"c", b"d")
    client.requeue(1, 2)
    assert ready_bodies(queue) == left


def test_dropped_messages_die_of_maxlen(client: CoreClient) -> None:
    """Rules Q-80, Q-84."""
    grave = client.declare("grave")
    for overflow in ("drop-head", "reject-publish-dlx", "reject-publish"):
        arguments: dict[str, object] = {
            "x-max-length": 1,
            "x-overflow": overflow,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "grave",
        }
        client.declare_with(overflow, arguments)
        client.publish(overflow, b"old " + overflow.encode())
        client.publish(overflow, b"new " + overflow.encode())

    assert ready_bodies(grave) == [b"old drop-head", b"new reject-publish-dlx"]
    for message in grave.ready.messages():
        assert message.history is not None
        assert message.history.entries[0].reason == "maxlen"


def test_a_policy_applies_its_limit_at_once(client: CoreClient) -> None:
    """Rules Q-86, PO-11; cleared, it drops no more."""
    queue = client.declare("q")
    fill(client, b"a", b"b", b"c")
    client.world.set_policy({"max-length": 2})
    assert ready_bodies(queue) == [b"b", b"c"]
    client.vhost.clear_policy("p")
    fill(client, b"d")
    assert ready_bodies(queue) == [b"b", b"c", b"d"]


def test_a_policy_that_refuses_drops_nothing(client: CoreClient) -> None:
    queue = client.declare("q")
    fill(client, b"a", b"b", b"c")
    client.world.set_policy({"max-length": 1, "overflow": "reject-publish"})
    fill(client, b"d")
    assert ready_bodies(queue) == [b"a", b"b", b"c"]


# -- priorities


def test_priorities_are_served_first(client: CoreClient) -> None:
    """Rule Q-90; the property is delivered as it was sent."""
    queue = client.declare("q", x_max_priority=4)
    fill(client, b"none")
    for priority in (1, 9, 4, 1):
        client.publish("q", b"%d" % priority, priority=priority)

    assert ready_bodies(queue) == [b"9", b"4", b"1", b"1", b"none"]
    client.get(queue)
    [heard] = client.heard()
    assert heard.properties == b"\x08\x00\x09"


def test_a_full_priority_queue_drops_the_important_first(client: CoreClient) -> None:
    """Rule Q-91: the head is the oldest of the highest level."""
    queue = client.declare("q", x_max_priority=4, x_max_length=2)
    for priority in (1, 4, 2):
        client.publish("q", b"%d" % priority, priority=priority)

    assert ready_bodies(queue) == [b"2", b"1"]


def test_prefetched_messages_are_not_preempted(client: CoreClient) -> None:
    """Rule Q-92."""
    queue = client.declare("q", x_max_priority=4)
    client.consume(queue, prefetch=1)
    client.publish("q", b"low", priority=0)
    client.publish("q", b"high", priority=4)
    assert client.bodies() == [b"low"]
    client.ack(1)
    assert client.bodies() == [b"high"]


def test_without_levels_priorities_mean_nothing(client: CoreClient) -> None:
    queue = client.declare("q")
    client.publish("q", b"low", priority=0)
    client.publish("q", b"high", priority=4)
    assert ready_bodies(queue) == [b"low", b"high"]
