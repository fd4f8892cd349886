"""Users and what they may do: commands of administrators (section PM).

Each checks first and changes then, makes what was remembered of rights stale, and tells of itself
at the exchange for events (rule E-134). ``by`` names who gives the command, and whether that one
may is for the caller to know; it is empty for the broker itself. What a connection has begun goes
on when its rights go (rule PM-13); only deleting its user or its virtual host closes it (PM-31).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.events import ACTING_USER
from broker.core.names import check_name
from broker.core.protection import (
    PROTECTED,
    check_rights_stay,
    check_topic_rights_stay,
    check_user_may_go,
    check_user_stays,
)
from broker.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.auth.passwords import PasswordHash
    from broker.auth.users import User
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost

__all__ = [
    "NoSuchUser",
    "NoSuchVirtualHost",
    "Rights",
    "TopicRights",
    "clear_permissions",
    "clear_topic_permissions",
    "delete_user",
    "forget_rights_in",
    "put_user",
    "set_password_hash",
    "set_permissions",
    "set_topic_permissions",
    "set_user_tags",
    "tell",
    "unprotect_user",
    "user_named",
    "vhost_named",
]


class Rights(NamedTuple):
    """Patterns for what a user may do with the exchanges and queues of a virtual host."""

    configure: str
    write: str
    read: str


class TopicRights(NamedTuple):
    """Patterns for the keys that a user may use with one topic exchange."""

    exchange: str
    write: str
    read: str


class NoSuchUser(BrokerError):
    """A command names a user that is not there."""


class NoSuchVirtualHost(BrokerError):
    """A command names a virtual host that is not there."""


# -- users


def put_user(
    node: Node, name: str, password_hash: PasswordHash | None, *, tags: Iterable[str], by: str
) -> User:
    """Add a user, or give one that is there another password and other tags (rule PM-01).

    Raises:
        PreconditionFailed: the name is too long.
        Protected: the user is, and something would be another.

    """
    check_name("user name", name)
    tags = tuple(tags)
    is_new = name not in node.users.users
    check_user_stays(node.users.users.get(name), password_hash, tags)
    user = node.users.add_user(name, password_hash, tags=tags)
    if is_new:
        tell(node, "user.created", by, name=name)
    else:
        _tell_of_password(node, user, by)

    if user.tags or not is_new:
        tell(node, "user.tags.set", by, name=name, tags=user.tags)

    return user


def set_password_hash(
    node: Node, name: str, password_hash: PasswordHash | None, *, by: str
) -> None:
    """Give a user another password, or with None one that is never right (rule C-25).

    Raises:
        NoSuchUser: there is no such user.
        Protected: the user is.

    """
    user = user_named(node, name)
    check_user_stays(user, password_hash, user.tags)
    node.users.add_user(name, password_hash, tags=user.tags)
    _tell_of_password(node, user, by)


def set_user_tags(node: Node, name: str, tags: Iterable[str], *, by: str) -> None:
    """Give a user other tags; that of an impersonator counts at once (rule PM-32).

    Raises:
        NoSuchUser: there is no such user.
        Protected: the user is.

    """
    user = user_named(node, name)
    tags = tuple(tags)
    check_user_stays(user, user.password_hash, tags)
    _set_tags(node, user, tags, by)


def unprotect_user(node: Node, name: str, *, by: str) -> None:
    """Take the protection of a user away, and nothing else.

    Raises:
        NoSuchUser: there is no such user.

    """
    user = user_named(node, name)
    _set_tags(node, user, tuple([tag for tag in user.tags if tag != PROTECTED]), by)


def _set_tags(node: Node, user: User, tags: tuple[str, ...], by: str) -> None:
    node.users.add_user(user.name, user.password_hash, tags=tags)
    tell(node, "user.tags.set", by, name=user.name, tags=user.tags)


def delete_user(node: Node, name: str, *, by: str) -> None:
    """Delete a user with all rights; their connections are closed (rule PM-31).

    Raises:
        NoSuchUser: there is no such user.
        Protected: the user is.

    """
    user = user_named(node, name)
    check_user_may_go(user)
    node.users.delete_user(name)
    tell(node, "user.deleted", by, name=name)
    for connection in list(node.connections):
        if connection.belongs_to(user, None):
            connection.force_close(f"user '{name}' is deleted")

    node.rights_changed()


# -- permissions


def set_permissions(node: Node, name: str, rights: Rights, *, vhost: str, by: str) -> None:
    """Set what a user may do in a virtual host, in place of what was set before (rule PM-02).

    Raises:
        NoSuchUser, NoSuchVirtualHost: one of them is not there.
        ValueError: a pattern does not compile; nothing is changed.
        Protected: the user is, and has other rights.

    """
    user = user_named(node, name)
    vhost_named(node, vhost)
    check_rights_stay(user, vhost, (rights.configure, rights.write, rights.read))
    patterns = {"configure": rights.configure, "write": rights.write, "read": rights.read}
    node.users.set_permissions(name, vhost=vhost, **patterns)
    node.rights_changed()
    tell(node, "permission.created", by, user=name, vhost=vhost, **patterns)


def clear_permissions(node: Node, name: str, *, vhost: str, by: str) -> bool:
    """Leave a user nothing to do in a virtual host; False when there was nothing.

    Connections that are open stay open, and are refused whatever they ask next (rule PM-11).

    Raises:
        NoSuchUser, NoSuchVirtualHost: one of them is not there.
        Protected: the user is.

    """
    user = user_named(node, name)
    vhost_named(node, vhost)
    if user.permission(vhost) is None:
        return False

    check_rights_stay(user, vhost, None)
    node.users.clear_permissions(name, vhost=vhost)
    node.rights_changed()
    tell(node, "permission.deleted", by, user=name, vhost=vhost)
    return True


def set_topic_permissions(
    node: Node, name: str, rights: TopicRights, *, vhost: str, by: str
) -> None:
    """Set which keys a user may use with a topic exchange, which need not be there (rule PM-20).

    Raises:
        NoSuchUser, NoSuchVirtualHost: one of them is not there.
        ValueError: a pattern does not compile; nothing is changed.
        Protected: the user is, and has other rights.

    """
    user = user_named(node, name)
    vhost_named(node, vhost)
    check_topic_rights_stay(user, vhost, rights.exchange, (rights.write, rights.read))
    patterns = {"exchange": rights.exchange, "write": rights.write, "read": rights.read}
    node.users.set_topic_permissions(name, vhost=vhost, **patterns)
    node.rights_changed()
    tell(node, "topic.permission.created", by, user=name, vhost=vhost, **patterns)


def clear_topic_permissions(
    node: Node, name: str, *, vhost: str, exchange: str | None = None, by: str
) -> bool:
    """Forget what was set for one exchange, or for all of them; False when there was nothing.

    Raises:
        NoSuchUser, NoSuchVirtualHost: one of them is not there.
        Protected: the user is.

    """
    user = user_named(node, name)
    vhost_named(node, vhost)
    check_topic_rights_stay(user, vhost, exchange, None)
    count = len(user.topic_permissions)
    node.users.clear_topic_permissions(name, vhost=vhost, exchange=exchange)
    if len(user.topic_permissions) == count:
        return False

    node.rights_changed()
    tell(node, "topic.permission.deleted", by, user=name, vhost=vhost)
    return True


def forget_rights_in(node: Node, vhost: str, *, by: str) -> None:
    """A virtual host is deleted: so is all that was allowed in it."""
    for name, user in node.users.users.items():
        if any(key[0] == vhost for key in user.topic_permissions):
            tell(node, "topic.permission.deleted", by, user=name, vhost=vhost)

        if user.permission(vhost) is not None:
            tell(node, "permission.deleted", by, user=name, vhost=vhost)

    node.users.forget_vhost(vhost)


# -- what they have in common


def user_named(node: Node, name: str) -> User:
    """Find a user.

    Raises:
        NoSuchUser: there is none of that name.

    """
    user = node.users.users.get(name)
    if user is None:
        raise NoSuchUser(f"no user '{name}'")

    return user


def vhost_named(node: Node, name: str) -> VirtualHost:
    """Find a virtual host.

    Raises:
        NoSuchVirtualHost: there is none of that name.

    """
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NoSuchVirtualHost(f"no vhost '{name}'")

    return vhost


def tell(node: Node, key: str, by: str, **fields: object) -> None:
    """Tell of a change, and who caused it (rule E-134); and have it kept."""
    node.state_changed()
    if node.events is not None:
        if by:
            fields[ACTING_USER] = by

        node.events.tell(key, **fields)


def _tell_of_password(node: Node, user: User, by: str) -> None:
    key = "user.password.cleared" if user.password_hash is None else "user.password.changed"
    tell(node, key, by, name=user.name)
