"""Releases of RabbitMQ to be as strict as: each refuses what it refuses, in its own words.

Texts and codes are those of live 3.10 and 4.3; the text of rule Q-29a is known up to its second
line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.core.queue.quorum import QuorumQueue
from broker.core.release import NO_RELEASE, RELEASES
from broker.core.settings import NodeSettings
from tests.helpers.core import plain_headers
from tests.helpers.session import World, publish

if TYPE_CHECKING:
    from tests.helpers.session import Session


class Try(NamedTuple):
    name: str
    arguments: dict[str, object]


class Refusal(NamedTuple):
    """How a release answers; ``where`` is ``channel`` or ``connection``."""

    where: str
    code: int
    text: str


def client_of(release: str) -> Session:
    settings = NodeSettings(release=RELEASES[release]) if release else NodeSettings()
    return World(settings).open(1)


TRANSIENT = Try("queue.declare", {"queue": "q"})
FIRST_VERSION = Try(
    "queue.declare", {"queue": "q", "durable": True, "arguments": {"x-queue-version": 1}}
)
ODD_MODE = Try(
    "queue.declare", {"queue": "q", "durable": True, "arguments": {"x-queue-mode": "odd"}}
)
LOCATOR = Try(
    "queue.declare",
    {"queue": "q", "durable": True, "arguments": {"x-queue-master-locator": "min-masters"}},
)
UNKNOWN_TYPE = Try("exchange.declare", {"exchange": "e", "type": "odd"})
LOCAL_RANDOM = Try("exchange.declare", {"exchange": "e", "type": "x-local-random"})
HASHES = Try(
    "exchange.bind",
    {"source": "amq.topic", "destination": "amq.fanout", "routing_key": "#.a.#.b.#"},
)

GONE = "Feature `{}` is deprecated.\nBy default, this feature is not permitted anymore.\n"
TOPIC_TEXT = "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed"
VERSION_TEXT = (
    "invalid arg 'x-queue-version' for queue 'q' in vhost '/': \"unsupported queue version '1'\""
)
MODE_TEXT = (
    "invalid arg 'x-queue-mode' for queue 'q' in vhost '/': \"unsupported queue mode 'odd'\""
)

CASES = [
    (FIRST_VERSION, ["4.3"], Refusal("channel", 406, VERSION_TEXT)),
    (ODD_MODE, ["3.10", "3.13", "4.0", "4.1", "4.2"], Refusal("channel", 406, MODE_TEXT)),
    (LOCATOR, ["4.3"], Refusal("connection", 541, GONE.format("queue_master_locator"))),
    (UNKNOWN_TYPE, ["3.10"], Refusal("connection", 503, "unknown exchange type 'odd'")),
    (
        UNKNOWN_TYPE,
        ["", "3.13", "4.0", "4.1", "4.2", "4.3"],
        Refusal("channel", 406, "unknown exchange type 'odd'"),
    ),
    (
        LOCAL_RANDOM,
        ["3.10"],
        Refusal("connection", 503, "unknown exchange type 'x-local-random'"),
    ),
    (LOCAL_RANDOM, ["3.13"], Refusal("channel", 406, "unknown exchange type 'x-local-random'")),
    (HASHES, ["4.3"], Refusal("channel", 406, TOPIC_TEXT)),
]
REFUSED = {(tried.name, str(tried.arguments), one) for tried, some, _ in CASES for one in some}


@pytest.mark.parametrize(
    ("tried", "release", "refusal"),
    [
        pytest.param(tried, release, refusal, id=f"{release or 'none'}-{number}")
        for number, (tried, releases, refusal) in enumerate(CASES)
        for release in releases
    ],
)
def test_a_release_refuses_what_it_refuses(tried: Try, release: str, refusal: Refusal) -> None:
    """Rules Q-25, Q-29a, E-20, E-85."""
    answer = client_of(release).ask(1, tried.name, **tried.arguments)

    assert answer.name == f"{refusal.where}.close"
    assert answer.arguments["reply_code"] == refusal.code
    text = str(answer.arguments["reply_text"])
    assert text.partition(" - ")[2] == refusal.text


@pytest.mark.parametrize("release", ["", *RELEASES])
@pytest.mark.parametrize(
    "tried", [TRANSIENT, FIRST_VERSION, ODD_MODE, LOCATOR, LOCAL_RANDOM, HASHES]
)
def test_and_takes_everything_else(tried: Try, release: str) -> None:
    """Rule Q-29 too: 4.3 calls such queues deprecated, and permits them by default."""
    answer = client_of(release).ask(1, tried.name, **tried.arguments)

    is_refused = (tried.name, str(tried.arguments), release) in REFUSED
    assert answer.name.endswith(".close" if is_refused else "-ok")


@pytest.mark.parametrize("release", ["", *RELEASES])
def test_an_own_queue_may_be_transient_everywhere(release: str) -> None:
    client = client_of(release)
    assert client.ask(1, "queue.declare", exclusive=True).name == "queue.declare-ok"


@pytest.mark.parametrize(
    ("release", "count"), [("", 1), ("3.10", 1), ("4.2", 1), ("4.3", 2)], ids=lambda one: str(one)
)
def test_a_limit_for_the_channel_is_one_or_is_of_each_consumer(release: str, count: int) -> None:
    """Rule QS-03."""
    client = client_of(release)
    client.ask(1, "queue.declare", queue="q", exclusive=True)
    client.ask(1, "basic.qos", prefetch_count=1, global_=True)
    client.ask(1, "basic.consume", queue="q", consumer_tag="one")
    client.ask(1, "basic.consume", queue="q", consumer_tag="other")
    client.feed(b"".join(publish(1, "q") for _ in range(3)))

    assert client.names().count("basic.deliver") == count


@pytest.mark.parametrize("name", ["basic.nack", "basic.reject"])
@pytest.mark.parametrize("release", ["", "3.10"])
def test_deliveries_of_a_stream_are_taken_back_or_not(name: str, release: str) -> None:
    """Rule ST-06."""
    client = client_of(release)
    arguments = {"x-queue-type": "stream"}
    client.ask(1, "queue.declare", queue="s", durable=True, arguments=arguments)
    client.ask(1, "basic.qos", prefetch_count=1)
    client.ask(1, "basic.consume", queue="s", arguments={"x-stream-offset": "first"})
    client.feed(publish(1, "s"))
    client.heard()

    client.send(1, name, delivery_tag=1)

    closes = [one for one in client.heard() if one.name == "connection.close"]
    text = "basic.nack and basic.reject not supported by stream queues queue 's' in vhost '/'"
    expected = [f"NOT_IMPLEMENTED - {text}"] if release else []
    assert [one.arguments["reply_text"] for one in closes] == expected


@pytest.mark.parametrize(("release", "limit"), [("", 20), ("3.13", -1), ("4.3", 20)])
def test_quorum_queues_give_up_by_themselves_or_never(release: str, limit: int) -> None:
    """Rule QQ-09."""
    settings = NodeSettings(release=RELEASES[release]) if release else NodeSettings()
    world = World(settings)
    arguments = {"x-queue-type": "quorum"}
    world.open(1).ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)

    queue = world.vhost.queues["q"]
    assert isinstance(queue, QuorumQueue)
    assert queue.delivery_limit == limit


WAYS_BACK = {
    "nack": Try("basic.nack", {"requeue": True}),
    "reject": Try("basic.reject", {"requeue": True}),
    "recover": Try("basic.recover", {"requeue": True}),
    "channel": Try("channel.close", {"reply_code": 200}),
}


@pytest.mark.parametrize("way", WAYS_BACK)
@pytest.mark.parametrize("release", ["", "3.10", "4.2", "4.3"])
def test_a_way_back_to_a_quorum_queue_counts_or_does_not(way: str, release: str) -> None:
    """Rules QQ-03, QQ-04: what live 4.3 does with each of them."""
    counts = release != "4.3" or way in ("reject", "channel")
    client = client_of(release)
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    client.ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)
    client.feed(publish(1, "q", b"hare"))
    counted: list[tuple[object, object]] = []
    tried = WAYS_BACK[way]
    for _ in range(5):
        heard = client.ask(1, "basic.get", queue="q")
        if heard.name != "basic.get-ok":
            break

        headers = plain_headers(heard.properties)
        counted.append((headers.get("x-delivery-count"), headers.get("x-acquired-count")))
        tag = {"delivery_tag": heard.arguments["delivery_tag"]}
        client.send(1, tried.name, **tried.arguments, **(tag if way in ("nack", "reject") else {}))
        if way == "channel":
            client.send(1, "channel.open")

        client.heard()

    failed = [(None, None), (1, 1), (2, 2)]
    assert counted == (failed if counts else [(None, None), *((None, n) for n in range(1, 5))])


def test_releases_are_known_by_their_names() -> None:
    assert all(release.name == name for name, release in RELEASES.items())
    assert NO_RELEASE.name == ""
