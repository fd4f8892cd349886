"""What protected users and virtual hosts are protected from (commands of administrators).

Whoever is protected keeps what is said of them: password, tags, limits and rights are not changed
and not taken back, and what was not said yet can be said. A virtual host is protected from being
deleted, and from nothing else. It holds for whatever gives the commands; the configuration alone
says of users what it likes, since whoever writes it could as well delete the data directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.auth.passwords import PasswordHash
    from broker.auth.users import User
    from broker.core.vhost import VirtualHost

__all__ = [
    "PROTECTED",
    "Protected",
    "check_deletion",
    "check_limits_stay",
    "check_rights_stay",
    "check_topic_rights_stay",
    "check_user_may_go",
    "check_user_stays",
    "is_protected",
]

PROTECTED: Final = "protected"
"""The tag of protected users."""


class Protected(BrokerError):
    """A command would take away what must stay."""


def is_protected(user: User | None) -> bool:
    """Whether there is such a user, and it is protected."""
    return user is not None and PROTECTED in user.tags


def check_user_stays(
    user: User | None, password_hash: PasswordHash | None, tags: Iterable[str]
) -> None:
    """Demand that a password and tags are those that a protected user has, if it is there.

    Raises:
        Protected: they are others.

    """
    if user is None or PROTECTED not in user.tags:
        return

    if (password_hash, tuple(tags)) != (user.password_hash, user.tags):
        raise _refusal(user)


def check_user_may_go(user: User) -> None:
    """Demand that a user may be deleted.

    Raises:
        Protected: it may not.

    """
    if PROTECTED in user.tags:
        raise _refusal(user)


def check_limits_stay(user: User, limits: Mapping[str, int], known: Mapping[str, int]) -> None:
    """Demand that limits are those that a protected user has.

    Args:
        user: whose.
        limits: what they are to be; a negative one is none.
        known: those that are set.

    Raises:
        Protected: they are others.

    """
    if PROTECTED not in user.tags:
        return

    for name, limit in limits.items():
        if max(limit, -1) != known.get(name, -1):
            raise _refusal(user)


def check_rights_stay(user: User | None, vhost: str, rights: tuple[str, str, str] | None) -> None:
    """Demand that the rights of a protected user in a virtual host stay, if there are some.

    Raises:
        Protected: they would be others, or with None be gone.

    """
    if user is None or PROTECTED not in user.tags:
        return

    known = user.permission(vhost)
    if known is not None and rights != (known.configure, known.write, known.read):
        raise _refusal(user)


def check_topic_rights_stay(
    user: User | None, vhost: str, exchange: str | None, rights: tuple[str, str] | None
) -> None:
    """The same for the keys of one exchange, or with None of all.

    Raises:
        Protected: they would be others, or with None be gone.

    """
    if user is None or PROTECTED not in user.tags:
        return

    for key, known in user.topic_permissions.items():
        is_meant = key[0] == vhost and (exchange is None or exchange == key[1])
        if is_meant and rights != (known.write, known.read):
            raise _refusal(user)


def check_deletion(vhost: VirtualHost) -> None:
    """Demand that a virtual host may be deleted.

    Raises:
        Protected: it may not.

    """
    if vhost.metadata.is_protected:
        raise Protected(
            f"Refusing to delete virtual host '{vhost.name}' because it is protected from deletion"
        )


def _refusal(user: User) -> Protected:
    return Protected(f"user '{user.name}' is protected from changes")
