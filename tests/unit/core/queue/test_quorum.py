"""Quorum queues: returns, limits, priorities, delays, the single active consumer (rules QQ)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.exchange_commands import BindingRequest, bind
from broker.core.queue.quorum import QuorumQueue
from tests.helpers.core import CoreClient, CoreWorld, plain_headers, ready_bodies

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue

TO_GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}


@pytest.fixture
def world() -> CoreWorld:
    return CoreWorld()


@pytest.fixture
def client(world: CoreWorld) -> CoreClient:
    return world.client()


def declare(client: CoreClient, name: str = "q", /, **arguments: object) -> QuorumQueue:
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    queue = client.declare_with(name, {"x-queue-type": "quorum"} | table, durable=True)
    assert isinstance(queue, QuorumQueue)
    return queue


def declare_with_grave(client: CoreClient, **arguments: object) -> tuple[QuorumQueue, Queue]:
    grave = client.declare("grave")
    dead_letters = {key.replace("-", "_"): value for key, value in TO_GRAVE.items()}
    return declare(client, "q", **(dead_letters | arguments)), grave


def fill(client: CoreClient, *bodies: bytes, key: str = "q") -> None:
    for body in bodies:
        client.publish(key, body)


def get_tag(client: CoreClient, queue: Queue) -> int:
    """Get the head; its delivery tag."""
    message = client.get(queue)
    assert message is not None
    client.heard()
    return int(message.delivery_tag)


def return_head(client: CoreClient, queue: Queue, *, is_failure: bool = False) -> None:
    client.deliveries.give_back(client.take(get_tag(client, queue)), is_failure)


def headers_on_get(client: CoreClient, queue: Queue) -> dict[str, object]:
    client.get(queue, no_ack=True)
    [heard] = client.heard()
    return plain_headers(heard.properties)


# -- order


def test_returned_messages_come_first_in_the_order_of_their_return(client: CoreClient) -> None:
    """Rules A-05, QQ-10."""
    queue = declare(client)
    fill(client, b"1", b"2", b"3", b"4")
    first, second, third = (get_tag(client, queue) for _ in range(3))
    client.requeue(third)
    client.requeue(first)
    client.requeue(second)
    assert ready_bodies(queue) == [b"3", b"1", b"2", b"4"]


@pytest.mark.parametrize(
    ("published", "served"),
    [
        pytest.param([9, 0, None, 31, 200], [31, 200, 9, None, 0], id="strictly"),
        pytest.param([4, None, 4], [4, None, 4], id="absent-is-four"),
        pytest.param([3, None, 5], [5, None, 3], id="around-four"),
    ],
)
def test_the_highest_priority_comes_first(
    client: CoreClient, published: list[int | None], served: list[int | None]
) -> None:
    """Rule QQ-05: no declaration is needed, 31 is the highest."""
    queue = declare(client)
    for priority in published:
        client.publish("q", str(priority).encode(), priority=priority)

    assert ready_bodies(queue) == [str(priority).encode() for priority in served]


def test_returned_messages_have_no_priority(client: CoreClient) -> None:
    """Rule QQ-05."""
    queue = declare(client)
    client.publish("q", b"low", priority=0)
    return_head(client, queue)
    client.publish("q", b"high", priority=31)
    assert ready_bodies(queue) == [b"low", b"high"]


# -- counting returns


def test_a_redelivery_tells_how_often_it_was_returned(client: CoreClient) -> None:
    """Rule QQ-04: on redeliveries only; what a publisher says about it is overwritten then."""
    queue = declare(client)
    client.publish("q", b"x", headers={"x-delivery-count": "mine", "a": 1})
    for returns in range(3):
        tag = int(client.deliveries.next_tag)
        client.get(queue)
        [heard] = client.heard()
        assert heard.arguments["redelivered"] == (returns > 0)
        headers = plain_headers(heard.properties)
        assert headers["a"] == 1
        assert headers["x-delivery-count"] == (returns or "mine")
        assert headers.get("x-acquired-count") == (returns or None)
        client.requeue(tag)


@pytest.mark.parametrize(
    ("arguments", "policy", "deliveries"),
    [
        pytest.param({}, None, 21, id="default"),
        pytest.param({"x_delivery_limit": 2}, None, 3, id="argument"),
        pytest.param({"x_delivery_limit": 0}, None, 1, id="zero"),
        pytest.param({}, 2, 3, id="policy"),
        pytest.param({"x_delivery_limit": 5}, 2, 3, id="policy-is-lower"),
        pytest.param({"x_delivery_limit": 2}, 5, 3, id="argument-is-lower"),
        pytest.param({"x_delivery_limit": -1}, None, None, id="negative-is-none"),
        pytest.param({"x_delivery_limit": -1}, 2, 3, id="the-other-counts-where-one-is-negative"),
        pytest.param({"x_delivery_limit": "2"}, None, 21, id="no-number-is-the-default"),
        pytest.param({"x_delivery_limit": 1 << 62}, None, None, id="huge"),
    ],
)
def test_a_message_is_given_up_beyond_the_delivery_limit(
    client: CoreClient, arguments: dict[str, object], policy: int | None, deliveries: int | None
) -> None:
    """Rules QQ-02, QQ-03, PO-04."""
    queue, grave = declare_with_grave(client, **arguments)
    if policy is not None:
        client.world.set_policy({"delivery-limit": policy}, pattern="^q$")

    client.publish("q", b"x", headers={"a": 1})
    count = 0
    while queue.ready_count and count < 40:
        return_head(client, queue)
        count += 1

    assert count == (40 if deliveries is None else deliveries)
    assert grave.ready_count == (0 if deliveries is None else 1)
    if deliveries is not None:
        headers = headers_on_get(client, grave)
        assert headers["x-first-death-reason"] == "delivery_limit"
        # Rule DL-17: nothing of the count leaves with it.
        assert "x-delivery-count" not in headers
        assert "x-acquired-count" not in headers


def test_without_a_dead_letter_exchange_it_is_gone(client: CoreClient) -> None:
    """Rule DL-02."""
    queue = declare(client, x_delivery_limit=0)
    fill(client, b"x")
    return_head(client, queue)
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_a_refused_redelivery_leaves_without_its_count(client: CoreClient) -> None:
    """Rule DL-17."""
    queue, grave = declare_with_grave(client)
    client.publish("q", b"x", headers={"x-delivery-count": "mine"})
    return_head(client, queue)
    client.reject(get_tag(client, queue))
    headers = headers_on_get(client, grave)
    assert headers["x-delivery-count"] == "mine"
    assert headers["x-first-death-reason"] == "rejected"


# -- length


def test_a_returned_message_is_the_first_to_be_dropped(client: CoreClient) -> None:
    """Rules Q-80, Q-82: from the head, whatever that is."""
    queue = declare(client, x_max_length=2)
    fill(client, b"a", b"b")
    tag = get_tag(client, queue)
    fill(client, b"c")
    client.requeue(tag)
    assert ready_bodies(queue) == [b"b", b"c"]


def test_high_priorities_are_dropped_first(client: CoreClient) -> None:
    """Rule Q-91: seen in RabbitMQ 4.3."""
    queue = declare(client, x_max_length=2)
    for body, priority in ((b"hi1", 9), (b"lo1", 0), (b"hi2", 9), (b"lo2", 0)):
        client.publish("q", body, priority=priority)

    assert ready_bodies(queue) == [b"lo1", b"lo2"]


@pytest.mark.parametrize(
    ("argument", "policy"),
    [
        pytest.param("reject-publish", None, id="argument"),
        pytest.param(None, "reject-publish", id="policy"),
        pytest.param("drop-head", "reject-publish", id="policy-wins"),
    ],
)
def test_a_full_queue_takes_one_more_and_then_none_until_relieved(
    client: CoreClient, argument: str | None, policy: str | None
) -> None:
    """Rules Q-85, PO-05: as RabbitMQ 3.10 and 4.3 do it, eight tenths are relief."""
    arguments = {} if argument is None else {"x_overflow": argument}
    queue = declare(client, x_max_length=10, **arguments)
    if policy is not None:
        client.world.set_policy({"overflow": policy})

    client.confirm_select()

    def accepts() -> bool:
        fill(client, b"x")
        [confirmed] = client.confirmed()
        return confirmed.name == "ack"

    assert [accepts() for _ in range(13)].count(True) == 11
    taken: list[tuple[int, bool]] = []
    for _ in range(4):
        client.get(queue, no_ack=True)
        client.heard()
        count = int(queue.ready_count)
        taken.append((count, accepts()))

    assert taken == [(10, False), (9, False), (8, True), (8, True)]


def test_reject_publish_dlx_means_nothing(client: CoreClient) -> None:
    """Rule Q-84."""
    queue, grave = declare_with_grave(client, x_max_length=1, x_overflow="reject-publish-dlx")
    fill(client, b"a", b"b")
    assert ready_bodies(queue) == [b"b"]
    assert ready_bodies(grave) == [b"a"]


# -- time


def test_the_head_of_every_priority_expires(client: CoreClient) -> None:
    """Rule TTL-10."""
    queue = declare(client)
    client.publish("q", b"high", priority=9)
    client.publish("q", b"low", priority=0, expiration="100")
    client.publish("q", b"behind", priority=0)
    client.publish("q", b"hidden", priority=0, expiration="50")
    client.world.move(100)
    assert ready_bodies(queue) == [b"high", b"behind", b"hidden"]
    return_head(client, queue)
    assert ready_bodies(queue) == [b"high", b"behind", b"hidden"]


def test_a_returned_message_expires_at_its_time(client: CoreClient) -> None:
    """Rules TTL-01, TTL-07."""
    queue, grave = declare_with_grave(client, x_message_ttl=50)
    fill(client, b"a")
    tag = get_tag(client, queue)
    client.world.move(40)
    client.requeue(tag)
    client.world.move(9)
    assert ready_bodies(queue) == [b"a"]
    client.world.move(1)
    assert (ready_bodies(queue), ready_bodies(grave)) == ([], [b"a"])


def test_a_declaration_is_no_use_of_the_queue(client: CoreClient) -> None:
    """Rule Q-71."""
    declare(client, x_expires=100)
    client.world.move(60)
    queue = declare(client, x_expires=100)
    client.world.move(40)
    assert queue.is_deleted


# -- delayed retries


@pytest.mark.parametrize(
    ("kind", "failure_waits", "return_waits"),
    [
        pytest.param("all", True, True, id="all"),
        pytest.param("failed", True, False, id="failed"),
        pytest.param("returned", False, True, id="returned"),
        pytest.param("disabled", False, False, id="disabled"),
        pytest.param("foo", False, False, id="anything"),
    ],
)
@pytest.mark.parametrize("by_policy", [False, True], ids=["argument", "policy"])
def test_a_returned_message_may_have_to_wait(
    client: CoreClient, kind: str, failure_waits: bool, return_waits: bool, by_policy: bool
) -> None:
    """Rule QQ-09."""
    if by_policy and kind != "foo":
        queue = declare(client)
        client.world.set_policy({"delayed-retry-type": kind, "delayed-retry-min": 100})
    else:
        queue = declare(client, x_delayed_retry_type=kind, x_delayed_retry_min=100)

    for is_failure, waits in ((True, failure_waits), (False, return_waits)):
        queue.purge()
        fill(client, b"x")
        return_head(client, queue, is_failure=is_failure)
        assert queue.ready_count == (0 if waits else 1)
        assert queue.aside_count == (1 if waits else 0)
        client.world.move(99)
        assert queue.ready_count == (0 if waits else 1)
        client.world.move(1)
        assert queue.ready_count == 1


def test_it_waits_longer_each_time(client: CoreClient) -> None:
    """Rule QQ-09: the shortest time by the returns, and the longest at most."""
    queue = declare(
        client, x_delayed_retry_type="all", x_delayed_retry_min=300, x_delayed_retry_max=500
    )
    fill(client, b"x")
    for wait_ms in (300, 500, 500):
        return_head(client, queue)
        client.world.move(wait_ms - 1)
        assert queue.ready_count == 0
        client.world.move(1)
        assert queue.ready_count == 1


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"x_delayed_retry_min": "abc"}, id="text"),
        pytest.param({"x_delayed_retry_min": -5}, id="negative"),
        pytest.param({}, id="absent"),
        pytest.param({"x_delayed_retry_min": 5, "x_delayed_retry_max": -1}, id="negative-longest"),
    ],
)
def test_delays_that_make_no_sense_are_none(
    client: CoreClient, arguments: dict[str, object]
) -> None:
    """Rule QQ-09: they are not refused either."""
    queue = declare(client, x_delayed_retry_type="all", **arguments)
    fill(client, b"x")
    return_head(client, queue)
    assert queue.ready_count == 1


def test_a_huge_delay_is_no_fault(client: CoreClient) -> None:
    queue = declare(client, x_delayed_retry_type="all", x_delayed_retry_min=(1 << 63) - 1)
    fill(client, b"x")
    return_head(client, queue)
    client.world.move(86_400_000)
    assert (queue.ready_count, queue.aside_count) == (0, 1)


def test_what_waits_counts_for_the_limits_and_is_purged(client: CoreClient) -> None:
    """Rules QQ-07, QQ-09, as RabbitMQ 4.3 does it."""
    queue = declare(client, x_delayed_retry_type="all", x_delayed_retry_min=100, x_max_length=2)
    fill(client, b"a", b"b")
    return_head(client, queue)
    fill(client, b"c")
    assert ready_bodies(queue) == [b"c"]
    client.world.move(100)
    assert ready_bodies(queue) == [b"a", b"c"]
    return_head(client, queue)
    assert queue.purge() == 2
    client.world.move(1_000)
    assert queue.ready_count == 0


def test_what_waits_is_forgotten_with_the_queue(client: CoreClient) -> None:
    queue = declare(client, x_delayed_retry_type="all", x_delayed_retry_min=100)
    fill(client, b"a")
    return_head(client, queue)
    client.vhost.remove_queue(queue)
    assert client.node.next_deadline() is None


def test_what_has_waited_goes_to_a_consumer(client: CoreClient) -> None:
    queue = declare(client, x_delayed_retry_type="all", x_delayed_retry_min=100)
    client.consume(queue)
    fill(client, b"a")
    client.heard()
    client.requeue(1)
    assert client.heard() == []
    client.world.move(100)
    assert client.tagged_bodies() == [("c", b"a")]


# -- dead letters that are to arrive


CERTAIN = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish"}


def kill(client: CoreClient, queue: Queue, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(queue.name, body)
        client.reject(get_tag(client, queue))


def test_dead_letters_that_nobody_takes_stay(client: CoreClient) -> None:
    """Rule DL-13: until there is somebody."""
    exchange = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "later"}
    queue = declare(client, **CERTAIN, **exchange)
    kill(client, queue, b"a", b"b")
    assert (queue.ready_count, queue.unacked_count, queue.aside_count) == (0, 0, 2)
    client.world.move(5_000)
    assert queue.aside_count == 2
    later = client.declare("later")
    client.world.move(1_000)
    assert (ready_bodies(later), queue.aside_count) == ([b"a", b"b"], 0)
    assert client.node.next_deadline() is None


def test_they_wait_for_the_exchange_too(client: CoreClient) -> None:
    """Rule DL-13."""
    queue = declare(client, **CERTAIN, x_dead_letter_exchange="missing")
    kill(client, queue, b"a")
    assert queue.aside_count == 1


def test_a_target_that_refuses_gets_it_when_it_has_room(client: CoreClient) -> None:
    """Rule DL-13: and the others do not get it twice."""
    actor = client.node.own_actor(client.vhost)
    full = client.declare("full", x_max_length=1, x_overflow="reject-publish")
    other = client.declare("other")
    for name in ("full", "other"):
        request = BindingRequest("amq.fanout", name, True, "", {})
        bind(client.vhost, actor, request)

    queue = declare(client, **CERTAIN, x_dead_letter_exchange="amq.fanout")
    fill(client, b"in the way", key="full")
    kill(client, queue, b"a")
    client.world.move(3_000)
    assert (queue.aside_count, ready_bodies(other)) == (1, [b"a"])
    full.purge()
    client.world.move(1_000)
    assert (queue.aside_count, ready_bodies(full), ready_bodies(other)) == (0, [b"a"], [b"a"])


def test_retained_letters_count_for_the_limits_and_are_purged(client: CoreClient) -> None:
    """Rules DL-13, QQ-07: two are allowed, one of them is retained, one more is let in."""
    queue = declare(client, **CERTAIN, x_dead_letter_exchange="missing", x_max_length=2)
    kill(client, queue, b"a")
    client.confirm_select()
    fill(client, b"1", b"2", b"3", b"4")
    assert [one.name for one in client.confirmed()] == ["ack", "nack", "nack"]
    assert ready_bodies(queue) == [b"1", b"2"]
    assert queue.purge() == 3
    assert client.node.next_deadline() is None


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"x_dead_letter_strategy": "at-least-once"}, id="drop-head"),
        pytest.param({"x_overflow": "reject-publish"}, id="at-most-once"),
    ],
)
def test_otherwise_dead_letters_that_nobody_takes_are_gone(
    client: CoreClient, arguments: dict[str, object]
) -> None:
    """Rules DL-03, DL-13."""
    queue = declare(client, **arguments, x_dead_letter_exchange="missing")
    kill(client, queue, b"a")
    assert queue.aside_count == 0


def test_retained_letters_go_with_the_strategy(client: CoreClient) -> None:
    """Rules DL-13, PO-11: by a policy, and no longer."""
    queue = declare(client, x_dead_letter_exchange="missing")
    client.world.set_policy({"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"})
    kill(client, queue, b"a")
    assert queue.aside_count == 1
    client.vhost.clear_policy("p")
    assert queue.aside_count == 0


def test_many_letters_are_tried_in_turns(client: CoreClient) -> None:
    """Rule DL-13: what nobody takes costs little, and what is taken at last goes in order."""
    exchange = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "later"}
    queue = declare(client, **CERTAIN, **exchange)
    bodies = [b"%d" % number for number in range(100)]
    kill(client, queue, *bodies)
    later = client.declare("later")
    client.world.move(1_000)
    assert ready_bodies(later) == bodies
    assert queue.aside_count == 0


# -- the single active consumer


def single(client: CoreClient, *bodies: bytes) -> QuorumQueue:
    queue = declare(client, x_single_active_consumer=True)
    client.consume(queue, "a", prefetch=2)
    fill(client, *bodies)
    return queue


def test_a_higher_priority_takes_over_when_all_is_settled(client: CoreClient) -> None:
    """Rule CO-31 [4.3]: deliveries pause meanwhile."""
    queue = single(client, b"1", b"2", b"3", b"4")
    assert client.tagged_bodies() == [("a", b"1"), ("a", b"2")]
    client.consume(queue, "b", prefetch=2, priority=5)
    client.ack(1)
    assert client.tagged_bodies() == []
    client.ack(2)
    assert client.tagged_bodies() == [("b", b"3"), ("b", b"4")]
    assert queue.active_consumer is client.consumers["b"]


@pytest.mark.parametrize("how", ["requeue", "reject"])
def test_any_settlement_will_do(client: CoreClient, how: str) -> None:
    """Rule CO-31: what is given back goes to the new one."""
    queue = single(client, b"1")
    client.heard()
    client.consume(queue, "b", priority=5)
    getattr(client, how)(1)
    fill(client, b"2")
    expected = [("b", b"1")] if how == "requeue" else []
    assert client.tagged_bodies() == [*expected, ("b", b"2")]


def test_an_idle_one_gives_way_at_once(client: CoreClient) -> None:
    """Rule CO-31."""
    queue = single(client)
    client.consume(queue, "b", priority=1)
    fill(client, b"1")
    assert client.tagged_bodies() == [("b", b"1")]


def test_an_equal_one_waits(client: CoreClient) -> None:
    """Rules CO-30, CO-31."""
    queue = single(client)
    client.consume(queue, "b", priority=0)
    client.consume(queue, "c", priority=-1)
    fill(client, b"1")
    assert client.tagged_bodies() == [("a", b"1")]


def test_the_highest_of_those_that_wait_takes_over(client: CoreClient) -> None:
    """Rule CO-30."""
    queue = single(client, b"1", b"2")
    client.consume(queue, "b", priority=1)
    client.consume(queue, "c", priority=9)
    client.heard()
    client.ack(1, 2)
    fill(client, b"3")
    assert client.tagged_bodies() == [("c", b"3")]


def test_the_active_one_goes_on_when_nobody_waits_any_more(client: CoreClient) -> None:
    queue = single(client, b"1", b"2", b"3")
    client.consume(queue, "b", priority=5)
    client.heard()
    client.ack(1)
    assert client.tagged_bodies() == []
    client.cancel("b")
    assert client.tagged_bodies() == [("a", b"3")]
    fill(client, b"4")
    client.ack(2)
    assert client.tagged_bodies() == [("a", b"4")]


def test_cancelling_the_active_one_lets_the_next_begin(client: CoreClient) -> None:
    """Rules CO-12, CO-34: although the old one has something unacked."""
    queue = single(client, b"1", b"2", b"3")
    client.consume(queue, "b", priority=5)
    client.heard()
    client.cancel("a")
    assert client.tagged_bodies() == [("b", b"3")]
    client.requeue(1)
    assert client.tagged_bodies() == [("b", b"1")]


def test_one_without_acknowledgements_has_nothing_to_settle(client: CoreClient) -> None:
    queue = declare(client, x_single_active_consumer=True)
    client.consume(queue, "a", no_ack=True)
    fill(client, b"1")
    client.consume(queue, "b", priority=1)
    fill(client, b"2")
    assert client.tagged_bodies() == [("a", b"1"), ("b", b"2")]


def test_exclusive_consumers_are_not(client: CoreClient) -> None:
    """Rules CO-07, QQ-06."""
    queue = declare(client)
    client.consume(queue, "a", exclusive=True)
    client.consume(queue, "b", exclusive=True)
    assert len(queue.consumers) == 2
