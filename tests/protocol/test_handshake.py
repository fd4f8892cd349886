"""From the first byte to an open virtual host: rules C-01..C-07, C-10..C-37, C-40..C-59."""

from __future__ import annotations

import pytest

from broker.core.settings import NodeSettings
from tests.helpers.methods import encode_method
from tests.helpers.session import (
    PROTOCOL_HEADER,
    Session,
    World,
    assert_connection_closing,
    assert_dropped,
    assert_sent,
    body,
    frame,
    handshake,
    header,
    method,
)

CAPABLE = {"capabilities": {"authentication_failure_close": True}}
REFUSED_TEXT = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)


def start_ok(
    response: str | bytes, mechanism: str = "PLAIN", properties: dict[str, object] | None = None
) -> bytes:
    return method(
        0,
        "connection.start-ok",
        client_properties=CAPABLE if properties is None else properties,
        mechanism=mechanism,
        response=response,
        locale="en_US",
    )


def started(world: World | None = None, *, is_loopback: bool = True) -> Session:
    """A connection that has been sent connection.start."""
    session = (world or World()).connect(is_loopback=is_loopback)
    session.feed(PROTOCOL_HEADER)
    assert_sent(session, "0 connection.start")
    return session


def tuned(settings: NodeSettings | None = None) -> Session:
    """A connection that has been sent connection.tune."""
    session = started(World(settings))
    session.feed(start_ok("\0guest\0guest"))
    assert_sent(session, "0 connection.tune")
    return session


# -- protocol header


@pytest.mark.parametrize("raw", [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09"])
def test_both_headers_of_0_9_1_are_answered_with_start(raw: bytes) -> None:
    """Rules C-01, C-02, C-10..C-13."""
    session = World().connect()
    session.feed(raw)
    [start] = session.heard()
    assert (start.channel, start.name) == (0, "connection.start")
    assert start.arguments["version_major"] == 0
    assert start.arguments["version_minor"] == 9
    assert start.arguments["locales"] == "en_US"
    assert start.arguments["mechanisms"] == "PLAIN AMQPLAIN ANONYMOUS"


def test_start_says_who_serves_and_what_it_can() -> None:
    """Rules C-12, C-13, C-16."""
    session = World(NodeSettings(node_name="burrow", product="RabbitMQ")).connect()
    session.feed(PROTOCOL_HEADER)
    [start] = session.heard()
    properties = start.arguments["server_properties"]
    assert isinstance(properties, dict)
    assert properties["product"] == ("S", "RabbitMQ")
    assert properties["cluster_name"] == ("S", "burrow")
    assert properties["version"] == ("S", "4.2.0")
    assert {"platform", "copyright", "information"} < set(properties)
    kind, capabilities = properties["capabilities"]
    assert kind == "F"
    assert isinstance(capabilities, dict)
    assert set(capabilities.values()) == {("t", True)}
    assert set(capabilities) == {
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    }


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"AMQP\x00\x00\x09\x00", id="0-9-0"),
        pytest.param(b"AMQP\x00\x00\x0a\x00", id="0-10"),
        pytest.param(b"AMQP\x01\x01\x08\x00", id="0-8"),
        pytest.param(b"AMQP\x00\x01\x00\x00", id="1.0"),
        pytest.param(b"AMQP\x03\x01\x00\x00", id="1.0-sasl"),
        pytest.param(b"AMQP100.", id="no-number"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: hare\r\n\r\n", id="http"),
        pytest.param(bytes.fromhex("16030100c8010000c4"), id="tls"),
        pytest.param(b"\x00" * 8, id="zeros"),
        pytest.param(b"AMQP\x00\x00\x09\x02" + handshake()[8:], id="with-a-handshake"),
    ],
)
def test_any_other_header_is_answered_with_ours_and_the_end(raw: bytes) -> None:
    """Rules C-03, C-04, C-05: nothing may follow the eight bytes."""
    session = World().connect()
    session.feed(raw)
    assert session.take_bytes() == PROTOCOL_HEADER
    session.feed(handshake())
    assert_dropped(session)


def test_nothing_is_sent_before_the_header_is_there() -> None:
    """Rule C-06."""
    session = World().connect()
    for octet in PROTOCOL_HEADER[:-1]:
        session.feed(bytes((octet,)))
        assert session.take_bytes() == b""

    session.lose()
    assert session.take_bytes() == b""


# -- login


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        pytest.param("PLAIN", "\0guest\0guest", id="plain"),
        pytest.param(
            "AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest", id="S"
        ),
        pytest.param(
            "AMQPLAIN", b"\x05LOGINx\x00\x00\x00\x05guest\x08PASSWORDx\x00\x00\x00\x05guest", id="x"
        ),
        pytest.param("ANONYMOUS", "whoever", id="anonymous"),
    ],
)
def test_a_good_login_is_answered_with_tune(mechanism: str, response: str | bytes) -> None:
    """Rules C-20, C-21, C-23, C-37, C-40."""
    session = started()
    session.feed(start_ok(response, mechanism))
    [tune] = session.heard()
    assert tune.name == "connection.tune"
    assert tune.arguments == {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 60}


WRONG_LOGINS = [
    pytest.param("PLAIN", "\0guest\0wrong", id="password"),
    pytest.param("PLAIN", "\0hare\0guest", id="user"),
    pytest.param("PLAIN", "\0guest\0", id="blank"),
    pytest.param(
        "AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDI\x00\x00\x00\x05", id="type"
    ),
]


@pytest.mark.parametrize(("mechanism", "response"), WRONG_LOGINS)
def test_a_refused_login_is_told_to_clients_that_understand_it(
    mechanism: str, response: str | bytes
) -> None:
    """Rules C-21, C-25, C-30, C-32: the reason is not to be seen."""
    session = started()
    session.feed(start_ok(response, mechanism))
    assert_connection_closing(session, 403, REFUSED_TEXT.format(mechanism))
    session.send(0, "connection.close-ok")
    assert_dropped(session)


@pytest.mark.parametrize(("mechanism", "response"), WRONG_LOGINS)
def test_a_refused_login_is_dropped_after_three_seconds(
    mechanism: str, response: str | bytes
) -> None:
    """Rule C-31."""
    session = started()
    session.feed(start_ok(response, mechanism, {}))
    assert_dropped(session, 3.0)


def test_a_refused_client_that_does_not_answer_is_dropped() -> None:
    """Rule C-30."""
    session = started()
    session.feed(start_ok("\0guest\0wrong"))
    session.take_bytes()
    assert_dropped(session, 3.0)


def test_a_refused_login_cannot_be_tried_again() -> None:
    """Rule C-35."""
    session = started()
    session.feed(start_ok("\0guest\0wrong") + start_ok("\0guest\0guest"))
    assert_sent(session, "0 connection.close")


@pytest.mark.parametrize("name", ["guest", "nobody"])
def test_guest_may_only_log_in_from_here(name: str) -> None:
    """Rule C-36."""
    session = started(is_loopback=False)
    session.feed(start_ok(f"\0{name}\0{name}"))
    if name == "guest":
        assert_connection_closing(session, 403, REFUSED_TEXT.format("PLAIN"))
    else:
        assert_sent(session, "0 connection.tune")


@pytest.mark.parametrize("value", [1, "true", {"true": True}, None, False])
def test_only_a_true_boolean_is_a_capability(value: object) -> None:
    """Rule C-14."""
    session = started()
    claimed = {} if value is None else {"authentication_failure_close": value}
    session.feed(start_ok("\0guest\0wrong", properties={"capabilities": claimed}))
    assert_dropped(session, 3.0)


def test_capabilities_that_are_no_table_are_none() -> None:
    """Rule C-14."""
    session = started()
    properties: dict[str, object] = {"capabilities": "authentication_failure_close"}
    session.feed(start_ok("\0guest\0wrong", properties=properties))
    assert_dropped(session, 3.0)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        pytest.param("EXTERNAL", "", id="not-offered"),
        pytest.param("plain", "\0guest\0guest", id="lower-case"),
        pytest.param("", "", id="no-name"),
        pytest.param("PLAIN", "", id="empty"),
        pytest.param("PLAIN", "guest\0guest", id="no-nul"),
        pytest.param("PLAIN", "hare\0guest\0guest", id="authzid"),
        pytest.param("PLAIN", "\0guest\0guest\0", id="third-nul"),
        pytest.param("AMQPLAIN", b"", id="no-entries"),
        pytest.param("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\x05guest", id="no-password"),
        pytest.param("AMQPLAIN", b"\x05LOGINS\x00\x00\x00\xffguest", id="cut"),
    ],
)
def test_a_malformed_login_is_dropped_without_a_word(mechanism: str, response: str | bytes) -> None:
    """Rule C-33: even where the client would understand a refusal."""
    session = started()
    session.feed(start_ok(response, mechanism))
    assert_dropped(session, 3.0)


START_OK = encode_method("connection.start-ok", {"mechanism": "PLAIN"})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(method(0, "connection.open", virtual_host="/"), id="open-first"),
        pytest.param(method(1, "channel.open"), id="channel"),
        pytest.param(frame(1, 0, START_OK, b"\x00"), id="end-octet"),
        pytest.param(frame(1, 0, START_OK[:-1]), id="cut"),
        pytest.param(frame(1, 0, START_OK + b"\x00"), id="left-over"),
        pytest.param(frame(9, 0, b""), id="frame-type"),
        pytest.param(header(0, 0), id="header"),
        pytest.param(body(0, b"hare"), id="body"),
        pytest.param(frame(8, 0, b"x"), id="heartbeat"),
        pytest.param(frame(1, 0, b"\x00\x0a\x00\x63"), id="unknown-method"),
        pytest.param(frame(1, 0, b"x" * 8_193), id="too-large"),
        pytest.param(frame(1, 0, b"x" * 8_193)[:7], id="too-large-announced"),
    ],
)
def test_other_faults_before_the_login_are_dropped_without_a_word(data: bytes) -> None:
    """Rules C-34, C-45."""
    session = started()
    session.feed(data)
    assert_dropped(session, 3.0)


def test_a_start_ok_may_be_as_large_as_the_first_frame_max() -> None:
    """Rule C-45."""
    session = started()
    filler = 8_192 - len(encode_method("connection.start-ok", {"client_properties": {"k": ""}}))
    session.feed(start_ok("", properties={"k": "x" * filler}))
    assert_dropped(session, 3.0)
    session = started()
    filler -= len("PLAIN" + "\0guest\0guest" + "en_US")
    session.feed(start_ok("\0guest\0guest", properties={"k": "x" * filler}))
    assert_sent(session, "0 connection.tune")


# -- limits


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"frame_max": 4_095}, id="frame-max-low"),
        pytest.param({"frame_max": 1}, id="frame-max-1"),
        pytest.param({"frame_max": 131_073}, id="frame-max-high"),
        pytest.param({"frame_max": 0}, id="frame-max-unlimited"),
        pytest.param({"channel_max": 2_048}, id="channel-max-high"),
        pytest.param({"channel_max": 0}, id="channel-max-unlimited"),
    ],
)
def test_limits_beyond_what_was_offered_are_dropped(limits: dict[str, int]) -> None:
    """Rules C-41..C-43."""
    session = tuned()
    chosen = {"channel_max": 2_047, "frame_max": 131_072, "heartbeat": 60} | limits
    session.send(0, "connection.tune-ok", **chosen)
    assert_dropped(session, 3.0)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        pytest.param((2_047, 131_072), (2_047, 131_072), id="as-offered"),
        pytest.param((2_047, 131_072), (1, 4_096), id="least"),
        pytest.param((0, 0), (0, 0), id="unlimited"),
        pytest.param((0, 0), (65_535, 1 << 31), id="limited-by-the-client"),
    ],
)
def test_limits_within_what_was_offered_are_taken(
    offered: tuple[int, int], chosen: tuple[int, int]
) -> None:
    """Rules C-40..C-46: tune-ok has no answer, open follows."""
    session = tuned(NodeSettings(channel_max=offered[0], frame_max=offered[1]))
    session.send(0, "connection.tune-ok", channel_max=chosen[0], frame_max=chosen[1])
    assert session.take_bytes() == b""
    answer = session.ask(0, "connection.open", virtual_host="/")
    assert answer.arguments == {"known_hosts": ""}


# -- virtual host


def test_a_handshake_may_be_written_at_once() -> None:
    """Rules C-46, C-50, C-58: capabilities and insist mean nothing."""
    session = World().connect()
    opening = method(0, "connection.open", virtual_host="/", capabilities="x", insist=True)
    session.feed(handshake()[: -len(method(0, "connection.open", virtual_host="/"))] + opening)
    assert_sent(session, "0 connection.start", "0 connection.tune", "0 connection.open-ok")


@pytest.mark.parametrize(
    ("vhost", "text"),
    [
        pytest.param("nope", "vhost nope not found", id="unknown"),
        pytest.param("", "vhost  not found", id="empty"),
        pytest.param("//", "vhost // not found", id="literal"),
        pytest.param("own", "access to vhost 'own' refused for user 'guest'", id="no-permission"),
    ],
)
def test_a_virtual_host_that_is_not_to_be_had_is_530(vhost: str, text: str) -> None:
    """Rules C-52, C-53, C-58."""
    world = World()
    world.node.add_vhost("own")
    session = world.connect()
    session.feed(handshake(vhost=vhost))
    assert_connection_closing(session, 530, f"NOT_ALLOWED - {text}", (10, 40))


FIRST_LIMITS = [
    pytest.param("node", "connection refused: node connection limit (1) is reached", id="node"),
    pytest.param(
        "vhost",
        "access to vhost '/' refused for user 'guest': connection limit (1) is reached",
        id="vhost",
    ),
    pytest.param(
        "user",
        "connection refused for user 'guest': user connection limit (1) is reached",
        id="user",
    ),
]


@pytest.mark.parametrize(("scope", "text"), FIRST_LIMITS)
def test_connections_beyond_a_limit_are_530(scope: str, text: str) -> None:
    """Rules C-54..C-56; and a place is free again when its connection has ended."""
    world = World(NodeSettings(connections_max=1 if scope == "node" else None))
    if scope == "vhost":
        world.vhost.connections_max = 1
    elif scope == "user":
        world.users.users["guest"].connections_max = 1

    first = world.open()
    second = world.connect()
    second.feed(handshake())
    assert_connection_closing(second, 530, f"NOT_ALLOWED - {text}", (10, 40))
    first.send(0, "connection.close")
    world.open().lose()
    world.open()


def test_limits_are_checked_before_rights() -> None:
    """Rule C-51: node, virtual host, user, access."""
    world = World(NodeSettings(connections_max=0))
    world.vhost.connections_max = 0
    world.users.users["nobody"].connections_max = 0
    texts = []
    for _ in range(4):
        session = world.connect()
        session.feed(handshake(user="nobody", password="nobody"))
        texts.append(str(session.heard()[-1].arguments["reply_text"]))
        if len(texts) == 1:
            world.node.settings = world.node.settings._replace(connections_max=None)
        elif len(texts) == 2:
            world.vhost.connections_max = None
        else:
            world.users.users["nobody"].connections_max = None

    assert [text.removeprefix("NOT_ALLOWED - ") for text in texts] == [
        "connection refused: node connection limit (0) is reached",
        "access to vhost '/' refused for user 'nobody': connection limit (0) is reached",
        "connection refused for user 'nobody': user connection limit (0) is reached",
        "access to vhost '/' refused for user 'nobody'",
    ]


@pytest.mark.parametrize("octets", [0, 1, 7, 8, 100, len(handshake()) - 1])
def test_a_handshake_has_ten_seconds(octets: int) -> None:
    """Rule C-07: wherever it stops."""
    session = World().connect()
    session.feed(handshake()[:octets])
    session.take_bytes()
    assert_dropped(session, 10.0)


def test_slow_octets_do_not_lengthen_a_handshake() -> None:
    """Rule C-07."""
    session = World(NodeSettings(handshake_timeout_ms=2_000)).connect()
    for octet in handshake()[:40]:
        session.feed(bytes((octet,)))
        session.world.wait(0.03)

    session.take_bytes()
    assert_dropped(session, 0.8)


def test_a_running_connection_has_all_the_time_in_the_world() -> None:
    """Rule C-07: the timeout ends with the handshake."""
    session = World().open()
    session.world.wait(86_400.0)
    assert session.is_running
