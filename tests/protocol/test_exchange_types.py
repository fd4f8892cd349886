"""The hashing, random and remembering exchange types as clients see them (sections E.13, E.14)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.settings import NodeSettings
from tests.helpers.core import raw_properties
from tests.helpers.session import World, assert_channel_closed, publish

if TYPE_CHECKING:
    from tests.helpers.session import Session

DECLARE = (40, 10)
QUEUE_BIND = (50, 20)
EXCHANGE_BIND = (40, 30)
LONG_KEY = "9" * 200


def client_with(exchange_type: str, *queues: str, **arguments: object) -> Session:
    """A client with one channel, an exchange ``x`` of that type, and these queues."""
    client = World().open(1)
    hyphened = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.ask(1, "exchange.declare", exchange="x", type=exchange_type, arguments=hyphened)
    for queue in queues:
        client.ask(1, "queue.declare", queue=queue)

    return client


def bind(client: Session, queue: str, key: str = "", **arguments: object) -> None:
    answer = client.ask(
        1, "queue.bind", queue=queue, exchange="x", routing_key=key, arguments=arguments
    )
    assert answer.name == "queue.bind-ok"


def send(
    client: Session, key: str = "", body: bytes = b"m", *, mandatory: bool = False, **of: Any
) -> None:
    """Publish to ``x``; further keywords are properties."""
    client.feed(publish(1, key, body, raw_properties(**of), exchange="x", mandatory=mandatory))


def counts(client: Session, *queues: str) -> list[int]:
    """How many messages each queue holds; they are purged."""
    found: list[int] = []
    for queue in queues:
        count = client.ask(1, "queue.purge", queue=queue).arguments["message_count"]
        assert isinstance(count, int)
        found.append(count)

    return found


def bodies(client: Session, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while (one := client.ask(1, "basic.get", queue=queue, no_ack=True)).name == "basic.get-ok":
        found.append(one.body)

    return found


# -- x-consistent-hash


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("", "The binding key must be an integer: <<>>", id="empty"),
        pytest.param("a", 'The binding key must be an integer: <<"a">>', id="word"),
        pytest.param(" 1", 'The binding key must be an integer: <<" 1">>', id="space"),
        pytest.param("1.5", 'The binding key must be an integer: <<"1.5">>', id="fraction"),
        pytest.param("1_0", 'The binding key must be an integer: <<"1_0">>', id="underscore"),
        pytest.param(
            "\u0661", 'The binding key must be an integer: <<"\u0661"/utf8>>', id="Arabic digit"
        ),
        pytest.param("0", "The binding key must be greater than 0", id="zero"),
        pytest.param("-1", "The binding key must be greater than 0", id="negative"),
        pytest.param("10001", "The binding key must not exceed 10000", id="too much"),
        pytest.param(LONG_KEY, "The binding key must not exceed 10000", id="far too much"),
    ],
)
def test_a_weight_that_is_none_is_refused(key: str, text: str) -> None:
    """Rule E-120, the texts of RabbitMQ 4.3."""
    client = client_with("x-consistent-hash", "q")
    client.send(1, "queue.bind", queue="q", exchange="x", routing_key=key)
    assert_channel_closed(client, 1, 406, f"PRECONDITION_FAILED - {text}", QUEUE_BIND)


@pytest.mark.parametrize("key", ["1", "10000", "+1", "01"])
def test_a_weight_may_be_written_so(key: str) -> None:
    """Rule E-120."""
    client = client_with("x-consistent-hash", "q")
    bind(client, "q", key)
    send(client, "any")
    assert counts(client, "q") == [1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
            id="both",
        ),
        pytest.param({"hash-property": "app_id"}, "Unsupported property: app_id", id="property"),
        pytest.param(
            {"hash-property": 5}, "Invalid argument, 'hash-property' must be a string", id="number"
        ),
        pytest.param(
            {"hash-header": True}, "Invalid argument, 'hash-header' must be a string", id="boolean"
        ),
    ],
)
def test_hash_arguments_without_use_are_refused(arguments: dict[str, object], text: str) -> None:
    """Rule E-121; where the type is wrong RabbitMQ crashes."""
    client = World().open(1)
    client.send(1, "exchange.declare", exchange="x", type="x-consistent-hash", arguments=arguments)
    assert_channel_closed(client, 1, 406, f"PRECONDITION_FAILED - {text}", DECLARE)


def test_each_key_has_one_queue_and_keeps_it() -> None:
    """Rule E-122."""
    client = client_with("x-consistent-hash", "a", "b")
    bind(client, "a", "1")
    bind(client, "b", "1")
    first = []
    for number in range(50):
        send(client, f"key-{number}")
        first.append(counts(client, "a", "b"))

    assert sorted({tuple(one) for one in first}) == [(0, 1), (1, 0)]
    for number in range(50):
        send(client, f"key-{number}")
        assert counts(client, "a", "b") == first[number]


@pytest.mark.parametrize(
    "way",
    [
        {"hash_header": "h"},
        {"hash_property": "correlation_id"},
        {"hash_property": "message_id"},
        {"hash_property": "timestamp"},
    ],
    ids=lambda way: next(iter(way.values())),
)
def test_what_is_hashed_may_be_a_header_or_a_property(way: dict[str, str]) -> None:
    """Rule E-122: the key plays no part then; without the header or property all go one way."""
    client = client_with("x-consistent-hash", "a", "b", **way)
    bind(client, "a", "1")
    bind(client, "b", "1")
    name = next(iter(way.values()))

    def properties_of(number: int) -> dict[str, Any]:
        if name == "h":
            return {"headers": {"h": str(number)}}

        return {name: datetime.fromtimestamp(number, UTC) if name == "timestamp" else str(number)}

    for number in range(60):
        send(client, "same", **properties_of(number))

    assert min(counts(client, "a", "b")) > 10
    for number in range(20):
        send(client, f"key-{number}", **properties_of(7))
        send(client, f"key-{number}", **properties_of(7))

    assert sorted(counts(client, "a", "b")) == [0, 40]
    for number in range(20):
        send(client, f"key-{number}")

    assert sorted(counts(client, "a", "b")) == [0, 20]


def test_a_hashed_header_is_the_same_number_in_any_width() -> None:
    """Rule E-122: the values are hashed, not their encoding."""
    client = client_with("x-consistent-hash", "a", "b", hash_header="h")
    bind(client, "a", "1")
    bind(client, "b", "1")
    for kind in (b"b\x07", b"s\x00\x07", b"I\x00\x00\x00\x07", b"l" + bytes(7) + b"\x07"):
        entry = b"\x01h" + kind
        raw = b"\x20\x00" + len(entry).to_bytes(4, "big") + entry
        client.feed(publish(1, "", b"m", raw, exchange="x"))

    assert sorted(counts(client, "a", "b")) == [0, 4]


def test_a_second_weight_adds_nothing_and_any_unbind_takes_all() -> None:
    """Rule E-123, as both live versions do."""
    client = client_with("x-consistent-hash", "a", "b")
    bind(client, "a", "2")
    bind(client, "a", "1")
    bind(client, "b", "1")
    client.ask(1, "queue.unbind", queue="a", exchange="x", routing_key="1")
    for number in range(30):
        send(client, f"key-{number}")

    assert counts(client, "a", "b") == [0, 30]


def test_without_bindings_a_message_is_unroutable() -> None:
    """Rule E-124."""
    client = client_with("x-consistent-hash")
    send(client, "k", mandatory=True)
    assert [one.name for one in client.heard()] == ["basic.return"]


def test_a_message_with_further_keys_still_has_one_queue() -> None:
    """Rule E-122: the main key is hashed."""
    client = client_with("x-consistent-hash", "a", "b")
    bind(client, "a", "1")
    bind(client, "b", "1")
    for number in range(20):
        send(client, "k", headers={"CC": [str(number)]})

    assert sorted(counts(client, "a", "b")) == [0, 20]


# -- x-random, x-local-random, x-modulus-hash


@pytest.mark.parametrize("exchange_type", ["x-random", "x-local-random"])
def test_a_random_queue_gets_each_message(exchange_type: str) -> None:
    """Rules E-130, E-131: every binding is a lot, and any key will do."""
    client = client_with(exchange_type, "a", "b")
    for number in range(3):
        bind(client, "a", number=number)

    bind(client, "b")
    for number in range(400):
        send(client, f"key-{number % 2}")

    in_a, in_b = counts(client, "a", "b")
    assert in_a + in_b == 400
    assert 60 < in_b < 140


@pytest.mark.parametrize("exchange_type", ["x-random", "x-local-random", "x-modulus-hash"])
def test_with_one_binding_there_is_no_choice_and_with_none_no_route(exchange_type: str) -> None:
    client = client_with(exchange_type, "a", "b")
    bind(client, "a")
    bind(client, "b")
    client.ask(1, "queue.delete", queue="b")
    for number in range(20):
        send(client, f"key-{number}")

    assert counts(client, "a") == [20]
    client.ask(1, "queue.unbind", queue="a", exchange="x")
    send(client, mandatory=True)
    assert [one.name for one in client.heard()] == ["basic.return"]


def test_a_local_random_exchange_takes_no_keys() -> None:
    """Rule E-131."""
    client = client_with("x-local-random", "q")
    client.send(1, "queue.bind", queue="q", exchange="x", routing_key="k")
    text = "PRECONDITION_FAILED - Non empty binding 'k' key not permitted"
    assert_channel_closed(client, 1, 406, text, QUEUE_BIND)


def test_a_local_random_exchange_takes_no_exchanges() -> None:
    """Rule E-131."""
    client = client_with("x-local-random")
    client.send(1, "exchange.bind", destination="amq.fanout", source="x")
    text = "PRECONDITION_FAILED - Destination not found"
    assert_channel_closed(client, 1, 406, text, EXCHANGE_BIND)


def test_a_local_random_exchange_looks_at_the_key_of_a_binding_first() -> None:
    client = client_with("x-local-random")
    client.send(1, "exchange.bind", destination="amq.fanout", source="x", routing_key="k")
    text = "PRECONDITION_FAILED - Non empty binding 'k' key not permitted"
    assert_channel_closed(client, 1, 406, text, EXCHANGE_BIND)


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
def test_a_local_random_exchange_takes_classic_queues_only(queue_type: str) -> None:
    """Rule E-131."""
    client = client_with("x-local-random", "q")
    client.world.vhost.queues["q"].type = queue_type
    client.send(1, "queue.bind", queue="q", exchange="x")
    text = (
        f"PRECONDITION_FAILED - Queue type rabbit_{queue_type}_queue not valid for this exchange"
        " type"
    )
    assert_channel_closed(client, 1, 406, text, QUEUE_BIND)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_a_modulus_does_not_depend_on_the_order_of_bindings(order: str) -> None:
    """Rule E-132."""

    def chosen(names: str) -> list[list[int]]:
        client = client_with("x-modulus-hash", *names)
        for name in names:
            bind(client, name)

        found = []
        for number in range(30):
            send(client, f"key-{number}")
            found.append(counts(client, "a", "b", "c"))

        return found

    assert chosen(order) == chosen("abc")


def test_a_modulus_counts_every_binding() -> None:
    """Rule E-132."""
    client = client_with("x-modulus-hash", "a", "b")
    for key in "123":
        bind(client, "a", key)

    bind(client, "b", "1")
    for number in range(400):
        send(client, f"key-{number}")

    assert 60 < counts(client, "a", "b")[1] < 140


def test_a_modulus_hashes_all_keys() -> None:
    """Rule E-132."""
    client = client_with("x-modulus-hash", "a", "b")
    bind(client, "a")
    bind(client, "b")
    for number in range(60):
        send(client, "same", headers={"CC": [str(number)]})

    assert min(counts(client, "a", "b")) > 10


# -- x-recent-history: rule E-133


def test_a_new_queue_gets_the_last_messages_oldest_first() -> None:
    client = client_with("x-recent-history", "early", "late", x_recent_history_length=3)
    bind(client, "early")
    for number in range(5):
        send(client, f"k{number}", b"%d" % number)

    bind(client, "late", "any")
    send(client, "k5", b"5")
    assert bodies(client, "early") == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert bodies(client, "late") == [b"2", b"3", b"4", b"5"]


def test_twenty_messages_are_remembered_unless_said_otherwise() -> None:
    client = client_with("x-recent-history", "q")
    for number in range(30):
        send(client, "", b"%d" % number)

    bind(client, "q")
    assert bodies(client, "q") == [b"%d" % number for number in range(10, 30)]


def test_binding_again_gives_nothing_again() -> None:
    client = client_with("x-recent-history", "q")
    send(client)
    bind(client, "q")
    bind(client, "q")
    assert counts(client, "q") == [1]


def test_a_message_may_ask_not_to_be_remembered() -> None:
    client = client_with("x-recent-history", "early", "late")
    bind(client, "early")
    send(client, "", b"kept", headers={"x-recent-history-no-store": False})
    send(client, "", b"secret", headers={"x-recent-history-no-store": True})
    send(client, "", b"odd", headers={"x-recent-history-no-store": 1})
    bind(client, "late")
    assert bodies(client, "early") == [b"kept", b"secret", b"odd"]
    assert bodies(client, "late") == [b"kept", b"odd"]


def test_a_new_exchange_routes_the_last_messages_by_their_keys() -> None:
    client = client_with("x-recent-history", "q")
    client.ask(1, "queue.bind", queue="q", exchange="amq.direct", routing_key="yes")
    send(client, "yes", b"1")
    send(client, "no", b"2")
    send(client, "yes", b"3")
    client.ask(1, "exchange.bind", destination="amq.direct", source="x")
    first = client.ask(1, "basic.get", queue="q", no_ack=True)
    assert (first.body, first.arguments["exchange"], first.arguments["routing_key"]) == (
        b"1",
        "x",
        "yes",
    )
    assert bodies(client, "q") == [b"3"]


def test_a_waiting_consumer_gets_the_last_messages_after_the_binding() -> None:
    client = client_with("x-recent-history", "q")
    send(client, "", b"m")
    client.ask(1, "basic.consume", queue="q", consumer_tag="c", no_ack=True)
    client.send(1, "queue.bind", queue="q", exchange="x")
    assert sorted(client.names()) == ["basic.deliver", "queue.bind-ok"]


def test_a_returned_message_is_remembered_too() -> None:
    client = client_with("x-recent-history", "q")
    send(client, mandatory=True)
    assert client.names() == ["basic.return"]
    bind(client, "q")
    assert counts(client, "q") == [1]


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0"), (-1, "-1"), ("5", '<<"5">>'), (True, "true")],
)
def test_a_length_that_is_none_is_refused(length: object, text: str) -> None:
    client = World().open(1)
    client.send(
        1,
        "exchange.declare",
        exchange="x",
        type="x-recent-history",
        arguments={"x-recent-history-length": length},
    )
    text = (
        f"PRECONDITION_FAILED - Invalid argument {text}, 'x-recent-history-length' must be a"
        " positive integer"
    )
    assert_channel_closed(client, 1, 406, text, DECLARE)


# -- the bound of rule E-85


def test_the_number_of_wildcards_in_a_topic_binding_may_be_bounded() -> None:
    client = World(NodeSettings(topic_hash_words_max=2)).open(1)
    client.ask(1, "queue.declare", queue="q")
    fine = client.ask(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#.a.#")
    assert fine.name == "queue.bind-ok"
    client.send(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#.a.#.b.#")
    text = (
        "PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, "
        "at most 2 are allowed"
    )
    assert_channel_closed(client, 1, 406, text, QUEUE_BIND)
