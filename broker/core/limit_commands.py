"""How much users and virtual hosts may have: commands of administrators (rule PM-30).

A limit holds for what is opened or declared from then on; what is there stays. A negative number
is no limit. See :mod:`broker.core.user_commands` for ``by``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_plain, erl_tuple
from broker.core.protection import check_limits_stay
from broker.core.user_commands import tell, user_named, vhost_named
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker.auth.users import User
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost

__all__ = [
    "USER_LIMITS",
    "VHOST_LIMITS",
    "checked_user_limits",
    "clear_user_limits",
    "clear_vhost_limits",
    "limits_of_user",
    "limits_of_vhost",
    "set_user_limits",
    "set_vhost_limits",
]

USER_LIMITS: Final = ("max-connections", "max-channels")
VHOST_LIMITS: Final = ("max-connections", "max-queues")

LIMITS_NAME: Final = "limits"
"""The name of all limits of one thing together, in events."""

VHOST_LIMITS_COMPONENT: Final = "vhost-limits"
"""RabbitMQ keeps them as a parameter of this component, and tells of that too."""


# -- users


def limits_of_user(user: User) -> dict[str, int]:
    """The limits that are set."""
    return _given({"max-connections": user.connections_max, "max-channels": user.channels_max})


def checked_user_limits(user: User | None, limits: Mapping[str, object]) -> dict[str, int]:
    """Limits, if they may be set.

    Args:
        user: whose they are to be; None where there is none yet.
        limits: what they are to be.

    Raises:
        ValueError: a limit is unknown, or no number.
        Protected: the user is, and has other limits.

    """
    checked = _checked(limits, USER_LIMITS, "user-limits")
    if user is not None:
        check_limits_stay(user, checked, limits_of_user(user))

    return checked


def set_user_limits(
    node: Node, name: str, limits: Mapping[str, object], *, by: str, is_new: bool = False
) -> None:
    """Set these limits of a user; others stay as they are.

    Args:
        node: where the user is.
        name: of the user.
        limits: what they are to be.
        by: who gives the command.
        is_new: whether the user has just been made, protected or not.

    Raises:
        NoSuchUser: there is no such user.
        ValueError: a limit is unknown, or no number; nothing is changed.
        Protected: the user is, and has other limits.

    """
    user = user_named(node, name)
    checked = checked_user_limits(None if is_new else user, limits)
    for limit, value in checked.items():
        _limit_user(user, limit, value)

    tell(node, "user.limits.set", by, **{"name": LIMITS_NAME, "username": name, **checked})


def clear_user_limits(
    node: Node, name: str, limits: Iterable[str] = USER_LIMITS, *, by: str
) -> None:
    """Lift these limits of a user, all where none are named.

    Raises:
        NoSuchUser: there is no such user.
        ValueError: a limit is unknown; nothing is changed.
        Protected: the user is, and has one of them.

    """
    user = user_named(node, name)
    for limit in checked_user_limits(user, dict.fromkeys(limits, -1)):
        _limit_user(user, limit, -1)

    tell(node, "user.limits.cleared", by, name=LIMITS_NAME, username=name)


def _limit_user(user: User, limit: str, value: int) -> None:
    if limit == "max-connections":
        user.connections_max = _none_if_negative(value)
    else:
        user.channels_max = _none_if_negative(value)


# -- virtual hosts


def limits_of_vhost(vhost: VirtualHost) -> dict[str, int]:
    """The limits that are set."""
    return _given({"max-connections": vhost.connections_max, "max-queues": vhost.queues_max})


def set_vhost_limits(node: Node, name: str, limits: Mapping[str, object], *, by: str) -> None:
    """Set the limits of a virtual host; those that are not named are lifted.

    Raises:
        NoSuchVirtualHost: there is no such virtual host.
        ValueError: a limit is unknown, or no number; nothing is changed.

    """
    vhost = vhost_named(node, name)
    checked = _checked(limits, VHOST_LIMITS, "limits")
    vhost.connections_max = _none_if_negative(checked.get("max-connections", -1))
    vhost.queues_max = _none_if_negative(checked.get("max-queues", -1))
    tell(
        node,
        "parameter.set",
        by,
        component=VHOST_LIMITS_COMPONENT,
        name=LIMITS_NAME,
        vhost=name,
        value=table_from_plain(checked),
    )
    tell(node, "vhost.limits.set", by, **{"name": LIMITS_NAME, "vhost": name, **checked})


def clear_vhost_limits(node: Node, name: str, *, by: str) -> None:
    """Lift all limits of a virtual host.

    Raises:
        NoSuchVirtualHost: there is no such virtual host.

    """
    vhost = vhost_named(node, name)
    vhost.connections_max = None
    vhost.queues_max = None
    component = VHOST_LIMITS_COMPONENT
    tell(node, "parameter.cleared", by, component=component, name=LIMITS_NAME, vhost=name)
    tell(node, "vhost.limits.cleared", by, name=LIMITS_NAME, vhost=name)


# -- numbers


def _checked(limits: Mapping[str, object], known: tuple[str, ...], what: str) -> dict[str, int]:
    checked: dict[str, int] = {}
    for name, value in limits.items():
        if name not in known:
            term = erl_tuple(erl_plain(name), erl_plain(value))
            raise ValueError(f"Unrecognised terms [{term}] in {what}")

        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} should be a number, actually was {erl_plain(value)}")

        checked[name] = value

    return checked


def _given(limits: dict[str, int | None]) -> dict[str, int]:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _none_if_negative(value: int) -> int | None:
    return None if value < 0 else value
