"""What another configuration would change in a running broker. Layer: rim; changes nothing.

Invariant: whatever differs between two configurations is in the plan: as something that changes at
once, as something that needs a restart, or as something that is there and no longer named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.policy import policy_from_plain
from broker.core.protection import is_protected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.config.schema import BindingConfig, Config, PolicyConfig, VHostConfig
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost

__all__ = [
    "ADD",
    "CHANGE",
    "ORPHAN",
    "RESTART",
    "STAYS",
    "Change",
    "Plan",
    "find_orphans",
    "make_plan",
    "named_in",
]

CHANGE: Final = "change"
ADD: Final = "add"
RESTART: Final = "restart"
ORPHAN: Final = "orphan"

LIVE_KEYS: Final = (
    ("auth.mechanisms", "auth.mechanisms"),
    ("auth.loopback_only_users", "auth.loopback_only_users"),
    ("auth.anonymous_user", "auth.anonymous_user"),
    ("auth.anonymous_password", "auth.anonymous_password"),
    ("auth.cert_login_from", "auth.cert_login_from"),
    ("auth.cert_login_san_index", "auth.cert_login_san_index"),
    ("tls", "tls"),
    ("limits.tls_handshake_timeout_s", "limits.tls_handshake_timeout"),
    ("auth.password_hashing", "auth.password_hashing"),
    ("auth.failed_logins", "auth.failed_logins"),
    ("limits.channel_max", "limits.channel_max"),
    ("limits.frame_max_bytes", "limits.frame_max"),
    ("limits.message_max_bytes", "limits.max_message_size"),
    ("limits.connections_max", "limits.connections"),
    ("limits.consumers_per_channel_max", "limits.consumers_per_channel"),
    ("limits.handshake_timeout_s", "limits.handshake_timeout"),
    ("limits.consumer_timeout_s", "limits.consumer_timeout"),
    ("heartbeat_s", "heartbeat"),
    ("log.level", "log.level"),
    ("log.format", "log.format"),
    ("log.levels", "log.levels"),
    ("log.file", "log.file"),
    ("compatibility.product", "compatibility.product"),
    ("alarms.memory", "alarms.memory.limit"),
    ("alarms.disk", "alarms.disk.free_limit"),
    ("alarms.descriptors", "alarms.file_descriptors.limit"),
)
"""Attributes of a configuration that a running broker takes on, and their keys in the file."""

RESTART_KEYS: Final = (
    ("node", "node"),
    ("listeners", "listeners"),
    ("limits.handshakes_max", "limits.handshakes"),
    ("limits.connections_per_source_max", "limits.connections_per_source"),
    ("limits.connection_rate_max", "limits.connection_rate"),
    ("limits.connection_rate_per_source_max", "limits.connection_rate_per_source"),
    ("storage", "storage"),
    ("compatibility.topic_hash_words_max", "compatibility.topic_hash_words_max"),
    ("compatibility.event_exchange", "compatibility.event_exchange"),
    ("compatibility.rabbitmq", "compatibility.rabbitmq"),
    ("log.has_access", "log.access"),
    ("log.has_exchange", "log.exchange"),
    ("management", "management"),
    ("metrics", "metrics"),
)
"""Those that it takes on when it is started again."""

SECRET_KEYS: Final = frozenset({"auth.anonymous_password"})


STAYS: Final = "protected, and so it stays"


class Change(NamedTuple):
    """One difference.

    Attributes:
        action: CHANGE, ADD, RESTART or ORPHAN.
        key: where it stands in the file.
        text: from what to what, where that says something; never a secret.

    """

    action: str
    key: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.key}{f': {self.text}' if self.text else ''}"


class Plan(NamedTuple):
    """Everything that differs."""

    changes: tuple[Change, ...]

    def of(self, action: str) -> list[Change]:
        """The differences of one kind."""
        return [change for change in self.changes if change.action == action]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not self.changes


def make_plan(old: Config, new: Config, node: Node, orphans: Iterable[Change]) -> Plan:
    """Hold a new configuration against the one in force, and against what is there.

    Args:
        old: in force.
        new: to be in force.
        node: what is there.
        orphans: what is there and no longer named.

    """
    return Plan(
        (
            *_section_changes(old, new),
            *_user_changes(old, new, node),
            *_vhost_changes(old, new, node),
            *orphans,
        )
    )


# -- settings


def _section_changes(old: Config, new: Config) -> Iterator[Change]:
    for action, table in ((CHANGE, LIVE_KEYS), (RESTART, RESTART_KEYS)):
        for path, key in table:
            before, after = _value_at(old, path), _value_at(new, path)
            if before != after:
                yield Change(action, key, _difference(key, before, after))


def _value_at(config: Config, path: str) -> object:
    value: object = config
    for name in path.split("."):
        value = getattr(value, name)

    return value


def _difference(key: str, before: object, after: object) -> str:
    is_plain = isinstance(before, (str, int, float, bool, type(None))) and isinstance(
        after, (str, int, float, bool, type(None))
    )
    if key in SECRET_KEYS or not is_plain:
        return ""

    return f"{_shown(before)} -> {_shown(after)}"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


# -- users and virtual hosts


def _user_changes(old: Config, new: Config, node: Node) -> Iterator[Change]:
    before = {user.name: user for user in old.users}
    for user in new.users:
        key = f"users.{user.name}"
        if user.name not in node.users.users:
            yield Change(ADD, key)
        elif before.get(user.name) != user:
            yield Change(CHANGE, key)


def _vhost_changes(old: Config, new: Config, node: Node) -> Iterator[Change]:
    before = {vhost.name: vhost for vhost in old.vhosts}
    for entry in new.vhosts:
        key = f"vhosts.{entry.name}"
        vhost = node.vhosts.get(entry.name)
        if vhost is None:
            yield Change(ADD, key)
            yield from _everything_in(entry, key)
            continue

        earlier = before.get(entry.name)
        if earlier is None or earlier.limits != entry.limits:
            is_named = new.origin.names(("vhosts", entry.name, "limits"))
            if is_named and entry.limits != (vhost.connections_max, vhost.queues_max):
                yield Change(CHANGE, f"{key}.limits")

        yield from _rights_changes(entry, key, node)
        yield from _topology_changes(entry, key, vhost)


def _everything_in(entry: VHostConfig, key: str) -> Iterator[Change]:
    for permission in entry.permissions:
        yield Change(ADD, f"{key}.permissions.{permission.user}")

    for section in ("exchanges", "queues", "policies", "operator_policies"):
        for one in getattr(entry, section):
            yield Change(ADD, f"{key}.{section}.{one.name}")

    for binding in entry.bindings:
        yield Change(ADD, f"{key}.bindings", _binding_text(binding))


def _rights_changes(entry: VHostConfig, key: str, node: Node) -> Iterator[Change]:
    for permission in entry.permissions:
        user = node.users.users.get(permission.user)
        there = None if user is None else user.permission(entry.name)
        place = f"{key}.permissions.{permission.user}"
        if there is None:
            yield Change(ADD, place)
        elif (there.configure, there.write, there.read) != permission[1:]:
            yield Change(CHANGE, place)

    for topic in entry.topic_permissions:
        user = node.users.users.get(topic.user)
        known = None if user is None else user.topic_permissions.get((entry.name, topic.exchange))
        place = f"{key}.topic_permissions.{topic.user}.{topic.exchange}"
        if known is None:
            yield Change(ADD, place)
        elif (known.write, known.read) != topic[2:]:
            yield Change(CHANGE, place)


def _topology_changes(entry: VHostConfig, key: str, vhost: VirtualHost) -> Iterator[Change]:
    for exchange in entry.exchanges:
        if exchange.name not in vhost.exchanges:
            yield Change(ADD, f"{key}.exchanges.{exchange.name}")

    for queue in entry.queues:
        if queue.name not in vhost.queues:
            yield Change(ADD, f"{key}.queues.{queue.name}")

    for binding in entry.bindings:
        if not _is_bound(vhost, binding):
            yield Change(ADD, f"{key}.bindings", _binding_text(binding))

    yield from _policy_changes(entry.policies, f"{key}.policies", vhost, is_operator=False)
    yield from _policy_changes(
        entry.operator_policies, f"{key}.operator_policies", vhost, is_operator=True
    )


def _is_bound(vhost: VirtualHost, binding: BindingConfig) -> bool:
    source = vhost.exchanges.get(binding.source)
    if binding.destination_type == "queue":
        queue = vhost.queues.get(binding.destination)
        if source is None or queue is None:
            return False

        return source.find_binding(queue, binding.routing_key, binding.arguments) is not None

    target = vhost.exchanges.get(binding.destination)
    if source is None or target is None:
        return False

    return source.find_binding(target, binding.routing_key, binding.arguments) is not None


def _binding_text(binding: BindingConfig) -> str:
    return f"{binding.source} to {binding.destination} with '{binding.routing_key}'"


def _policy_changes(
    policies: tuple[PolicyConfig, ...], key: str, vhost: VirtualHost, *, is_operator: bool
) -> Iterator[Change]:
    rules = vhost.policies
    there = {one.name: one for one in (rules.operator_policies if is_operator else rules.policies)}
    for policy in policies:
        known = there.get(policy.name)
        if known is None:
            yield Change(ADD, f"{key}.{policy.name}")
            continue

        plain: dict[str, object] = {
            "pattern": policy.pattern,
            "apply-to": policy.apply_to,
            "priority": policy.priority,
            "definition": policy.definition,
        }
        made = policy_from_plain(policy.name, plain, is_operator=is_operator)
        facts = (known.pattern, known.apply_to, known.priority, known.definition)
        if facts != (made.pattern, made.apply_to, made.priority, made.definition):
            yield Change(CHANGE, f"{key}.{policy.name}")


# -- what the file no longer names


def named_in(config: Config) -> Config:
    """The users, virtual hosts and permissions that stand in the file, and none by default."""
    names = config.origin.names
    vhosts = tuple(
        vhost if names(("vhosts", vhost.name, "permissions")) else vhost._replace(permissions=())
        for vhost in config.vhosts
    )
    return config._replace(
        users=config.users if names(("users",)) else (),
        vhosts=vhosts if names(("vhosts",)) else (),
    )


def find_orphans(
    olds: Iterable[Config], new: Config, node: Node
) -> tuple[list[Change], tuple[Config, ...]]:
    """What earlier configurations have named, is still there, and is not named any more.

    Args:
        olds: what the file has named, from time to time.
        new: to be in force.
        node: what is there.

    Returns:
        Each once, and those of the earlier configurations that are needed to find them again.

    """
    found: dict[Change, None] = {}
    needed: list[Config] = []
    for old in olds:
        more = [change for change in _orphans(old, new, node) if change not in found]
        if more:
            found.update(dict.fromkeys(more))
            needed.append(old)

    return list(found), tuple(needed)


def _orphans(old: Config, new: Config, node: Node) -> Iterator[Change]:
    # A file without users or virtual hosts names those that are there by default.
    named = {user.name for user in new.users}
    for user in old.users:
        known = node.users.users.get(user.name)
        if user.name not in named and known is not None:
            yield Change(ORPHAN, f"users.{user.name}", STAYS if is_protected(known) else "")

    entries = {vhost.name: vhost for vhost in new.vhosts}
    for before in old.vhosts:
        vhost = node.vhosts.get(before.name)
        if vhost is None:
            continue

        key = f"vhosts.{before.name}"
        if before.name not in entries:
            yield Change(ORPHAN, key, STAYS if vhost.metadata.is_protected else "")
        else:
            yield from _orphans_in(before, entries[before.name], key, vhost, node)


def _orphans_in(
    before: VHostConfig, after: VHostConfig, key: str, vhost: VirtualHost, node: Node
) -> Iterator[Change]:
    for permission in before.permissions:
        user = node.users.users.get(permission.user)
        is_named = any(one.user == permission.user for one in after.permissions)
        if not is_named and user is not None and user.permission(vhost.name) is not None:
            text = STAYS if is_protected(user) else ""
            yield Change(ORPHAN, f"{key}.permissions.{permission.user}", text)

    for binding in before.bindings:
        if binding not in after.bindings and _is_bound(vhost, binding):
            yield Change(ORPHAN, f"{key}.bindings", _binding_text(binding))

    policies = {one.name for one in vhost.policies.policies}
    operator_policies = {one.name for one in vhost.policies.operator_policies}
    for section, there in (
        ("queues", set(vhost.queues)),
        ("exchanges", set(vhost.exchanges)),
        ("policies", policies),
        ("operator_policies", operator_policies),
    ):
        named = {one.name for one in getattr(after, section)}
        for one in getattr(before, section):
            if one.name not in named and one.name in there:
                yield Change(ORPHAN, f"{key}.{section}.{one.name}")
