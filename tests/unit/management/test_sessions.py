"""Sessions: bounded, timed, and ended with the user or the password."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.auth.passwords import make_password_hash
from broker.auth.users import UserStore
from broker.management import sessions as module
from broker.management.sessions import Sessions

if TYPE_CHECKING:
    import pytest


class Scene:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.users = UserStore()
        self.ann = self.users.add_user("ann", make_password_hash("pw", b"salt"))
        self.sessions = Sessions(
            self.users, monotonic=lambda: self.now_s, random_bytes=os.urandom, timeout_s=100.0
        )


def test_a_token_stands_for_its_user_until_its_time_is_over() -> None:
    scene = Scene()
    token = scene.sessions.open(scene.ann)
    scene.now_s = 99.9
    assert scene.sessions.user_of(token) is scene.ann
    assert scene.sessions.user_of(token[:-1]) is None
    scene.now_s = 100.0
    assert scene.sessions.user_of(token) is None
    assert len(scene.sessions) == 0


def test_a_token_ends_with_the_logout() -> None:
    scene = Scene()
    token, other = scene.sessions.open(scene.ann), scene.sessions.open(scene.ann)
    scene.sessions.close(token)
    scene.sessions.close("no such token")
    assert scene.sessions.user_of(token) is None
    assert scene.sessions.user_of(other) is scene.ann


def test_a_token_ends_with_the_password() -> None:
    scene = Scene()
    token = scene.sessions.open(scene.ann)
    scene.users.add_user("ann", scene.ann.password_hash, tags=["other"])
    assert scene.sessions.user_of(token) is scene.ann, "tags alone end nothing"
    scene.users.add_user("ann", make_password_hash("new", b"salt"))
    assert scene.sessions.user_of(token) is None


def test_a_token_ends_with_the_user_also_if_there_is_another_of_that_name() -> None:
    scene = Scene()
    token = scene.sessions.open(scene.ann)
    scene.users.delete_user("ann")
    scene.users.add_user("ann", make_password_hash("pw", b"salt"))
    assert scene.sessions.user_of(token) is None


def test_sessions_are_bounded_and_nobody_ends_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SESSIONS_MAX", 10)
    monkeypatch.setattr(module, "SESSIONS_PER_USER_MAX", 4)
    scene = Scene()
    bob = scene.users.add_user("bob", make_password_hash("pw", b"salt"))
    token = scene.sessions.open(bob)
    mine = [scene.sessions.open(scene.ann) for _ in range(100)]
    assert len(scene.sessions) == 5
    assert scene.sessions.user_of(token) is bob
    assert scene.sessions.user_of(mine[-4]) is scene.ann
    assert scene.sessions.user_of(mine[-5]) is None
    for number in range(20):
        scene.sessions.open(scene.users.add_user(f"u{number}", None))

    assert len(scene.sessions) == 10


def test_nobody_can_make_a_token_from_what_is_kept() -> None:
    scene = Scene()
    token = scene.sessions.open(scene.ann)
    assert len(token) == 64
    assert token not in repr(scene.sessions._sessions)
