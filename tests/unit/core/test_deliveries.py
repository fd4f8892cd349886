"""What one channel is given, and what it gives back (sections QS, CO and A)."""

from __future__ import annotations

import pytest

from broker.core.output import OUTPUT_TURN_BYTES_MAX
from tests.helpers.core import CoreClient, CoreWorld, ready_bodies


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def fill(client: CoreClient, name: str, count: int) -> None:
    for number in range(1, count + 1):
        client.publish(name, b"%s%d" % (name.encode(), number))


# -- what a delivery looks like


def test_a_delivery_says_where_it_was_published(client: CoreClient) -> None:
    """Rules E-75, CO-09."""
    queue = client.declare("q")
    client.consume(queue, "tag")
    client.publish("q", b"hare", priority=3)
    [heard] = client.heard()
    assert heard.arguments == {
        "consumer_tag": "tag",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
    }
    assert heard.body == b"hare"


def test_delivery_tags_count_on_beyond_one_octet(client: CoreClient) -> None:
    """Rule CO-09: gets, and deliveries without ack, take tags too."""
    queue = client.declare("q")
    client.consume(queue, "none", no_ack=True)
    fill(client, "q", 254)
    client.cancel("none")
    fill(client, "q", 5)
    client.get(queue)
    client.get(queue, no_ack=True)
    client.consume(queue, "all")
    tags = [one.arguments["delivery_tag"] for one in client.heard()]
    assert tags == list(range(1, 260))
    assert client.deliveries.unacked.count == 4


def test_addresses_of_different_sizes_do_not_mix(client: CoreClient) -> None:
    """The pieces in front of a tag depend on what follows it."""
    client.consume(client.declare("q"), "t")
    for headers in ({"CC": ["q"]}, {}, {"CC": ["q"]}):
        client.publish("nobody" if headers else "q", headers=headers or None)

    keys = [one.arguments["routing_key"] for one in client.heard()]
    assert keys == ["nobody", "q", "nobody"]


def test_large_bodies_are_split_to_what_the_client_takes(client: CoreClient) -> None:
    """Rule F-03."""
    client.output.frame_payload_max = 100
    client.consume(client.declare("q"))
    client.publish("q", b"x" * 250)
    [heard] = client.heard()
    assert heard.body == b"x" * 250


# -- prefetch


def test_prefetch_limits_what_is_unacked(client: CoreClient) -> None:
    """Rules QS-02, QS-07."""
    queue = client.declare("q")
    fill(client, "q", 6)
    client.consume(queue, prefetch=2)
    assert client.bodies() == [b"q1", b"q2"]
    client.ack(1)
    assert client.bodies() == [b"q3"]
    client.reject(2)
    assert client.bodies() == [b"q4"]
    client.requeue(3)
    assert client.bodies() == [b"q3"]


def test_a_consumer_without_ack_has_no_limit(client: CoreClient) -> None:
    """Rule QS-05."""
    queue = client.declare("q")
    fill(client, "q", 5)
    client.consume(queue, prefetch=1, no_ack=True)
    assert len(client.bodies()) == 5
    assert client.deliveries.unacked.count == 0
    assert queue.unacked_count == 0


def test_a_get_is_not_limited_and_frees_no_credit(client: CoreClient) -> None:
    """Rule QS-06."""
    queue = client.declare("q")
    fill(client, "q", 4)
    client.deliveries.set_prefetch_limit(1)
    client.consume(queue, prefetch=1)
    client.get(queue)
    assert client.bodies() == [b"q1", b"q2"]
    client.ack(2)
    assert client.bodies() == []
    client.ack(1)
    assert client.bodies() == [b"q3"]


def test_a_channel_limit_is_shared(client: CoreClient) -> None:
    """Rules QS-03, QS-04: both limits must permit."""
    queue = client.declare("q")
    client.deliveries.set_prefetch_limit(3)
    client.consume(queue, "a", prefetch=1)
    client.consume(queue, "b")
    fill(client, "q", 6)
    assert client.tagged_bodies() == [("a", b"q1"), ("b", b"q2"), ("b", b"q3")]
    client.ack(2)
    assert client.tagged_bodies() == [("b", b"q4")]


def test_a_channel_limit_counts_what_is_unacked_already(client: CoreClient) -> None:
    """Rule QS-03: retroactive; rule QS-07: a lower one stops deliveries until below it."""
    queue = client.declare("q")
    client.consume(queue)
    fill(client, "q", 4)
    client.deliveries.set_prefetch_limit(3)
    client.publish("q", b"q5")
    assert len(client.bodies()) == 4
    client.ack(1)
    assert client.bodies() == []
    client.ack(2)
    assert client.bodies() == [b"q5"]


def test_taking_the_channel_limit_away_frees_deliveries(client: CoreClient) -> None:
    queue = client.declare("q")
    client.deliveries.set_prefetch_limit(1)
    client.consume(queue)
    fill(client, "q", 3)
    client.bodies()
    client.deliveries.set_prefetch_limit(0)
    assert client.bodies() == [b"q2", b"q3"]


def test_a_full_channel_pauses_consumers_without_ack_too(client: CoreClient) -> None:
    """Rule QS-05: they wait, though their deliveries do not count."""
    held = client.declare("held")
    free = client.declare("free")
    client.deliveries.set_prefetch_limit(1)
    client.consume(held, "h")
    client.publish("held")
    client.consume(free, "f", no_ack=True)
    fill(client, "free", 3)
    assert [tag for tag, _ in client.tagged_bodies()] == ["h"]
    client.ack(1)
    assert [tag for tag, _ in client.tagged_bodies()] == ["f", "f", "f"]


@pytest.mark.parametrize("consumers", [1, 2], ids=["one-consumer-each", "two-on-the-first"])
def test_queues_under_one_channel_limit_all_make_progress(
    client: CoreClient, consumers: int
) -> None:
    """Rule QS-10."""
    first = client.declare("a")
    second = client.declare("b")
    fill(client, "a", 20)
    fill(client, "b", 20)
    client.deliveries.set_prefetch_limit(1)
    for number in range(consumers):
        client.consume(first, f"a{number}")

    client.consume(second, "b")
    tags: list[object] = []
    for number in range(1, 13):
        tags += [tag for tag, _ in client.tagged_bodies()]
        client.ack(number)

    assert tags.count("b") >= 12 // (consumers + 1) - 1
    for number in range(consumers):
        assert tags.count(f"a{number}") >= 2


# -- the socket's pace


def test_one_turn_writes_no_more_than_its_budget(client: CoreClient) -> None:
    queue = client.declare("q")
    body = b"x" * 50_000
    for _ in range(20):
        client.publish("q", body)

    client.consume(queue)
    sizes: list[int] = []
    while queue.ready_count:
        client.node.flush()
        sizes.append(sum(map(len, client.written)))
        client.written.clear()
        assert client.node.wants_turn()
        client.node.resume()

    assert len(sizes) == 3
    assert all(size < OUTPUT_TURN_BYTES_MAX + 60_000 for size in sizes)


def test_queues_of_one_connection_share_its_turns(client: CoreClient) -> None:
    """A queue with a long backlog does not keep another one's few messages back."""
    large = client.declare("large")
    small = client.declare("small")
    for _ in range(30):
        client.publish("large", b"x" * 100_000)
        client.publish("small", b"y")

    client.consume(large, "large", no_ack=True)
    client.consume(small, "small", no_ack=True)
    tags: list[object] = []
    while "small" not in tags:
        tags += [tag for tag, _ in client.tagged_bodies()]
        client.node.resume()

    assert large.ready_count > 0


def test_a_full_socket_gets_nothing_until_it_empties(client: CoreClient) -> None:
    other = client.world.client(channel_id=2)
    queue = client.declare("q")
    client.consume(queue, "slow", priority=5)
    client.output.pause()
    client.publish("q", b"1")
    assert not client.node.wants_turn()
    assert queue.ready_count == 1
    other.consume(queue, "quick", prefetch=1)
    assert other.bodies() == [b"1"]
    client.publish("q", b"2")
    assert client.bodies() == []
    client.output.resume()
    assert client.node.wants_turn()
    client.node.resume()
    assert client.bodies() == [b"2"]


def test_resuming_one_that_nobody_waits_for_wants_no_turn(client: CoreClient) -> None:
    client.output.pause()
    client.output.resume()
    assert not client.node.wants_turn()


def test_a_discarded_output_writes_nothing_and_wakes_nobody(client: CoreClient) -> None:
    queue = client.declare("q")
    client.consume(queue)
    client.publish("q")
    client.output.discard()
    client.publish("q")
    client.output.wake_parked()
    assert client.heard() == []
    assert queue.ready_count == 1


# -- settlement


def test_requeued_messages_return_to_their_places(client: CoreClient) -> None:
    """Rules A-05, CO-15, CO-16."""
    queue = client.declare("q")
    fill(client, "q", 5)
    for _ in range(4):
        client.get(queue)

    client.requeue(3)
    client.requeue(1, 4)
    assert ready_bodies(queue) == [b"q1", b"q3", b"q4", b"q5"]
    assert [message.redelivered for message in queue.ready.messages()] == [True] * 3 + [False]
    assert queue.unacked_count == 1


def test_several_queues_are_settled_at_once(client: CoreClient) -> None:
    """Rule A-09: and each goes on with what its consumers may have now."""
    for name in "ab":
        client.consume(client.declare(name), name, prefetch=1)
        fill(client, name, 2)

    client.bodies()
    client.ack(1, 2)
    assert client.bodies() == [b"a2", b"b2"]
    client.requeue(3, 4)
    assert client.bodies() == [b"a2", b"b2"]
    client.reject(5, 6)
    assert client.deliveries.unacked.count == 0
    assert [client.world.queue(name).unacked_count for name in "ab"] == [0, 0]


@pytest.mark.parametrize("how", ["ack", "requeue", "reject"])
def test_settling_for_a_deleted_queue_has_no_effect(client: CoreClient, how: str) -> None:
    """Rules A-08, Q-53."""
    queue = client.declare("q")
    client.declare("dead")
    fill(client, "q", 1)
    client.get(queue)
    client.vhost.remove_queue(queue)
    getattr(client, how)(1)
    assert queue.ready_count == 0
    assert client.deliveries.unacked.count == 0


def test_a_get_from_a_queue_declared_anew_is_settled_there(client: CoreClient) -> None:
    client.get(client.declare("q"))
    client.vhost.remove_queue(client.world.queue("q"))
    queue = client.declare("q")
    fill(client, "q", 1)
    client.get(queue)
    client.requeue(1)
    assert queue.ready_count == 1


def test_cancelling_keeps_what_is_unacked(client: CoreClient) -> None:
    """Rule CO-12: settled later, it frees nothing for anybody."""
    queue = client.declare("q")
    client.consume(queue, prefetch=1)
    fill(client, "q", 2)
    client.cancel()
    assert client.bodies() == [b"q1"]
    assert (queue.unacked_count, queue.ready_count) == (1, 1)
    client.ack(1)
    assert client.bodies() == []
    assert queue.unacked_count == 0


def test_consumers_that_came_and_went_at_the_limit_are_forgotten(client: CoreClient) -> None:
    queue = client.declare("q")
    client.deliveries.set_prefetch_limit(1)
    fill(client, "q", 3)
    client.consume(queue, "holds")
    for number in range(100):
        client.consume(queue, f"t{number}")
        client.cancel(f"t{number}")

    assert len(client.deliveries.limited) == 1
    client.output.pause()
    client.deliveries.set_prefetch_limit(0)
    for number in range(100):
        client.consume(queue, f"t{number}")
        client.cancel(f"t{number}")

    assert len(client.output.parked) == 1
