"""What a client says of itself, and what of that counts (section C)."""

from __future__ import annotations

import pytest

from tests.helpers.session import PROTOCOL_HEADER, Session, World, assert_sent, method


def start_ok(**arguments: object) -> bytes:
    chosen = {"mechanism": "PLAIN", "response": "\0guest\0guest"} | arguments
    return PROTOCOL_HEADER + method(0, "connection.start-ok", **chosen)


def opened(world: World, **arguments: object) -> Session:
    """A connection whose start-ok had these fields."""
    session = world.connect()
    session.feed(start_ok(**arguments))
    session.feed(method(0, "connection.tune-ok", channel_max=9, frame_max=4096))
    session.feed(method(0, "connection.open", virtual_host="/"))
    assert session.names()[-1] == "connection.open-ok"
    return session


def logged(world: World, event: str) -> list[dict[str, object]]:
    return [fields for name, fields in world.logged if name == event]


def test_a_client_may_say_what_its_connection_is_called() -> None:
    """Rule C-15: the log has that name beside the broker's own."""
    world = World()
    session = opened(world, client_properties={"connection_name": "burrow 7"})
    [fields] = logged(world, "connection.opened")
    assert fields["connection_name"] == "burrow 7"
    assert fields["connection"] == session.connection.name != "burrow 7"


@pytest.mark.parametrize("name", [7, True, {"a": "b"}], ids=["number", "boolean", "table"])
def test_a_name_that_is_no_text_is_none(name: object) -> None:
    """Rule C-15."""
    world = World()
    opened(world, client_properties={"connection_name": name})
    [fields] = logged(world, "connection.opened")
    assert "connection_name" not in fields


def test_connections_may_have_the_same_name() -> None:
    """Rule C-15: it is for people, and identifies nothing."""
    world = World()
    first = opened(world, client_properties={"connection_name": "hare"})
    second = opened(world, client_properties={"connection_name": "hare"})
    first.ask(0, "connection.close")
    assert second.ask(1, "channel.open").name == "channel.open-ok"


@pytest.mark.parametrize("locale", ["", "en_US", "xx_XX", "x" * 255], ids=len)
def test_any_locale_will_do(locale: str) -> None:
    """Rule C-17."""
    session = World().connect()
    session.feed(start_ok(locale=locale))
    assert_sent(session, "0 connection.start", "0 connection.tune")
