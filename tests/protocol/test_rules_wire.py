"""Layout of methods and content headers, octet by octet (section X).

Other tests encode and decode with tables of this project; what is written out here is not.
"""

from __future__ import annotations

from typing import Final

import pytest

from broker.core.settings import NodeSettings
from tests.helpers.session import (
    PROTOCOL_HEADER,
    Session,
    World,
    assert_connection_closing,
    assert_sent,
    frame,
    handshake,
    header,
    method,
    publish,
)

NO_TABLE: Final = b"\0\0\0\0"


def on_channel(payload: bytes) -> bytes:
    """A method frame of channel 1."""
    return b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"


def queue_declare(bits: int, name: bytes = b"q") -> bytes:
    head = b"\x00\x32\x00\x0a\x00\x00" + bytes((len(name),)) + name
    return on_channel(head + bytes((bits,)) + NO_TABLE)


def exchange_declare(bits: int) -> bytes:
    return on_channel(b"\x00\x28\x00\x0a\x00\x00\x01x\x06direct" + bytes((bits,)) + NO_TABLE)


def content(properties: bytes, body: bytes) -> bytes:
    """Header frame (class, weight, size, properties) and body frame, as channel 1 gets them."""
    head = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    frames = b"\x02\x00\x01" + len(head).to_bytes(4, "big") + head + b"\xce"
    return frames + b"\x03\x00\x01" + len(body).to_bytes(4, "big") + body + b"\xce"


@pytest.fixture
def session() -> Session:
    """A client with channel 1 and the queue ``q``."""
    session = World().open(1)
    session.ask(1, "queue.declare", queue="q")
    return session


# -- content headers

VALUES: Final = (
    ("content-type", 15, b"\x04text"),
    ("content-encoding", 14, b"\x04gzip"),
    ("headers", 13, b"\x00\x00\x00\x04\x01kt\x01"),
    ("delivery-mode", 12, b"\x02"),
    ("priority", 11, b"\x09"),
    ("correlation-id", 10, b"\x01c"),
    ("reply-to", 9, b"\x01r"),
    ("expiration", 8, b"\x0560000"),
    ("message-id", 7, b"\x01m"),
    ("timestamp", 6, b"\x00\x00\x00\x00\x65\x53\xf1\x00"),
    ("type", 5, b"\x01t"),
    ("user-id", 4, b"\x05guest"),
    ("app-id", 3, b"\x01a"),
    ("cluster-id", 2, b"\x01c"),
)
"""Name, flag and a value of each property, in the order in which they lie."""


@pytest.mark.parametrize(
    ("bit", "value"), [pytest.param(bit, value, id=name) for name, bit, value in VALUES]
)
def test_each_property_has_its_flag_and_its_type(session: Session, bit: int, value: bytes) -> None:
    """Rules X-01, X-02: as long as its type says, no octet less and none more."""
    flags = (1 << bit).to_bytes(2, "big")
    session.feed(publish(1, "q", b"hare", flags + value))
    session.feed(method(1, "basic.get", queue="q", no_ack=True))
    assert session.take_bytes().endswith(content(flags + value, b"hare"))
    other = session.world.open(1)
    for wrong in (value[:-1], value + b"\x00"):
        session = session.world.open(1)
        session.feed(publish(1, "q", b"hare", flags + wrong))
        assert_connection_closing(session, 541, "INTERNAL_ERROR")

    assert other.is_running
    assert session.world.bugs == []


def test_properties_stand_in_the_order_of_their_flags(session: Session) -> None:
    """Rules X-01, X-02, P-30: all fourteen at once."""
    raw = b"\xff\xfc" + b"".join(value for _, _, value in VALUES)
    session.feed(publish(1, "q", b"hare", raw))
    session.feed(method(1, "basic.get", queue="q", no_ack=True))
    assert session.take_bytes().endswith(content(raw, b"hare"))


def test_a_property_that_is_there_and_empty_is_not_absent(session: Session) -> None:
    """Rule X-04."""
    for raw in (b"\x20\x00" + NO_TABLE, b"\x80\x00\x00", b"\x00\x00"):
        session.feed(publish(1, "q", b"hare", raw))
        session.feed(method(1, "basic.get", queue="q", no_ack=True))
        assert session.take_bytes().endswith(content(raw, b"hare"))


def test_a_body_of_many_octets_needs_all_eight_of_its_size(session: Session) -> None:
    """Rules X-01, F-15: the size is a number of 64 bits."""
    session.feed(method(1, "basic.publish", routing_key="q") + header(1, 1 << 32))
    text = "FRAME_ERROR - content body size 4294967296 exceeds maximum allowed size 536870912"
    assert_connection_closing(session, 501, text, (60, 40))


# -- bits


@pytest.mark.parametrize(
    ("bits", "durable", "exclusive", "auto_delete", "is_answered"),
    [
        pytest.param(0, False, False, False, True, id="none"),
        pytest.param(2, True, False, False, True, id="durable"),
        pytest.param(4, False, True, False, True, id="exclusive"),
        pytest.param(8, False, False, True, True, id="auto-delete"),
        pytest.param(16, False, False, False, False, id="nowait"),
        pytest.param(2 | 8 | 16, True, False, True, False, id="several"),
    ],
)
def test_bits_of_queue_declare(
    bits: int, durable: bool, exclusive: bool, auto_delete: bool, is_answered: bool
) -> None:
    """Rules X-03, X-10."""
    session = World().open(1)
    session.feed(queue_declare(bits))
    assert bool(session.take_bytes()) == is_answered
    queue = session.world.vhost.queues["q"]
    assert (queue.durable, queue.exclusive_owner is not None) == (durable, exclusive)
    assert queue.auto_delete == auto_delete


@pytest.mark.parametrize(
    ("bits", "durable", "auto_delete", "internal", "is_answered"),
    [
        pytest.param(0, False, False, False, True, id="none"),
        pytest.param(2, True, False, False, True, id="durable"),
        pytest.param(4, False, True, False, True, id="auto-delete"),
        pytest.param(8, False, False, True, True, id="internal"),
        pytest.param(16, False, False, False, False, id="nowait"),
        pytest.param(2 | 4 | 8, True, True, True, True, id="rule-E-27"),
    ],
)
def test_bits_of_exchange_declare(
    bits: int, durable: bool, auto_delete: bool, internal: bool, is_answered: bool
) -> None:
    """Rules X-03, X-10, E-27: in any combination."""
    session = World().open(1)
    session.feed(exchange_declare(bits))
    assert bool(session.take_bytes()) == is_answered
    exchange = session.world.vhost.exchanges["x"]
    assert (exchange.durable, exchange.auto_delete) == (durable, auto_delete)
    assert exchange.internal == internal


@pytest.mark.parametrize("raw", [queue_declare(1, b"nowhere"), exchange_declare(1)])
def test_the_lowest_bit_of_a_declare_makes_it_passive(raw: bytes) -> None:
    """Rule X-10."""
    session = World().open(1)
    session.feed(raw)
    [close] = session.heard()
    assert close.arguments["reply_code"] == 404


def test_bits_of_basic_consume(session: Session) -> None:
    """Rule X-11: no-local is the lowest and means nothing (rule CO-06)."""
    queue = session.world.vhost.queues["q"]
    found = []
    for number, bits in enumerate((0, 1, 2, 8)):
        head = b"\x00\x3c\x00\x14\x00\x00\x01q\x01" + bytes((0x61 + number,))
        session.feed(on_channel(head + bytes((bits,)) + NO_TABLE))
        consumer = list(queue.consumers)[-1]
        found.append((consumer.tag, consumer.no_ack, bool(session.take_bytes())))

    assert found == [
        ("a", False, True),
        ("b", False, True),
        ("c", True, True),
        ("d", False, False),
    ]
    session.feed(on_channel(b"\x00\x3c\x00\x14\x00\x00\x01q\x01e\x04" + NO_TABLE))
    [close] = session.heard()
    assert close.arguments["reply_code"] == 403


@pytest.mark.parametrize(
    ("bits", "answer"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(1, ["1 basic.return"], id="mandatory"),
        pytest.param(2, ["0 connection.close"], id="immediate"),
    ],
)
def test_bits_of_basic_publish(session: Session, bits: int, answer: list[str]) -> None:
    """Rule X-11."""
    start = on_channel(b"\x00\x3c\x00\x28\x00\x00\x00\x07nowhere" + bytes((bits,)))
    session.feed(start + header(1, 0))
    assert_sent(session, *answer)


@pytest.mark.parametrize(
    ("bits", "ready", "left"),
    [
        pytest.param(0, 0, 1, id="none"),
        pytest.param(1, 0, 0, id="multiple"),
        pytest.param(2, 1, 2, id="requeue"),
        pytest.param(3, 2, 2, id="both"),
    ],
)
def test_bits_of_basic_nack(session: Session, bits: int, ready: int, left: int) -> None:
    """Rule X-11: of two deliveries the second is settled, or both; what is left comes back."""
    session.ask(2, "channel.open")
    for _ in range(2):
        session.feed(publish(1, "q"))
        session.ask(1, "basic.get", queue="q")

    session.feed(on_channel(b"\x00\x3c\x00\x78" + (2).to_bytes(8, "big") + bytes((bits,))))
    declared = session.ask(2, "queue.declare", queue="q", passive=True)
    assert declared.arguments["message_count"] == ready
    session.ask(1, "channel.close")
    declared = session.ask(2, "queue.declare", queue="q", passive=True)
    assert declared.arguments["message_count"] == left


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        pytest.param(1, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", id="if-unused"),
        pytest.param(2, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", id="if-empty"),
        pytest.param(4, None, id="nowait"),
    ],
)
def test_bits_of_queue_delete(session: Session, bits: int, text: str | None) -> None:
    """Rules X-11, Q-51."""
    session.ask(1, "basic.qos", prefetch_count=1)
    session.feed(publish(1, "q") * 2 + method(1, "basic.consume", queue="q"))
    session.take_bytes()
    session.feed(on_channel(b"\x00\x32\x00\x28\x00\x00\x01q" + bytes((bits,))))
    heard = session.heard()
    if text is not None:
        assert [one.arguments["reply_text"] for one in heard] == [text]
    else:
        assert [one.name for one in heard] == ["basic.cancel"]


def test_bits_of_exchange_delete(session: Session) -> None:
    """Rules X-11, E-42."""
    session.ask(1, "exchange.declare", exchange="x", type="fanout")
    session.ask(1, "queue.bind", queue="q", exchange="x")
    session.feed(on_channel(b"\x00\x28\x00\x14\x00\x00\x01x\x02"))
    assert session.take_bytes() == b""
    assert "x" not in session.world.vhost.exchanges
    session.ask(1, "exchange.declare", exchange="x", type="fanout")
    session.ask(1, "queue.bind", queue="q", exchange="x")
    session.feed(on_channel(b"\x00\x28\x00\x14\x00\x00\x01x\x01"))
    [close] = session.heard()
    text = "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    assert close.arguments["reply_text"] == text


# -- what the broker sends


def test_layout_of_get_ok(session: Session) -> None:
    """Rule X-12: tag, redelivered, exchange, key, what remains."""
    session.ask(1, "queue.bind", queue="q", exchange="amq.fanout")
    session.feed(publish(1, "key", exchange="amq.fanout") * 3)
    session.send(1, "basic.get", queue="q")
    get_ok = b"\x00\x3c\x00\x47" + (1).to_bytes(8, "big") + b"\x00\x0aamq.fanout\x03key"
    expected = on_channel(get_ok + b"\x00\x00\x00\x02") + content(b"\0\0", b"hare")
    assert session.take_bytes() == expected
    session.send(1, "basic.nack", delivery_tag=1, requeue=True)
    session.send(1, "basic.get", queue="q")
    get_ok = b"\x00\x3c\x00\x47" + (2).to_bytes(8, "big") + b"\x01\x0aamq.fanout\x03key"
    expected = on_channel(get_ok + b"\x00\x00\x00\x02") + content(b"\0\0", b"hare")
    assert session.take_bytes() == expected


def test_layout_of_deliver(session: Session) -> None:
    """Rule X-12: consumer tag, tag, redelivered, exchange, key."""
    session.ask(1, "basic.consume", queue="q", consumer_tag="ears")
    session.feed(publish(1, "q"))
    deliver = b"\x00\x3c\x00\x3c\x04ears" + (1).to_bytes(8, "big") + b"\x00\x00\x01q"
    assert session.take_bytes() == on_channel(deliver) + content(b"\0\0", b"hare")
    session.send(1, "basic.recover", requeue=True)
    deliver = b"\x00\x3c\x00\x3c\x04ears" + (2).to_bytes(8, "big") + b"\x01\x00\x01q"
    recovered = on_channel(b"\x00\x3c\x00\x6f")
    redelivered = on_channel(deliver) + content(b"\0\0", b"hare")
    assert session.take_bytes() in (recovered + redelivered, redelivered + recovered)


def test_layout_of_return(session: Session) -> None:
    """Rules X-12, T-06: code, text, exchange, key."""
    session.feed(publish(1, "key", exchange="amq.topic", mandatory=True))
    returned = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE\x09amq.topic\x03key"
    assert session.take_bytes() == on_channel(returned) + content(b"\0\0", b"hare")


def test_layout_of_declare_ok_and_get_empty(session: Session) -> None:
    """Rule X-13: name, messages, consumers; and an empty text."""
    session.send(1, "basic.get", queue="q")
    assert session.take_bytes() == on_channel(b"\x00\x3c\x00\x48\x00")
    session.feed(publish(1, "q") * 2)
    session.ask(1, "queue.declare", queue="hare")
    session.ask(1, "basic.consume", queue="hare")
    for name, counts in ((b"q", (2, 0)), (b"hare", (0, 1))):
        session.feed(queue_declare(1, name))
        declared = b"\x00\x32\x00\x0b" + bytes((len(name),)) + name
        declared += b"".join(count.to_bytes(4, "big") for count in counts)
        assert session.take_bytes() == on_channel(declared)


def test_layout_of_the_opens() -> None:
    """Rule X-14: empty texts, a short one and a long one."""
    session = World(NodeSettings(heartbeat_s=0)).connect()
    opening = len(method(0, "connection.open", virtual_host="/"))
    session.feed(handshake()[:-opening])
    session.take_bytes()
    session.feed(frame(1, 0, b"\x00\x0a\x00\x28\x01/\x00\x00"))
    assert session.take_bytes() == frame(1, 0, b"\x00\x0a\x00\x29\x00")
    session.feed(on_channel(b"\x00\x14\x00\x0a\x00"))
    assert session.take_bytes() == on_channel(b"\x00\x14\x00\x0b\x00\x00\x00\x00")


def test_layout_of_update_secret_and_of_blocked() -> None:
    """Rule X-15."""
    session = World().open(1, greeting=handshake(capabilities=["connection.blocked"]))
    session.feed(frame(1, 0, b"\x00\x0a\x00\x46\x00\x00\x00\x03new\x03why"))
    assert session.take_bytes() == frame(1, 0, b"\x00\x0a\x00\x47")
    session.world.node.set_alarm("memory", True)
    session.feed(publish(1, "nowhere"))
    blocked = frame(1, 0, b"\x00\x0a\x00\x3c\x0dlow on memory")
    session.world.node.set_alarm("memory", False)
    session.world.settle()
    assert session.take_bytes() == blocked + frame(1, 0, b"\x00\x0a\x00\x3d")


def test_layout_of_start_and_tune() -> None:
    """Rules C-10, C-40: the version in two octets; two numbers of 16 bits around one of 32."""
    session = World().connect()
    session.feed(PROTOCOL_HEADER)
    assert session.take_bytes()[7:13] == b"\x00\x0a\x00\x0a\x00\x09"
    login = method(0, "connection.start-ok", mechanism="PLAIN", response="\0guest\0guest")
    session.feed(login)
    assert session.take_bytes() == frame(1, 0, b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c")
