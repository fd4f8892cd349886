"""Sections CH and T: channels, and the scope and text of errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.methods import IDS

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []


@scenario("CH/open-and-close", "CH-01, CH-06, CH-08")
def open_and_close(session: Session) -> None:
    link = session.connect()
    for number in (1, 2047, 1):
        channel = link.channel(number, is_recorded=True)
        channel.call("channel.close", reply_code=200, reply_text="bye")


@scenario("CH/number-beyond-channel-max", "CH-01, CH-04")
def high_number(session: Session) -> None:
    session.connect().channel(65535, is_recorded=True)


@scenario("CH/open-twice", "CH-02, S-022")
def open_twice(session: Session) -> None:
    session.channel().call("channel.open")


UNOPENED: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "queue-declare": ("queue.declare", {"queue": "q"}),
    "channel-close": ("channel.close", {"reply_code": 200}),
    "channel-close-ok": ("channel.close-ok", {}),
    "channel-flow": ("channel.flow", {"active": True}),
    "basic-ack": ("basic.ack", {"delivery_tag": 1}),
    "tx-select": ("tx.select", {}),
    "connection-close": ("connection.close", {"reply_code": 200}),
    "server-method": ("queue.declare-ok", {"queue": "q"}),
}


def unopened(method: str, arguments: dict[str, object], session: Session) -> None:
    link = session.connect()
    link.send(method, 5, **arguments)
    link.await_method("connection.close")


for case, (method, arguments) in UNOPENED.items():
    add(f"CH/unopened-{case}", "CH-03, C-76", partial(unopened, method, arguments))


@scenario("CH/unopened-publish", "CH-03")
def unopened_publish(session: Session) -> None:
    link = session.connect()
    link.send("basic.publish", 5, exchange="", routing_key="k")
    session.quiet("its content is not there")
    link.send_frame(2, 5, b"\0\x3c\0\0" + bytes(8) + b"\0\0")
    link.await_method("connection.close")


@scenario("CH/too-many-channels", "CH-04, S-010")
def too_many(session: Session) -> None:
    link = session.connect(channel_max=2)
    link.channel(1)
    link.channel(1000, is_recorded=True)
    link.channels[1000].call("channel.close", reply_code=200)
    link.channel(2)
    link.channel(3)


@scenario("CH/an-error-leaves-other-channels-alone", "T-01, CH-07, CH-08, S-021")
def other_channels(session: Session) -> None:
    queue = session.queue()
    one, two = session.channel(), session.channel()
    two.call("basic.consume", queue=queue, consumer_tag="c")
    one.call("queue.declare", queue="no-such-queue", passive=True)
    two.publish("", queue)
    two.expect("basic.deliver")
    one.call("channel.open")
    one.call("queue.declare", queue=queue, passive=True)


@scenario("CH/everything-is-ignored-until-close-ok", "CH-07, P-12")
def ignored(session: Session) -> None:
    link = session.connect()
    link.is_answering = False
    queue = session.queue()
    channel = link.channel()
    channel.send("queue.declare", queue="no-such-queue", passive=True)
    channel.send("queue.purge", queue=queue)
    channel.send("basic.publish", routing_key=queue)
    channel.send_content(b"ignored")
    channel.send("tx.commit")
    channel.expect("channel.close")
    channel.send("queue.delete", queue=queue)
    channel.send("queue.declare-ok", queue=queue)
    channel.send("channel.close-ok")
    channel.call("channel.open")
    channel.call("basic.get", queue=queue)


@scenario("CH/crossing-closes", "CH-07")
def crossing(session: Session) -> None:
    link = session.connect()
    link.is_answering = False
    channel = link.channel()
    channel.send("queue.declare", queue="no-such-queue", passive=True)
    channel.send("channel.close", reply_code=200)
    channel.expect("channel.close-ok")
    channel.send("channel.close-ok")
    session.quiet("both are closed")
    link.channel(1, is_recorded=True)


@scenario("CH/open-while-closing", "CH-07, CH-02")
def open_while_closing(session: Session) -> None:
    link = session.connect()
    channel = link.channel()
    link.is_answering = False
    channel.send("queue.declare", queue="no-such-queue", passive=True)
    channel.expect("channel.close")
    link.is_answering = True
    channel.send("channel.open")
    link.await_method("connection.close")


@scenario("CH/close-ok-on-an-open-channel", "CH-07")
def stray_close_ok(session: Session) -> None:
    channel = session.channel()
    channel.send("channel.close-ok")
    channel.link.await_method("connection.close")


@scenario("CH/second-close-ok", "CH-07, CH-03")
def second_close_ok(session: Session) -> None:
    channel = session.channel()
    channel.call("queue.declare", queue="no-such-queue", passive=True)
    channel.send("channel.close-ok")
    channel.link.await_method("connection.close")


@scenario("CH/closing-requeues-and-frees", "CH-06, Q-60, TX-09")
def closing(session: Session) -> None:
    queue = session.queue()
    other = session.queue("auto", auto_delete=True)
    channel = session.channel()
    channel.publish("", queue)
    channel.call("basic.get", queue=queue)
    channel.call("basic.consume", queue=other, consumer_tag="c")
    channel.call("channel.close", reply_code=200)
    session.quiet("closed")
    session.channel().call("basic.get", queue=queue)
    session.channel().call("queue.declare", queue=other, passive=True)


@scenario("CH/flow", "CH-09, S-023")
def flow(session: Session) -> None:
    channel = session.channel()
    channel.call("channel.flow", active=True)
    channel.call("channel.flow", active=False)


@scenario("CH/access-request", "CH-10")
def access(session: Session) -> None:
    channel = session.channel()
    channel.call("access.request", realm="/data", active=True, write=True, read=True)
    channel.call("queue.declare", ticket=77, queue=session.name(), durable=True)


SERVER_METHODS: Final = sorted(
    name
    for name, (class_id, _) in IDS.items()
    if class_id >= 40
    and (name.endswith("-ok") or name in {"basic.return", "basic.deliver", "basic.get-empty"})
)


def server_method(name: str, session: Session) -> None:
    channel = session.channel()
    channel.send(name)
    if name in {"basic.return", "basic.deliver", "basic.get-ok"}:
        channel.send_content(b"")

    channel.link.await_method("connection.close")


for name in SERVER_METHODS:
    if name != "basic.cancel-ok":
        add(f"CH/client-sends-{name.replace('.', '-')}", "CH-11", partial(server_method, name))


@scenario("CH/deliver-without-content", "CH-11, F-11")
def deliver_without_content(session: Session) -> None:
    channel = session.channel()
    channel.send("basic.deliver")
    channel.send("queue.declare", passive=True)
    channel.link.await_method("connection.close")


@scenario("CH/pipelined-methods-are-answered-in-order", "CH-12, OR-02")
def pipelined(session: Session) -> None:
    channel = session.channel()
    queue = session.name()
    channel.send("queue.declare", queue=queue, durable=True)
    channel.send("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.send("basic.qos", prefetch_count=1)
    channel.send("confirm.select")
    channel.send("queue.purge", queue=queue)
    channel.send("queue.unbind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.send("queue.delete", queue=queue)
    channel.expect("queue.delete-ok")


@scenario("T/soft-error-on-channel-zero", "T-01, C-75")
def channel_zero(session: Session) -> None:
    link = session.connect()
    link.send("queue.declare", 0, queue="no-such-queue", passive=True)
    link.await_method("connection.close")


def long_name(name: str, session: Session) -> None:
    session.channel().call("queue.declare", queue=name, passive=True)
    session.channel().call("exchange.declare", exchange=name, passive=True)


LONG_NAMES: Final = {
    "ascii": "n" * 255,
    "just-fitting": "n" * (255 - len("NOT_FOUND - no queue '' in vhost '/'")),
    "one-too-long": "n" * (256 - len("NOT_FOUND - no queue '' in vhost '/'")),
    "two-byte-characters": "\u00e9" * 110,
}

for case, text in LONG_NAMES.items():
    add(f"T/long-text-{case}", "T-02, T-03", partial(long_name, text))


@scenario("T/class-and-method-of-errors", "T-05, P-11")
def class_and_method(session: Session) -> None:
    channel = session.channel()
    channel.publish("no-such-exchange", "k")
    channel.sync()
    session.channel().call("exchange.delete", exchange="amq.direct")
    session.channel().call("queue.purge", queue="no-such-queue")
    session.channel().call("basic.get", queue="no-such-queue")
    session.channel().call("exchange.bind", source="no-such", destination="amq.direct")
    session.channel().call("tx.rollback")


PRINTED: Final[dict[str, str]] = {
    "latin": "\u00e9\u00fc", "greek": "\u03c9", "quotes": "a\"b'c\\d", "tab": "a\tb",
    "control": "a\x01b", "delete": "a\x7fb", "nul": "a\0b", "empty": "",
}  # fmt: skip


def printed(text: str, session: Session) -> None:
    """A value printed as an Erlang binary, as an Erlang string, and raw."""
    session.channel().call(
        "queue.bind", queue=session.queue(), exchange="amq.headers", arguments={"x-match": text}
    )
    session.channel().call("queue.declare", queue=session.name(), durable=True,
                           arguments={"x-overflow": text})  # fmt: skip


for case, text in PRINTED.items():
    add(f"T/printed-{case}", "T-10, T-11, T-13", partial(printed, text))
