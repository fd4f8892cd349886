"""Section E: exchanges."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.fields import Typed

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

BUILT_IN: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


@scenario("E/built-in-exchanges-are-there", "E-01, E-21, E-30")
def built_in(session: Session) -> None:
    for name, kind in BUILT_IN.items():
        session.channel().call("exchange.declare", exchange=name, passive=True)
        session.channel().call("exchange.declare", exchange=name, type=kind, durable=True)


@scenario("E/trace-exchange-is-internal", "E-01, E-60")
def trace_exchange(session: Session) -> None:
    channel = session.channel()
    channel.publish("amq.rabbitmq.trace", "x")
    channel.sync()


@scenario("E/default-exchange-routes-by-queue-name", "E-10, E-11")
def default_exchange(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.publish("", queue)
    channel.publish("", "no-" + queue, mandatory=True)
    channel.sync()
    channel.call("basic.get", queue=queue)


DEFAULT_EXCHANGE: Final[dict[str, tuple[str, dict[str, str | bool]]]] = {
    "declare": ("exchange.declare", {"exchange": "", "type": "direct", "durable": True}),
    "declare-passive": ("exchange.declare", {"exchange": "", "passive": True}),
    "delete": ("exchange.delete", {"exchange": ""}),
    "queue-bind": ("queue.bind", {"queue": "QUEUE", "exchange": "", "routing_key": "k"}),
    "queue-unbind": ("queue.unbind", {"queue": "QUEUE", "exchange": "", "routing_key": "k"}),
    "bind-source": ("exchange.bind", {"destination": "amq.fanout", "source": ""}),
    "bind-destination": ("exchange.bind", {"destination": "", "source": "amq.fanout"}),
    "unbind-source": ("exchange.unbind", {"destination": "amq.fanout", "source": ""}),
    "unbind-destination": ("exchange.unbind", {"destination": "", "source": "amq.fanout"}),
}


def on_default_exchange(method: str, arguments: dict[str, str | bool], session: Session) -> None:
    queue = session.queue() if arguments.get("queue") else ""
    given = {name: queue if value == "QUEUE" else value for name, value in arguments.items()}
    session.channel().call(method, **given)


for case, (method, arguments) in DEFAULT_EXCHANGE.items():
    play = partial(on_default_exchange, method, arguments)
    add(f"E/default-exchange-refuses-{case}", "E-12", play)


@scenario("E/unknown-type", "E-20")
def unknown_type(session: Session) -> None:
    name = session.name("x")
    session.channel().call("exchange.declare", exchange=name, type="no-such-type")


@scenario("E/known-word-that-is-no-type", "E-20")
def word_that_is_no_type(session: Session) -> None:
    session.channel().call("exchange.declare", exchange=session.name("x"), type="queue")


@scenario("E/unknown-type-comes-before-default-exchange", "E-20, E-12, CH-18")
def unknown_type_first(session: Session) -> None:
    session.channel().call("exchange.declare", exchange="", type="no-such-type")


@scenario("E/empty-type", "E-20")
def empty_type(session: Session) -> None:
    session.channel().call("exchange.declare", exchange=session.name("x"), type="")


@scenario("E/reserved-prefix", "E-21, E-30")
def reserved_prefix(session: Session) -> None:
    session.channel().call("exchange.declare", exchange="amq.compare", type="direct")
    session.channel().call("exchange.declare", exchange="amq.compare", passive=True)
    session.channel().call("exchange.declare", exchange="amq.direct", type="topic", durable=True)


FLAGS: Final[dict[str, tuple[dict[str, object], dict[str, object]]]] = {
    "type": ({"type": "direct"}, {"type": "fanout"}),
    "durable": ({}, {"durable": True}),
    "not-durable": ({"durable": True}, {}),
    "auto-delete": ({}, {"auto_delete": True}),
    "internal": ({}, {"internal": True}),
    "several": ({}, {"type": "topic", "durable": True, "auto_delete": True, "internal": True}),
    "alternate-exchange": (
        {"arguments": {"alternate-exchange": "one"}},
        {"arguments": {"alternate-exchange": "two"}},
    ),
    "alternate-exchange-added": ({}, {"arguments": {"alternate-exchange": "two"}}),
    "alternate-exchange-left-out": ({"arguments": {"alternate-exchange": "one"}}, {}),
    "unknown-argument": ({"arguments": {"x-one": 1}}, {"arguments": {"x-two": "2"}}),
    "same": ({"durable": True, "internal": True}, {"durable": True, "internal": True}),
}


def redeclare(first: dict[str, object], second: dict[str, object], session: Session) -> None:
    name = session.name("x")
    defaults: dict[str, object] = {"exchange": name, "type": "direct"}
    session.channel().call("exchange.declare", **(defaults | first))
    session.channel().call("exchange.declare", **(defaults | second))


for case, (first, second) in FLAGS.items():
    add(
        f"E/redeclare-with-other-{case}",
        "E-22, E-23, T-13, T-14",
        partial(redeclare, first, second),
    )


@scenario("E/alternate-exchange-of-wrong-type", "E-24")
def alternate_of_wrong_type(session: Session) -> None:
    values: list[object] = [5, True, [], {}, None, Typed("x", b"y")]
    for value in values:
        session.channel().call(
            "exchange.declare",
            exchange=session.name("x"),
            type="direct",
            arguments={"alternate-exchange": value},
        )


@scenario("E/declare-without-wait", "E-28, CH-13")
def declare_without_wait(session: Session) -> None:
    name = session.name("x")
    channel = session.channel()
    channel.call("exchange.declare", exchange=name, type="direct", nowait=True)
    channel.call("exchange.declare", exchange=name, passive=True)
    channel.call("exchange.declare", exchange=name, type="fanout", nowait=True)


@scenario("E/passive-ignores-type-and-flags", "E-30")
def passive(session: Session) -> None:
    name = session.exchange()
    channel = session.channel()
    channel.call(
        "exchange.declare",
        exchange=name,
        type="no-such-type",
        passive=True,
        durable=True,
        internal=True,
    )
    channel.call("exchange.declare", exchange="no-" + name, type="direct", passive=True)


@scenario("E/delete-system-exchange", "E-40")
def delete_system(session: Session) -> None:
    session.channel().call("exchange.delete", exchange="amq.fanout")
    session.channel().call("exchange.delete", exchange="amq.no-such-exchange")


@scenario("E/delete-is-idempotent", "E-41")
def delete_twice(session: Session) -> None:
    name = session.exchange()
    channel = session.channel()
    channel.call("exchange.delete", exchange=name)
    channel.call("exchange.delete", exchange=name)
    channel.call("exchange.delete", exchange=name, if_unused=True)
    channel.call("exchange.delete", exchange=name, nowait=True)


@scenario("E/delete-if-unused", "E-42")
def delete_if_unused(session: Session) -> None:
    source = session.exchange()
    destination = session.exchange("fanout", "y")
    channel = session.channel()
    channel.call("exchange.bind", destination=destination, source=source)
    channel.call("exchange.delete", exchange=source, if_unused=True)
    channel = session.channel()
    channel.call("exchange.delete", exchange=destination, if_unused=True)
    channel.call("exchange.delete", exchange=source, if_unused=True)


@scenario("E/auto-delete-after-last-unbind", "E-50, E-52")
def auto_delete(session: Session) -> None:
    name = session.exchange(auto_delete=True)
    queue = session.queue()
    channel = session.channel()
    channel.call("exchange.declare", exchange=name, passive=True)
    channel.call("queue.bind", queue=queue, exchange=name, routing_key="one")
    channel.call("queue.bind", queue=queue, exchange=name, routing_key="two")
    channel.call("queue.unbind", queue=queue, exchange=name, routing_key="one")
    channel.call("exchange.declare", exchange=name, passive=True)
    channel.call("queue.unbind", queue=queue, exchange=name, routing_key="two")
    channel.call("exchange.declare", exchange=name, passive=True)


@scenario("E/auto-delete-after-queue-deletion", "E-50, B-08")
def auto_delete_with_queue(session: Session) -> None:
    name = session.exchange(auto_delete=True)
    queue = session.queue()
    session.bind(queue, name)
    channel = session.channel()
    channel.call("queue.delete", queue=queue)
    channel.call("exchange.declare", exchange=name, passive=True)


@scenario("E/auto-delete-ignores-bindings-as-destination", "E-50")
def auto_delete_destination(session: Session) -> None:
    name = session.exchange("fanout", auto_delete=True)
    channel = session.channel()
    channel.call("exchange.bind", destination=name, source="amq.fanout")
    channel.call("exchange.unbind", destination=name, source="amq.fanout")
    channel.call("exchange.declare", exchange=name, passive=True)


@scenario("E/auto-delete-cascades", "E-43, E-51")
def auto_delete_cascade(session: Session) -> None:
    names = [session.exchange("fanout", suffix, auto_delete=True) for suffix in "abcd"]
    channel = session.channel()
    for source, destination in itertools.pairwise(names):
        channel.call("exchange.bind", destination=destination, source=source)

    channel.call("exchange.delete", exchange=names[3])
    for name in names:
        session.channel().call("exchange.declare", exchange=name, passive=True)


@scenario("E/auto-delete-of-a-circle", "E-51")
def auto_delete_circle(session: Session) -> None:
    one = session.exchange("fanout", "a", auto_delete=True)
    two = session.exchange("fanout", "b", auto_delete=True)
    channel = session.channel()
    channel.call("exchange.bind", destination=one, source=two)
    channel.call("exchange.bind", destination=two, source=one)
    channel.call("exchange.unbind", destination=one, source=two)
    session.channel().call("exchange.declare", exchange=one, passive=True)
    session.channel().call("exchange.declare", exchange=two, passive=True)


@scenario("E/internal-exchange", "E-60, E-100")
def internal(session: Session) -> None:
    name = session.exchange("fanout", internal=True)
    outer = session.exchange("fanout", "outer")
    queue = session.queue()
    session.bind(queue, name)
    channel = session.channel()
    channel.call("exchange.bind", destination=name, source=outer)
    channel.publish(outer, "k")
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.publish(name, "k")
    channel.sync()


@scenario("E/circle-of-exchanges-gives-one-copy", "E-71, E-100")
def circle(session: Session) -> None:
    names = [session.exchange("fanout", f"x{number}") for number in range(3)]
    queues = [session.queue(f"q{number}") for number in range(3)]
    channel = session.channel()
    for number, name in enumerate(names):
        session.bind(queues[number], name)
        channel.call("exchange.bind", destination=names[(number + 1) % 3], source=name)

    channel.publish(names[0], "k")
    channel.sync()
    for queue in queues:
        channel.call("basic.get", queue=queue, no_ack=True)


@scenario("E/two-ways-to-a-queue-give-one-copy", "E-71, E-86")
def two_ways(session: Session) -> None:
    outer, inner = session.exchange("topic", "outer"), session.exchange("fanout", "inner")
    queue = session.queue()
    session.bind(queue, outer, "x.#")
    session.bind(queue, outer, "#.x")
    session.bind(queue, inner)
    channel = session.channel()
    channel.call("exchange.bind", destination=inner, source=outer, routing_key="*.*")
    channel.publish(outer, "x.x")
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("basic.get", queue=queue, no_ack=True)


@scenario("E/binding-an-exchange-to-itself", "E-102")
def self_binding(session: Session) -> None:
    name = session.exchange("fanout")
    queue = session.queue()
    session.bind(queue, name)
    channel = session.channel()
    channel.call("exchange.bind", destination=name, source=name)
    channel.publish(name, "k")
    channel.call("basic.get", queue=queue, no_ack=True)
    channel.call("basic.get", queue=queue, no_ack=True)


@scenario("E/circle-of-alternate-exchanges", "E-72, E-74, P-21")
def alternate_circle(session: Session) -> None:
    channel = session.channel()
    queues = {}
    for name, alternate in {"x": "u", "u": "v", "v": "x"}.items():
        arguments = {"alternate-exchange": session.name(alternate)}
        session.exchange("direct", name, arguments=arguments)
        queues[name] = session.queue(f"q{name}")
        session.bind(queues[name], session.name(name), name)

    for key in "uvz":
        channel.publish(session.name("x"), key, mandatory=True)

    channel.sync()
    for queue in queues.values():
        channel.call("basic.get", queue=queue, no_ack=True)


@scenario("E/alternate-exchange-that-is-missing-or-empty", "E-25, E-72")
def alternate_missing(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    for suffix, alternate in {"one": "no-such-exchange", "two": ""}.items():
        name = session.exchange("direct", suffix, arguments={"alternate-exchange": alternate})
        channel.publish(name, queue, mandatory=True)

    channel.sync()
    channel.call("basic.get", queue=queue)


@scenario("E/alternate-exchange-behind-an-inner-exchange", "E-72, E-74, E-75")
def alternate_of_inner(session: Session) -> None:
    last = session.exchange("fanout", "last")
    inner = session.exchange("direct", "inner", arguments={"alternate-exchange": last})
    outer = session.exchange("fanout", "outer")
    one, two = session.queue("q1"), session.queue("q2")
    session.bind(one, outer)
    session.bind(two, last)
    channel = session.channel()
    channel.call("exchange.bind", destination=inner, source=outer)
    channel.publish(outer, "k", mandatory=True)
    channel.sync()
    channel.call("basic.get", queue=one, no_ack=True)
    channel.call("basic.get", queue=two, no_ack=True)


@scenario("E/existence-is-checked-per-publish", "E-76, P-04")
def existence_per_publish(session: Session) -> None:
    name = session.exchange()
    channel = session.channel()
    channel.publish(name, "k")
    channel.call("exchange.delete", exchange=name)
    channel.publish(name, "k")
    channel.sync()


@scenario("E/line-ends-in-names-are-stripped", "CH-17")
def line_ends(session: Session) -> None:
    name = session.name("exchange_test")
    dirty = name.replace("exchange_test", "e\nxc\rhange\n\r_test\n\r")
    channel = session.channel()
    channel.call("exchange.declare", exchange=dirty, type="direct")
    channel.call("exchange.declare", exchange=name, type="direct", passive=True)
    channel.call("exchange.declare", exchange=dirty, type="direct", passive=True)
    queue = session.queue()
    channel.call("queue.bind", queue=queue + "\r", exchange=dirty, routing_key="k\n")
    channel.publish(name, "k", mandatory=True)
    channel.publish(name, "k\n", mandatory=True)
    channel.call("queue.unbind", queue=queue + "\n", exchange=dirty, routing_key="k\n")
    channel.call("exchange.delete", exchange=dirty)
    channel.call("exchange.declare", exchange=name, type="direct", passive=True)


TOPICS: Final = (
    ("#", ""), ("#", "a.b"), ("*", ""), ("*", "a"), ("*", "."), ("a.*", "a"), ("a.*", "a."),
    ("a.#", "a"), ("a.#", "a.b.c"), ("#.a", "a"), ("#.a", "b.a"), ("#.a", "ba"), ("a.#.b", "a.b"),
    ("a.#.b", "a.x.y.b"), ("a.*.b", "a..b"), ("a.*.b", "a.b"), ("", ""), ("", "a"),
    ("*.*", "a.b.c"), ("*.*", "."), ("#.#", "a"), ("#.#", ""), ("a#", "ab"), ("a#", "a#"),
    ("*.#", ""), ("*.#", "a"), ("#.*", ""), ("#.*", "a.b"), ("*", "*"), ("a", "*"), ("a", "#"),
    ("A", "a"), ("a.b", "a.b"), ("a.b", "a"), ("#.b.#", "a.b.c"), ("*.x#", "a.x#"), ("##", "##"),
    ("##", "a"), ("..", ".."), ("..", "."), ("\u00e9.*", "\u00e9.x"),
)  # fmt: skip


@scenario("E/topic-matching", "E-80..E-84, E-87, S-039")
def topic_matching(session: Session) -> None:
    """One queue, bound to one exchange per pattern: what is not returned has matched."""
    queue = session.queue()
    channel = session.channel()
    for number, (pattern, key) in enumerate(TOPICS):
        name = session.exchange("topic", f"x{number}")
        session.unrecorded(channel, "queue.bind", queue=queue, exchange=name, routing_key=pattern)
        body = f"{pattern!r} {key!r}".encode()
        channel.publish(name, key, body, mandatory=True)

    channel.sync()


@scenario("E/topic-binding-with-many-wildcards", "E-85")
def many_wildcards(session: Session) -> None:
    queue = session.queue()
    channel = session.channel()
    channel.call("queue.bind", queue=queue, exchange="amq.topic", routing_key="#.a.#.b.#")
    channel.call("queue.unbind", queue=queue, exchange="amq.topic", routing_key="#.a.#.b.#")


@scenario("E/routing-by-several-keys", "E-70, P-40, P-42")
def several_keys(session: Session) -> None:
    channel = session.channel()
    queue = session.queue()
    for kind in ("direct", "topic", "fanout", "headers"):
        name = session.exchange(kind, kind)
        session.bind(queue, name, "two", h="v")
        channel.publish(name, "one", kind.encode(), mandatory=True, headers={"CC": ["two", "two"]})
        channel.publish(name, "one", kind.encode(), mandatory=True, headers={"BCC": ["two"]})

    channel.sync()
    for _ in range(7):
        channel.call("basic.get", queue=queue, no_ack=True)
