"""Who is served next (rule CO-10), seen at a queue with consumers of one channel."""

from __future__ import annotations

import pytest

from broker.core.dispatch import STALE_MIN, Rotation
from tests.helpers.core import CoreClient, CoreWorld


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def served(client: CoreClient, count: int) -> list[object]:
    """Publish so many messages to ``q``; the tags of the consumers that get them."""
    for _ in range(count):
        client.publish("q")

    return [tag for tag, _ in client.tagged_bodies()]


def test_equal_consumers_take_turns(client: CoreClient) -> None:
    queue = client.declare("q")
    for tag in "abc":
        client.consume(queue, tag)

    assert served(client, 7) == ["a", "b", "c", "a", "b", "c", "a"]


def test_a_backlog_is_shared_as_fairly(client: CoreClient) -> None:
    queue = client.declare("q")
    for tag in "ab":
        client.consume(queue, tag, prefetch=1)

    served(client, 6)
    client.ack(1)
    client.ack(2)
    client.ack(3, 4)
    assert [tag for tag, _ in client.tagged_bodies()] == ["a", "b", "a", "b"]


def test_the_highest_priority_is_served_first(client: CoreClient) -> None:
    queue = client.declare("q")
    client.consume(queue, "low", priority=-1)
    client.consume(queue, "normal")
    client.consume(queue, "high", priority=10, prefetch=2)
    assert served(client, 4) == ["high", "high", "normal", "normal"]
    client.cancel("normal")
    assert served(client, 1) == ["low"]
    client.ack(1)
    assert served(client, 2) == ["high", "low"]


def test_a_consumer_that_cannot_take_is_passed_over(client: CoreClient) -> None:
    queue = client.declare("q")
    client.consume(queue, "a", prefetch=1)
    client.consume(queue, "b")
    assert served(client, 4) == ["a", "b", "b", "b"]


def test_a_consumer_that_can_take_again_comes_last(client: CoreClient) -> None:
    queue = client.declare("q")
    client.consume(queue, "a", prefetch=1)
    client.consume(queue, "b")
    client.consume(queue, "c")
    assert served(client, 4) == ["a", "b", "c", "b"]
    client.ack(1)
    assert served(client, 3) == ["c", "b", "a"]


def test_an_empty_rotation_has_nobody() -> None:
    assert Rotation().next_able() is None


def test_cancelled_consumers_do_not_pile_up(client: CoreClient) -> None:
    """They leave when their turn comes; where it never does, they are swept out."""
    queue = client.declare("q")
    client.consume(queue, "stays")
    for number in range(50 * STALE_MIN):
        client.consume(queue, f"t{number}")
        client.cancel(f"t{number}")

    [level] = queue.rotation._levels
    assert len(level.waiting) <= 2 * STALE_MIN + 2
    assert served(client, 2) == ["stays", "stays"]


def test_a_channel_that_ends_leaves_the_count_right(client: CoreClient) -> None:
    """Its consumers take nothing of what it gives back, and are counted as gone only once."""
    other = client.world.client(channel_id=2)
    queue = client.declare("q")
    client.consume(queue, "stays", prefetch=1)
    client.publish("q")
    consumers = [other.consume(queue, f"t{number}") for number in range(3)]
    other.publish("q")
    for consumer in consumers:
        consumer.is_cancelled = True

    other.deliveries.give_back(other.deliveries.unacked.take_all())
    for consumer in consumers:
        queue.remove_consumer(consumer)

    [level] = queue.rotation._levels
    assert level.stale == 0
    assert level.consumer_count == 1
    assert queue.ready_count == 1
