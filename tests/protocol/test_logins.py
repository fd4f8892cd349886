"""Logins that take their time, fail, and flood: on the wire (rules C-30..C-34)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.auth.guard import LoginGuard
from broker.auth.passwords import parse_password_hash
from broker.protocol.states import RUNNING, VERIFYING
from broker.wire.constants import PROTOCOL_HEADER
from tests.helpers.session import (
    World,
    assert_dropped,
    handshake,
    method,
    publish,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.auth.logins import Check
    from tests.helpers.session import Session

# Of "right".
SLOW: Final = parse_password_hash(
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$/rlPheEuIOPjYHKhaPJaJGV9XBSrUYzuHgudziGWdAc"
)
REFUSED: Final = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the"
    " broker logfile."
)
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Scene:
    """A world in which ann's password is looked at elsewhere."""

    def __init__(self, *, delay_ms: int = 0) -> None:
        self.world = World()
        self.world.users.add_user("ann", SLOW)
        self.world.users.set_permissions("ann", vhost="/", configure=".*", write=".*", read=".*")
        self.world.node.logins.verifier = self
        self.world.node.logins.guard = LoginGuard(delay_ms=delay_ms)
        self.asked: list[tuple[Check, Callable[[bool], None]]] = []

    def verify(self, check: Check, then: Callable[[bool], None]) -> bool:
        self.asked.append((check, then))
        return True

    def answer(self) -> None:
        asked, self.asked = self.asked, []
        for check, then in asked:
            then(check.password == "right")

        self.world.settle()

    def come(self, password: str = "right", more: bytes = b"", *, is_near: bool = True) -> Session:
        session = self.world.connect(is_loopback=is_near)
        session.feed(handshake(user="ann", password=password) + more)
        return session


def test_a_client_that_sends_ahead_waits_and_goes_on() -> None:
    """Everything at once, from the protocol header to a publish: nothing is read too early."""
    scene = Scene()
    more = method(1, "channel.open") + method(1, "queue.declare", queue="q") + publish(1, "q")
    session = scene.come(more=more)
    assert session.names() == ["connection.start"]
    assert session.connection.state == VERIFYING
    assert session.link.is_paused
    assert "q" not in scene.world.vhost.queues
    scene.answer()
    assert not session.link.is_paused
    assert session.connection.state == RUNNING
    assert session.names()[-2:] == ["channel.open-ok", "queue.declare-ok"]
    assert scene.world.vhost.queues["q"].ready_count == 1


def test_what_comes_while_it_waits_is_kept() -> None:
    scene = Scene()
    data = handshake(user="ann", password="right")
    session = scene.world.connect()
    for at in range(len(data)):
        session.feed(data[at : at + 1])

    assert session.names() == ["connection.start"]
    scene.answer()
    assert session.names() == ["connection.tune", "connection.open-ok"]


def test_the_second_time_nobody_waits() -> None:
    scene = Scene()
    scene.come()
    scene.answer()
    assert scene.come().names()[-1] == "connection.open-ok"
    assert scene.asked == []


def test_a_wrong_password_is_refused_when_it_was_looked_at() -> None:
    scene = Scene()
    session = scene.come("wrong")
    scene.answer()
    close = session.heard()[-1]
    assert (close.name, close.arguments["reply_text"]) == ("connection.close", REFUSED)
    [fields] = [fields for event, fields in scene.world.logged if event == "login.refused"]
    assert fields["reason"] == "the password is wrong"


@pytest.mark.parametrize("how", ["lost", "eof", "timeout"])
def test_who_leaves_meanwhile_is_told_nothing(how: str) -> None:
    scene = Scene()
    session = scene.come()
    session.take_bytes()
    if how == "lost":
        session.lose()
    elif how == "eof":
        session.connection.receive_eof()
    else:
        scene.world.wait(10.0)
        assert session.link.is_closed

    scene.answer()
    assert session.take_bytes() == b""
    assert not scene.world.node.connections
    assert scene.world.bugs == []


def test_a_user_who_is_deleted_meanwhile_does_not_come_in() -> None:
    scene = Scene()
    session = scene.come()
    scene.world.users.delete_user("ann")
    scene.answer()
    assert session.names()[-1] == "connection.close"


@pytest.mark.parametrize("user", ["ann", "guest", "nobody-of-that-name"])
def test_a_refusal_takes_its_time_whoever_it_was_for(user: str) -> None:
    """Rule C-32: in which way it failed does not show, neither in words nor in time."""
    scene = Scene(delay_ms=100)
    session = scene.world.connect(is_loopback=False)
    session.feed(handshake(user=user, password="wrong"))
    scene.answer()
    assert session.names() == ["connection.start"]
    scene.world.wait(0.099)
    assert session.names() == []
    scene.world.wait(0.001)
    [close] = session.heard()
    assert close.arguments["reply_text"] == REFUSED


def test_the_time_a_hash_took_counts() -> None:
    scene = Scene(delay_ms=100)
    session = scene.come("wrong", is_near=False)
    scene.world.wait(0.2)
    scene.answer()
    assert session.names()[-1] == "connection.close"


def test_clients_of_this_machine_wait_for_nothing() -> None:
    scene = Scene(delay_ms=100)
    session = scene.world.connect()
    session.feed(handshake(user="guest", password="wrong"))
    assert session.names()[-1] == "connection.close"


def test_who_is_held_back_gets_the_same_words_and_makes_no_work() -> None:
    scene = Scene()
    scene.world.node.logins.guard = LoginGuard(per_source_max=2)
    for _ in range(2):
        scene.come("wrong", is_near=False)
        scene.answer()

    session = scene.come(is_near=False)
    assert scene.asked == []
    assert session.heard()[-1].arguments["reply_text"] == REFUSED
    assert scene.come().names() == ["connection.start"], "another address is looked at"


def test_a_brute_force_is_looked_at_no_oftener_than_there_are_failures_allowed() -> None:
    """Two thousand tries in a minute, one after the other: thirty and what leaks are hashed."""
    scene = Scene()
    scene.world.node.logins.guard = LoginGuard(per_source_max=30, period_ms=60_000)
    looked_at = 0
    for number in range(2_000):
        session = scene.come(f"guess-{number}", is_near=False)
        looked_at += len(scene.asked)
        scene.answer()
        session.lose()
        scene.world.wait(0.03)

    assert 30 <= looked_at <= 61


def test_a_client_that_only_keeps_alive_is_dropped() -> None:
    """Heartbeats are tiny and many: before the login, the first is one too many."""
    world = World()
    session = world.connect()
    session.feed(b"AMQP\x00\x00\x09\x01")
    session.take_bytes()
    session.feed(HEARTBEAT * 4_096)
    assert_dropped(session, 3.0)


def test_a_client_that_floods_while_it_waits_is_dropped() -> None:
    """A link that is not read may still have something in flight: that is bounded, too."""
    scene = Scene()
    session = scene.come()
    session.take_bytes()
    for _ in range(5):
        session.feed(bytes(256 * 1024))

    assert_dropped(session, 3.0)
    scene.answer()
    assert session.take_bytes() == b""


@pytest.mark.parametrize(
    ("data", "count"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 1, id="not-amqp"),
        pytest.param(PROTOCOL_HEADER + HEARTBEAT, 1, id="heartbeat"),
        pytest.param(PROTOCOL_HEADER + b"\x01\x00\x00\xff\xff\xff\xff", 1, id="oversized"),
        pytest.param(handshake(password="wrong"), 0, id="wrong-password-and-told-so"),
        pytest.param(b"", 0, id="nothing"),
        pytest.param(PROTOCOL_HEADER, 0, id="slow"),
        pytest.param(handshake(), 0, id="client"),
        pytest.param(handshake() + b"\x09\x00\x01" + bytes(5), 0, id="client-and-rubbish"),
    ],
)
def test_rubbish_before_the_login_counts_against_its_address(data: bytes, count: int) -> None:
    world = World()
    session = world.connect(is_loopback=False)
    session.feed(data)
    world.wait(60.0)
    session.lose()
    assert session.link.disgraces == count
