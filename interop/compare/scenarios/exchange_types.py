"""Section E, continued: exchange types beyond those of AMQP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed
from interop.compare.scenarios.steps import drain

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

WEIGHTS: Final = ("1", "20", "01", "+1", "0", "-1", "", "x", "1.5", " 1", "1 ", "10000")

HASH_ARGUMENTS: Final[list[dict[str, object]]] = [
    {"hash-header": "h"},
    {"hash-property": "message_id"},
    {"hash-property": "correlation_id"},
    {"hash-property": "timestamp"},
    {"hash-property": "app_id"},
    {"hash-property": ""},
    {"hash-header": "h", "hash-property": "message_id"},
]


@scenario("E/consistent-hash-weights", "E-120, B-03")
def weights(session: Session) -> None:
    queue = session.queue()
    exchange = session.exchange("x-consistent-hash")
    for weight in WEIGHTS:
        session.channel().call("queue.bind", queue=queue, exchange=exchange, routing_key=weight)


@scenario("E/consistent-hash-weight-above-the-limit", "E-120")
def heavy(session: Session) -> None:
    queue = session.queue()
    exchange = session.exchange("x-consistent-hash")
    session.channel().call("queue.bind", queue=queue, exchange=exchange, routing_key="10001")


@scenario("E/consistent-hash-arguments", "E-121")
def hash_arguments(session: Session) -> None:
    for number, arguments in enumerate(HASH_ARGUMENTS):
        session.channel().call(
            "exchange.declare",
            exchange=session.name(f"x{number}"),
            type="x-consistent-hash",
            arguments=arguments,
        )


def wrong_hash_argument(arguments: dict[str, object], session: Session) -> None:
    session.connect().channel().call(
        "exchange.declare",
        exchange=session.name("x"),
        type="x-consistent-hash",
        arguments=arguments,
    )


for case, value in {"number": 5, "boolean": True, "void": None, "bytes": Typed("x", b"h")}.items():
    add(
        f"E/consistent-hash-header-that-is-{case}",
        "E-121",
        partial(wrong_hash_argument, {"hash-header": value}),
    )


@scenario("E/consistent-hash-routing", "E-122..E-124, E-23")
def hash_routing(session: Session) -> None:
    exchange = session.exchange("x-consistent-hash")
    queue = session.queue()
    channel = session.channel()
    channel.publish(exchange, "k", mandatory=True)
    session.bind(queue, exchange, "1")
    session.bind(queue, exchange, "2")
    channel.publish(exchange, "k", mandatory=True)
    channel.publish(exchange, "", mandatory=True)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="1")
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="2")
    channel.publish(exchange, "k", mandatory=True)
    channel.call(
        "exchange.declare",
        exchange=exchange,
        type="x-consistent-hash",
        arguments={"hash-header": "h"},
    )
    drain(session, queue, 2)


@scenario("E/local-random", "E-131")
def local_random(session: Session) -> None:
    channel = session.channel()
    exchange = session.name("x")
    if channel.call("exchange.declare", exchange=exchange, type="x-local-random") is None:
        return

    queue = session.queue()
    session.channel().call("queue.bind", queue=queue, exchange=exchange, routing_key="k")
    session.channel().call("queue.bind", queue=queue, exchange=exchange, routing_key="")
    session.channel().call("exchange.bind", destination="amq.fanout", source=exchange)
    channel.publish(exchange, "any key", mandatory=True)
    channel.sync()
    drain(session, queue, 1)


@scenario("E/modulus-hash", "E-132")
def modulus_hash(session: Session) -> None:
    channel = session.channel()
    exchange = session.name("x")
    if channel.call("exchange.declare", exchange=exchange, type="x-modulus-hash") is None:
        return

    queue = session.queue()
    channel.publish(exchange, "k", mandatory=True)
    channel.sync()
    session.channel().call("queue.bind", queue=queue, exchange=exchange, routing_key="any")
    channel.publish(exchange, "k", mandatory=True)
    channel.sync()
    drain(session, queue, 1)
