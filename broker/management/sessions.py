"""Logins that last: a token in the place of a password, for a while (management layer).

Invariant: bounded; nobody can make a token from what is kept here; and none outlives the user or
the password that it was given for.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.auth.passwords import PasswordHash
    from broker.auth.users import User, UserStore

__all__ = ["SESSIONS_MAX", "SESSIONS_PER_USER_MAX", "Sessions"]

SESSIONS_MAX: Final = 1_024
"""Logins at a time; of more, the oldest ends."""

SESSIONS_PER_USER_MAX: Final = 32
"""Of one user; so nobody can end the sessions of all others by logging in again and again."""

TOKEN_BYTES: Final = 32


class _Session(NamedTuple):
    user: User
    password_hash: PasswordHash | None
    until_s: float


class Sessions:
    """The logins of one broker.

    Args:
        users: of the broker.
        monotonic: tells the time.
        random_bytes: source of tokens.
        timeout_s: how long a login lasts.

    """

    __slots__ = ("_monotonic", "_random_bytes", "_sessions", "_users", "timeout_s")

    def __init__(
        self,
        users: UserStore,
        *,
        monotonic: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        timeout_s: float,
    ) -> None:
        self._users = users
        self._monotonic = monotonic
        self._random_bytes = random_bytes
        self.timeout_s: Final = timeout_s
        # By digest of the token, oldest first.
        self._sessions: dict[bytes, _Session] = {}

    def open(self, user: User) -> str:
        """Begin a session; the token is known to whoever gets it from here, and to nobody else."""
        mine = [key for key, session in self._sessions.items() if session.user is user]
        if len(mine) >= SESSIONS_PER_USER_MAX:
            del self._sessions[mine[0]]

        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]

        token = self._random_bytes(TOKEN_BYTES).hex()
        until_s = self._monotonic() + self.timeout_s
        self._sessions[_digest(token)] = _Session(user, user.password_hash, until_s)
        return token

    def user_of(self, token: str) -> User | None:
        """Whose session it is; None where it is none, or none any more."""
        key = _digest(token)
        session = self._sessions.get(key)
        if session is None:
            return None

        user, password_hash, until_s = session
        is_over = self._monotonic() >= until_s
        if is_over or self._users.users.get(user.name) is not user:
            del self._sessions[key]
            return None

        if user.password_hash is not password_hash and user.password_hash != password_hash:
            del self._sessions[key]
            return None

        return user

    def close(self, token: str) -> None:
        """End a session, if it is one."""
        self._sessions.pop(_digest(token), None)

    def __len__(self) -> int:
        return len(self._sessions)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
