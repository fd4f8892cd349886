"""The keys of a virtual host: permissions, exchanges, queues, bindings, policies (configuration
layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

from typing import Final

from broker.config.free import Plain, Table
from broker.config.records import Key, ListOf, NamedMap, Record, Values
from broker.config.schema import (
    BindingConfig,
    ExchangeConfig,
    PermissionConfig,
    PolicyConfig,
    QueueConfig,
    TopicPermissionConfig,
    VHostConfig,
    VHostLimitsConfig,
)
from broker.config.shapes import (
    NAME_BYTES_MAX,
    Boolean,
    Choice,
    Integer,
    Name,
    Nullable,
    Pattern,
    Text,
)

__all__ = ["EXCHANGE_TYPES", "VHOST", "complain_about_name"]

EXCHANGE_TYPES: Final = (
    "direct",
    "fanout",
    "topic",
    "headers",
    "x-consistent-hash",
    "x-delayed-message",
    "x-local-random",
    "x-modulus-hash",
    "x-random",
    "x-recent-history",
)

_COUNT_MAX: Final = 2**31 - 1
_PRIORITY_MAX: Final = 2**31 - 1


def complain_about_name(name: str) -> str:
    """Say what is wrong with a name, nothing if nothing is."""
    if not name:
        return "a name must not be empty"

    size = len(name.encode("utf-8", "surrogatepass"))
    if size > NAME_BYTES_MAX:
        return f"a name has at most {NAME_BYTES_MAX} bytes of UTF-8, this has {size}"

    return ""


def _complain_about_entity(name: str) -> str:
    if name.startswith("amq."):
        return "names that begin with amq. are the broker's own - choose another"

    return complain_about_name(name)


CONFIGURE: Final = Key("configure", Pattern(), "", "What the user may declare and delete.")
WRITE: Final = Key("write", Pattern(), "", "What the user may publish to.")
READ: Final = Key("read", Pattern(), "", "What the user may consume from.")
PERMISSION: Final = Record(
    "a permission",
    (CONFIGURE, WRITE, READ),
    lambda v: PermissionConfig(v.name, v[CONFIGURE], v[WRITE], v[READ]),
)
TOPIC_WRITE: Final = Key("write", Pattern(), "", "Routing keys the user may publish with.")
TOPIC_READ: Final = Key("read", Pattern(), "", "Routing keys the user may bind with.")
TOPIC_PERMISSION: Final = Record(
    "a topic permission",
    (TOPIC_WRITE, TOPIC_READ),
    lambda v: TopicPermissionConfig(v.at[-2], v.name, v[TOPIC_WRITE], v[TOPIC_READ]),
)

ARGUMENTS: Final = Key("arguments", Table(), {}, "Optional arguments, as x-message-ttl.")
DURABLE: Final = Key("durable", Boolean(), True, "Kept over a restart of the broker.")
AUTO_DELETE: Final = Key("auto_delete", Boolean(), False, "Deleted after its last use.")
INTERNAL: Final = Key("internal", Boolean(), False, "Clients cannot publish to it.")
EXCHANGE_TYPE: Final = Key("type", Choice(*EXCHANGE_TYPES), "direct", "The exchange type.")

_ENTITY_MISNOMERS: Final = {
    "auto-delete": "write auto_delete",
    "autodelete": "write auto_delete",
    "args": "write arguments",
    "name": "the name is the key above",
    "alternate_exchange": "write arguments: {alternate-exchange: ...}",
    "dead_letter_exchange": "write arguments: {x-dead-letter-exchange: ...}",
    "message_ttl": "write arguments: {x-message-ttl: 60000}, in milliseconds",
    "ttl": "write arguments: {x-message-ttl: 60000}, in milliseconds",
    "max_length": "write arguments: {x-max-length: ...}",
    "max_priority": "write arguments: {x-max-priority: ...}",
    "bindings": "bindings stand beside queues, with source and destination",
    "exclusive": "an exclusive queue belongs to a connection, so a file cannot have one",
}

EXCHANGE: Final = Record(
    "an exchange",
    (EXCHANGE_TYPE, DURABLE, AUTO_DELETE, INTERNAL, ARGUMENTS),
    lambda v: ExchangeConfig(
        v.name, v[EXCHANGE_TYPE], v[DURABLE], v[AUTO_DELETE], v[INTERNAL], v[ARGUMENTS]
    ),
    _ENTITY_MISNOMERS,
)
QUEUE: Final = Record(
    "a queue",
    (DURABLE, AUTO_DELETE, ARGUMENTS),
    lambda v: QueueConfig(v.name, v[DURABLE], v[AUTO_DELETE], v[ARGUMENTS]),
    {**_ENTITY_MISNOMERS, "type": "write arguments: {x-queue-type: ...}"},
)

SOURCE: Final = Key(
    "source", Name("the name of an exchange"), "", "The exchange.", is_required=True
)
DESTINATION: Final = Key(
    "destination", Name("the name of a queue or exchange"), "", "Where to.", is_required=True
)
DESTINATION_TYPE: Final = Key(
    "type", Choice("queue", "exchange"), "queue", "What the destination is."
)
ROUTING_KEY: Final = Key(
    "routing_key", Text("a text", bytes_max=NAME_BYTES_MAX), "", "The binding's key or pattern."
)
BINDING: Final = Record(
    "a binding",
    (SOURCE, DESTINATION, DESTINATION_TYPE, ROUTING_KEY, ARGUMENTS),
    lambda v: BindingConfig(
        v[SOURCE], v[DESTINATION], v[DESTINATION_TYPE], v[ROUTING_KEY], v[ARGUMENTS]
    ),
    {
        "key": "write routing_key",
        "binding_key": "write routing_key",
        "queue": "write destination",
        "exchange": "write source",
        "from": "write source",
        "to": "write destination",
        "destination_type": "write type",
        "args": "write arguments",
    },
)

POLICY_PATTERN: Final = Key("pattern", Pattern(), "", "Names it is for.", is_required=True)
APPLY_TO: Final = Key(
    "apply-to",
    Choice("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"),
    "all",
    "What it is for.",
)
PRIORITY: Final = Key(
    "priority",
    Integer(-_PRIORITY_MAX, _PRIORITY_MAX),
    0,
    "Of several that match, the highest applies.",
)
DEFINITION: Final = Key(
    "definition", Plain("a mapping of settings"), {}, "The settings.", is_required=True
)


def _policy(values: Values) -> PolicyConfig:
    definition = values[DEFINITION]
    keys = (*values.at, DEFINITION.name)
    if not definition and DEFINITION in values and values.report.is_sound(keys):
        values.report.add_at(keys, "a policy must set something, as {message-ttl: 60000}")

    for name in definition:
        if name.startswith("x-"):
            values.report.add_at(keys, f"write {name[2:]}: the x- is for arguments only")

    return PolicyConfig(
        values.name, values[POLICY_PATTERN], values[APPLY_TO], values[PRIORITY], definition
    )


POLICY: Final = Record(
    "a policy",
    (POLICY_PATTERN, APPLY_TO, PRIORITY, DEFINITION),
    _policy,
    {"apply_to": "write apply-to", "name": "the name is the key above"},
)

LIMIT_CONNECTIONS: Final = Key(
    "max-connections", Nullable(Integer(0, _COUNT_MAX)), None, "Connections at a time."
)
LIMIT_QUEUES: Final = Key("max-queues", Nullable(Integer(0, _COUNT_MAX)), None, "Queues.")

PROTECTED: Final = Key(
    "protected_from_deletion",
    Nullable(Boolean(), "not said"),
    None,
    "Whether nobody can delete it over HTTP; null leaves that as it is.",
    written="null",
)
VHOST_LIMITS: Final = Key(
    "limits",
    Record(
        "a virtual host's limits",
        (LIMIT_CONNECTIONS, LIMIT_QUEUES),
        lambda v: VHostLimitsConfig(v[LIMIT_CONNECTIONS], v[LIMIT_QUEUES]),
        {"connections": "write max-connections", "queues": "write max-queues"},
    ),
    VHostLimitsConfig(),
    "Connections and queues at a time; -1 or null is no limit.",
    written="{max-connections: -1, max-queues: -1}",
)
PERMISSIONS: Final = Key(
    "permissions",
    NamedMap("user names to permissions", PERMISSION, complain_about_name),
    (),
    "Regular expressions that are searched for in the names of exchanges and queues; '' is none.",
    written='{guest: {configure: ".*", write: ".*", read: ".*"}}',
)
TOPIC_PERMISSIONS: Final = Key(
    "topic_permissions",
    NamedMap(
        "user names to topic exchanges",
        NamedMap("topic exchanges to permissions", TOPIC_PERMISSION, complain_about_name),
        complain_about_name,
    ),
    (),
    "Routing keys a user may use with a topic exchange; without an entry all. {username} and"
    " {vhost} stand for the names.",
    example="app: {amq.topic: {write: '^app\\.', read: '.*'}}",
)
EXCHANGES: Final = Key(
    "exchanges",
    NamedMap("exchange names to their settings", EXCHANGE, _complain_about_entity),
    (),
    "Created at start. type is direct (the default), fanout, topic, headers, x-consistent-hash,"
    " x-delayed-message, x-local-random, x-modulus-hash, x-random or x-recent-history.",
    example="orders: {type: topic, durable: true, auto_delete: false, internal: false,"
    " arguments: {}}",
)
QUEUES: Final = Key(
    "queues",
    NamedMap("queue names to their settings", QUEUE, _complain_about_entity),
    (),
    "Created at start.",
    example="orders.in: {durable: true, auto_delete: false, arguments: {x-max-length: 100000}}",
)
BINDINGS: Final = Key(
    "bindings",
    ListOf("bindings, each a mapping", BINDING, null_is_empty=True),
    (),
    "Made at start. type says what the destination is: queue (the default) or exchange.",
    example="- {source: orders, destination: orders.in, type: queue, routing_key: 'order.#',"
    " arguments: {}}",
)
POLICIES: Final = Key(
    "policies",
    NamedMap("policy names to policies", POLICY, complain_about_name),
    (),
    "Settings for all queues or exchanges whose names match. apply-to is all (the default), queues,"
    " exchanges, classic_queues, quorum_queues or streams.",
    example="short: {pattern: '^tmp\\.', apply-to: queues, priority: 0,"
    " definition: {message-ttl: 60000}}",
)
OPERATOR_POLICIES: Final = Key(
    "operator_policies",
    NamedMap("policy names to policies", POLICY, complain_about_name),
    (),
    "Limits that policies and arguments cannot loosen.",
    example="cap: {pattern: '', apply-to: queues, definition: {max-length: 1000000}}",
)


def _vhost(values: Values) -> VHostConfig:
    return VHostConfig(
        values.name,
        is_protected=values[PROTECTED],
        limits=values[VHOST_LIMITS],
        permissions=values[PERMISSIONS],
        topic_permissions=tuple(
            permission for of_user in values[TOPIC_PERMISSIONS] for permission in of_user
        ),
        exchanges=values[EXCHANGES],
        queues=values[QUEUES],
        bindings=values[BINDINGS],
        policies=values[POLICIES],
        operator_policies=values[OPERATOR_POLICIES],
    )


VHOST: Final = Record(
    "a virtual host",
    (
        PROTECTED,
        VHOST_LIMITS,
        PERMISSIONS,
        TOPIC_PERMISSIONS,
        EXCHANGES,
        QUEUES,
        BINDINGS,
        POLICIES,
        OPERATOR_POLICIES,
    ),
    _vhost,
    {
        "users": "users stand at the top, with permissions here",
        "max_connections": "write limits: {max-connections: ...}",
        "max_queues": "write limits: {max-queues: ...}",
        "queue": "write queues, a mapping of names",
        "exchange": "write exchanges, a mapping of names",
        "operator-policies": "write operator_policies",
        "protected": "write protected_from_deletion",
    },
)
