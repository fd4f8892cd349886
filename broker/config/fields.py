"""Every key of the configuration file, with its shape, default and explanation (configuration
layer).

Invariant: this table is the only place that knows the keys. The loader, the JSON schema for editors
and the documented default file are made from it; ``broker.config.schema`` says what comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.auth.mechanisms import MECHANISM_NAMES
from broker.config import log_fields, storage_fields, topology_fields, user_fields
from broker.config.guard_fields import (
    AUTH_FAILED_LOGINS,
    AUTH_PASSWORD_HASHING,
    LIMITS_HANDSHAKES,
    LIMITS_PER_SOURCE,
    LIMITS_RATE,
    LIMITS_RATE_PER_SOURCE,
)
from broker.config.management_fields import management_key
from broker.config.metrics_fields import datagram_key, metrics_key
from broker.config.records import Key, ListOf, NamedMap, Record, Values
from broker.config.schema import (
    DEFAULT_CONFIG,
    AMQPListenerConfig,
    AuthConfig,
    CompatibilityConfig,
    Config,
    LimitsConfig,
    ListenersConfig,
    NodeConfig,
    Secret,
)
from broker.config.shapes import (
    Boolean,
    Choice,
    Integer,
    Name,
    Nullable,
    SecretText,
    Text,
)
from broker.config.tls_fields import (
    AUTH_FROM,
    AUTH_SAN_INDEX,
    LISTENER_PROXY,
    TLS,
)
from broker.config.units import Duration, Size

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Report, Scalar

__all__ = ["ROOT", "TLS", "VERSION"]

_COUNT_MAX: Final = 2**31 - 1
_D: Final = DEFAULT_CONFIG


class _Bind(Text):
    """A host name or an address to listen on."""

    def __init__(self) -> None:
        super().__init__("a host name or an address", bytes_max=253)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        text = node.text
        hint = ""
        if not text or text == "*":
            hint = "for all addresses write 0.0.0.0 (IPv4) or '::' (IPv6)"
        elif "://" in text or "/" in text:
            hint = "no URL: the name or address alone"
        elif text.startswith("[") or (text.count(":") == 1 and text.rpartition(":")[2].isdecimal()):
            hint = "the port has a key of its own, and an IPv6 address no brackets here"
        elif any(letter.isspace() for letter in text):
            hint = "it must not contain spaces"
        elif text.replace(".", "").isdecimal() and not _is_ipv4(text):
            hint = "an IPv4 address has four numbers from 0 to 255"

        return self.refuse(node, at, report, hint) if hint else text


def _is_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(part and len(part) <= 3 and int(part) <= 255 for part in parts)


NODE_NAME: Final = Key(
    "name",
    Name(),
    _D.node.name,
    "Name of this broker in logs and statistics.",
    written="leveret@localhost",
)

LISTENER_BIND: Final = Key(
    "bind",
    _Bind(),
    AMQPListenerConfig().bind,
    "Where to listen: localhost is 127.0.0.1 and ::1, 0.0.0.0 all of IPv4, '::' all of IPv6.",
    written="localhost",
)
LISTENER_PORT: Final = Key(
    "port", Integer(0, 65535, "a port"), 5672, "0 takes any free port.", written="5672"
)
LISTENER_BACKLOG: Final = Key(
    "backlog",
    Integer(1, 65535),
    1024,
    "Connections the system keeps waiting until they are accepted.",
    written="1024",
)
_LISTENER_MISNOMERS: Final = {
    "host": "the address is called bind",
    "ip": "the address is called bind",
    "address": "the address is called bind",
    "tls": "listeners with TLS stand under amqps",
    "trusted_proxies": "write proxy_protocol: {trusted: [...]}",
}
LISTENER: Final = Record(
    "a listener",
    (LISTENER_BIND, LISTENER_PORT, LISTENER_BACKLOG, LISTENER_PROXY),
    lambda v: AMQPListenerConfig(
        v[LISTENER_BIND],
        v[LISTENER_PORT],
        v[LISTENER_BACKLOG],
        proxies=v[LISTENER_PROXY],
    ),
    _LISTENER_MISNOMERS,
)
LISTENERS_AMQP: Final = Key(
    "amqp",
    ListOf("listeners, each a mapping", LISTENER),
    _D.listeners.amqp,
    "AMQP 0-9-1 without TLS; as many as you like, [] for none.",
)

TLS_LISTENER_PORT: Final = Key("port", Integer(0, 65535, "a port"), 5671, "0 takes any free port.")
TLS_LISTENER_TLS: Final = Key(
    "tls", Name("a name that stands under tls"), "default", "With what: a name below tls."
)
TLS_LISTENER: Final = Record(
    "a listener",
    (LISTENER_BIND, TLS_LISTENER_PORT, LISTENER_BACKLOG, TLS_LISTENER_TLS, LISTENER_PROXY),
    lambda v: AMQPListenerConfig(
        v[LISTENER_BIND],
        v[TLS_LISTENER_PORT],
        v[LISTENER_BACKLOG],
        v[TLS_LISTENER_TLS],
        v[LISTENER_PROXY],
    ),
    {
        **_LISTENER_MISNOMERS,
        "cert": "certificates stand under tls, and tls here names one of those",
        "key": "keys stand under tls, and tls here names one of those",
    },
)
LISTENERS_AMQPS: Final = Key(
    "amqps",
    ListOf("listeners, each a mapping", TLS_LISTENER),
    _D.listeners.amqps,
    "AMQP 0-9-1 with TLS; tls is a name that stands under tls.",
    example="- {bind: 0.0.0.0, port: 5671, backlog: 1024, tls: default, proxy_protocol: null}",
)

LISTENERS_DATAGRAM: Final = datagram_key(_Bind())

AUTH_MECHANISMS: Final = Key(
    "mechanisms",
    ListOf("mechanism names", Choice(*MECHANISM_NAMES), minimum=1),
    _D.auth.mechanisms,
    "SASL mechanisms on offer, the preferred one first.",
    written="[PLAIN, AMQPLAIN, ANONYMOUS]",
)
AUTH_LOOPBACK: Final = Key(
    "loopback_only_users",
    ListOf("user names", Name("a user name")),
    _D.auth.loopback_only_users,
    "These users can only log in from this machine. Write [] to let all in from everywhere.",
    written="[guest]",
)
AUTH_ANONYMOUS_USER: Final = Key(
    "anonymous_user",
    Name("a user name"),
    _D.auth.anonymous_user,
    "ANONYMOUS logs in as this user, with the password below.",
    written="guest",
)
AUTH_ANONYMOUS_PASSWORD: Final = Key(
    "anonymous_password",
    SecretText("a password as a text"),
    "guest",
    "When it is no longer that user's password, anonymous logins are refused.",
    written="guest",
)

LIMITS_CHANNEL_MAX: Final = Key(
    "channel_max",
    Integer(0, 65535),
    _D.limits.channel_max,
    "Channels of one connection; 0 is no limit.",
    written="2047",
)
LIMITS_FRAME_MAX: Final = Key(
    "frame_max",
    Size(4096, _COUNT_MAX, zero="no limit"),
    _D.limits.frame_max_bytes,
    "Size of a frame, at least 4096; 0 is no limit.",
    written="128KiB",
)
LIMITS_MESSAGE: Final = Key(
    "max_message_size",
    Size(1, 512 * 2**20),
    _D.limits.message_max_bytes,
    "Size of a message's body; no more than 512MiB.",
    written="128MiB",
)
LIMITS_CONNECTIONS: Final = Key(
    "connections",
    Nullable(Integer(1, _COUNT_MAX)),
    _D.limits.connections_max,
    "Connections at a time; null is no limit.",
    written="null",
)
LIMITS_CONSUMERS: Final = Key(
    "consumers_per_channel",
    Nullable(Integer(1, _COUNT_MAX)),
    _D.limits.consumers_per_channel_max,
    "Consumers of one channel; null is 65536.",
    written="null",
)
LIMITS_HANDSHAKE: Final = Key(
    "handshake_timeout",
    Duration(0.1, 3600),
    _D.limits.handshake_timeout_s,
    "A client has that long from connecting to connection.open.",
    written="10s",
)
LIMITS_TLS_HANDSHAKE: Final = Key(
    "tls_handshake_timeout",
    Duration(0.1, 3600),
    _D.limits.tls_handshake_timeout_s,
    "Before that, a client of a listener with TLS, or its proxy, has that long to come to terms.",
    written="5s",
)
LIMITS_CONSUMER_TIMEOUT: Final = Key(
    "consumer_timeout",
    Nullable(Duration(1, 315_360_000)),
    _D.limits.consumer_timeout_s,
    "A delivery that is not settled in that time closes its channel; null for never.",
    written="30m",
)

PRODUCT: Final = Key(
    "product",
    Choice("Leveret", "RabbitMQ"),
    _D.compatibility.product,
    "What the broker calls itself; RabbitMQ for programs that insist on it.",
    written="Leveret",
)
TOPIC_HASH_WORDS_MAX: Final = Key(
    "topic_hash_words_max",
    Integer(0, 127),
    _D.compatibility.topic_hash_words_max,
    "How many # one binding key of a topic exchange may have: 2 in RabbitMQ 4.3.5; 0 for no limit.",
    written="0",
)
EVENT_EXCHANGE: Final = Key(
    "event_exchange",
    Boolean(),
    _D.compatibility.event_exchange,
    "Whether the virtual host / has the exchange amq.rabbitmq.event, for events of the broker.",
    written="false",
)

RABBITMQ: Final = Key(
    "rabbitmq",
    Choice("any", "3.10", "3.13", "4.0", "4.1", "4.2", "4.3"),
    _D.compatibility.rabbitmq,
    "The release of RabbitMQ whose refusals to repeat; any for what at least one of them takes.",
    written="any",
)

VERSION: Final = Key(
    "version",
    Integer(1, 1, "the version of this format:"),
    1,
    "Version of this format.",
    written="1",
)
NODE: Final = Key(
    "node",
    Record("the node", (NODE_NAME,), lambda v: NodeConfig(v[NODE_NAME])),
    _D.node,
    "The broker itself.",
)
LISTENERS: Final = Key(
    "listeners",
    Record(
        "the listeners",
        (LISTENERS_AMQP, LISTENERS_AMQPS, LISTENERS_DATAGRAM),
        lambda v: ListenersConfig(v[LISTENERS_AMQP], v[LISTENERS_DATAGRAM], v[LISTENERS_AMQPS]),
        {
            "tcp": "AMQP listeners are called amqp",
            "udp": "write datagram",
            "ssl": "AMQP listeners with TLS are called amqps",
            "tls": "AMQP listeners with TLS are called amqps; certificates stand under the key tls",
            "http": "it is management.listeners",
        },
    ),
    _D.listeners,
    "Where clients connect.",
)
AUTH: Final = Key(
    "auth",
    Record(
        "auth",
        (
            AUTH_MECHANISMS,
            AUTH_LOOPBACK,
            AUTH_ANONYMOUS_USER,
            AUTH_ANONYMOUS_PASSWORD,
            AUTH_FROM,
            AUTH_SAN_INDEX,
            AUTH_PASSWORD_HASHING,
            AUTH_FAILED_LOGINS,
        ),
        lambda v: AuthConfig(
            v[AUTH_MECHANISMS],
            v[AUTH_LOOPBACK],
            v[AUTH_ANONYMOUS_USER],
            Secret(v[AUTH_ANONYMOUS_PASSWORD]),
            password_hashing=v[AUTH_PASSWORD_HASHING],
            failed_logins=v[AUTH_FAILED_LOGINS],
            cert_login_from=v[AUTH_FROM],
            cert_login_san_index=v[AUTH_SAN_INDEX],
        ),
        {
            "loopback_users": "write loopback_only_users",
            "password_hash": "write password_hashing",
            "failed_login_delay": "write failed_logins: {delay: ...}",
        },
    ),
    _D.auth,
    "How clients log in.",
)
USERS: Final = Key(
    "users",
    ListOf("users, each a mapping", user_fields.USER),
    _D.users,
    "All users. What is written here replaces guest.",
)
VHOSTS: Final = Key(
    "vhosts",
    NamedMap(
        "virtual host names to what is in them",
        topology_fields.VHOST,
        topology_fields.complain_about_name,
        null_is_empty=False,
    ),
    _D.vhosts,
    "All virtual hosts. What is written here replaces '/'. Without this key there is '/' alone and"
    " all users may do everything in it. In a virtual host without permissions, the users with the"
    " tag administrator may do everything and nobody else anything.",
)
LIMITS: Final = Key(
    "limits",
    Record(
        "the limits",
        (
            LIMITS_CHANNEL_MAX,
            LIMITS_FRAME_MAX,
            LIMITS_MESSAGE,
            LIMITS_CONNECTIONS,
            LIMITS_CONSUMERS,
            LIMITS_HANDSHAKE,
            LIMITS_TLS_HANDSHAKE,
            LIMITS_CONSUMER_TIMEOUT,
            LIMITS_HANDSHAKES,
            LIMITS_PER_SOURCE,
            LIMITS_RATE,
            LIMITS_RATE_PER_SOURCE,
        ),
        lambda v: LimitsConfig(
            v[LIMITS_CHANNEL_MAX],
            v[LIMITS_FRAME_MAX],
            v[LIMITS_MESSAGE],
            v[LIMITS_CONNECTIONS],
            v[LIMITS_CONSUMERS],
            v[LIMITS_HANDSHAKE],
            consumer_timeout_s=v[LIMITS_CONSUMER_TIMEOUT],
            tls_handshake_timeout_s=v[LIMITS_TLS_HANDSHAKE],
            handshakes_max=v[LIMITS_HANDSHAKES],
            connections_per_source_max=v[LIMITS_PER_SOURCE],
            connection_rate_max=v[LIMITS_RATE],
            connection_rate_per_source_max=v[LIMITS_RATE_PER_SOURCE],
        ),
        {"channels_per_connection": "write channel_max", "max_connections": "write connections"},
    ),
    _D.limits,
    "What clients may ask for.",
)
HEARTBEAT: Final = Key(
    "heartbeat",
    Duration(0, 65535, is_whole=True),
    float(_D.heartbeat_s),
    "Offered to clients, who decide; 0 is none.",
    written="60s",
)
COMPATIBILITY: Final = Key(
    "compatibility",
    Record(
        "compatibility",
        (PRODUCT, TOPIC_HASH_WORDS_MAX, EVENT_EXCHANGE, RABBITMQ),
        lambda v: CompatibilityConfig(
            v[PRODUCT], v[TOPIC_HASH_WORDS_MAX], v[EVENT_EXCHANGE], v[RABBITMQ]
        ),
    ),
    _D.compatibility,
    "For programs that look closely.",
)
MANAGEMENT: Final = management_key(_Bind())
METRICS: Final = metrics_key(_Bind())

_KEYS: Final = (
    VERSION,
    NODE,
    LISTENERS,
    TLS,
    AUTH,
    USERS,
    VHOSTS,
    storage_fields.STORAGE,
    LIMITS,
    HEARTBEAT,
    log_fields.LOG,
    COMPATIBILITY,
    storage_fields.ALARMS,
    MANAGEMENT,
    METRICS,
)


def _config(values: Values) -> Config:
    return Config(
        node=values[NODE],
        listeners=values[LISTENERS],
        tls=values[TLS],
        auth=values[AUTH],
        users=values[USERS],
        vhosts=values[VHOSTS],
        storage=values[storage_fields.STORAGE],
        limits=values[LIMITS],
        heartbeat_s=int(values[HEARTBEAT]),
        log=values[log_fields.LOG],
        compatibility=values[COMPATIBILITY],
        alarms=values[storage_fields.ALARMS],
        management=values[MANAGEMENT],
        metrics=values[METRICS],
    )


ROOT: Final = Record(
    "the configuration",
    _KEYS,
    _config,
    {
        "vhost": "write vhosts, a mapping of names",
        "listener": "write listeners: {amqp: [{bind: ..., port: ...}]}",
        "port": "the port stands under listeners: {amqp: [{port: ...}]}",
        "bind": "the address stands under listeners: {amqp: [{bind: ...}]}",
        "host": "the address stands under listeners: {amqp: [{bind: ...}]}",
        "ssl": "write tls",
        "ssl_options": "write tls",
        "sni": "it stands with its certificate: tls: {default: {sni: ...}}",
        "logging": "write log",
        "frame_max": "it stands under limits",
        "channel_max": "it stands under limits",
        "max_message_size": "it stands under limits",
        "data_dir": "it stands under storage",
        "memory_only": "it stands under storage",
        "store": "write storage",
        "loopback_users": "it is auth.loopback_only_users",
        "loopback_only_users": "it stands under auth",
        "queues": "queues stand with their virtual host: vhosts: {/: {queues: ...}}",
        "exchanges": "exchanges stand with their virtual host: vhosts: {/: {exchanges: ...}}",
        "bindings": "bindings stand with their virtual host: vhosts: {/: {bindings: ...}}",
        "policies": "policies stand with their virtual host: vhosts: {/: {policies: ...}}",
        "permissions": "permissions stand with their virtual host: vhosts: {/: {permissions: ...}}",
    },
)
