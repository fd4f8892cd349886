"""Opening, using and losing channels: rules CH-01..CH-18, T-01, T-05.

What each method does in each state of a channel is in test_method_matrix.py.
"""

from __future__ import annotations

import pytest

from tests.helpers.session import (
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    assert_sent,
    body,
    handshake,
    header,
    method,
    publish,
)

NO_QUEUE_YET = "NOT_FOUND - no previously declared queue"


def counts(session: Session, channel: int, queue: str) -> tuple[object, object]:
    """Ready messages and consumers, as a passive declare says."""
    answer = session.ask(channel, "queue.declare", queue=queue, passive=True)
    return answer.arguments["message_count"], answer.arguments["consumer_count"]


# -- numbers


@pytest.mark.parametrize("channel", [1, 2, 255, 256, 2_048, 32_768, 65_535])
def test_any_number_may_be_opened(channel: int) -> None:
    """Rules CH-01, CH-04: the limit counts channels, and is not about numbers."""
    session = World().open(greeting=handshake(channel_max=1))
    answer = session.ask(channel, "channel.open")
    assert (answer.channel, answer.arguments) == (channel, {"channel_id": ""})
    session.feed(publish(channel, "hare", mandatory=True))
    assert session.heard()[0].channel == channel


@pytest.mark.parametrize("name", ["channel.open", "basic.qos", "queue.declare-ok"])
def test_a_channel_too_many_is_530(name: str) -> None:
    """Rule CH-04: whatever comes on the new number."""
    session = World().open(3, 9, greeting=handshake(channel_max=2))
    session.send(4, name)
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    assert_connection_closing(session, 530, text)


def test_a_closed_channel_makes_room_for_another() -> None:
    """Rules CH-04, CH-08."""
    session = World().open(1, 2, greeting=handshake(channel_max=2))
    for channel in range(2, 100):
        session.send(channel, "channel.close")
        session.send(channel + 1, "channel.open")
        assert_sent(session, f"{channel} channel.close-ok", f"{channel + 1} channel.open-ok")


def test_a_channel_that_is_not_quite_closed_still_counts() -> None:
    """Rules CH-04, CH-07."""
    session = World().open(1, greeting=handshake(channel_max=1))
    session.feed(publish(1, exchange="nowhere"))
    session.send(2, "channel.open")
    text = "NOT_ALLOWED - number of channels opened (1) has reached the negotiated channel_max (1)"
    assert_connection_closing(session, 530, text)


def test_a_user_may_be_limited_to_some_channels() -> None:
    """Rule CH-05: over all connections of the user, and lost ones count no more."""
    world = World()
    world.users.users["guest"].channels_max = 3
    first = world.open(1, 2)
    second = world.open(1)
    second.send(2, "channel.open")
    text = (
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed "
        "user limit of 3"
    )
    assert_connection_closing(second, 530, text)
    assert first.ask(3, "channel.open").name == "channel.open-ok"
    first.lose()
    assert world.node.channel_counts == {}
    world.open(1, 2, 3)


def test_a_number_is_fresh_when_it_is_opened_again() -> None:
    """Rules CH-06, CH-08: modes, tags, the last queue and the limits are those of a new channel."""
    session = World().open(1)
    session.send(1, "queue.declare", queue="q")
    session.send(1, "confirm.select")
    session.send(1, "basic.qos", prefetch_count=1)
    session.feed(publish(1, "q") * 3)
    session.send(1, "basic.consume", queue="q", consumer_tag="t")
    session.send(1, "channel.close")
    session.send(1, "channel.open")
    session.take_bytes()
    session.send(1, "tx.select")
    session.send(1, "basic.consume", queue="q", consumer_tag="t")
    heard = session.heard()
    assert [one.name for one in heard] == ["tx.select-ok", "basic.consume-ok"] + [
        "basic.deliver"
    ] * 3
    assert [one.arguments["delivery_tag"] for one in heard[2:]] == [1, 2, 3]
    assert [one.arguments["redelivered"] for one in heard[2:]] == [True, False, False]
    session.send(1, "basic.get")
    assert_channel_closed(session, 1, 404, NO_QUEUE_YET, (60, 70))


# -- closing


@pytest.mark.parametrize("is_error", [False, True])
def test_a_closed_channel_lets_go_of_everything_before_it_says_so(is_error: bool) -> None:
    """Rules CH-06, CH-07, OR-02: consumers, unacked messages, auto-delete queues."""
    session = World().open(1, 2)
    session.send(1, "queue.declare", queue="q")
    session.send(1, "queue.declare", queue="gone", auto_delete=True)
    session.feed(publish(2, "q") * 3)
    session.send(1, "basic.consume", queue="gone")
    session.send(1, "basic.get", queue="q")
    session.send(1, "basic.consume", queue="q")
    session.take_bytes()
    end = publish(1, exchange="nowhere") if is_error else method(1, "channel.close")
    session.feed(end + method(2, "queue.declare", queue="q", passive=True))
    close, declared = session.heard()
    assert close.name == ("channel.close" if is_error else "channel.close-ok")
    assert declared.arguments == {"queue": "q", "message_count": 3, "consumer_count": 0}
    assert session.ask(2, "basic.get", queue="q", no_ack=True).arguments["redelivered"] is True
    session.send(2, "queue.declare", queue="gone", passive=True)
    assert_channel_closed(session, 2, 404, "NOT_FOUND - no queue 'gone' in vhost '/'", (50, 10))


def test_a_closing_channel_ignores_all_but_its_end() -> None:
    """Rule CH-07: contents too, whole or not."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    session.feed(publish(1, exchange="nowhere"))
    session.take_bytes()
    session.feed(publish(1, "q") + method(1, "queue.delete", queue="q"))
    session.feed(method(1, "basic.publish", routing_key="q") + header(1, 9) + body(1, b"half"))
    session.feed(method(1, "basic.consume", queue="q") + method(1, "basic.ack", delivery_tag=9))
    assert session.take_bytes() == b""
    session.feed(method(1, "channel.close-ok") + method(1, "channel.open"))
    assert_sent(session, "1 channel.open-ok")
    assert counts(session, 1, "q") == (0, 0)


def test_closes_that_cross_are_both_answered() -> None:
    """Rule CH-07."""
    session = World().open(1)
    session.feed(publish(1, exchange="nowhere") + method(1, "channel.close"))
    assert_sent(session, "1 channel.close", "1 channel.close-ok")
    session.send(1, "channel.close")
    assert_sent(session, "1 channel.close-ok")
    session.feed(method(1, "channel.close-ok") + method(1, "channel.open"))
    assert_sent(session, "1 channel.open-ok")


@pytest.mark.parametrize("name", ["channel.close-ok", "channel.close"])
def test_closing_once_more_is_504(name: str) -> None:
    """Rules CH-03, CH-07: the channel is not open any more."""
    session = World().open(1)
    session.feed(publish(1, exchange="nowhere") + method(1, "channel.close-ok"))
    session.take_bytes()
    session.send(1, name)
    index = (20, 41) if name == "channel.close-ok" else (20, 40)
    assert_connection_closing(session, 504, "CHANNEL_ERROR - expected 'channel.open'", index)


CLOSING_ERRORS = [
    pytest.param(publish(1, exchange="nowhere"), "channel.close", id="channel-error"),
    pytest.param(method(1, "channel.close"), "channel.close-ok", id="channel-close"),
    pytest.param(method(1, "basic.recover"), "connection.close", id="connection-error"),
    pytest.param(method(0, "connection.close"), "connection.close-ok", id="connection-close"),
    pytest.param(b"\x01\x00\x01\x00\x00\x00\x00\x00", "connection.close", id="frame-error"),
]


@pytest.mark.parametrize(("end", "name"), CLOSING_ERRORS)
def test_publishes_before_a_close_are_confirmed_before_it(end: bytes, name: str) -> None:
    """Rules CF-09, CH-06, C-70: nothing follows a close, and nothing is kept back either."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "confirm.select")
    session.feed(publish(1, "q") * 3 + end)
    heard = session.heard()
    assert [one.name for one in heard] == ["basic.ack", name]
    assert heard[0].arguments == {"delivery_tag": 3, "multiple": True}


def test_returns_come_before_a_close_too() -> None:
    """Rules P-21, P-24."""
    session = World().open(1)
    session.ask(1, "confirm.select")
    session.feed(publish(1, "nowhere", mandatory=True) + publish(1, exchange="nowhere"))
    assert_sent(session, "1 basic.return", "1 basic.ack", "1 channel.close")


# -- small methods


def test_flow_can_only_be_on() -> None:
    """Rule CH-09."""
    session = World().open(1)
    assert session.ask(1, "channel.flow", active=True).arguments == {"active": True}
    session.send(1, "channel.flow", active=False)
    assert_connection_closing(session, 540, "NOT_IMPLEMENTED - active=false", (20, 20))


def test_every_ticket_is_one_and_means_nothing() -> None:
    """Rule CH-10."""
    session = World().open(1)
    answer = session.ask(1, "access.request", realm="/data", exclusive=True, read=True)
    assert answer.arguments == {"ticket": 1}
    assert session.ask(1, "queue.declare", queue="q", ticket=99).arguments["queue"] == "q"


def test_answers_keep_the_order_of_questions() -> None:
    """Rule CH-12."""
    session = World().open(1, 2)
    session.feed(
        method(1, "queue.declare", queue="q")
        + method(2, "exchange.declare", exchange="x", type="direct")
        + method(1, "queue.bind", queue="q", exchange="x")
        + method(1, "basic.qos", prefetch_count=7)
        + method(1, "tx.select")
        + method(2, "confirm.select")
        + method(1, "basic.get", queue="q")
        + method(1, "tx.commit")
    )
    assert_sent(
        session,
        "1 queue.declare-ok",
        "2 exchange.declare-ok",
        "1 queue.bind-ok",
        "1 basic.qos-ok",
        "1 tx.select-ok",
        "2 confirm.select-ok",
        "1 basic.get-empty",
        "1 tx.commit-ok",
    )


def test_nowait_has_no_answer_but_errors_do() -> None:
    """Rules CH-13, E-28."""
    session = World().open(1)
    session.feed(
        method(1, "exchange.declare", exchange="x", type="fanout", nowait=True)
        + method(1, "exchange.declare", exchange="y", type="fanout", nowait=True)
        + method(1, "exchange.bind", destination="y", source="x", nowait=True)
        + method(1, "queue.declare", queue="q", nowait=True)
        + method(1, "queue.bind", exchange="y", nowait=True)
        + method(1, "basic.consume", consumer_tag="t", nowait=True)
        + method(1, "basic.cancel", consumer_tag="t", nowait=True)
        + method(1, "queue.purge", nowait=True)
        + method(1, "exchange.unbind", destination="y", source="x", nowait=True)
        + method(1, "exchange.delete", exchange="x", nowait=True)
        + method(1, "confirm.select", nowait=True)
    )
    assert session.take_bytes() == b""
    assert counts(session, 1, "q") == (0, 0)
    session.send(1, "queue.delete", nowait=True)
    session.send(1, "queue.bind", queue="q", exchange="y", nowait=True)
    assert_channel_closed(session, 1, 404, "NOT_FOUND - no queue 'q' in vhost '/'", (50, 20))


# -- the queue declared last

LAST_QUEUE_METHODS = [
    pytest.param("basic.get", {}, "basic.get-empty", (60, 70), id="get"),
    pytest.param("basic.consume", {}, "basic.consume-ok", (60, 20), id="consume"),
    pytest.param("queue.delete", {}, "queue.delete-ok", (50, 40), id="delete"),
    pytest.param("queue.purge", {}, "queue.purge-ok", (50, 30), id="purge"),
    pytest.param("queue.bind", {"exchange": "amq.topic"}, "queue.bind-ok", (50, 20), id="bind"),
    pytest.param(
        "queue.unbind", {"exchange": "amq.topic"}, "queue.unbind-ok", (50, 50), id="unbind"
    ),
]


@pytest.mark.parametrize(("name", "arguments", "answer", "index"), LAST_QUEUE_METHODS)
def test_an_empty_name_is_the_queue_declared_last(
    name: str, arguments: dict[str, object], answer: str, index: tuple[int, int]
) -> None:
    """Rule CH-14: by this channel, actively or passively."""
    session = World().open(1, 2)
    session.send(1, "queue.declare", queue="q", nowait=True)
    session.send(2, name, **arguments)
    assert_channel_closed(session, 2, 404, NO_QUEUE_YET, index)
    assert session.ask(1, name, **arguments).name == answer


def test_the_last_queue_is_the_one_of_the_last_good_declare() -> None:
    """Rules CH-14, CH-16, Q-01."""
    session = World().open(1)
    named = session.ask(1, "queue.declare").arguments["queue"]
    assert str(named).startswith("amq.gen-")
    session.feed(publish(1, str(named)))
    assert session.ask(1, "basic.get").name == "basic.get-ok"
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "queue.declare", queue=str(named), passive=True)
    assert session.ask(1, "queue.delete").name == "queue.delete-ok"
    session.send(1, "queue.declare", queue="", passive=True)
    assert_channel_closed(session, 1, 404, "NOT_FOUND - no queue '' in vhost '/'", (50, 10))


@pytest.mark.parametrize(
    ("queue", "key", "bound"),
    [
        pytest.param("", "baz", ("q2", "baz"), id="key-kept"),
        pytest.param("", "", ("q2", "q2"), id="both"),
        pytest.param("q1", "", ("q1", ""), id="named"),
        pytest.param("q1", "baz", ("q1", "baz"), id="as-given"),
    ],
)
def test_an_empty_key_is_the_last_queue_only_with_an_empty_name(
    queue: str, key: str, bound: tuple[str, str]
) -> None:
    """Rule CH-15: in bind and unbind."""
    session = World().open(1)
    for name in ("q1", "q2"):
        session.ask(1, "queue.declare", queue=name)

    session.ask(1, "queue.bind", queue=queue, exchange="amq.direct", routing_key=key)
    session.feed(publish(1, bound[1], exchange="amq.direct"))
    assert counts(session, 1, bound[0])[0] == 1
    # Passive declares move the last queue, too.
    counts(session, 1, "q2")
    session.ask(1, "queue.unbind", queue=queue, exchange="amq.direct", routing_key=key)
    session.feed(publish(1, bound[1], exchange="amq.direct"))
    assert counts(session, 1, bound[0])[0] == 1


def test_line_breaks_are_taken_out_of_names_where_they_are_given() -> None:
    """Rule CH-17: in declare, delete, bind and unbind; nowhere else."""
    session = World().open(1, 2)
    answer = session.ask(1, "queue.declare", queue="que\nue\r_test\n")
    assert answer.arguments["queue"] == "queue_test"
    assert counts(session, 1, "\rqueue_test")[0] == 0
    session.ask(1, "exchange.declare", exchange="e\nxc\rhange\n\r_test\n\r", type="topic")
    session.ask(1, "exchange.declare", exchange="exchange_test", passive=True)
    session.ask(1, "queue.bind", queue="queue\n_test", exchange="exchange_test\r", routing_key="#")
    session.ask(1, "exchange.bind", destination="exchange_\ntest", source="amq.fanout\n")
    session.feed(publish(1, "k", exchange="amq.fanout"))
    assert counts(session, 1, "queue_test")[0] == 1
    session.send(2, "queue.purge", queue="queue_test\n")
    text = "NOT_FOUND - no queue 'queue_test\n' in vhost '/'"
    assert_channel_closed(session, 2, 404, text, (50, 30))
    session.ask(1, "exchange.unbind", destination="exchange_test\n", source="amq.\nfanout")
    session.ask(
        1, "queue.unbind", queue="queue_test\n", exchange="exchange_test\n", routing_key="#"
    )
    assert session.ask(1, "exchange.delete", exchange="exchange_test\n").name
    answer = session.ask(1, "queue.delete", queue="queue_test\n")
    assert answer.arguments == {"message_count": 1}


# -- methods of the wrong side


@pytest.mark.parametrize("name", ["basic.return", "basic.get-ok"])
def test_contents_of_the_wrong_side_are_taken_before_they_are_refused(name: str) -> None:
    """Rule CH-11: their content is waited for."""
    session = World().open(1)
    session.feed(method(1, name) + header(1, 4) + body(1, b"ha"))
    assert session.take_bytes() == b""
    session.feed(body(1, b"re"))
    index = (60, 50) if name == "basic.return" else (60, 71)
    assert_connection_closing(session, 503, "COMMAND_INVALID - unimplemented method", index)


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text", "index"),
    [
        pytest.param("basic.qos", {"prefetch_size": 5}, 540, "prefetch_size!=0 (5)", (60, 10)),
        pytest.param("basic.recover", {}, 540, "requeue=false", (60, 110)),
        pytest.param("basic.recover-async", {}, 540, "requeue=false", (60, 100)),
        pytest.param(
            "basic.consume",
            {"queue": "q", "consumer_tag": "t"},
            530,
            "attempt to reuse consumer tag 't'",
            (60, 20),
        ),
    ],
)
def test_methods_that_end_the_connection(
    name: str, arguments: dict[str, object], code: int, text: str, index: tuple[int, int]
) -> None:
    """Rules T-01, A-10, QS-01, CO-03."""
    session = World().open(1)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "basic.consume", queue="q", consumer_tag="t")
    session.send(1, name, **arguments)
    prefix = {530: "NOT_ALLOWED", 540: "NOT_IMPLEMENTED"}[code]
    assert_connection_closing(session, code, f"{prefix} - {text}", index)


def test_immediate_is_not_supported() -> None:
    """Rules P-01, P-11, T-01."""
    session = World().open(1)
    session.feed(publish(1, "nowhere", immediate=True))
    assert_connection_closing(session, 540, "NOT_IMPLEMENTED - immediate=true", (60, 40))
