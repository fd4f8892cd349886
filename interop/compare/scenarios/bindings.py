"""Section B: bindings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("B/binding-twice-is-binding-once", "B-01, S-072")
def twice(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    arguments = {"a": 1, "b": "two"}
    for given in (arguments, dict(reversed(arguments.items()))):
        channel.call(
            "queue.bind", queue=queue, exchange="amq.direct", routing_key=queue, arguments=given
        )

    channel.publish("amq.direct", queue, mandatory=True)
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call(
        "queue.unbind", queue=queue, exchange="amq.direct", routing_key=queue, arguments=arguments
    )
    channel.publish("amq.direct", queue, mandatory=True)
    channel.sync()


@scenario("B/arguments-are-part-of-a-binding", "B-01")
def arguments_count(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    exchange = "amq.direct"
    for arguments in ({}, {"a": 1}, {"a": 2}):
        channel.call(
            "queue.bind", queue=queue, exchange=exchange, routing_key=queue, arguments=arguments
        )

    for arguments in ({"a": 3}, {"a": 1}, {}):
        channel.call(
            "queue.unbind", queue=queue, exchange=exchange, routing_key=queue, arguments=arguments
        )
        channel.publish(exchange, queue, mandatory=True)

    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key=queue,
                 arguments={"a": 2})  # fmt: skip
    channel.publish(exchange, queue, mandatory=True)
    channel.call("queue.purge", queue=queue)


MISSING: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "queue": ("queue.bind", {"queue": "missing-queue", "exchange": "amq.direct"}),
    "exchange": ("queue.bind", {"queue": "QUEUE", "exchange": "missing-exchange"}),
    "queue-and-exchange": ("queue.bind", {"queue": "no-queue", "exchange": "no-exchange"}),
    "source": ("exchange.bind", {"destination": "amq.fanout", "source": "missing-source"}),
    "destination": ("exchange.bind", {"destination": "missing", "source": "amq.fanout"}),
    "source-and-destination": ("exchange.bind", {"destination": "no-one", "source": "no-two"}),
}


def missing(method: str, arguments: dict[str, object], session: Session) -> None:
    queue = session.queue()
    given = {name: queue if value == "QUEUE" else value for name, value in arguments.items()}
    session.channel().call(method, routing_key="k", **given)
    session.channel().call(method.replace("bind", "unbind"), routing_key="k", **given)


for case, (method, arguments) in MISSING.items():
    add(f"B/missing-{case}", "B-04, B-06, E-101", partial(missing, method, arguments))


@scenario("B/unbinding-what-is-not-bound", "B-06, S-070")
def unbind_unknown(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for exchange in ("amq.direct", "amq.fanout", "amq.topic", "amq.headers"):
        channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
        channel.call("exchange.unbind", destination="amq.match", source=exchange, routing_key="k")


@scenario("B/exclusive-queue-of-another-connection", "B-05, Q-30")
def exclusive(session: Session) -> None:
    first, second = session.connect(), session.connect()
    name = session.queue(channel=first.channel(), durable=False, exclusive=True)
    first.channel().call("queue.bind", queue=name, exchange="amq.direct", routing_key="k")
    second.channel().call("queue.bind", queue=name, exchange="amq.direct", routing_key="k")
    second.channel().call("queue.unbind", queue=name, exchange="amq.direct", routing_key="k")
    second.channel().call("queue.unbind", queue=name, exchange="amq.direct", routing_key="other")


@scenario("B/x-match-comes-before-the-owner", "B-03, CH-18")
def validation_first(session: Session) -> None:
    first, second = session.connect(), session.connect()
    name = session.queue(channel=first.channel(), durable=False, exclusive=True)
    second.channel().call(
        "queue.bind", queue=name, exchange="amq.headers", arguments={"x-match": "foo"}
    )


@scenario("B/deleting-a-queue-deletes-its-bindings", "B-08, E-42")
def with_the_queue(session: Session) -> None:
    exchange = session.exchange()
    queue = session.queue()
    session.bind(queue, exchange, "k")
    channel = session.channel()
    channel.call("queue.delete", queue=queue)
    session.queue()
    channel.publish(exchange, "k", mandatory=True)
    channel.call("exchange.delete", exchange=exchange, if_unused=True)


@scenario("B/deleting-an-exchange-deletes-its-bindings", "E-43")
def with_the_exchange(session: Session) -> None:
    exchange = session.exchange()
    queue = session.queue()
    session.bind(queue, exchange, "k")
    channel = session.channel()
    channel.call("exchange.delete", exchange=exchange)
    session.exchange()
    channel.publish(exchange, "k", mandatory=True)
    channel.sync()


@scenario("B/without-wait", "CH-13")
def without_wait(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for method, key in (("queue.bind", "queue"), ("exchange.bind", "destination")):
        given = {"queue": queue, "exchange": "amq.direct"}
        if key == "destination":
            given = {"destination": "amq.fanout", "source": session.exchange()}

        channel.call(method, routing_key=queue, nowait=True, **given)

    channel.publish("amq.direct", queue, mandatory=True)
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("queue.bind", queue=queue, exchange="no-such-exchange", nowait=True)


@scenario("B/most-recent-queue", "CH-14, CH-15, CH-16")
def most_recent(session: Session) -> None:
    session.channel().call("queue.bind", queue="", exchange="amq.direct", routing_key="")
    channel = session.channel()
    queue = session.queue("q1", channel)
    latest = session.queue("q2", channel)
    exchange = session.exchange("topic")
    channel.call("queue.bind", queue="", exchange=exchange, routing_key="baz")
    channel.call("queue.bind", queue="", exchange=exchange, routing_key="")
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="")
    for key in ("baz", latest, queue, ""):
        channel.publish(exchange, key, mandatory=True)

    channel.sync()
    channel.call("basic.get", queue="")
    channel.call("queue.unbind", queue="", exchange=exchange, routing_key="")
    channel.publish(exchange, latest, mandatory=True)
    channel.call("queue.purge", queue="")
    channel.call("queue.purge", queue=queue)
