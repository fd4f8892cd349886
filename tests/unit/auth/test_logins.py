"""The one place where passwords are judged: at once, or later when they are hashed slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.auth import logins as module
from broker.auth.guard import LoginGuard
from broker.auth.logins import Attempt, Check, Logins
from broker.auth.passwords import make_password_hash, parse_password_hash, verify_password
from broker.auth.users import AuthenticationError, User, UserStore

if TYPE_CHECKING:
    from collections.abc import Callable

AFAR = "192.0.2.7"
# Of "right", and quick for once.
SLOW = parse_password_hash(
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$/rlPheEuIOPjYHKhaPJaJGV9XBSrUYzuHgudziGWdAc"
)


class Later:
    """Keeps what it is asked, until somebody lets it answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[Check, Callable[[bool], None]]] = []
        self.is_full = False

    def verify(self, check: Check, then: Callable[[bool], None]) -> bool:
        if not self.is_full:
            self.asked.append((check, then))

        return not self.is_full

    def answer(self) -> None:
        for check, then in self.asked:
            then(verify_password(check.password, check.expected))

        self.asked.clear()


class Scene:
    def __init__(self) -> None:
        self.users = UserStore(loopback_only_users=["local"])
        self.users.add_user("slow", SLOW)
        self.users.add_user("quick", make_password_hash("right", b"salt"))
        self.users.add_user("local", make_password_hash("right", b"salt"))
        self.users.add_user("barred", None)
        self.later = Later()
        self.logins = Logins(self.users, b"key")
        self.logins.verifier = self.later
        self.told: list[User | AuthenticationError] = []

    def try_in(self, user: str, password: str = "right", source: str = AFAR) -> str:
        verdict = self.logins.judge(
            Attempt(user, password, source, source != AFAR), 0, self.told.append
        )
        return _text(verdict)


def _text(verdict: User | AuthenticationError | None) -> str:
    if verdict is None:
        return "later"

    return verdict.reason if isinstance(verdict, AuthenticationError) else f"in: {verdict.name}"


@pytest.mark.parametrize(
    ("user", "password", "source", "verdict"),
    [
        ("quick", "right", AFAR, "in: quick"),
        ("quick", "wrong", AFAR, "the password is wrong"),
        ("quick", "", AFAR, "the password is blank"),
        ("nobody", "right", AFAR, "there is no such user"),
        ("barred", "right", AFAR, "the user has no password"),
        ("local", "right", "127.0.0.1", "in: local"),
        ("slow", "right", AFAR, "later"),
        ("slow", "", AFAR, "the password is blank"),
    ],
)
def test_a_quick_hash_is_judged_at_once(
    user: str, password: str, source: str, verdict: str
) -> None:
    assert Scene().try_in(user, password, source) == verdict


def test_a_user_of_this_machine_is_not_let_in_from_afar() -> None:
    assert "may only log in from this machine" in Scene().try_in("local")


def test_a_slow_hash_is_judged_later_and_once() -> None:
    scene = Scene()
    assert scene.try_in("slow") == "later"
    assert scene.told == []
    scene.later.answer()
    assert [_text(one) for one in scene.told] == ["in: slow"]
    assert scene.try_in("slow") == "in: slow", "it is remembered"
    assert scene.try_in("slow", "wrong") == "later", "and no other password for it"
    scene.later.answer()
    assert _text(scene.told[-1]) == "the password is wrong"
    assert scene.try_in("slow", "wrong") == "later", "what was wrong is not remembered"


def test_a_verifier_may_answer_at_once() -> None:
    scene = Scene()
    scene.logins.verifier = module._Inline()
    assert scene.try_in("slow") == "in: slow"
    assert scene.try_in("slow", "wrong") == "the password is wrong"
    assert scene.told == []


def test_a_password_that_changes_meanwhile_is_not_let_in_any_more() -> None:
    scene = Scene()
    scene.try_in("slow")
    scene.users.add_user("slow", make_password_hash("new", b"salt"))
    scene.later.answer()
    assert [_text(one) for one in scene.told] == ["the password was changed meanwhile"]


def test_a_changed_password_ends_what_was_remembered_at_once() -> None:
    scene = Scene()
    scene.try_in("slow")
    scene.later.answer()
    scene.users.add_user("slow", make_password_hash("new", b"salt"))
    assert scene.try_in("slow") == "the password is wrong"


def test_a_user_that_is_deleted_meanwhile_is_not_let_in() -> None:
    scene = Scene()
    scene.try_in("slow")
    scene.users.delete_user("slow")
    scene.later.answer()
    assert [_text(one) for one in scene.told] == ["there is no such user"]


def test_a_user_that_is_not_there_takes_as_long_as_one_that_is() -> None:
    """Rule C-32: where new passwords are hashed slowly, a dummy is compared as slowly."""
    scene = Scene()
    scene.users.hashing_algorithm = "argon2id"
    assert scene.try_in("nobody") == "later"
    assert scene.try_in("barred") == "later"
    assert [check.expected.is_slow for check, _ in scene.later.asked] == [True, True]
    scene.later.answer()
    assert [_text(one) for one in scene.told] == [
        "there is no such user",
        "the user has no password",
    ]


def test_who_comes_when_too_many_wait_is_refused() -> None:
    scene = Scene()
    scene.later.is_full = True
    assert scene.try_in("slow") == "too many logins wait to be checked"


def test_whoever_is_held_back_makes_no_work() -> None:
    scene = Scene()
    scene.logins.guard = LoginGuard(per_source_max=2)
    for _ in range(2):
        assert scene.try_in("slow", "wrong") == "later"
        scene.later.answer()

    assert "too many failed logins from this address" in scene.try_in("slow", "right")
    assert scene.later.asked == []


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    scene = Scene()
    scene.logins.verifier = module._Inline()
    for number in range(10):
        scene.users.add_user(f"u{number}", SLOW)
        assert scene.try_in(f"u{number}") == f"in: u{number}"

    assert scene.logins.remembered_count == 3


def test_nothing_shows_a_password() -> None:
    attempt = Attempt("ann", "hunter2", AFAR, False)
    check = Check("hunter2", SLOW, AFAR, b"")
    assert "hunter2" not in f"{attempt} {check} {attempt!r} {check!r}"
