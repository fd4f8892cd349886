"""A queue and its messages in time: TTL (section TTL) and x-expires (section Q.8)."""

from __future__ import annotations

import pytest

from tests.helpers.core import CoreClient, CoreWorld, ready_bodies

TO_GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def client(world: CoreWorld) -> CoreClient:
    return world.client()


# -- messages


@pytest.mark.parametrize(
    ("queue_ttl", "policy_ttl", "expiration", "lives_ms"),
    [
        pytest.param(None, None, "50", 50, id="message"),
        pytest.param(50, None, None, 50, id="queue"),
        pytest.param(None, 50, None, 50, id="policy"),
        pytest.param(50, None, "80", 50, id="queue-is-shorter"),
        pytest.param(80, None, "50", 50, id="message-is-shorter"),
        pytest.param(80, 50, None, 50, id="policy-is-shorter"),
        pytest.param(50, 80, "90", 50, id="argument-is-shortest"),
        pytest.param(None, None, "1", 1, id="one-millisecond"),
    ],
)
def test_the_shortest_time_to_live_counts(
    client: CoreClient,
    queue_ttl: int | None,
    policy_ttl: int | None,
    expiration: str | None,
    lives_ms: int,
) -> None:
    """Rules TTL-01, TTL-03: to the millisecond."""
    queue = client.declare_with("q", {} if queue_ttl is None else {"x-message-ttl": queue_ttl})
    if policy_ttl is not None:
        client.world.set_policy({"message-ttl": policy_ttl})

    client.publish("q", expiration=expiration)
    client.world.move(lives_ms - 1)
    assert queue.ready_count == 1
    client.world.move(1)
    assert queue.ready_count == 0
    assert queue.ready_bytes == 0


def test_only_the_head_expires(client: CoreClient) -> None:
    """Rule TTL-02: what is behind goes when it becomes the head, and is never delivered."""
    queue = client.declare("q")
    client.publish("q", b"long", expiration="500")
    client.publish("q", b"short", expiration="100")
    client.world.move(200)
    assert queue.ready_count == 2
    client.consume(queue)
    assert client.bodies() == [b"long"]
    assert queue.ready_count == 0


def test_messages_of_a_queue_expire_in_order(client: CoreClient) -> None:
    """Rule DL-14."""
    client.declare_with("q", {"x-message-ttl": 20, **TO_GRAVE})
    grave = client.declare("grave")
    for body in (b"a", b"b", b"c"):
        client.publish("q", body)

    client.world.move(20)
    assert ready_bodies(grave) == [b"a", b"b", b"c"]


def test_expiry_runs_down_from_the_highest_level(client: CoreClient) -> None:
    """Rule Q-91."""
    queue = client.declare("q", x_max_priority=2)
    client.publish("q", b"high", priority=2)
    client.publish("q", b"low", priority=0, expiration="10")
    client.world.move(50)
    assert ready_bodies(queue) == [b"high", b"low"]
    client.get(queue)
    assert client.get(queue) is None


@pytest.mark.parametrize("declared", [True, False], ids=["queue", "message"])
def test_time_zero_is_for_those_who_wait(client: CoreClient, declared: bool) -> None:
    """Rules TTL-04, CO-17: delivered at once or dead at once."""
    queue = client.declare_with("q", TO_GRAVE | ({"x-message-ttl": 0} if declared else {}))
    grave = client.declare("grave")
    expiration = None if declared else "0"
    client.publish("q", b"nobody", expiration=expiration)
    assert ready_bodies(grave) == [b"nobody"]
    client.consume(queue, prefetch=1)
    client.publish("q", b"somebody", expiration=expiration)
    client.publish("q", b"busy", expiration=expiration)
    assert client.bodies() == [b"somebody"]
    assert ready_bodies(grave) == [b"nobody", b"busy"]
    client.requeue(1)
    assert ready_bodies(grave) == [b"nobody", b"busy", b"somebody"]


def test_unacked_messages_live_on(client: CoreClient) -> None:
    """Rules TTL-07, TTL-01: given back, they expire by the deadline they had."""
    queue = client.declare("q", x_message_ttl=50)
    client.publish("q", b"a")
    client.publish("q", b"b")
    client.get(queue)
    client.world.move(30)
    client.requeue(1)
    client.get(queue)
    client.world.move(30)
    assert queue.unacked_count == 1
    client.requeue(2)
    assert queue.ready_count == 0


def test_a_get_returns_nothing_that_is_over(client: CoreClient) -> None:
    """Rule TTL-05: even when the timer has not run yet."""
    queue = client.declare("q")
    client.publish("q", b"a", expiration="10")
    client.world.node.deadlines.now_ms += 10
    assert client.get(queue) is None


def test_a_consumer_is_given_nothing_that_is_over(client: CoreClient) -> None:
    queue = client.declare("q")
    client.publish("q", b"a", expiration="10")
    client.world.node.deadlines.now_ms += 10
    client.consume(queue)
    assert client.bodies() == []


def test_a_policy_changes_only_what_comes_later(client: CoreClient) -> None:
    """Rule TTL-06."""
    queue = client.declare("q")
    client.publish("q", b"before")
    client.world.set_policy({"message-ttl": 10})
    client.publish("q", b"after")
    client.world.move(100)
    assert ready_bodies(queue) == [b"before", b"after"]
    client.get(queue)
    assert client.get(queue) is None


def test_a_message_behind_one_that_is_purged_still_expires(client: CoreClient) -> None:
    queue = client.declare("q")
    client.publish("q", expiration="100")
    assert queue.purge() == 1
    client.publish("q", expiration="50")
    client.world.move(50)
    assert queue.ready_count == 0


def test_a_message_behind_one_that_is_dropped_still_expires(client: CoreClient) -> None:
    """Rules Q-80, TTL-03: the head went for the limit, and the next one's time runs."""
    queue = client.declare("q", x_max_length=2)
    client.publish("q", b"forever")
    client.publish("q", b"brief", expiration="50")
    client.publish("q", b"at once", expiration="0")
    assert ready_bodies(queue) == [b"brief", b"at once"]
    client.world.move(50)
    assert queue.ready_count == 0


def test_a_deleted_queue_leaves_no_deadline(client: CoreClient) -> None:
    queue = client.declare("q", x_expires=1_000)
    client.publish("q", expiration="50")
    client.vhost.remove_queue(queue)
    assert client.world.node.next_deadline() is None


# -- the queue itself


def test_an_unused_queue_goes(client: CoreClient) -> None:
    """Rules Q-70, Q-72: with all it holds, without dead-lettering."""
    client.declare_with("q", {"x-expires": 100, **TO_GRAVE})
    grave = client.declare("grave")
    client.publish("q")
    client.world.move(99)
    assert "q" in client.vhost.queues
    client.world.move(1)
    assert "q" not in client.vhost.queues
    assert grave.ready_count == 0


@pytest.mark.parametrize("use", ["get", "declare", "passive"])
def test_use_begins_the_wait_anew(client: CoreClient, use: str) -> None:
    """Rules Q-70, Q-40, G-05: gets and declarations; publishing is none."""
    queue = client.declare("q", x_expires=100)
    client.world.move(60)
    if use == "get":
        client.get(queue)
    elif use == "declare":
        client.declare("q", x_expires=100)
    else:
        queue.touch()

    client.publish("q")
    client.world.move(99)
    assert "q" in client.vhost.queues
    client.world.move(1)
    assert "q" not in client.vhost.queues


def test_publishing_is_no_use(client: CoreClient) -> None:
    client.declare("q", x_expires=100)
    client.world.move(60)
    client.publish("q")
    client.world.move(40)
    assert "q" not in client.vhost.queues


def test_a_consumer_keeps_it(client: CoreClient) -> None:
    """Rule Q-70: the wait begins when the last one leaves."""
    queue = client.declare("q", x_expires=100)
    client.world.move(60)
    client.consume(queue, "a")
    client.consume(queue, "b")
    client.world.move(1_000)
    client.cancel("a")
    client.world.move(1_000)
    client.cancel("b")
    client.world.move(99)
    assert "q" in client.vhost.queues
    client.world.move(1)
    assert "q" not in client.vhost.queues


def test_a_policy_starts_and_stops_the_wait(client: CoreClient) -> None:
    """Rule PO-11. RabbitMQ: it begins when the policy comes, however long nobody came before."""
    client.declare("q")
    client.world.move(10_000)
    client.world.set_policy({"expires": 100})
    client.world.move(99)
    assert "q" in client.vhost.queues
    client.vhost.clear_policy("p")
    client.world.move(10_000)
    assert "q" in client.vhost.queues
    client.world.set_policy({"expires": 100})
    client.world.move(100)
    assert "q" not in client.vhost.queues


def test_the_shorter_of_argument_and_policy_counts(client: CoreClient) -> None:
    """Rule PO-05."""
    client.declare("q", x_expires=500)
    client.world.set_policy({"expires": 100})
    client.world.move(100)
    assert "q" not in client.vhost.queues
