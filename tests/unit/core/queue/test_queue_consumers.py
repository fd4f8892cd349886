"""Who may consume and own a queue, and what becomes of it when they leave (Q.4, Q.7, CO)."""

from __future__ import annotations

import pytest

from broker.errors import AccessRefused
from tests.helpers.core import CoreClient, CoreWorld, ready_bodies

IN_USE = "queue 'q' in vhost '/' in exclusive use"


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


# -- exclusive consumers


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(True, False, id="one-after-an-exclusive"),
        pytest.param(True, True, id="two-exclusives"),
        pytest.param(False, True, id="an-exclusive-after-one"),
    ],
)
def test_exclusive_use_is_refused(client: CoreClient, first: bool, second: bool) -> None:
    """Rule CO-07."""
    queue = client.declare("q")
    client.consume(queue, "a", exclusive=first)
    with pytest.raises(AccessRefused) as caught:
        client.consume(queue, "b", exclusive=second)

    assert caught.value.explanation == IN_USE
    assert len(queue.consumers) == 1
    client.publish("q")
    assert [tag for tag, _ in client.tagged_bodies()] == ["a"]


def test_exclusive_use_ends_with_its_consumer(client: CoreClient) -> None:
    queue = client.declare("q")
    client.consume(queue, "a", exclusive=True)
    client.cancel("a")
    client.consume(queue, "b")
    client.consume(queue, "c")
    assert len(queue.consumers) == 2


def test_single_active_and_exclusive_do_not_go_together(client: CoreClient) -> None:
    """Rule CO-07."""
    queue = client.declare("q", x_single_active_consumer=True)
    with pytest.raises(AccessRefused):
        client.consume(queue, exclusive=True)


# -- single active consumer


@pytest.fixture
def single(client: CoreClient) -> CoreClient:
    """A client with consumers a, b and c of one single active consumer queue."""
    queue = client.declare("q", x_single_active_consumer=True)
    client.consume(queue, "a", prefetch=2)
    client.consume(queue, "b", prefetch=2, priority=-1)
    client.consume(queue, "c", prefetch=2, priority=5)
    client.consume(queue, "d", prefetch=2, priority=5)
    return client


def test_the_first_to_come_is_active(single: CoreClient) -> None:
    """Rules CO-30..CO-32: not displaced by a higher priority, nor helped out when it is full."""
    for body in (b"1", b"2", b"3"):
        single.publish("q", body)

    assert single.tagged_bodies() == [("a", b"1"), ("a", b"2")]
    single.ack(2)
    assert single.tagged_bodies() == [("a", b"3")]


def test_the_next_active_has_the_highest_priority(single: CoreClient) -> None:
    """Rules CO-30, CO-34: it goes on at once, what is unacked stays where it is."""
    for body in (b"1", b"2", b"3"):
        single.publish("q", body)

    single.cancel("a")
    assert single.tagged_bodies() == [("a", b"1"), ("a", b"2"), ("c", b"3")]
    single.cancel("c")
    single.publish("q", b"4")
    assert single.tagged_bodies() == [("d", b"4")]
    single.cancel("d")
    single.publish("q", b"5")
    assert single.tagged_bodies() == [("b", b"5")]
    single.requeue(1)
    assert single.tagged_bodies() == [("b", b"1")]


def test_one_that_waits_leaves_without_a_trace(single: CoreClient) -> None:
    single.cancel("c")
    single.publish("q", b"1")
    single.cancel("a")
    single.publish("q", b"2")
    assert single.tagged_bodies() == [("a", b"1"), ("d", b"2")]


def test_when_all_have_left_the_next_to_come_is_active(single: CoreClient) -> None:
    for tag in "abcd":
        single.cancel(tag)

    queue = single.world.queue("q")
    assert queue.active_consumer is None
    single.publish("q", b"1")
    single.consume(queue, "e")
    single.consume(queue, "f")
    single.publish("q", b"2")
    assert single.tagged_bodies() == [("e", b"1"), ("e", b"2")]


def test_anybody_may_get_from_it(single: CoreClient) -> None:
    """Rule CO-33, for classic queues."""
    for body in (b"1", b"2", b"3"):
        single.publish("q", body)

    assert single.get(single.world.queue("q")) is not None


# -- auto-delete


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: CoreClient) -> None:
    """Rules Q-60, Q-62: with all it holds, into no grave."""
    grave = client.declare("grave")
    queue = client.declare(
        "q",
        auto_delete=True,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="grave",
    )
    client.consume(queue, "a", prefetch=1)
    client.consume(queue, "b", prefetch=1)
    for _ in range(3):
        client.publish("q")

    client.cancel("a")
    assert "q" in client.vhost.queues
    client.cancel("b")
    assert "q" not in client.vhost.queues
    assert grave.ready_count == 0
    client.requeue(1, 2)
    assert queue.ready_count == 0


def test_an_auto_delete_queue_waits_for_its_first_consumer(client: CoreClient) -> None:
    """Rules Q-60, G-05: a get is none."""
    queue = client.declare("q", auto_delete=True)
    client.publish("q")
    client.get(queue)
    client.ack(1)
    client.world.move(100_000)
    assert "q" in client.vhost.queues


def test_a_consumer_that_was_refused_counts_for_nothing(client: CoreClient) -> None:
    queue = client.declare("q", auto_delete=True)
    client.consume(queue, "a", exclusive=True)
    with pytest.raises(AccessRefused):
        client.consume(queue, "b")

    client.cancel("a")
    assert "q" not in client.vhost.queues


# -- deletion


def test_consumers_are_told_that_their_queue_is_gone(client: CoreClient) -> None:
    """Rules Q-53, CO-13."""
    other = client.world.client(channel_id=2)
    queue = client.declare("q")
    client.consume(queue, "a")
    other.consume(queue, "b")
    client.vhost.remove_queue(queue)
    client.vhost.remove_queue(queue)
    assert client.cancelled == ["a"]
    assert other.cancelled == ["b"]
    assert not queue.consumers


def test_removing_a_consumer_twice_changes_nothing(client: CoreClient) -> None:
    queue = client.declare("q")
    consumer = client.consume(queue)
    queue.remove_consumer(consumer)
    queue.remove_consumer(consumer)
    assert not queue.consumers


def test_purging_leaves_what_is_unacked(client: CoreClient) -> None:
    """Rules Q-54, Q-55."""
    grave = client.declare("grave")
    queue = client.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    for body in (b"a", b"b", b"c"):
        client.publish("q", body)

    client.get(queue)
    assert queue.purge() == 2
    assert queue.ready_bytes == 0
    client.requeue(1)
    assert ready_bodies(queue) == [b"a"]
    assert grave.ready_count == 0


# -- the books


def test_counters_tell_what_happened(client: CoreClient) -> None:
    queue = client.declare("q")
    for _ in range(8):
        client.publish("q")

    client.get(queue, no_ack=True)
    client.get(queue)
    client.consume(queue, "acks", prefetch=2)
    client.ack(3)
    client.requeue(4)
    client.consume(queue, "none", no_ack=True)
    counted = {
        "publish": queue.publish_count,
        "get": queue.get_count,
        "get_no_ack": queue.get_no_ack_count,
        "deliver": queue.deliver_count,
        "deliver_no_ack": queue.deliver_no_ack_count,
        "ack": queue.ack_count,
        "redeliver": queue.redeliver_count,
    }
    assert counted == {
        "publish": 8,
        "get": 1,
        "get_no_ack": 1,
        "deliver": 4,
        "deliver_no_ack": 3,
        "ack": 1,
        "redeliver": 1,
    }
    assert (queue.ready_count, queue.unacked_count) == (0, 3)
