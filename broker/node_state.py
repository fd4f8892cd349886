"""From a node to what is kept of it, and back; and what a configuration says to that. Layer: rim.

Invariant: what a configuration names is as it says; what nobody named, a default that is, counts on
the first start only. So a command can undo a default for good, but not what is written in a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.auth.passwords import parse_password_hash
from broker.config.schema import DEFAULT_CONFIG
from broker.core.parameter_commands import Parameter
from broker.core.vhost_metadata import VHostMetadata
from broker.store.node_file import (
    NodeState,
    ParameterState,
    PermissionState,
    TopicPermissionState,
    UserState,
    VHostState,
)

if TYPE_CHECKING:
    from broker.auth.users import User, UserStore
    from broker.config.schema import Config, PermissionConfig, VHostConfig
    from broker.core.node import Node

__all__ = ["restore_users", "restore_vhosts", "state_of", "without_spent_defaults"]


# -- what is kept


def state_of(node: Node) -> NodeState:
    """All that has to be kept of a node now."""
    return NodeState(
        next_vhost_number=node.next_vhost_number,
        vhosts=tuple(
            VHostState(
                vhost.name,
                vhost.number,
                vhost.connections_max,
                vhost.queues_max,
                *vhost.metadata,
            )
            for vhost in node.vhosts.values()
        ),
        users=tuple(map(_state_of_user, node.users.users.values())),
        parameters=tuple(
            ParameterState(one.name, one.value, one.vhost, one.component)
            for one in node.parameters.values()
        )
        + tuple(ParameterState(name, value) for name, value in node.global_parameters.items()),
    )


def _state_of_user(user: User) -> UserState:
    password_hash = user.password_hash
    return UserState(
        name=user.name,
        password_hash=None if password_hash is None else password_hash.to_text(),
        hashing_algorithm=None if password_hash is None else password_hash.algorithm,
        tags=user.tags,
        connections_max=user.connections_max,
        channels_max=user.channels_max,
        permissions=tuple(
            PermissionState(vhost, one.configure, one.write, one.read)
            for vhost, one in user.permissions.items()
        ),
        topic_permissions=tuple(
            TopicPermissionState(vhost, exchange, one.write, one.read)
            for (vhost, exchange), one in user.topic_permissions.items()
        ),
    )


# -- and brought back


def restore_users(store: UserStore, state: NodeState) -> None:
    """Fill a store that has no users yet.

    Raises:
        ValueError: a hash or pattern cannot be one.

    """
    for entry in state.users:
        password_hash = None
        if entry.password_hash is not None:
            password_hash = parse_password_hash(entry.password_hash, entry.hashing_algorithm or "")

        user = store.add_user(entry.name, password_hash, tags=entry.tags)
        user.connections_max = entry.connections_max
        user.channels_max = entry.channels_max
        for one in entry.permissions:
            store.set_permissions(
                user.name, vhost=one.vhost, configure=one.configure, write=one.write, read=one.read
            )

        for topic in entry.topic_permissions:
            store.set_topic_permissions(
                user.name,
                vhost=topic.vhost,
                exchange=topic.exchange,
                write=topic.write,
                read=topic.read,
            )


def restore_vhosts(node: Node, state: NodeState) -> None:
    """Make the virtual hosts of a node that has none yet, empty."""
    node.next_vhost_number = state.next_vhost_number
    for entry in state.vhosts:
        vhost = node.add_vhost(entry.name, number=entry.number)
        vhost.connections_max = entry.connections_max
        vhost.queues_max = entry.queues_max
        vhost.metadata = VHostMetadata(
            entry.description, entry.tags, entry.default_queue_type, entry.is_protected
        )

    for one in state.parameters:
        if one.component:
            key = (one.vhost, one.component, one.name)
            node.parameters[key] = Parameter(one.vhost, one.component, one.name, one.value)
        else:
            node.global_parameters[one.name] = one.value


# -- what a configuration says to that


def without_spent_defaults(config: Config, state: NodeState) -> Config:
    """Take out what the configuration has by default, and a command may have undone since.

    Those are the user guest, the virtual host ``/``, and the permissions that are granted where a
    virtual host has none of its own. New users and new virtual hosts still get these.
    """
    are_users_named = config.origin.names(("users",)) or config.users != DEFAULT_CONFIG.users
    users = config.users if are_users_named else ()
    known = {user.name for user in state.users}
    known_vhosts = {vhost.name for vhost in state.vhosts}
    present = known | {user.name for user in users}
    are_vhosts_named = config.origin.names(("vhosts",))
    vhosts = tuple(
        _without_spent_grants(
            config, vhost, present, known if vhost.name in known_vhosts else set()
        )
        for vhost in config.vhosts
        if are_vhosts_named or vhost.name in known_vhosts
    )
    return config._replace(users=users, vhosts=vhosts)


def _without_spent_grants(
    config: Config, vhost: VHostConfig, present: set[str], known: set[str]
) -> VHostConfig:
    is_named = config.origin.names(("vhosts", vhost.name, "permissions"))

    def holds(permission: PermissionConfig) -> bool:
        return permission.user in present and (is_named or permission.user not in known)

    topics = tuple(topic for topic in vhost.topic_permissions if topic.user in present)
    permissions = tuple(filter(holds, vhost.permissions))
    return vhost._replace(permissions=permissions, topic_permissions=topics)
