"""Who may come in: the one place where passwords are judged (auth layer; rules C-25, C-32, C-36).

A quick hash is compared at once. A slow one is given to a verifier, which may answer later; what it
said yes to is remembered, so that a client that comes again, or sends its password with each
request, does not wait for it anew.

Invariant: a verdict is about the password that a user has when it is given: one that was changed or
a user who was deleted meanwhile is no longer let in.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.auth.guard import LoginGuard
from broker.auth.passwords import dummy_hash, verify_password
from broker.auth.users import AuthenticationError, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.auth.passwords import PasswordHash
    from broker.auth.users import UserStore
    from broker.config.schema import FailedLoginsConfig

    Verdict = User | AuthenticationError

__all__ = ["REMEMBERED_MAX", "Attempt", "Check", "Logins", "Verifier", "guard_of"]

REMEMBERED_MAX: Final = 1_024
"""Passwords that were found right and need not be hashed again: 64 bytes each, under a key that
only this process has. Beyond, those go that were not used for longest."""


class Attempt(NamedTuple):
    """Somebody wants to come in."""

    user: str
    password: str
    source: str
    """The address it comes from; may be empty."""

    is_loopback: bool

    def __repr__(self) -> str:
        return f"Attempt({self.user!r}, ***, {self.source!r})"


class Check(NamedTuple):
    """A password to compare with a slow hash."""

    password: str
    expected: PasswordHash
    source: str
    key: bytes
    """The same for the same password and hash."""

    def __repr__(self) -> str:
        return f"Check(***, {self.source!r})"


class Verifier(Protocol):
    """Compares slow hashes."""

    def verify(self, check: Check, then: Callable[[bool], None]) -> bool:
        """Call back with whether it is right, now or later; False where there are too many."""
        ...


def guard_of(config: FailedLoginsConfig) -> LoginGuard:
    """The guard that a configuration wants."""
    return LoginGuard(
        per_source_max=config.per_source_max,
        per_user_max=config.per_user_max,
        period_ms=round(config.period_s * 1000),
        delay_ms=round(config.delay_s * 1000),
    )


class _Inline:
    """Does it at once: for tests, and where nothing else goes on meanwhile."""

    def verify(self, check: Check, then: Callable[[bool], None]) -> bool:
        then(verify_password(check.password, check.expected))
        return True


class Logins:
    """Judges attempts.

    Args:
        users: of the node.
        key: for what is remembered; random, and of this process alone.

    Attributes:
        guard: holds back who fails too often.
        verifier: compares slow hashes.

    """

    __slots__ = ("_dummies", "_key", "_remembered", "guard", "users", "verifier")

    def __init__(self, users: UserStore, key: bytes) -> None:
        self.users: Final = users
        self.guard = LoginGuard()
        self.verifier: Verifier = _Inline()
        self._key = key
        self._remembered: dict[bytes, None] = {}
        self._dummies: dict[str, PasswordHash] = {}

    def judge(
        self, attempt: Attempt, now_ms: int, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        """Find out who it is.

        Args:
            attempt: what was sent.
            now_ms: the time.
            then: called with the verdict where there is none yet, and only then.

        """
        why = self.guard.refusal(attempt.source, attempt.user, now_ms)
        if why:
            return AuthenticationError(attempt.user, why)

        expected = self._expected(attempt.user)
        if not expected.is_slow or not attempt.password:
            is_right = verify_password(attempt.password, expected)
            return self._verdict(attempt, expected, now_ms, is_right=is_right)

        key = self._key_of(attempt, expected)
        if key in self._remembered:
            del self._remembered[key]
            self._remembered[key] = None
            return self._verdict(attempt, expected, now_ms, is_right=True)

        return self._ask(
            attempt, Check(attempt.password, expected, attempt.source, key), now_ms, then
        )

    def _ask(
        self, attempt: Attempt, check: Check, now_ms: int, then: Callable[[Verdict], None]
    ) -> Verdict | None:
        early: list[Verdict] = []
        is_over = False

        def ended(is_right: bool) -> None:
            if is_right:
                self._remember(check.key)

            verdict = self._verdict(attempt, check.expected, now_ms, is_right=is_right)
            if is_over:
                then(verdict)
            else:
                early.append(verdict)

        is_taken = self.verifier.verify(check, ended)
        is_over = True
        if not is_taken:
            return AuthenticationError(attempt.user, "too many logins wait to be checked")

        return early[0] if early else None

    def _expected(self, name: str) -> PasswordHash:
        """What a password is compared with, in all cases: the time tells nothing (rule C-32)."""
        user = self.users.users.get(name)
        if user is not None and user.password_hash is not None:
            return user.password_hash

        algorithm = self.users.hashing_algorithm
        known = self._dummies.get(algorithm)
        if known is None:
            known = self._dummies[algorithm] = dummy_hash(algorithm)

        return known

    def _verdict(
        self, attempt: Attempt, expected: PasswordHash, now_ms: int, *, is_right: bool
    ) -> Verdict:
        name = attempt.user
        try:
            user = self.users.admit(
                name,
                attempt.password,
                is_loopback=attempt.is_loopback,
                proven=expected if is_right else None,
            )
        except AuthenticationError as error:
            self.guard.failed(attempt.source, name, now_ms)
            return error

        self.guard.succeeded(attempt.source, name)
        return user

    def _key_of(self, attempt: Attempt, expected: PasswordHash) -> bytes:
        text = "\0".join((attempt.user, expected.to_text(), attempt.password))
        raw = text.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(raw, key=self._key, digest_size=32).digest()

    def _remember(self, key: bytes) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]

        self._remembered[key] = None

    @property
    def remembered_count(self) -> int:
        """How many passwords need not be hashed again."""
        return len(self._remembered)
