"""Section C: connections, from the protocol header to the end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add, scenario
from interop.compare.client import CAPABILITIES, PROTOCOL_HEADER
from interop.compare.fields import Typed, encode_long, encode_short

if TYPE_CHECKING:
    from interop.compare.client import Link
    from interop.compare.session import Session

__all__: list[str] = []

HEADERS: Final[dict[str, tuple[str, bytes]]] = {
    "0-9-1": ("C-01", PROTOCOL_HEADER),
    "0-9": ("C-02", b"AMQP\x01\x01\x00\x09"),
    "0-8": ("C-02", b"AMQP\x01\x01\x08\x00"),
    "0-9-2": ("C-03", b"AMQP\x00\x00\x09\x02"),
    "0-10": ("C-03", b"AMQP\x00\x00\x0a\x00"),
    "100-3": ("C-03, C-05, S-001", b"AMQP\x09\x09\x09\x09"),
    "unknown": ("C-05", b"AMQP\x05\x05\x05\x05"),
    "no-amqp": ("C-05", b"HELLO ME"),
    "http": ("C-05", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "tls": ("C-05", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03"),
}


def protocol_header(data: bytes, session: Session) -> None:
    link = session.raw_link()
    link.send_bytes(data)
    session.pump(lambda: bool(link.inbox) or not link.is_open)


for case, (rules, data) in HEADERS.items():
    add(f"C/header-{case}", rules, partial(protocol_header, data))


@scenario("C/nothing-before-the-header", "C-06")
def silent(session: Session) -> None:
    link = session.raw_link()
    link.send_bytes(PROTOCOL_HEADER[:7])
    session.pause(100)
    session.transcript.mark("seven bytes")
    link.send_bytes(PROTOCOL_HEADER[7:])
    link.await_method("connection.start")


@scenario("C/handshake", "C-01, C-10..C-13, C-37, C-40, C-46, C-50")
def handshake(session: Session) -> None:
    link = session.raw_link()
    link.start()
    link.log_in()
    link.tune_and_open()
    link.call("connection.close", reply_code=200, reply_text="bye")


def started(session: Session) -> Link:
    """A link on which connection.start has come, not written down."""
    link = session.raw_link()
    link.is_recording = False
    link.start()
    link.is_recording = True
    return link


def start_ok(link: Link, mechanism: str, response: bytes, *, is_capable: bool = True) -> None:
    link.send(
        "connection.start-ok",
        client_properties={"capabilities": dict(CAPABILITIES) if is_capable else {}},
        mechanism=mechanism,
        response=response,
        locale="xx_YY",
    )


def amqplain(**entries: object) -> bytes:
    table = b""
    for key, value in entries.items():
        kind, text = value if isinstance(value, Typed) else Typed("S", value)
        body = encode_long(str(text)) if kind in {"S", "x"} else b"\0\0\0\x05"
        table += encode_short(key) + kind.encode() + body

    return table


GOOD: Final[dict[str, tuple[str, str, bytes]]] = {
    "plain": ("C-20", "PLAIN", b"\0guest\0guest"),
    "amqplain": ("C-21, S-006", "AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="guest")),
    "amqplain-more-entries": (
        "C-21", "AMQPLAIN", amqplain(X="1", PASSWORD="guest", LOGIN="guest")),
}  # fmt: skip

REFUSED: Final[dict[str, tuple[str, str, bytes]]] = {
    "wrong-password": ("C-30, C-32, S-004", "PLAIN", b"\0guest\0wrong"),
    "unknown-user": ("C-30, C-32", "PLAIN", b"\0no-such-user\0guest"),
    "blank-password": ("C-25, C-30", "PLAIN", b"\0guest\0"),
    "blank-user": ("C-30", "PLAIN", b"\0\0guest"),
    "amqplain-wrong-password": (
        "C-21, C-30", "AMQPLAIN", amqplain(LOGIN="guest", PASSWORD="wrong")),
    "amqplain-password-of-another-type": (
        "C-21, C-30", "AMQPLAIN", amqplain(LOGIN="guest", PASSWORD=Typed("I", 5))),
}  # fmt: skip

DROPPED: Final[dict[str, tuple[str, str, bytes]]] = {
    "plain-with-an-identity": ("C-20, C-33", "PLAIN", b"guest\0guest\0guest"),
    "plain-with-three-parts": ("C-20, C-33", "PLAIN", b"\0guest\0guest\0more"),
    "plain-empty": ("C-20, C-33", "PLAIN", b""),
    "amqplain-without-password": ("C-21, C-33", "AMQPLAIN", amqplain(LOGIN="guest")),
    "amqplain-undecodable": ("C-21, C-33", "AMQPLAIN", b"\x05LOGINZ"),
    "unknown-mechanism": ("C-33", "NONSENSE", b"\0guest\0guest"),
    "mechanism-in-lower-case": ("C-33", "plain", b"\0guest\0guest"),
}


def log_in(mechanism: str, response: bytes, session: Session) -> None:
    link = started(session)
    start_ok(link, mechanism, response)
    link.await_method("connection.tune")


def dropped(mechanism: str, response: bytes, session: Session) -> None:
    link = started(session)
    start_ok(link, mechanism, response)
    link.await_end()


for case, (rules, mechanism, response) in {**GOOD, **REFUSED}.items():
    add(f"C/login-{case}", rules, partial(log_in, mechanism, response))

for case, (rules, mechanism, response) in DROPPED.items():
    add(f"C/login-{case}", rules, partial(dropped, mechanism, response), is_slow=True)


@scenario("C/login-anonymous", "C-11, C-23, S-007", is_slow=True)
def anonymous(session: Session) -> None:
    link = started(session)
    start_ok(link, "ANONYMOUS", b"whatever")
    link.await_method("connection.tune")


@scenario("C/login-refused-without-the-capability", "C-31, S-005", is_slow=True)
def refused_silently(session: Session) -> None:
    link = started(session)
    start_ok(link, "PLAIN", b"\0guest\0wrong", is_capable=False)
    link.await_end()


@scenario("C/login-refused-and-not-answered", "C-30", is_slow=True)
def refused_unanswered(session: Session) -> None:
    link = started(session)
    link.is_answering = False
    start_ok(link, "PLAIN", b"\0guest\0wrong")
    link.await_end()


CAPABILITY_TABLES: Final[dict[str, object]] = {
    "no-table": "authentication_failure_close",
    "number": {"authentication_failure_close": 1},
    "text": {"authentication_failure_close": "true"},
}


def odd_capabilities(capabilities: object, session: Session) -> None:
    link = started(session)
    link.send(
        "connection.start-ok",
        client_properties={"capabilities": capabilities},
        mechanism="PLAIN",
        response=b"\0guest\0wrong",
    )
    link.await_end()


for case, capabilities in CAPABILITY_TABLES.items():
    add(f"C/capability-as-{case}", "C-14", partial(odd_capabilities, capabilities), is_slow=True)


@scenario("C/open-before-start-ok", "C-34", is_slow=True)
def open_first(session: Session) -> None:
    link = started(session)
    link.send("connection.open", virtual_host="/")
    link.await_end()


@scenario("C/channel-frame-before-start-ok", "C-59", is_slow=True)
def channel_first(session: Session) -> None:
    link = started(session)
    link.send("channel.open", 1)
    link.await_end()


@scenario("C/start-ok-larger-than-a-frame-may-be", "C-45, S-003", is_slow=True)
def large_start_ok(session: Session) -> None:
    link = started(session)
    link.send(
        "connection.start-ok",
        client_properties={"filler": "x" * 9000},
        mechanism="PLAIN",
        response=b"\0guest\0guest",
    )
    link.await_end()


@scenario("C/frame-error-before-start-ok", "C-34", is_slow=True)
def frame_error_first(session: Session) -> None:
    link = started(session)
    link.send_frame(9, 0, b"x")
    link.await_end()


TUNING: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "frame-max-too-low": ("C-41, S-002", {"frame_max": 100, "channel_max": 2047}),
    "frame-max-too-high": ("C-42", {"frame_max": 131073, "channel_max": 2047}),
    "frame-max-unlimited": ("C-42", {"frame_max": 0, "channel_max": 2047}),
    "channel-max-too-high": ("C-43, S-011", {"frame_max": 131072, "channel_max": 2048}),
    "channel-max-unlimited": ("C-43", {"frame_max": 131072, "channel_max": 0}),
}


def tuned_badly(arguments: dict[str, object], session: Session) -> None:
    link = started(session)
    link.is_recording = False
    link.log_in()
    link.is_recording = True
    link.send("connection.tune-ok", heartbeat=0, **arguments)
    link.await_end()


for case, (rules, tuning) in TUNING.items():
    add(f"C/tune-{case}", rules, partial(tuned_badly, tuning), is_slow=True)


@scenario("C/tune-frame-max-8192", "C-41")
def smallest_frame(session: Session) -> None:
    link = session.connect(frame_max=8192, channel_max=1)
    link.channel(is_recorded=True)


def tuned(session: Session) -> Link:
    link = started(session)
    link.is_recording = False
    link.log_in()
    link.send("connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0)
    link.is_recording = True
    return link


@scenario("C/vhost-that-does-not-exist", "C-52, C-58, S-009")
def missing_vhost(session: Session) -> None:
    for vhost in ("/nope", "", "//"):
        link = tuned(session)
        link.send("connection.open", virtual_host=vhost)
        link.await_method("connection.close")


@scenario("C/open-fields-are-ignored", "C-50, C-58")
def open_fields(session: Session) -> None:
    link = tuned(session)
    link.send("connection.open", virtual_host="/", reserved_1="capabilities", reserved_2=True)
    link.await_method("connection.open-ok")


OPENING: Final[dict[str, tuple[int, str, dict[str, object]]]] = {
    "channel-open": (1, "channel.open", {}),
    "tune-ok": (0, "connection.tune-ok", {"channel_max": 10, "frame_max": 8192}),
    "start-ok": (0, "connection.start-ok", {"mechanism": "PLAIN"}),
    "queue-declare-on-channel-zero": (0, "queue.declare", {"queue": "q"}),
    "close": (0, "connection.close", {"reply_code": 200}),
    "close-ok": (0, "connection.close-ok", {}),
}


def before_open(number: int, method: str, arguments: dict[str, object], session: Session) -> None:
    link = tuned(session)
    link.send(method, number, **arguments)
    link.await_method("connection.close-ok")


for case, (number, method, arguments) in OPENING.items():
    play = partial(before_open, number, method, arguments)
    add(f"C/opening-{case}", "C-59, C-75", play)


RUNNING: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "open": ("connection.open", {"virtual_host": "/"}),
    "tune-ok": ("connection.tune-ok", {"channel_max": 10, "frame_max": 8192}),
    "start-ok": ("connection.start-ok", {"mechanism": "PLAIN"}),
    "secure-ok": ("connection.secure-ok", {}),
    "close-ok": ("connection.close-ok", {}),
    "start": ("connection.start", {}),
    "open-ok": ("connection.open-ok", {}),
    "blocked": ("connection.blocked", {}),
    "channel-open": ("channel.open", {}),
    "basic-publish": ("basic.publish", {}),
}


def while_running(method: str, arguments: dict[str, object], session: Session) -> None:
    link = session.connect()
    link.send(method, 0, **arguments)
    link.await_method("connection.close")


for case, (method, arguments) in RUNNING.items():
    add(f"C/running-{case}", "C-75", partial(while_running, method, arguments))


@scenario("C/connection-method-on-a-channel", "C-76")
def on_a_channel(session: Session) -> None:
    link = session.connect()
    link.channel()
    link.send("connection.close", 1, reply_code=200)
    link.await_method("connection.close")


@scenario("C/close", "C-70, C-71, CO-15")
def close(session: Session) -> None:
    queue = session.queue(channel=session.connect().channel())
    link = session.connect()
    channel = link.channel()
    channel.publish("", queue)
    channel.call("basic.get", queue=queue)
    channel.call("tx.select")
    channel.publish("", queue)
    link.call("connection.close", reply_code=200, reply_text="bye")
    link.call("connection.close", reply_code=200)
    link.send("channel.open", 7)
    session.quiet("closed")
    other = session.channel()
    other.call("basic.get", queue=queue)
    other.call("basic.get", queue=queue)


@scenario("C/lost-socket", "C-80, Q-33, CO-15")
def lost(session: Session) -> None:
    queue = session.queue(channel=session.connect().channel())
    link = session.connect()
    channel = link.channel()
    exclusive = session.queue("exclusive", channel, durable=False, exclusive=True)
    channel.publish("", queue)
    channel.call("basic.get", queue=queue)
    link.end()
    session.pause(60)
    session.quiet("the socket is closed")
    session.channel().call("basic.get", queue=queue)
    session.channel().call("queue.declare", queue=exclusive, passive=True)


@scenario("C/input-after-a-close-of-the-broker", "C-72", is_slow=True)
def after_close(session: Session) -> None:
    link = session.connect()
    link.is_answering = False
    link.channel()
    link.send("channel.open", 1)
    link.await_method("connection.close")
    link.send("channel.open", 2)
    link.send("connection.close", reply_code=200)
    link.await_method("connection.close-ok")
    link.send("connection.close-ok")
    link.await_end()


@scenario("C/update-secret", "C-73, S-016")
def update_secret(session: Session) -> None:
    link = session.connect()
    link.call("connection.update-secret", new_secret="s", reason="it was time")


@scenario("C/heartbeats", "C-60, C-61, S-008", is_slow=True)
def heartbeats(session: Session) -> None:
    """Heartbeats come, and keep the connection; without any from here it is dropped."""
    link = session.connect(heartbeat=1)
    link.is_recording = False
    ends = session.target.network.now() + 3.2
    while session.target.network.now() < ends:
        link.send_frame(8, 0, b"")
        session.pause(400)

    link.is_recording = True
    link.record(0, f"(still open: {link.is_open}, heartbeats came: {link.heartbeats >= 3})")
    link.is_recording = False
    began = session.target.network.now()
    session.pump(lambda: not link.is_open, 6.0)
    link.is_recording = True
    link.record(0, f"(dropped after 2 to 3 s: {1.5 < session.target.network.now() - began < 3.7})")


@scenario("C/no-heartbeats-when-the-client-wants-none", "C-44", is_slow=True)
def no_heartbeats(session: Session) -> None:
    link = session.connect(heartbeat=0)
    session.pause(1500)
    link.channel(is_recorded=True)
