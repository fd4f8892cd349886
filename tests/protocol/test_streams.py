"""Streams as clients see them: what is declared, refused, delivered and told (rules ST, Q)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.wire.tables import Arguments, Field, encode_table, table_from_plain
from tests.helpers.core import plain_headers, raw_properties
from tests.helpers.session import (
    Heard,
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    handshake,
    method,
    publish,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CONSUME = (60, 20)
DECLARE = (50, 10)
STREAM = {"x-queue-type": "stream"}
FIRST = {"x-stream-offset": "first"}
QUEUE = "queue 's' in vhost '/'"


def table(arguments: Mapping[str, object]) -> bytes:
    """Arguments as they go over the wire; a value may be a field."""
    fields: Arguments = {}
    for key, value in arguments.items():
        fields[key] = value if isinstance(value, Field) else table_from_plain({key: value})[key]

    return encode_table(fields)


def declare(session: Session, channel: int = 1, /, **arguments: object) -> None:
    """Declare the stream ``s``; keywords are arguments."""
    given = table({**STREAM, **arguments})
    session.send(channel, "queue.declare", queue="s", durable=True, arguments=given)


def consume(
    session: Session,
    arguments: Mapping[str, object] = FIRST,
    channel: int = 1,
    prefetch: int = 10,
    /,
    **more: object,
) -> None:
    session.send(channel, "basic.qos", prefetch_count=prefetch)
    session.send(channel, "basic.consume", queue="s", arguments=table(arguments), **more)


def fill(session: Session, count: int = 1, channel: int = 1) -> None:
    for number in range(count):
        session.feed(publish(channel, "s", b"%d" % number))


def deliveries(session: Session) -> list[Heard]:
    return [one for one in session.heard() if one.name == "basic.deliver"]


def bodies(session: Session) -> list[bytes]:
    return [one.body for one in deliveries(session)]


@pytest.fixture
def session() -> Session:
    """A connection with the channels 1 and 2, and the stream ``s``."""
    opened = World().open(1, 2)
    declare(opened)
    assert opened.names() == ["queue.declare-ok"]
    return opened


# -- declaring


@pytest.mark.parametrize(
    ("flags", "property_name"),
    [
        ({"auto_delete": True, "exclusive": True}, "auto-delete"),
        ({"exclusive": True, "durable": True}, "exclusive-owner"),
        ({}, "non-durable"),
    ],
)
def test_a_stream_is_durable_and_everybodys(flags: dict[str, object], property_name: str) -> None:
    """Rules ST-01, Q-28, in this order."""
    session = World().open(1)
    session.send(1, "queue.declare", queue="s", arguments=table(STREAM), **flags)
    text = f"PRECONDITION_FAILED - invalid property '{property_name}' for {QUEUE}"
    assert_channel_closed(session, 1, 406, text, DECLARE)


def test_a_stream_has_a_name() -> None:
    """Rules ST-01, Q-02."""
    session = World().open(1)
    session.send(1, "queue.declare", durable=True, arguments=table(STREAM))
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    assert_channel_closed(session, 1, 406, text, DECLARE)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        pytest.param(
            {"x-stream-max-segment-size-bytes": Field("l", 3_000_000_001)},
            "Exceeded max value for x-stream-max-segment-size-bytes",
            id="Q-27-segment",
        ),
        pytest.param(
            {"x-stream-filter-size-bytes": Field("I", 15)},
            "Invalid value for x-stream-filter-size-bytes",
            id="Q-27-filter",
        ),
        pytest.param(
            {"x-max-age": Field("S", "1w")},
            f"invalid arg 'x-max-age' for {QUEUE}: invalid_max_age",
            id="Q-25-age",
        ),
        *[
            pytest.param(
                {key: value},
                f"invalid arg '{key}' for {QUEUE} of queue type rabbit_stream_queue",
                id=f"Q-23-{key}",
            )
            for key, value in {
                "x-single-active-consumer": Field("t", True),
                "x-max-length": Field("I", 1),
                "x-message-ttl": Field("I", 1),
                "x-expires": Field("I", 1),
                "x-dead-letter-exchange": Field("S", ""),
                "x-overflow": Field("S", "drop-head"),
                "x-max-priority": Field("I", 1),
            }.items()
        ],
    ],
)
def test_arguments_of_other_types_and_bad_values_are_refused(
    arguments: dict[str, Field], fault: str
) -> None:
    """Rules ST-01, ST-11."""
    session = World().open(1)
    given = table({**STREAM, **arguments})
    session.send(1, "queue.declare", queue="s", durable=True, arguments=given)
    assert_channel_closed(session, 1, 406, f"PRECONDITION_FAILED - {fault}", DECLARE)


@pytest.mark.parametrize(
    ("old", "new", "received", "current"),
    [
        pytest.param("1h", "2h", "'7200000'", "'3600000'", id="other"),
        pytest.param("1h", None, "none", "the value '3600000' of type 'longstr'", id="no-longer"),
        pytest.param(None, "1m", "the value '60000' of type 'longstr'", "none", id="new"),
        pytest.param("1h", "foo", "'foo'", "'3600000'", id="no-age"),
        pytest.param("1h", 5, "'5'", "'3600000'", id="no-text"),
    ],
)
def test_ages_are_compared_and_told_in_milliseconds(
    old: str | None, new: str | int | None, received: str, current: str
) -> None:
    """Rule Q-13."""
    session = World().open(1)
    declare(session, **({} if old is None else {"x-max-age": old}))
    declare(session, **({} if new is None else {"x-max-age": new}))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-age' for {QUEUE}: "
        f"received {received} but current is {current}"
    )
    assert_channel_closed(session, 1, 406, text, DECLARE)


def test_the_same_age_may_be_said_in_other_words() -> None:
    """Rule Q-13."""
    session = World().open(1)
    for age in ("1h", "60m", "3600s", "060m"):
        declare(session, **{"x-max-age": age})

    assert session.names() == ["queue.declare-ok"] * 4


def test_declare_ok_counts_entries_and_no_consumers(session: Session) -> None:
    """Rules Q-06, ST-09."""
    fill(session, 3)
    consume(session)
    session.heard()
    answer = session.ask(2, "queue.declare", queue="s", passive=True)
    assert answer.arguments == {"queue": "s", "message_count": 3, "consumer_count": 0}


# -- what is refused


@pytest.mark.parametrize(("name", "index"), [("basic.get", (60, 70)), ("queue.purge", (50, 30))])
def test_get_and_purge_are_refused(session: Session, name: str, index: tuple[int, int]) -> None:
    """Rules G-03, Q-55, ST-03."""
    fill(session)
    session.send(1, name, queue="s")
    text = f"NOT_IMPLEMENTED - {name} not supported by stream queues {QUEUE}"
    assert_connection_closing(session, 540, text, index)


OFFSET_FAULTS = [
    (Field("S", "foo"), '{longstr,<<"foo">>}'),
    (Field("S", "1x"), '{longstr,<<"1x">>}'),
    (Field("S", "0h"), '{longstr,<<"0h">>}'),
    (Field("S", "-1h"), '{longstr,<<"-1h">>}'),
    (Field("S", "5"), '{longstr,<<"5">>}'),
    (Field("S", ""), "{longstr,<<>>}"),
    (Field("S", "first "), '{longstr,<<"first ">>}'),
    (Field("x", b"1h"), '{binary,<<"1h">>}'),
    (Field("t", True), "{bool,true}"),
    (Field("d", 1.5), "{double,1.5}"),
    (Field("V", None), "{void,undefined}"),
    (Field("A", []), "{array,[]}"),
    (Field("F", {}), "{table,[]}"),
]


@pytest.mark.parametrize(
    ("value", "shown"), OFFSET_FAULTS, ids=[shown for _, shown in OFFSET_FAULTS]
)
def test_an_offset_that_is_none_is_refused(session: Session, value: Field, shown: str) -> None:
    """Rule ST-04; RabbitMQ has a bare 541 for what is no text."""
    session.send(1, "basic.consume", queue="s", arguments=table({"x-stream-offset": value}))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {QUEUE}: "
        f"{{invalid_stream_offset_arg,{shown}}}"
    )
    assert_channel_closed(session, 1, 406, text, CONSUME)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        pytest.param([], "expected at least one value", id="empty"),
        pytest.param(["a", 5], "expected longstr, got long", id="no-text"),
        pytest.param([str(one) for one in range(257)], "more than 256 values", id="too-many"),
    ],
)
def test_a_filter_that_is_none_is_refused(
    session: Session, values: list[object], fault: str
) -> None:
    """Rule ST-08; RabbitMQ has a bare 541 for the first two and no bound."""
    consume(session, {"x-stream-filter": values})
    text = f"PRECONDITION_FAILED - invalid arg 'x-stream-filter' for {QUEUE}: \"{fault}\""
    assert_channel_closed(session, 1, 406, text, CONSUME)


def test_as_many_filter_values_as_there_may_be(session: Session) -> None:
    consume(session, {"x-stream-filter": [str(one) for one in range(256)]})
    session.feed(publish(1, "s", b"x", raw_properties(headers={"x-stream-filter-value": "255"})))
    assert bodies(session) == [b"x"]


def test_consuming_needs_a_prefetch_count(session: Session) -> None:
    """Rule ST-02."""
    consume(session, FIRST, 1, 0)
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {QUEUE}"
    assert_channel_closed(session, 1, 406, text, CONSUME)


def test_consuming_needs_acknowledgements(session: Session) -> None:
    """Rule ST-03."""
    consume(session, no_ack=True)
    text = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream {QUEUE}"
    assert_connection_closing(session, 540, text, CONSUME)


def test_a_limit_for_the_channel_will_not_do(session: Session) -> None:
    """Rule QS-08; the consumer's own comes first (rule ST-02)."""
    session.send(1, "basic.qos", prefetch_count=5, global_=True)
    session.send(1, "basic.consume", queue="s")
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {QUEUE}"
    assert_channel_closed(session, 1, 406, text, CONSUME)
    session.send(2, "basic.qos", prefetch_count=5)
    session.send(2, "basic.qos", prefetch_count=5, global_=True)
    session.send(2, "basic.consume", queue="s")
    text = f"NOT_IMPLEMENTED - {QUEUE} does not support global qos"
    assert_connection_closing(session, 540, text, CONSUME)


ORDER = [
    pytest.param(
        {"x-priority": "a", "x-stream-offset": "foo"},
        f"invalid arg 'x-priority' for {QUEUE} of queue type rabbit_stream_queue",
        id="CO-08-argument-of-other-types",
    ),
    pytest.param(
        {"x-stream-offset": "foo"},
        f"invalid arg 'x-stream-offset' for {QUEUE}: "
        '{invalid_stream_offset_arg,{longstr,<<"foo">>}}',
        id="ST-04-offset",
    ),
    pytest.param({}, f"consumer prefetch count is not set for stream {QUEUE}", id="ST-02-prefetch"),
]


@pytest.mark.parametrize(("arguments", "fault"), ORDER)
def test_of_several_faults_the_first_is_told(
    session: Session, arguments: dict[str, object], fault: str
) -> None:
    """Rule CO-01, each with no_ack and without a prefetch count besides."""
    consume(session, arguments, 1, 0, no_ack=True)
    assert_channel_closed(session, 1, 406, f"PRECONDITION_FAILED - {fault}", CONSUME)


@pytest.mark.parametrize("key", ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"])
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_arguments_of_stream_consumers_are_for_streams(queue_type: str, key: str) -> None:
    """Rule CO-08."""
    session = World().open(1)
    given = table({"x-queue-type": queue_type})
    session.ask(1, "queue.declare", queue="s", durable=True, arguments=given)
    session.send(1, "basic.consume", queue="s", arguments=table({key: "first"}))
    text = (
        f"PRECONDITION_FAILED - invalid arg '{key}' for {QUEUE} of queue type "
        f"rabbit_{queue_type}_queue"
    )
    assert_channel_closed(session, 1, 406, text, CONSUME)


# -- what is delivered


def test_consume_ok_comes_before_the_deliveries(session: Session) -> None:
    """Rules CO-05, ST-05."""
    fill(session, 2)
    consume(session, consumer_tag="c")
    [_, answer, *found] = session.heard()
    assert answer.name == "basic.consume-ok"
    assert [(one.name, one.arguments) for one in found] == [
        (
            "basic.deliver",
            {
                "consumer_tag": "c",
                "delivery_tag": tag,
                "redelivered": False,
                "exchange": "",
                "routing_key": "s",
            },
        )
        for tag in (1, 2)
    ]
    assert [plain_headers(one.properties) for one in found] == [
        {"x-stream-offset": 0},
        {"x-stream-offset": 1},
    ]


def test_properties_come_back_as_they_were_published(session: Session) -> None:
    """Rule ST-05, and RabbitMQ 3.10: 4.3 makes delivery_mode 1 of none."""
    raw = raw_properties(
        headers={"k": bytearray(b"v"), "CC": ["elsewhere"]},
        priority=3,
        expiration="1",
        message_id="m",
        user_id="guest",
    )
    session.feed(publish(1, "s", b"", raw))
    consume(session)
    [found] = deliveries(session)
    assert found.body == b""
    assert found.arguments["routing_key"] == "s"
    headers = plain_headers(found.properties)
    assert headers.pop("x-stream-offset") == 0
    assert headers == plain_headers(raw)
    assert b"\x03\x011\x01m\x05guest" in found.properties


def test_large_messages_come_in_frames_as_the_reader_wants_them(session: Session) -> None:
    """Rule F-03."""
    data = bytes(range(256)) * 400
    session.feed(publish(1, "s", data))
    reader = session.world.open(7, greeting=handshake(frame_max=4096))
    consume(reader, FIRST, 7)
    [found] = deliveries(reader)
    assert found.body == data
    assert found.channel == 7
    consume(session, FIRST, 2)
    assert bodies(session) == [data]


def test_exclusive_means_nothing(session: Session) -> None:
    """Rule CO-07."""
    fill(session)
    consume(session, exclusive=True)
    consume(session, FIRST, 2, exclusive=True)
    assert bodies(session) == [b"0", b"0"]


def test_one_consumers_end_is_not_anothers(session: Session) -> None:
    """Rules CO-12, ST-06."""
    fill(session, 2)
    for tag in "ab":
        consume(session, FIRST, 1, 2, consumer_tag=tag)

    assert bodies(session) == [b"0", b"1"] * 2
    session.ask(1, "basic.cancel", consumer_tag="a")
    session.send(1, "basic.ack", delivery_tag=0, multiple=True)
    fill(session, 1, 2)
    assert [one.arguments["consumer_tag"] for one in deliveries(session)] == ["b"]


def test_recover_and_reject_only_give_credit(session: Session) -> None:
    """Rules ST-06, A-10."""
    fill(session, 6)
    consume(session, FIRST, 1, 2)
    assert bodies(session) == [b"0", b"1"]
    session.send(1, "basic.reject", delivery_tag=1, requeue=True)
    assert bodies(session) == [b"2"]
    session.send(1, "basic.nack", delivery_tag=2)
    assert bodies(session) == [b"3"]
    session.send(1, "basic.recover", requeue=True)
    found = deliveries(session)
    assert [one.body for one in found] == [b"4", b"5"]
    assert not any(one.arguments["redelivered"] for one in found)
    session.send(1, "basic.ack", delivery_tag=4)
    text = "PRECONDITION_FAILED - unknown delivery tag 4"
    assert_channel_closed(session, 1, 406, text, (60, 80))


def test_a_closed_channel_gives_nothing_back_and_forgets_its_place(session: Session) -> None:
    """Rule ST-06."""
    fill(session, 2)
    consume(session, FIRST, 1)
    consume(session, {}, 2)
    assert bodies(session) == [b"0", b"1"]
    assert session.ask(1, "channel.close").name == "channel.close-ok"
    assert session.ask(1, "channel.open").name == "channel.open-ok"
    consume(session, FIRST, 1)
    found = deliveries(session)
    assert [one.body for one in found] == [b"0", b"1"]
    assert not any(one.arguments["redelivered"] for one in found)


def test_a_transaction_publishes_and_settles_on_commit(session: Session) -> None:
    """Rules TX-04, ST-09."""
    session.ask(1, "tx.select")
    session.feed(publish(1, "s", b"0") + publish(1, "s", b"1"))
    consume(session, FIRST, 1, 1)
    assert bodies(session) == []
    session.send(1, "tx.commit")
    assert bodies(session) == [b"0"]
    session.send(1, "basic.ack", delivery_tag=1)
    assert bodies(session) == []
    session.send(1, "tx.commit")
    assert bodies(session) == [b"1"]


def test_delete_ignores_conditions_and_tells_of_no_messages(session: Session) -> None:
    """Rules Q-52, Q-53, ST-10."""
    fill(session, 3)
    consume(session, FIRST, 1, 2, consumer_tag="c")
    session.heard()
    session.send(2, "queue.delete", queue="s", if_unused=True, if_empty=True)
    found = session.heard()
    assert [(one.channel, one.name, one.arguments) for one in found] == [
        (1, "basic.cancel", {"consumer_tag": "c", "nowait": True}),
        (2, "queue.delete-ok", {"message_count": 0}),
    ]
    session.send(1, "basic.ack", delivery_tag=2, multiple=True)
    assert session.is_running


def test_a_lost_connection_leaves_nothing_behind(session: Session) -> None:
    other = session.world.open(1)
    fill(session, 2)
    consume(other, FIRST, 1, 1)
    consume(other, {"x-stream-offset": 50}, 1, 1, consumer_tag="ahead")
    assert bodies(other) == [b"0"]
    other.lose()
    queue = session.world.vhost.queues["s"]
    assert not queue.consumers
    assert queue.unacked_count == 0
    fill(session, 60)
    assert session.is_running


def test_all_at_once_is_the_same(session: Session) -> None:
    """Rule OR-02: a declare, publishes and a consume in one write."""
    start = method(1, "basic.qos", prefetch_count=9)
    start += publish(1, "s", b"0") + publish(1, "s", b"1")
    ask = method(1, "basic.consume", queue="s", arguments=table(FIRST))
    session.feed(start + ask + publish(1, "s", b"2"))
    assert bodies(session) == [b"0", b"1", b"2"]
