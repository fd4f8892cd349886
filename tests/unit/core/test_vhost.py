"""A virtual host: policies taken on at once, and things that go away whole (sections PO and Q)."""

from __future__ import annotations

import pytest

from tests.helpers.core import CoreClient, CoreWorld, ready_bodies


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


def test_policies_are_taken_on_by_what_is_there_and_what_comes(client: CoreClient) -> None:
    """Rules PO-11, PO-02."""
    early = client.declare("mine-early", exclusive=True, auto_delete=True)
    client.world.set_policy({"max-length": 1}, pattern="^mine")
    late = client.declare("mine-late")
    other = client.declare("not-mine")
    assert [one.settings.length_max for one in (early, late, other)] == [1, 1, None]
    client.world.set_policy({"max-length": 7}, pattern="^mine")
    assert [one.settings.length_max for one in (early, late)] == [7, 7]
    assert client.vhost.clear_policy("p")
    assert [one.settings.length_max for one in (early, late)] == [None, None]
    assert not client.vhost.clear_policy("p")


def test_an_operators_policy_goes_with_the_users(client: CoreClient) -> None:
    """Rule PO-04: per key, the lower limit."""
    queue = client.declare("q", x_max_length=50)
    client.world.set_policy({"max-length": 10, "message-ttl": 500})
    client.world.set_policy({"max-length": 20, "expires": 99}, is_operator=True)
    settings = queue.settings
    assert (settings.length_max, settings.message_ttl_ms, settings.expires_ms) == (10, 500, 99)
    client.vhost.clear_policy("p")
    assert (queue.settings.length_max, queue.settings.message_ttl_ms) == (20, None)
    client.vhost.clear_policy("p", is_operator=True)
    assert queue.settings.length_max == 50


def test_a_policy_does_not_change_what_a_queue_is(client: CoreClient) -> None:
    """Rule PO-13: nor lose what is in it."""
    queue = client.declare("q", x_max_priority=3, x_single_active_consumer=True)
    client.publish("q", b"low")
    client.publish("q", b"high", priority=3)
    client.world.set_policy({"max-length": 10})
    assert ready_bodies(queue) == [b"high", b"low"]
    assert queue.settings.single_active_consumer


def test_a_policys_dead_letter_exchange_can_be_taken_away(client: CoreClient) -> None:
    """Rule PO-12."""
    grave = client.declare("grave")
    queue = client.declare("q")
    client.world.set_policy(
        {"dead-letter-exchange": "", "dead-letter-routing-key": "grave"}, pattern="^q$"
    )
    for body in (b"first", b"second"):
        client.publish("q", body)
        client.get(queue)

    client.reject(1)
    client.vhost.clear_policy("p")
    client.reject(2)
    assert ready_bodies(grave) == [b"first"]


def test_removing_a_queue_leaves_nothing_of_it(client: CoreClient) -> None:
    queue = client.declare("q", exclusive=True, x_expires=1_000, x_message_ttl=500)
    client.publish("q")
    client.consume(queue)
    client.vhost.remove_queue(queue)
    assert client.vhost.queues == {}
    assert client.world.node.next_deadline() is None
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)
    client.vhost.delete_exclusive_queues(client)


def test_made_up_names_are_never_the_same(client: CoreClient) -> None:
    names = {client.vhost.generate_name("amq.ctag") for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("amq.ctag-") for name in names)


@pytest.mark.parametrize("name", ["q", "\udcff", "ü" * 100, "with space/and slash"])
def test_names_are_whatever_bytes_they_are(client: CoreClient, name: str) -> None:
    """Rule Q-04."""
    queue = client.declare(name)
    client.publish(name, b"hare")
    client.consume(queue)
    [heard] = client.heard()
    assert heard.arguments["routing_key"] == name
