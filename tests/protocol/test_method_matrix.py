"""Every method of AMQP 0-9-1 in every state of a connection and of a channel.

What has to come of it stands in the tables; what is not listed there has the state's common
outcome. Rules C-34, C-59, C-70..C-76, CH-01..CH-11, F-11, F-13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.helpers.methods import CLIENT_METHODS, CONTENT_METHODS, METHODS, encode_method
from tests.helpers.session import (
    PROTOCOL_HEADER,
    Session,
    World,
    assert_channel_closed,
    assert_connection_closing,
    assert_dropped,
    assert_sent,
    body,
    frame,
    header,
    method,
    publish,
)

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

ARGUMENTS: Final[dict[str, dict[str, object]]] = {
    "connection.start-ok": {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US"},
    "connection.tune-ok": {"channel_max": 2047, "frame_max": 131_072},
    "connection.open": {"virtual_host": "/"},
    "channel.flow": {"active": True},
    "exchange.declare": {"exchange": "e", "type": "fanout"},
    "exchange.bind": {"destination": "amq.topic", "source": "amq.direct"},
    "exchange.unbind": {"destination": "amq.topic", "source": "amq.direct"},
    "exchange.delete": {"exchange": "e"},
    "queue.declare": {"queue": "other"},
    "queue.bind": {"queue": "q", "exchange": "amq.direct"},
    "queue.unbind": {"queue": "q", "exchange": "amq.direct"},
    "queue.purge": {"queue": "q"},
    "queue.delete": {"queue": "q"},
    "basic.consume": {"queue": "q", "consumer_tag": "t"},
    "basic.get": {"queue": "q"},
    "basic.recover": {"requeue": True},
    "basic.recover-async": {"requeue": True},
}
"""What makes a method a sensible one; the others have nothing but zeros."""


class Dropped(NamedTuple):
    """The socket closes without a word."""

    after_s: float = 0.0


class ChannelClosed(NamedTuple):
    """channel.close, blaming the method itself."""

    code: int
    text: str


class ConnectionClosing(NamedTuple):
    """connection.close; it blames the method itself unless told otherwise."""

    code: int
    text: str
    blamed: tuple[int, int] | None = None


class Sent(NamedTuple):
    """One method comes back, on the same channel; or none."""

    name: str | None


Outcome = Dropped | ChannelClosed | ConnectionClosing | Sent

NOTHING: Final = Sent(None)
REFUSED: Final = Dropped(3.0)


def wrong_state(state: str) -> ConnectionClosing:
    text = f"CHANNEL_ERROR - unexpected method in connection state {state}"
    return ConnectionClosing(504, text)


ON_ZERO: Final[dict[str, tuple[Outcome, dict[str, Outcome]]]] = {
    "starting": (REFUSED, {"connection.start-ok": Sent("connection.tune")}),
    "tuning": (REFUSED, {"connection.tune-ok": NOTHING}),
    "opening": (
        wrong_state("opening"),
        {
            "connection.open": Sent("connection.open-ok"),
            "connection.close": Sent("connection.close-ok"),
        },
    ),
    "running": (
        wrong_state("running"),
        {
            "connection.close": Sent("connection.close-ok"),
            "connection.update-secret": Sent("connection.update-secret-ok"),
        },
    ),
    "closing": (
        NOTHING,
        {"connection.close": Sent("connection.close-ok"), "connection.close-ok": Dropped()},
    ),
    "closed": (NOTHING, {"connection.close": Sent("connection.close-ok")}),
    "dropping": (NOTHING, {}),
}
"""Connection state -> the common outcome of a method on channel 0, and the others."""

UNIMPLEMENTED: Final = ConnectionClosing(503, "COMMAND_INVALID - unimplemented method")
UNKNOWN_TAG: Final = ChannelClosed(406, "PRECONDITION_FAILED - unknown delivery tag 0")
NO_TRANSACTION: Final = ChannelClosed(406, "PRECONDITION_FAILED - channel is not transactional")
OPENED_TWICE: Final = ConnectionClosing(504, "CHANNEL_ERROR - second 'channel.open' seen")
PENDING: Final = "UNEXPECTED_FRAME - expected content "

ON_CHANNEL: Final[dict[str, tuple[Outcome, dict[str, Outcome]]]] = {
    "not opened": (
        ConnectionClosing(504, "CHANNEL_ERROR - expected 'channel.open'"),
        {"channel.open": Sent("channel.open-ok")},
    ),
    "open": (
        UNIMPLEMENTED,
        {
            "channel.open": OPENED_TWICE,
            "channel.flow": Sent("channel.flow-ok"),
            "channel.close": Sent("channel.close-ok"),
            "access.request": Sent("access.request-ok"),
            "exchange.declare": Sent("exchange.declare-ok"),
            "exchange.delete": Sent("exchange.delete-ok"),
            "exchange.bind": Sent("exchange.bind-ok"),
            "exchange.unbind": Sent("exchange.unbind-ok"),
            "queue.declare": Sent("queue.declare-ok"),
            "queue.bind": Sent("queue.bind-ok"),
            "queue.unbind": Sent("queue.unbind-ok"),
            "queue.purge": Sent("queue.purge-ok"),
            "queue.delete": Sent("queue.delete-ok"),
            "basic.qos": Sent("basic.qos-ok"),
            "basic.consume": Sent("basic.consume-ok"),
            "basic.cancel": Sent("basic.cancel-ok"),
            "basic.publish": NOTHING,
            "basic.get": Sent("basic.get-empty"),
            "basic.ack": UNKNOWN_TAG,
            "basic.nack": UNKNOWN_TAG,
            "basic.reject": UNKNOWN_TAG,
            "basic.recover": Sent("basic.recover-ok"),
            "basic.recover-async": NOTHING,
            "confirm.select": Sent("confirm.select-ok"),
            "tx.select": Sent("tx.select-ok"),
            "tx.commit": NO_TRANSACTION,
            "tx.rollback": NO_TRANSACTION,
        },
    ),
    "closing": (
        NOTHING,
        {"channel.open": OPENED_TWICE, "channel.close": Sent("channel.close-ok")},
    ),
    "header pending": (
        ConnectionClosing(
            505, PENDING + "header for class 60, got non content header frame instead", (60, 40)
        ),
        {},
    ),
    "body pending": (
        ConnectionClosing(505, PENDING + "body, got non content body frame instead", (60, 40)),
        {},
    ),
}
"""Channel state in a running connection -> the common outcome, and the others."""


def connection_in(state: str) -> Session:
    """A connection that has just come into a state; nothing of that is left to be heard."""
    session = World().connect()
    names = ("connection.start-ok", "connection.tune-ok", "connection.open")
    steps = [PROTOCOL_HEADER, *(method(0, name, **ARGUMENTS[name]) for name in names)]
    count = {"starting": 1, "tuning": 2, "opening": 3, "dropping": 1}.get(state, 4)
    session.feed(b"".join(steps[:count]))
    if state == "closing":
        session.feed(frame(0, 0, b""))
        assert session.names()[-1] == "connection.close"
    elif state == "closed":
        session.send(0, "connection.close")
        assert session.names()[-1] == "connection.close-ok"
    elif state == "dropping":
        session.send(0, "connection.open")

    session.take_bytes()
    return session


def channel_in(state: str) -> Session:
    """A running connection whose channel 1 is in a state; queue q is there, and empty."""
    session = World().open(2) if state == "not opened" else World().open(1, 2)
    session.send(2, "queue.declare", queue="q")
    if state == "closing":
        session.feed(publish(1, exchange="nowhere"))
        assert session.names()[-1] == "channel.close"
    elif state == "header pending":
        session.send(1, "basic.publish")
    elif state == "body pending":
        session.feed(method(1, "basic.publish") + header(1, 4) + body(1, b"ha"))

    session.take_bytes()
    return session


def message_of(channel: int, name: str) -> bytes:
    """The method, and where one belongs to it an empty content."""
    data = method(channel, name, **ARGUMENTS.get(name, {}))
    return data + header(channel, 0) if name in CONTENT_METHODS else data


def assert_outcome(session: Session, channel: int, name: str, outcome: Outcome) -> None:
    layout = METHODS[name]
    own = (layout.class_id, layout.method_id)
    if isinstance(outcome, Sent):
        assert_sent(session, *([] if outcome.name is None else [f"{channel} {outcome.name}"]))
        assert not session.link.is_closed
    elif isinstance(outcome, Dropped):
        assert_dropped(session, outcome.after_s)
    elif isinstance(outcome, ChannelClosed):
        assert_channel_closed(session, channel, outcome.code, outcome.text, own)
    else:
        assert_connection_closing(session, outcome.code, outcome.text, outcome.blamed or own)

    assert session.world.bugs == []


def cells(table: dict[str, tuple[Outcome, dict[str, Outcome]]]) -> list[ParameterSet]:
    return [
        pytest.param(state, name, listed.get(name, common), id=f"{state}-{name}")
        for state, (common, listed) in table.items()
        for name in METHODS
    ]


@pytest.mark.parametrize(("state", "name", "outcome"), cells(ON_ZERO))
def test_a_method_on_channel_0(state: str, name: str, outcome: Outcome) -> None:
    """Rules C-34, C-71, C-72, C-75."""
    session = connection_in(state)
    session.feed(method(0, name, **ARGUMENTS.get(name, {})))
    assert_outcome(session, 0, name, outcome)


@pytest.mark.parametrize(("state", "name", "outcome"), cells(ON_CHANNEL))
def test_a_method_on_a_channel(state: str, name: str, outcome: Outcome) -> None:
    """Rules CH-01..CH-11, C-76, F-11, F-13."""
    session = channel_in(state)
    session.feed(message_of(1, name))
    assert_outcome(session, 1, name, outcome)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("state", ["starting", "tuning", "opening", "closing", "closed"])
def test_a_method_on_a_channel_of_a_connection_that_does_not_run(state: str, name: str) -> None:
    """Rules C-34, C-59, C-72."""
    session = connection_in(state)
    session.feed(method(1, name, **ARGUMENTS.get(name, {})))
    payload = encode_method(name, ARGUMENTS.get(name, {}))
    amount = "all" if len(payload) <= 16 else "first 16"
    shown = ",".join(map(str, payload[:16]))
    outcomes: dict[str, Outcome] = {
        "opening": ConnectionClosing(
            505, f"UNEXPECTED_FRAME - type 1, {amount} octets = <<{shown}>>", (0, 0)
        ),
        "closing": NOTHING,
        "closed": NOTHING,
    }
    assert_outcome(session, 1, name, outcomes.get(state, REFUSED))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_in_place_of_the_protocol_header(name: str) -> None:
    """Rule C-05: whatever it is, the header of what is spoken here comes back, and the end."""
    session = World().connect()
    session.feed(method(0, name))
    assert session.take_bytes() == PROTOCOL_HEADER
    assert_dropped(session)


def test_channels_beside_one_that_waits_for_content_are_served() -> None:
    """Rule F-17."""
    for name, outcome in ON_CHANNEL["open"][1].items():
        session = channel_in("body pending")
        session.send(3, "channel.open")
        session.take_bytes()
        session.feed(message_of(3, name))
        assert_outcome(session, 3, name, outcome)


def test_the_channel_is_free_after_its_close_ok() -> None:
    """Rules CH-07, CH-08: of all that a closing channel ignores, close-ok ends it."""
    for name in CLIENT_METHODS:
        session = channel_in("closing")
        session.feed(message_of(1, name))
        if session.names()[-1:] == ["connection.close"]:
            assert name == "channel.open"
            continue

        is_free = name == "channel.close-ok"
        assert (session.ask(1, "channel.open").name == "channel.open-ok") == is_free
