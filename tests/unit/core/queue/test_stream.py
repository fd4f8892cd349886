"""A stream among its consumers: turns, waiting, credit, room, and what policies do (rules ST)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.output import OUTPUT_TURN_BYTES_MAX
from broker.core.queue.stream import StreamQueue
from broker.wire.tables import Field
from tests.helpers.core import CoreClient, CoreWorld, arguments_of, plain_headers

if TYPE_CHECKING:
    from broker.core.consumer import Consumer
    from tests.helpers.session import Heard

FIRST = {"x-stream-offset": "first"}


def stream(client: CoreClient, **arguments: Any) -> StreamQueue:
    queue = client.declare("s", durable=True, x_queue_type="stream", **arguments)
    assert isinstance(queue, StreamQueue)
    return queue


def read(
    client: CoreClient,
    queue: StreamQueue,
    tag: str = "c",
    prefetch: int = 100,
    arguments: dict[str, object] | None = None,
) -> Consumer:
    own = FIRST if arguments is None else arguments
    return client.consume(queue, tag, prefetch=prefetch, arguments=arguments_of(own))


def fill(client: CoreClient, *bodies: bytes, name: str = "s") -> None:
    for body in bodies:
        client.publish(name, body)


def offset_of(heard: Heard) -> object:
    return plain_headers(heard.properties)["x-stream-offset"]


def offsets(client: CoreClient) -> list[object]:
    """The offsets of what came since the last look."""
    return [offset_of(one) for one in client.heard()]


def by_tag(client: CoreClient) -> dict[object, list[object]]:
    """The same, by consumer."""
    found: dict[object, list[object]] = {}
    for one in client.heard():
        found.setdefault(one.arguments["consumer_tag"], []).append(offset_of(one))

    return found


@pytest.fixture
def client() -> CoreClient:
    return CoreWorld().client()


# -- reading


def test_every_consumer_gets_everything_from_its_own_place(client: CoreClient) -> None:
    """Rule ST-01."""
    queue = stream(client)
    fill(client, b"0", b"1", b"2")
    read(client, queue, "all")
    read(client, queue, "last", arguments={"x-stream-offset": "last"})
    read(client, queue, "new", arguments={})
    fill(client, b"3")
    assert by_tag(client) == {"all": [0, 1, 2, 3], "last": [2, 3], "new": [3]}
    assert queue.ready_count == 4
    assert queue.unacked_count == 7


def test_several_that_can_read_take_turns(client: CoreClient) -> None:
    """Rule CO-10: nobody has to wait until another has read it all."""
    queue = stream(client)
    fill(client, *[b"x"] * 4)
    a, b = (read(client, queue, tag, prefetch=1) for tag in "ab")
    client.heard()
    a.credit += 3
    b.credit += 3
    a.wake()
    b.wake()
    queue.pump()
    turns = [one.arguments["consumer_tag"] for one in client.heard()]
    assert turns == ["a", "b", "a", "b", "a", "b"]


@pytest.mark.parametrize("settle", ["ack", "requeue", "reject"])
def test_every_settlement_gives_credit_back_and_nothing_else(
    client: CoreClient, settle: str
) -> None:
    """Rules ST-06, A-06."""
    queue = stream(client, x_max_age="1h")
    fill(client, *[b"x"] * 5)
    read(client, queue, prefetch=2)
    assert offsets(client) == [0, 1]
    getattr(client, settle)(1)
    assert offsets(client) == [2]
    getattr(client, settle)(2, 3)
    assert offsets(client) == [3, 4]
    assert queue.ready_count == 5
    assert queue.unacked_count == 2
    assert queue.ack_count == 3


def test_an_offset_to_come_is_waited_for(client: CoreClient) -> None:
    """Rule ST-04: what comes before it is skipped."""
    queue = stream(client)
    fill(client, b"0")
    read(client, queue, arguments={"x-stream-offset": 3})
    fill(client, b"1", b"2")
    assert offsets(client) == []
    fill(client, b"3", b"4")
    assert offsets(client) == [3, 4]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Field("S", "first"), 0, id="first"),
        pytest.param(Field("x", b"first"), 0, id="first-as-a-binary"),
        pytest.param(Field("S", "last"), 4, id="last"),
        pytest.param(Field("S", "next"), 5, id="next"),
        pytest.param(Field("l", 2), 2, id="offset"),
        *[pytest.param(Field(kind, 3), 3, id=f"offset-{kind}") for kind in "bBsuIilL"],
        pytest.param(Field("l", -1), 0, id="negative"),
        pytest.param(Field("l", (1 << 63) - 1), (1 << 62) - 1, id="never"),
        pytest.param(Field("T", 0), 0, id="time-of-long-ago"),
        pytest.param(Field("T", (1 << 64) - 1), 5, id="time-to-come"),
        pytest.param(Field("S", "1Y"), 0, id="all-of-a-year"),
        pytest.param(Field("S", "99999999999999999999Y"), 0, id="all-of-the-age-of-the-world"),
        pytest.param(Field("S", "60s"), 2, id="the-last-minute"),
        pytest.param(Field("S", "1s"), 4, id="the-last-second"),
    ],
)
def test_a_consumer_begins_where_it_asks_to(
    client: CoreClient, value: Field, expected: int
) -> None:
    """Rule ST-04. The messages come thirty seconds apart, the last one just now."""
    queue = stream(client)
    for number in range(5):
        client.world.move(30_000 if number else 0)
        fill(client, b"%d" % number)

    consumer = client.consume(queue, prefetch=100, arguments={"x-stream-offset": value})
    begins = range(expected, 5)
    assert offsets(client) == list(begins)
    if not begins:
        assert queue._waiting == {expected: {consumer: None}}


def test_a_time_of_the_wall_is_what_a_timestamp_means(client: CoreClient) -> None:
    """Rule ST-04."""
    queue = stream(client)
    fill(client, b"0")
    client.world.move(10_000)
    now_s = client.world.node.deadlines.wall_ms // 1000
    fill(client, b"1")
    client.world.move(10_000)
    fill(client, b"2")
    for begin_s, expected in ((now_s, [1, 2]), (now_s + 1, [2]), (now_s - 100, [0, 1, 2])):
        client.consume(queue, prefetch=9, arguments={"x-stream-offset": Field("T", begin_s)})
        assert offsets(client) == expected
        client.cancel()


def test_what_is_gone_begins_with_what_is_left(client: CoreClient) -> None:
    """Rules ST-04, ST-07; one who was slow is no better off."""
    queue = stream(client, x_max_length_bytes=0, x_stream_max_segment_size_bytes=0)
    fill(client, b"0")
    read(client, queue, "slow", prefetch=1)
    fill(client, b"1", b"2", b"3")
    assert queue.ready_count == 1
    read(client, queue, "new", arguments={"x-stream-offset": 1})
    assert by_tag(client) == {"slow": [0], "new": [3]}
    client.ack(1)
    assert by_tag(client) == {"slow": [3]}


def test_filters_are_exact(client: CoreClient) -> None:
    """Rule ST-08; a value that is no text is none."""
    queue = stream(client)
    for value in ("a", "b", None, 5, ["a"], "", "c", "a"):
        headers = {} if value is None else {"x-stream-filter-value": value}
        client.publish("s", b"", headers=headers)

    wanted: list[tuple[dict[str, object], list[int]]] = [
        ({"x-stream-filter": "a"}, [0, 7]),
        ({"x-stream-filter": ["a", "b", "a"]}, [0, 1, 7]),
        ({"x-stream-filter": "a", "x-stream-match-unfiltered": True}, [0, 2, 3, 4, 5, 7]),
        ({"x-stream-filter": "a", "x-stream-match-unfiltered": "true"}, [0, 7]),
        ({"x-stream-filter": ""}, [2, 3, 4, 5]),
        ({"x-stream-filter": 5}, list(range(8))),
        ({"x-stream-match-unfiltered": True}, list(range(8))),
    ]
    for arguments, expected in wanted:
        read(client, queue, arguments={**FIRST, **arguments})
        assert offsets(client) == expected, arguments
        client.cancel()


def test_a_filter_holds_for_what_comes_too(client: CoreClient) -> None:
    queue = stream(client)
    read(client, queue, prefetch=2, arguments={"x-stream-filter": "a"})
    for value in "bab":
        client.publish("s", headers={"x-stream-filter-value": value})

    client.publish("s")
    client.publish("s", b"x-stream-filter-value a")
    assert offsets(client) == [1]
    client.publish("s", headers={"x-stream-filter-value": "a"})
    assert offsets(client) == [5]


# -- what it costs


def test_nobody_is_looked_at_who_cannot_read(client: CoreClient) -> None:
    """An append goes to those who wait for it, however many there are besides."""
    queue = stream(client)
    busy = [read(client, queue, f"busy-{number}", prefetch=1) for number in range(50)]
    fill(client, b"0")
    assert len(client.heard()) == 50
    free = read(client, queue, "free", arguments={})
    ahead = read(client, queue, "ahead", arguments={"x-stream-offset": 1_000})
    assert not any(consumer.is_waiting for consumer in busy)
    assert queue._waiting == {1: {free: None}, 1_000: {ahead: None}}
    fill(client, b"1")
    assert by_tag(client) == {"free": [1]}
    assert not any(consumer.is_waiting for consumer in busy)
    client.ack(*range(1, 51))
    assert by_tag(client) == {consumer.tag: [1] for consumer in busy}


def test_a_full_output_ends_the_turn_and_the_rest_comes_in_the_next(client: CoreClient) -> None:
    """Budgets are those of all deliveries; turns go round in the next one too."""
    queue = stream(client)
    count = 4 * OUTPUT_TURN_BYTES_MAX // 16_384
    fill(client, *[bytes(16_384)] * count)
    for tag in "ab":
        read(client, queue, tag, prefetch=1_000)

    client.world.node.resume()
    first = by_tag(client)
    assert sum(len(each) for each in first.values()) <= OUTPUT_TURN_BYTES_MAX // 16_384 + 1
    every = {tag: list(found) for tag, found in first.items()}
    turns = 1
    while client.world.node.wants_turn():
        client.world.node.resume()
        turns += 1
        for consumer_tag, found in by_tag(client).items():
            every.setdefault(consumer_tag, []).extend(found)

    assert every == {"a": list(range(count)), "b": list(range(count))}
    assert turns >= 8


def test_a_client_that_does_not_read_holds_up_nobody(client: CoreClient) -> None:
    queue = stream(client)
    other = client.world.client()
    read(client, queue)
    read(other, queue)
    client.output.pause()
    fill(other, b"0", b"1")
    assert offsets(client) == []
    assert offsets(other) == [0, 1]
    client.output.resume()
    client.world.settle()
    assert offsets(client) == [0, 1]


# -- consumers that go


def test_a_cancelled_consumer_is_forgotten_wherever_it_stands(client: CoreClient) -> None:
    """Rules CO-12, ST-06."""
    queue = stream(client)
    fill(client, b"0")
    read(client, queue, "end")
    read(client, queue, "busy", prefetch=1)
    read(client, queue, "ahead", arguments={"x-stream-offset": 9})
    client.heard()
    for tag in ("end", "busy", "ahead"):
        client.cancel(tag)

    assert queue._waiting == {}
    fill(client, *[b"x"] * 10)
    client.ack(1, 2)
    assert offsets(client) == []
    assert queue.consumers == {}


def test_a_consumer_that_comes_again_begins_anew(client: CoreClient) -> None:
    """Rule ST-06: nothing is remembered."""
    queue = stream(client)
    fill(client, b"0", b"1")
    for _ in range(2):
        read(client, queue)
        assert offsets(client) == [0, 1]
        client.cancel()


def test_a_deleted_stream_tells_its_consumers_and_answers_settlements(client: CoreClient) -> None:
    """Rules ST-10, A-08, Q-53."""
    queue = stream(client)
    fill(client, b"0", b"1", b"2")
    read(client, queue, "busy", prefetch=2)
    read(client, queue, "ahead", arguments={"x-stream-offset": 9})
    queue.check_delete(if_unused=True, if_empty=True)
    client.vhost.remove_queue(queue)
    assert client.cancelled == ["busy", "ahead"]
    assert offsets(client) == [0, 1]
    client.ack(1)
    client.requeue(2)
    assert offsets(client) == []
    assert queue.unacked_count == 0
    assert stream(client) is not queue


# -- time and policies


def test_what_is_too_old_goes_without_anybody_doing_anything(client: CoreClient) -> None:
    """Rule ST-07."""
    queue = stream(client, x_max_age="8s")
    for _ in range(5):
        fill(client, b"x")
        client.world.move(1_000)

    assert queue.ready_count == 5
    client.world.move(5_000)
    assert (queue.ready_count, queue.log.first_offset) == (3, 2)
    client.world.move(60_000)
    assert queue.ready_count == 1
    assert client.world.node.next_deadline() is None
    for _ in range(2):
        fill(client, b"x")
        client.world.move(1_000)

    assert client.world.node.next_deadline() is not None
    client.vhost.remove_queue(queue)
    assert client.world.node.next_deadline() is None


def test_times_to_live_mean_nothing(client: CoreClient) -> None:
    """Rule TTL-09."""
    queue = stream(client)
    client.publish("s", b"", expiration="0")
    client.publish("s", b"", expiration="1")
    client.world.move(60_000)
    read(client, queue)
    heard = client.heard()
    assert [offset_of(one) for one in heard] == [0, 1]
    assert b"\x010" in heard[0].properties, "the property is passed on"


def test_priorities_mean_nothing(client: CoreClient) -> None:
    """Rule ST-09."""
    queue = stream(client)
    for priority in (1, 9, 5):
        client.publish("s", b"%d" % priority, priority=priority)

    read(client, queue)
    assert client.bodies() == [b"1", b"9", b"5"]


@pytest.mark.parametrize("definition", [{"max-length-bytes": 0}, {"max-age": "1s"}])
def test_a_policy_takes_effect_at_once_and_wins(
    client: CoreClient, definition: dict[str, object]
) -> None:
    """Rules PO-05, PO-11."""
    queue = stream(
        client, x_max_length_bytes=10**9, x_max_age="1D", x_stream_max_segment_size_bytes=0
    )
    fill(client, b"0")
    client.world.move(2_000)
    fill(client, b"1")
    client.world.set_policy(definition)
    assert (queue.ready_count, queue.ready_bytes) == (1, 1)
    client.vhost.clear_policy("p")
    fill(client, b"2")
    client.world.move(5_000)
    assert queue.ready_count == 2


def test_a_policy_may_be_wider_than_the_arguments(client: CoreClient) -> None:
    """Rule PO-05: for streams it is not the lower of both."""
    client.world.set_policy({"max-length-bytes": 10**9, "max-age": "1Y"})
    queue = stream(client, x_max_length_bytes=0, x_max_age="1s", x_stream_max_segment_size_bytes=0)
    for _ in range(3):
        fill(client, b"x")
        client.world.move(5_000)

    assert queue.ready_count == 3
    assert queue.settings.max_age_ms == 365 * 86_400_000


def test_a_policy_sets_the_size_of_segments(client: CoreClient) -> None:
    """Rule PO-05."""
    queue = stream(client, x_max_length_bytes=0)
    client.world.set_policy({"stream-max-segment-size-bytes": 0})
    fill(client, b"0", b"1", b"2")
    assert queue.ready_count == 1


UNSUPPORTED = [
    {"expires": 1},
    {"message-ttl": 0},
    {"dead-letter-exchange": ""},
    {"max-length": 0},
    {"overflow": "reject-publish"},
    {"delivery-limit": 1},
]


@pytest.mark.parametrize("definition", UNSUPPORTED, ids=[json.dumps(one) for one in UNSUPPORTED])
def test_a_policy_with_a_key_that_streams_do_not_have_is_not_for_them(
    client: CoreClient, definition: dict[str, object]
) -> None:
    """Rules PO-03, PO-08."""
    queue = stream(client, x_stream_max_segment_size_bytes=0)
    client.world.set_policy({**definition, "max-age": "1s"})
    fill(client, b"0")
    client.world.move(60_000)
    fill(client, b"1")
    assert queue.ready_count == 2
    assert client.vhost.queues["s"] is queue


# -- with others


def test_dead_letters_may_go_to_a_stream(client: CoreClient) -> None:
    """Rule DL-12."""
    queue = stream(client)
    client.declare("mortal", x_dead_letter_exchange="", x_dead_letter_routing_key="s")
    client.publish("mortal", b"late", expiration="5")
    client.world.move(5)
    read(client, queue)
    [heard] = client.heard()
    headers = plain_headers(heard.properties)
    assert (headers["x-stream-offset"], headers["x-first-death-reason"]) == (0, "expired")
    assert heard.arguments["routing_key"] == "s"


def test_publishes_are_confirmed_at_once(client: CoreClient) -> None:
    """Rules ST-09, CF-06."""
    stream(client)
    client.confirm_select()
    fill(client, b"0", b"1")
    assert [one.name for one in client.confirmed()] == ["ack"]


def test_a_copy_in_another_queue_does_not_hear_of_the_offset(client: CoreClient) -> None:
    """Rule ST-05: content is shared until somebody reads it."""
    queue = stream(client)
    classic = client.declare("q")
    for name in ("s", "q"):
        client.vhost.exchanges["amq.fanout"].add_binding(client.vhost.queues[name], "", {})

    client.vhost.topology_changed()
    client.publish("", b"both", exchange="amq.fanout")
    read(client, queue)
    assert offsets(client) == [0]
    message = client.get(classic)
    assert message is not None
    assert plain_headers(message.properties().raw) == {}
