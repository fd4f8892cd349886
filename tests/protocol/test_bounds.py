"""Everything that a peer can make grow has an end, which says what it is; and nobody else notices.

Bounds that have tests of their own: unread answers (test_stalled_reader.py), frame sizes
(test_framing.py), the nesting of tables on the wire (unit/wire).
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

import pytest

from broker.core.binding import Binding
from broker.core.dead_letter import Death, record_death
from broker.core.exchange.topic import TopicExchange
from broker.core.message import Address, Message
from broker.core.settings import NodeSettings
from broker.core.transaction import ACK, Transaction
from broker.errors import PreconditionFailed
from broker.limits import (
    CONSUMERS_PER_CHANNEL_MAX,
    DEATHS_BYTES_MAX,
    FRAME_BYTES_MAX_DEFAULT,
    MESSAGE_BYTES_MAX_DEFAULT,
    MESSAGE_BYTES_MAX_HARD,
    PROPERTIES_PER_CHANNEL_MAX,
    ROUTES_PER_CHANNEL_MAX,
    ROUTES_PER_CHANNEL_MIN,
    ROUTES_SPARE_MAX,
    TABLE_BYTES_MAX,
    TABLE_DEPTH_MAX,
    TOPIC_CACHED_KEYS_MAX,
    UNCOMMITTED_PER_CHANNEL_MAX,
    UNFINISHED_BYTES_MAX,
)
from broker.protocol.channel import Channel
from broker.protocol.content import ContentAssembly
from broker.wire.properties import parse_properties
from broker.wire.tables import Field, encode_field, encode_table
from tests.helpers.core import plain_headers
from tests.helpers.session import (
    World,
    assert_channel_closed,
    assert_connection_closing,
    body,
    handshake,
    header,
    method,
    publish,
    text_property,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.helpers.session import Session

EXPIRATION: Final = 8
"""Bit of a property (rule X-02)."""

PUBLISH: Final = (60, 40)
UNLIMITED: Final = NodeSettings(channel_max=0, frame_max=0)


class Neighbour:
    """A client that publishes to itself, before and after somebody else's excess."""

    def __init__(self, world: World) -> None:
        self._session = world.open(1)
        self._session.ask(1, "queue.declare", queue="mine", exclusive=True)
        self._session.ask(1, "basic.consume", queue="mine", no_ack=True)

    def check(self) -> None:
        self._session.feed(publish(1, "mine", b"alive"))
        [delivery] = self._session.heard()
        assert delivery.body == b"alive"


def alive(kind: type) -> int:
    """How many objects of that class there are: in a compiled build too, the collector knows."""
    gc.collect()
    return sum(1 for one in gc.get_objects() if type(one) is kind)


def unlimited_session(world: World, *channels: int) -> Session:
    return world.open(*channels, greeting=handshake(channel_max=0, frame_max=0))


def headers_of_size(size_bytes: int, **fields: Field) -> bytes:
    """A property list whose headers have these fields and take exactly so many bytes."""
    fixed = len(encode_table({**fields, "fill": Field("x", b"")})) - 4
    return b"\x20\x00" + encode_table({**fields, "fill": Field("x", b"f" * (size_bytes - fixed))})


def nested_headers(depth: int) -> bytes:
    """Headers of so many tables inside one another, the outermost being one of them."""
    table = b""
    for _ in range(depth - 1):
        table = b"\x01kF" + len(table).to_bytes(4, "big") + table

    return b"\x20\x00" + len(table).to_bytes(4, "big") + table


# -- tables and headers


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(
            nested_headers(TABLE_DEPTH_MAX + 1),
            f"field table nested deeper than {TABLE_DEPTH_MAX} levels",
            id="depth",
        ),
        pytest.param(
            headers_of_size(TABLE_BYTES_MAX + 1),
            f"field table larger than {TABLE_BYTES_MAX} bytes",
            id="size",
        ),
    ],
)
@pytest.mark.parametrize("is_declaration", [True, False], ids=["arguments", "headers"])
def test_tables_end_somewhere(raw: bytes, text: str, is_declaration: bool) -> None:
    world = World(UNLIMITED)
    neighbour = Neighbour(world)
    session = unlimited_session(world, 1)
    if is_declaration:
        session.send(1, "queue.declare", queue="q", arguments=raw[2:])
    else:
        session.feed(publish(1, "mine", b"x", raw))

    last = session.heard()[-1]
    assert (last.name, last.arguments["reply_code"]) == ("connection.close", 501)
    assert text in str(last.arguments["reply_text"])
    neighbour.check()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(nested_headers(TABLE_DEPTH_MAX), id="depth"),
        pytest.param(headers_of_size(TABLE_BYTES_MAX, k=Field("l", 1)), id="size"),
        pytest.param(
            headers_of_size(TABLE_BYTES_MAX, **{"x-delay": Field("I", 10)}), id="size-with-delay"
        ),
        pytest.param(b"\x00\x40" + b"\xff" * 8, id="timestamp"),
    ],
)
def test_what_is_as_large_as_may_be_goes_every_way(raw: bytes) -> None:
    """What the broker adds to a message must not make it one that it cannot read itself."""
    world = World(UNLIMITED)
    world.node.set_tracing(world.vhost, True)
    session = unlimited_session(world, 1)
    by_headers = {"x-dead-letter-exchange": "amq.headers", "x-message-ttl": 10}
    delayed = {"x-delayed-type": "headers"}
    for name, arguments in {
        "first": by_headers,
        "second": {"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 10},
        "last": {},
        "traces": {"x-max-length": 1, **by_headers},
    }.items():
        assert session.ask(1, "queue.declare", queue=name, arguments=arguments).arguments

    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 1, "x-dead-letter-exchange": ""}
    quorum |= {"x-dead-letter-routing-key": "first"}
    session.ask(1, "queue.declare", queue="quorum", durable=True, arguments=quorum)
    session.ask(
        1, "exchange.declare", exchange="later", type="x-delayed-message", arguments=delayed
    )
    for queue, exchange in [("second", "amq.headers"), ("last", "amq.fanout"), ("first", "later")]:
        session.ask(1, "queue.bind", queue=queue, exchange=exchange)

    session.ask(1, "queue.bind", queue="traces", exchange="amq.rabbitmq.trace", routing_key="#")
    session.feed(publish(1, "", b"x", raw, exchange="later") + publish(1, "quorum", b"x", raw))
    for _ in range(2):
        session.send(1, "basic.get", queue="quorum")
        tag = session.heard()[-1].arguments["delivery_tag"]
        session.send(1, "basic.reject", delivery_tag=tag, requeue=True)

    world.wait(1.0)
    assert world.bugs == []
    # Two messages, and the traces that died on the way to the same place.
    session.heard()
    found = [session.ask(1, "basic.get", queue="last", no_ack=True) for _ in range(20)]
    assert len([one for one in found if one.body == b"x"]) >= 2
    assert found[-1].name == "basic.get-empty"
    for one in found[:-1]:
        if one.name == "basic.get-ok":
            parse_properties(one.properties).headers()


def test_a_dead_letter_routing_key_fits_into_a_frame() -> None:
    """RabbitMQ takes it, and closes the connection of whoever gets such a dead letter with 541."""
    world = World()
    session = world.open(1, 2)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k" * 255}
    assert session.ask(1, "queue.declare", queue="q", arguments=arguments).name[-3:] == "-ok"
    arguments["x-dead-letter-routing-key"] += "k"
    session.send(1, "queue.declare", queue="p", arguments=arguments)
    text = "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue 'p' in vhost "
    text += "'/': \"longer than 255 bytes\""
    assert_channel_closed(session, 1, 406, text, (50, 10))
    assert session.is_running


@pytest.mark.parametrize("text", ["9" * 5_000 + "Y", "0" * 5_000 + "7D"], ids=["nines", "zeros"])
def test_an_age_of_many_digits_is_for_ever(text: str) -> None:
    """Python makes no number of more than 4,300 digits."""
    world = World()
    session = world.open(1)
    arguments = {"x-queue-type": "stream", "x-max-age": text}
    answer = session.ask(1, "queue.declare", queue="s", durable=True, arguments=arguments)
    assert answer.name == "queue.declare-ok"
    session.ask(1, "basic.qos", prefetch_count=1)
    session.feed(publish(1, "s"))
    session.send(1, "basic.consume", queue="s", arguments={"x-stream-offset": text})
    assert session.names() == ["basic.consume-ok", "basic.deliver"]


# -- x-death


def chain(session: Session, length: int, *, name: str, is_ring: bool) -> None:
    """Queues that pass on at once whatever comes, each to the next; the last one keeps it."""
    for place in range(length):
        following = 0 if is_ring and place + 1 == length else place + 1
        arguments = {
            "x-max-length": 0,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": f"{name}{following}",
        }
        session.send(1, "queue.declare", queue=f"{name}{place}", nowait=True, arguments=arguments)

    session.send(1, "queue.declare", queue=f"{name}{length}", nowait=True)


def test_a_long_way_through_dead_letters_makes_no_header_that_fits_no_frame() -> None:
    """Rule DL-06, within bounds: the newest deaths are told, and the first one beside them."""
    length = 800
    world = World()
    neighbour = Neighbour(world)
    session = world.open(1)
    chain(session, length, name="q", is_ring=False)
    session.feed(publish(1, "q0"))
    letter = session.ask(1, "basic.get", queue=f"q{length}", no_ack=True)
    assert 0 < len(letter.properties) < FRAME_BYTES_MAX_DEFAULT // 3
    headers = plain_headers(letter.properties)
    shown = [death["queue"] for death in headers["x-death"]]
    assert 200 < len(shown) < length
    assert shown == [f"q{length - 1 - place}" for place in range(len(shown))]
    assert headers["x-first-death-queue"] == "q0"
    assert headers["x-last-death-queue"] == f"q{length - 1}"
    neighbour.check()


def test_a_long_ring_of_dead_letters_still_has_an_end() -> None:
    """Rule DL-11: the broker knows of deaths that the header has no room for."""
    length = 400
    world = World()
    session = world.open(1)
    chain(session, length, name="ring-of-queues-", is_ring=True)
    session.feed(publish(1, "ring-of-queues-0"))
    names = [f"ring-of-queues-{place}" for place in range(length)]
    assert [world.vhost.queues[name].publish_count for name in names] == [1] * length


def test_copied_routing_keys_do_not_multiply_with_every_death() -> None:
    """x-death tells the keys of the header CC, which may fill a frame by themselves."""
    world = World()
    session = world.open(1)
    chain(session, 4, name="q", is_ring=False)
    keys = Field("A", [Field("S", "k" * 250)] * 400)
    copies = b"\x20\x00" + encode_table({"CC": keys})
    session.feed(publish(1, "q0", b"", copies))
    letter = session.ask(1, "basic.get", queue="q4", no_ack=True)
    assert len(copies) < len(letter.properties) < len(copies) + DEATHS_BYTES_MAX
    deaths = plain_headers(letter.properties)["x-death"]
    assert deaths[0]["routing-keys"] == ["q3"]


def test_one_death_is_shown_in_any_case() -> None:
    death = Death("q", "rejected", "", ["k" * 255] * 1_000, 1, None)
    headers = record_death(record_death(None, death), death).to_headers()
    shown = death._replace(routing_keys=["k" * 255], times=2).to_field()
    assert headers["x-death"] == encode_field(Field("A", [shown]))


# -- contents that never end


def begin(channels: Iterable[int], size: int, part: bytes, properties: bytes = b"\0\0") -> bytes:
    """On each channel a publish that says more than it gives."""
    return b"".join(
        method(channel, "basic.publish", routing_key="mine")
        + header(channel, size, properties)
        + body(channel, part)
        for channel in channels
    )


def test_unfinished_contents_of_a_connection_end_somewhere() -> None:
    """Each channel alone is within bounds: it is their sum that is not."""
    world = World(NodeSettings(unfinished_bytes_max=1_000_000))
    neighbour = Neighbour(world)
    session = world.open(*range(1, 12))
    before = alive(ContentAssembly)
    session.feed(begin(range(1, 10), 200_000, b"x" * 100_000))
    assert session.connection.unfinished.count == 9
    assert session.heard() == []
    session.feed(begin([10], 200_000, b"x" * 100_000))
    text = "RESOURCE_ERROR - unfinished content of 10 channels is larger than the limit of "
    assert_connection_closing(session, 506, f"{text}1000000 bytes for one connection", PUBLISH)
    assert session.connection.unfinished.size_bytes == 0
    assert session.connection.unfinished.count == 0
    assert alive(ContentAssembly) == before
    neighbour.check()


def test_headers_of_unfinished_contents_count_too() -> None:
    world = World(NodeSettings(unfinished_bytes_max=1_000_000))
    session = world.open(*range(1, 12))
    session.feed(begin(range(1, 12), 1, b"", headers_of_size(100_000)))
    assert session.heard()[-1].arguments["reply_code"] == 506


def test_contents_that_become_whole_count_no_longer() -> None:
    world = World(NodeSettings(unfinished_bytes_max=1_000_000))
    session = world.open(1, 2, 3)
    session.ask(1, "queue.declare", queue="mine")
    for _ in range(10):
        session.feed(begin([1, 2], 200_000, b"x" * 100_000))
        session.feed(body(1, b"x" * 100_000) + body(2, b"x" * 100_000))

    # A channel that closes in the middle takes what it has with it.
    session.feed(begin([1], 200_000, b"x" * 100_000))
    session.ask(3, "queue.declare", queue="other")
    assert session.connection.unfinished.count == 1
    session.feed(body(1, b"x" * 100_000))
    assert session.connection.unfinished.count == 0
    assert session.connection.unfinished.size_bytes == 0
    assert world.vhost.queues["mine"].ready_count == 21


def test_a_body_that_will_be_refused_is_not_kept() -> None:
    """Rule P-02: the answer comes when all of it is there, memory is not needed for that."""
    world = World(NodeSettings(message_bytes_max=1_000, unfinished_bytes_max=10_000))
    session = world.open(1, 2)
    session.feed(begin([1], 100_000, b"x" * 99_000))
    assert 0 < session.connection.unfinished.size_bytes < 1_000
    assert session.heard() == []
    session.feed(body(1, b"x" * 1_000))
    text = "PRECONDITION_FAILED - message size 100000 is larger than configured max size 1000"
    assert_channel_closed(session, 1, 406, text, PUBLISH)
    assert session.connection.unfinished.size_bytes == 0
    assert session.is_running


def test_the_bound_on_unfinished_contents_leaves_room_for_any_message() -> None:
    assert UNFINISHED_BYTES_MAX >= 2 * MESSAGE_BYTES_MAX_HARD
    assert UNFINISHED_BYTES_MAX >= 8 * MESSAGE_BYTES_MAX_DEFAULT


# -- channels and consumers


def test_channels_end_somewhere_and_return() -> None:
    """Rule CH-04, and nothing remains of those that there were."""
    world = World()
    neighbour = Neighbour(world)
    before = alive(Channel)
    session = world.open()
    session.feed(b"".join(method(channel, "channel.open") for channel in range(1, 2_048)))
    assert session.names() == ["channel.open-ok"] * 2_047
    session.send(2_048, "channel.open")
    text = "NOT_ALLOWED - number of channels opened (2047) has reached the negotiated channel_max "
    assert_connection_closing(session, 530, f"{text}(2047)")
    assert alive(Channel) == before
    neighbour.check()


def test_channels_that_are_left_in_closing_count() -> None:
    """Rule CH-04: whoever never says close-ok runs out of channels, and they hold nothing."""
    world = World(NodeSettings(channel_max=50))
    session = world.open(greeting=handshake(channel_max=50))
    for channel in range(1, 51):
        session.ask(channel, "channel.open")
        session.ask(channel, "queue.declare", exclusive=True)
        session.ask(channel, "basic.consume")
        assert session.ask(channel, "basic.consume", queue="none").name == "channel.close"

    queues = world.vhost.queues.values()
    assert [queue.declared_consumer_count for queue in queues] == [0] * 50
    assert [len(channel.consumers) for channel in session.connection.channels.values()] == [0] * 50
    session.send(51, "channel.open")
    assert session.heard()[-1].arguments["reply_code"] == 530
    assert not world.vhost.queues


def test_consumers_of_a_channel_end_somewhere() -> None:
    """Rule CO-04."""
    world = World(NodeSettings(consumers_per_channel_max=1_000))
    neighbour = Neighbour(world)
    session = world.open(1)
    session.ask(1, "queue.declare", queue="q")
    session.feed(method(1, "basic.consume", queue="q") * 1_000)
    assert session.names() == ["basic.consume-ok"] * 1_000
    session.send(1, "basic.consume", queue="q")
    text = "NOT_ALLOWED - reached maximum (1000) of consumers per channel"
    assert_connection_closing(session, 530, text, (60, 20))
    assert world.vhost.queues["q"].declared_consumer_count == 0
    neighbour.check()
    assert NodeSettings().consumers_per_channel_max == CONSUMERS_PER_CHANNEL_MAX


# -- names, bindings, what is remembered


def test_names_are_as_long_as_a_short_string() -> None:
    """The wire has no room for more than 255 bytes, and every place takes all of them."""
    world = World()
    session = world.open(1)
    longest = "ü" * 127 + "x"
    session.ask(1, "exchange.declare", exchange=longest, type="topic")
    session.ask(1, "queue.declare", queue=longest)
    session.ask(1, "queue.bind", queue=longest, exchange=longest, routing_key=longest)
    session.ask(1, "basic.consume", queue=longest, consumer_tag=longest)
    session.feed(publish(1, longest, exchange=longest))
    [delivery] = session.heard()
    assert delivery.arguments["consumer_tag"] == longest
    assert delivery.arguments["routing_key"] == longest
    session.send(1, "queue.declare", queue="y" * 255, passive=True)
    last = session.heard()[-1]
    # Rule T-03: the explanation is cut to what the reply text has room for.
    assert len(str(last.arguments["reply_text"]).encode()) <= 255
    assert last.arguments["reply_code"] == 404


@pytest.mark.parametrize("kind", ["direct", "topic", "headers", "fanout"])
def test_bindings_of_a_deleted_queue_are_gone(kind: str) -> None:
    count = 3_000
    world = World()
    session = world.open(1)
    session.ask(1, "exchange.declare", exchange="e", type=kind)
    session.ask(1, "queue.declare", queue="q")
    before = alive(Binding)
    session.feed(
        b"".join(
            method(
                1,
                "queue.bind",
                queue="q",
                exchange="e",
                routing_key=f"*.{place}.#",
                nowait=True,
                arguments={"k": place},
            )
            for place in range(count)
        )
    )
    exchange = world.vhost.exchanges["e"]
    assert len(exchange.bindings) == count
    assert alive(Binding) == before + count
    session.ask(1, "queue.delete", queue="q")
    assert not exchange.bindings
    assert alive(Binding) == before


def test_what_a_channel_remembers_ends_somewhere() -> None:
    """Addresses and property lists, however many different ones there are."""
    world = World()
    session = world.open(1)
    channel = session.connection.channels[1]
    count = ROUTES_PER_CHANNEL_MAX + PROPERTIES_PER_CHANNEL_MAX
    for place in range(count):
        properties = text_property(EXPIRATION, str(10_000 + place))
        session.feed(publish(1, f"key-{place}", b"x", properties))

    assert 0 < len(channel.runs._known_routes) <= ROUTES_PER_CHANNEL_MAX
    assert 0 < len(channel.runs._known_properties) <= PROPERTIES_PER_CHANNEL_MAX


def _publish_keys(session: Session, count: int, channel_id: int = 1) -> None:
    session.feed(b"".join(publish(channel_id, f"key-{place}", b"x") for place in range(count)))


def test_addresses_that_are_used_in_turn_are_all_remembered() -> None:
    world = World()
    session = world.open(1)
    channel = session.connection.channels[1]
    count = ROUTES_PER_CHANNEL_MIN * 8
    for _ in range(3):
        _publish_keys(session, count)

    assert len(channel.runs._known_routes) == count
    vhost = channel.vhost
    assert vhost.spare_routes == ROUTES_SPARE_MAX - ROUTES_PER_CHANNEL_MIN * 7
    session.send(1, "channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    assert vhost.spare_routes == ROUTES_SPARE_MAX


def test_addresses_that_never_come_again_take_no_room_for_long() -> None:
    world = World()
    session = world.open(1)
    channel = session.connection.channels[1]
    _publish_keys(session, ROUTES_PER_CHANNEL_MAX * 2)
    assert channel.vhost.spare_routes == ROUTES_SPARE_MAX
    assert len(channel.runs._known_routes) <= ROUTES_PER_CHANNEL_MIN


def test_channels_share_what_a_virtual_host_remembers() -> None:
    """However many channels there are, and whatever is left when they ask for more."""
    world = World()
    channels = range(1, 7)
    session = world.open(*channels)
    vhost = session.connection.channels[1].vhost
    for number in channels:
        _publish_keys(session, ROUTES_PER_CHANNEL_MAX, number)

    kept = [len(session.connection.channels[number].runs._known_routes) for number in channels]
    assert 0 <= vhost.spare_routes < ROUTES_SPARE_MAX
    assert sum(kept) <= ROUTES_SPARE_MAX + ROUTES_PER_CHANNEL_MIN * len(channels)
    for number in channels:
        session.send(
            number, "channel.close", reply_code=200, reply_text="", class_id=0, method_id=0
        )

    assert vhost.spare_routes == ROUTES_SPARE_MAX


def test_what_a_topic_exchange_remembers_ends_somewhere() -> None:
    world = World()
    session = world.open(1)
    session.ask(1, "queue.declare", queue="q", arguments={"x-max-length": 1})
    session.ask(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    for place in range(TOPIC_CACHED_KEYS_MAX + 10):
        session.feed(publish(1, f"key.{place}", b"x", exchange="amq.topic"))

    exchange = world.vhost.exchanges["amq.topic"]
    assert isinstance(exchange, TopicExchange)
    assert 0 < len(exchange._cache) <= TOPIC_CACHED_KEYS_MAX


@pytest.mark.timeout(10)
@pytest.mark.parametrize("pattern", ["#." * 100 + "b", "#.*." * 60 + "b", "*.#." * 60 + "b"])
def test_patterns_of_a_topic_exchange_cost_no_more_than_their_length(pattern: str) -> None:
    """Rule E-85 is off by default: many ``#`` are taken, and must not take for ever."""
    world = World()
    session = world.open(1)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "queue.bind", queue="q", exchange="amq.topic", routing_key=pattern)
    for end in "ab":
        session.feed(publish(1, "a." * 126 + end, b"x", exchange="amq.topic"))

    assert world.vhost.queues["q"].ready_count == 1


# -- transactions


def test_transactions_end_somewhere() -> None:
    transaction = Transaction()
    one = Message(Address("", ""), b"", 0, False, -1)
    transaction.add_settlement(ACK, [one] * UNCOMMITTED_PER_CHANNEL_MAX)
    with pytest.raises(PreconditionFailed, match="transaction too large: more than 1000000"):
        transaction.add_settlement(ACK, [one])

    transaction.take_publications()
    transaction.take_settlements()
    transaction.add_settlement(ACK, [one])


def test_settlements_of_nothing_are_not_kept() -> None:
    """Rule A-02: zero with multiple stands for all there are, which may be none, and any often."""
    world = World()
    session = world.open(1)
    session.ask(1, "tx.select")
    session.feed(method(1, "basic.ack", multiple=True) * 1_000)
    transaction = session.connection.channels[1].transaction
    assert transaction is not None
    assert transaction.settlements == []
    assert session.ask(1, "tx.commit").name == "tx.commit-ok"


def test_a_transaction_that_is_not_committed_leaves_nothing_behind() -> None:
    """Rule TX-09."""
    world = World()
    neighbour = Neighbour(world)
    before = alive(Message)
    session = world.open(1)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "tx.select")
    session.feed(publish(1, "q") * 2_000)
    assert alive(Message) == before + 2_000
    session.lose()
    assert alive(Message) == before
    assert world.vhost.queues["q"].ready_count == 0
    neighbour.check()


# -- what is declared


def test_a_virtual_host_has_so_many_exchanges() -> None:
    """Rule E-26; what is there can be declared again."""
    world = World()
    world.vhost.exchanges_max = len(world.vhost.exchanges) + 1
    session = world.open(1)
    assert (
        session.ask(1, "exchange.declare", exchange="x", type="fanout").name
        == "exchange.declare-ok"
    )
    assert (
        session.ask(1, "exchange.declare", exchange="x", type="fanout").name
        == "exchange.declare-ok"
    )
    session.send(1, "exchange.declare", exchange="y", type="fanout")
    limit = world.vhost.exchanges_max
    text = (
        f"PRECONDITION_FAILED - cannot declare exchange 'y' in vhost '/': exchange limit of {limit}"
        " is reached"
    )
    assert_channel_closed(session, 1, 406, text, (40, 10))


def test_an_exchange_has_so_many_bindings() -> None:
    world = World()
    world.vhost.bindings_per_exchange_max = 2
    session = world.open(1)
    session.ask(1, "queue.declare", queue="q")
    for key in ("a", "b", "a"):
        answer = session.ask(1, "queue.bind", queue="q", exchange="amq.topic", routing_key=key)
        assert answer.name == "queue.bind-ok"

    session.send(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="c")
    text = (
        "PRECONDITION_FAILED - cannot bind to exchange 'amq.topic' in vhost '/': binding limit of 2"
        " is reached"
    )
    assert_channel_closed(session, 1, 406, text, (50, 20))
    assert len(world.vhost.exchanges["amq.topic"].bindings) == 2


@pytest.mark.parametrize("limit", [None, 5])
def test_a_virtual_host_has_so_many_queues_and_a_limit_goes_before(limit: int | None) -> None:
    world = World()
    world.vhost.queues_bound = 2
    world.vhost.queues_max = limit
    session = world.open(1)
    for number in range(limit or 2):
        assert session.ask(1, "queue.declare", queue=f"q{number}").name == "queue.declare-ok"

    session.send(1, "queue.declare", queue="one-more")
    text = (
        "PRECONDITION_FAILED - cannot declare queue 'one-more': queue limit in vhost '/' "
        f"({limit or 2}) is reached"
    )
    assert_channel_closed(session, 1, 406, text, (50, 10))
