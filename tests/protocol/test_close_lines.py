"""Each end of a connection or channel has a line in the log that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.session import PROTOCOL_HEADER, Session, World, frame, method, publish

if TYPE_CHECKING:
    from collections.abc import Callable


def ends(world: World) -> list[tuple[str, object]]:
    """Events that tell of an end, with the reason."""
    return [
        (event, fields.get("reason"))
        for event, fields in world.logged
        if event.endswith((".closed", ".dropped", ".refused"))
    ]


def lose(client: Session) -> None:
    client.lose()


def close(client: Session) -> None:
    client.send(0, "connection.close", reply_code=200)


def end_stream(client: Session) -> None:
    client.connection.receive_eof()


def break_the_protocol(client: Session) -> None:
    client.feed(frame(9, 0, b""))


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        pytest.param(lose, "the socket was lost", id="the socket is lost"),
        pytest.param(close, "the client closed it", id="connection.close"),
        pytest.param(end_stream, "the client closed the socket", id="end of the stream"),
    ],
)
def test_an_open_connection_that_ends_has_one_line(
    act: Callable[[Session], None], reason: str
) -> None:
    world = World()
    act(world.open())
    assert ends(world) == [("connection.closed", reason)]


def test_a_connection_that_broke_the_protocol_has_the_reply_in_its_line() -> None:
    world = World()
    break_the_protocol(world.open())
    [(event, reason)] = ends(world)
    assert event == "connection.closed"
    assert str(reason).startswith("FRAME_ERROR")


def test_an_operators_wish_is_the_reason() -> None:
    world = World()
    world.open()
    for connection in list(world.node.connections):
        connection.force_close("enough of it")

    [(_, reason)] = ends(world)
    assert reason == "CONNECTION_FORCED - enough of it"


@pytest.mark.parametrize("said", [b"", PROTOCOL_HEADER[:4], PROTOCOL_HEADER])
def test_a_connection_that_never_opened_has_a_line_for_those_who_look_closely(said: bytes) -> None:
    world = World()
    client = world.connect()
    client.feed(said)
    client.lose()
    assert ends(world) == [("connection.closed", "the socket was lost")]


def test_a_channel_that_its_client_closed_has_the_clients_words() -> None:
    world = World()
    client = world.open(1, 2)
    client.ask(1, "channel.close", reply_code=200, reply_text="bye")
    client.ask(2, "channel.close", reply_code=541, reply_text="I am broken")
    lines = [fields for event, fields in world.logged if event == "channel.closed"]
    assert [(one["channel"], one["reason"], one.get("code"), one.get("text")) for one in lines] == [
        (1, "the client closed it", None, None),
        (2, "the client closed it", 541, "I am broken"),
    ]


def test_a_channel_that_the_broker_closed_has_the_reply() -> None:
    world = World()
    client = world.open(1)
    client.feed(publish(1, "", exchange="none") + method(1, "channel.close-ok"))
    [(event, reason)] = ends(world)
    assert event == "channel.closed"
    assert str(reason).startswith("NOT_FOUND - no exchange 'none'")
