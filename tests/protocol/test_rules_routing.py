"""Exchanges and bindings (sections E and B)."""

from __future__ import annotations

import pytest

from broker.core.exchange.delayed import DelayedExchange
from broker.wire.tables import Field, encode_table
from tests.helpers.core import raw_properties
from tests.helpers.session import Session, World, publish

KINDS = [(durable, auto, internal) for durable in (0, 1) for auto in (0, 1) for internal in (0, 1)]


@pytest.fixture
def session() -> Session:
    """A client with channels 1 and 2, and the queue ``q``."""
    session = World().open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    return session


def ready(session: Session, queue: str = "q") -> object:
    answer = session.ask(2, "queue.declare", queue=queue, passive=True)
    return answer.arguments["message_count"]


@pytest.mark.parametrize(("durable", "auto_delete", "internal"), KINDS)
def test_durable_auto_delete_and_internal_do_not_exclude_one_another(
    session: Session, durable: int, auto_delete: int, internal: int
) -> None:
    """Rule E-27: each means what it means alone."""
    chosen = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
    for _ in range(2):
        answer = session.ask(1, "exchange.declare", exchange="x", type="fanout", **chosen)
        assert answer.name == "exchange.declare-ok"

    session.ask(1, "queue.bind", queue="q", exchange="x")
    session.feed(publish(1, exchange="x"))
    if internal:
        [close] = session.heard()
        assert close.arguments["reply_code"] == 403
        session.send(1, "channel.close-ok")
        session.ask(1, "channel.open")
    else:
        assert ready(session) == 1

    session.ask(1, "queue.unbind", queue="q", exchange="x")
    session.send(1, "exchange.declare", exchange="x", passive=True)
    [answer] = session.heard()
    assert answer.name == ("channel.close" if auto_delete else "exchange.declare-ok")


def test_the_delayed_exchange_knows_how_many_messages_wait(session: Session) -> None:
    """Rule E-116."""
    session.ask(
        1,
        "exchange.declare",
        exchange="later",
        type="x-delayed-message",
        arguments={"x-delayed-type": "fanout"},
    )
    session.ask(1, "queue.bind", queue="q", exchange="later")
    exchange = session.world.vhost.exchanges["later"]
    assert isinstance(exchange, DelayedExchange)
    for delay_ms in (0, 1_000, 2_000, 2_000):
        raw = raw_properties(headers={"x-delay": delay_ms})
        session.feed(publish(1, "", b"hare", raw, exchange="later"))

    counts = []
    for _ in range(3):
        counts.append((exchange.messages_delayed, ready(session)))
        session.world.wait(1.0)

    assert counts == [(3, 1), (2, 2), (0, 4)]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"x-match": "any", "h": 1}, id="those-of-headers"),
        pytest.param({"x-match": 7}, id="wrong-for-headers"),
        pytest.param({"x-anything": {"deep": [1, 2]}}, id="unknown"),
    ],
)
def test_arguments_of_a_binding_mean_nothing_to_most_types(
    session: Session, kind: str, arguments: dict[str, object]
) -> None:
    """Rule B-07: neither whether it may be bound, nor what is routed."""
    session.ask(1, "exchange.declare", exchange="x", type=kind)
    bound = session.ask(
        1, "queue.bind", queue="q", exchange="x", routing_key="k", arguments=arguments
    )
    assert bound.name == "queue.bind-ok"
    session.feed(publish(1, "k", exchange="x"))
    session.feed(publish(1, "k", b"", raw_properties(headers={"h": 2}), exchange="x"))
    assert ready(session) == 2


def test_arguments_are_part_of_what_a_binding_is(session: Session) -> None:
    """Rules B-01, B-07: even where they mean nothing, each binding is unbound by its own."""
    for number in (1, 2):
        session.ask(1, "queue.bind", queue="q", exchange="amq.fanout", arguments={"number": number})

    session.feed(publish(1, exchange="amq.fanout"))
    assert ready(session) == 1
    session.ask(1, "queue.unbind", queue="q", exchange="amq.fanout", arguments={"number": 1})
    session.ask(1, "queue.unbind", queue="q", exchange="amq.fanout")
    session.feed(publish(1, exchange="amq.fanout"))
    assert ready(session) == 2
    session.ask(1, "queue.unbind", queue="q", exchange="amq.fanout", arguments={"number": 2})
    session.feed(publish(1, exchange="amq.fanout"))
    assert ready(session) == 2


@pytest.mark.parametrize(
    ("wanted", "sent", "is_match"),
    [
        pytest.param(Field("T", 5), Field("T", 5), True, id="same-time"),
        pytest.param(Field("T", 5), Field("T", 6), False, id="another-time"),
        pytest.param(Field("T", 5), Field("l", 5), True, id="its-seconds"),
        pytest.param(Field("T", 5), Field("l", 5_000), False, id="its-milliseconds"),
        pytest.param(Field("l", 5), Field("T", 5), True, id="the-other-way-round"),
    ],
)
def test_a_time_in_a_header_equals_its_seconds(
    session: Session, wanted: Field, sent: Field, is_match: bool
) -> None:
    """Rules E-93, E-96: the accident of RabbitMQ 3.13 and later is not imitated."""
    arguments = encode_table({"x-match": Field("S", "all"), "when": wanted})
    session.ask(1, "queue.bind", queue="q", exchange="amq.headers", arguments=arguments)
    raw = b"\x20\x00" + encode_table({"when": sent})
    session.feed(publish(1, "", b"hare", raw, exchange="amq.headers"))
    assert ready(session) == int(is_match)
