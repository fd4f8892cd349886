"""The configuration as the broker uses it (configuration layer; importable by all layers).

Invariant: a ``Config`` is immutable and complete. Names of fields carry units; names of keys in the
file are those of ``broker.config.fields``. Named tuples rather than richer records, because this
module is on the way from exec to accepting connections: importing it costs a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.config.problems import Origin
from broker.limits import MESSAGE_BYTES_MAX_DEFAULT

if TYPE_CHECKING:
    from broker.config.problems import Problem
    from broker.wire.tables import Arguments

__all__ = [
    "DEFAULT_CONFIG",
    "AMQPListenerConfig",
    "AlarmsConfig",
    "AuthConfig",
    "BindingConfig",
    "CompatibilityConfig",
    "Config",
    "DatagramListenerConfig",
    "DescriptorAlarmConfig",
    "DiskAlarmConfig",
    "ExchangeConfig",
    "FailedLoginsConfig",
    "HTTPListenerConfig",
    "LimitsConfig",
    "ListenersConfig",
    "LogConfig",
    "LogFileConfig",
    "ManagementConfig",
    "MemoryAlarmConfig",
    "MetricsConfig",
    "MetricsListenerConfig",
    "NodeConfig",
    "PermissionConfig",
    "PolicyConfig",
    "PrometheusConfig",
    "QueueConfig",
    "Secret",
    "StatsDConfig",
    "StorageConfig",
    "TLSConfig",
    "TLSCredentials",
    "TopicPermissionConfig",
    "UserConfig",
    "UserLimitsConfig",
    "VHostConfig",
    "VHostLimitsConfig",
]


class Secret:
    """Text that shows itself to nobody by accident: not in logs, tracebacks or errors."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__


class NodeConfig(NamedTuple):
    name: str = "leveret@localhost"


class AMQPListenerConfig(NamedTuple):
    bind: str = "localhost"
    """A host name or address; ``localhost`` is both 127.0.0.1 and ::1 where there are both."""

    port: int = 5672
    """0 takes any free port."""

    backlog: int = 1024
    tls: str | None = None
    """The name of what it makes TLS connections with; None for plain ones."""

    proxies: tuple[str, ...] | None = None
    """Networks of proxies that tell who the client is; None where there are none."""


class DatagramListenerConfig(NamedTuple):
    bind: str = "localhost"
    port: int = 5140
    """0 takes any free port."""

    vhost: str = "/"
    exchange: str = "amq.topic"
    format: str = "raw"
    """``raw``, ``syslog`` or ``gelf``."""

    routing_key: str = "datagram.{source}"
    size_bytes_max: int = 65_536
    rate_max: int = 10_000
    """Datagrams a second."""

    is_persistent: bool = False


class ListenersConfig(NamedTuple):
    amqp: tuple[AMQPListenerConfig, ...] = (AMQPListenerConfig(),)
    datagram: tuple[DatagramListenerConfig, ...] = ()
    amqps: tuple[AMQPListenerConfig, ...] = ()


class TLSCredentials(NamedTuple):
    cert: str = ""
    """A certificate and what vouches for it, in PEM."""

    key: str = ""
    key_password: Secret | None = None
    key_password_file: str | None = None
    """Where the password was read from."""


class TLSConfig(NamedTuple):
    name: str
    credentials: TLSCredentials = TLSCredentials()
    ca: str | None = None
    crl: str | None = None
    verify: str = "none"
    """``none``, ``optional`` or ``required``."""

    min_version: str = "1.2"
    ciphers: str | None = None
    sni: tuple[tuple[str, TLSCredentials], ...] = ()
    """What is shown to those who ask for that name, in lower case; ``*.`` stands for one label."""


class FailedLoginsConfig(NamedTuple):
    """What is done about whoever tries passwords; None is no limit."""

    per_source_max: int | None = 30
    per_user_max: int | None = 300
    period_s: float = 60.0
    delay_s: float = 0.1


class AuthConfig(NamedTuple):
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "ANONYMOUS")
    """In the order in which they are offered."""

    loopback_only_users: tuple[str, ...] = ("guest",)
    anonymous_user: str = "guest"
    anonymous_password: Secret = Secret("guest")
    """ANONYMOUS logs in with these, so that it ends when guest is gone (rule C-23)."""

    password_hashing: str = "argon2id"  # noqa: S105 - a way to hash
    """Of new passwords: ``argon2id``, ``sha256`` or ``sha512``."""

    failed_logins: FailedLoginsConfig = FailedLoginsConfig()

    cert_login_from: str = "distinguished_name"
    """What of a certificate is the name of the user that EXTERNAL logs in (rule C-22)."""

    cert_login_san_index: int = 0
    """Which of several alternative names."""


class UserLimitsConfig(NamedTuple):
    """Rule PM-30: None is unlimited, 0 allows none."""

    connections_max: int | None = None
    channels_max: int | None = None


class UserConfig(NamedTuple):
    """At most one of password and password_hash is there; without either nobody logs in."""

    name: str
    password: Secret | None = None
    password_hash: Secret | None = None
    """Base64 of salt and digest (rule C-25), already checked for form."""

    password_file: str | None = None
    """Where the password was read from."""

    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    tags: tuple[str, ...] = ()
    limits: UserLimitsConfig = UserLimitsConfig()


class PermissionConfig(NamedTuple):
    user: str
    configure: str = ""
    write: str = ""
    read: str = ""


class TopicPermissionConfig(NamedTuple):
    user: str
    exchange: str
    write: str = ""
    read: str = ""


class ExchangeConfig(NamedTuple):
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments


class QueueConfig(NamedTuple):
    name: str
    durable: bool
    auto_delete: bool
    arguments: Arguments


class BindingConfig(NamedTuple):
    source: str
    destination: str
    destination_type: str
    """``queue`` or ``exchange``."""

    routing_key: str
    arguments: Arguments


class PolicyConfig(NamedTuple):
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, object]


class VHostLimitsConfig(NamedTuple):
    """Rule PM-30: None is unlimited, 0 allows none."""

    connections_max: int | None = None
    queues_max: int | None = None


class VHostConfig(NamedTuple):
    name: str
    limits: VHostLimitsConfig = VHostLimitsConfig()
    permissions: tuple[PermissionConfig, ...] = ()
    topic_permissions: tuple[TopicPermissionConfig, ...] = ()
    exchanges: tuple[ExchangeConfig, ...] = ()
    queues: tuple[QueueConfig, ...] = ()
    bindings: tuple[BindingConfig, ...] = ()
    policies: tuple[PolicyConfig, ...] = ()
    operator_policies: tuple[PolicyConfig, ...] = ()
    is_protected: bool | None = None
    """Whether it cannot be deleted over HTTP; None where nothing is said of it."""


class StorageConfig(NamedTuple):
    data_dir: str | None = None
    """None is the usual place of the system; never set together with memory_only."""

    sync: str = "group"
    """``group``, ``interval`` or ``none``."""

    memory_only: bool = False
    segment_bytes: int = 16_777_216


class LimitsConfig(NamedTuple):
    channel_max: int = 2047
    """Offered in connection.tune; 0 is no limit (rule C-40)."""

    frame_max_bytes: int = 131_072
    """Offered in connection.tune; 0 is no limit (rule C-40)."""

    message_max_bytes: int = MESSAGE_BYTES_MAX_DEFAULT
    connections_max: int | None = None
    consumers_per_channel_max: int | None = None
    handshake_timeout_s: float = 10.0
    tls_handshake_timeout_s: float = 5.0
    consumer_timeout_s: float | None = 1800.0
    handshakes_max: int = 2048
    """Connections at a time that have not logged in; the oldest gives way."""

    connections_per_source_max: int | None = None
    connection_rate_max: int | None = None
    """New connections a second of one listener."""

    connection_rate_per_source_max: int | None = 200


class HTTPListenerConfig(NamedTuple):
    bind: str = "localhost"
    port: int = 15672
    """0 takes any free port."""

    tls: str | None = None


class ManagementConfig(NamedTuple):
    is_enabled: bool = True
    """An embedded broker has it only where its configuration says so."""

    listeners: tuple[HTTPListenerConfig, ...] = (HTTPListenerConfig(),)
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may use it; ``*`` for all."""

    session_timeout_s: float = 28_800.0
    """How long a login with a cookie lasts."""

    has_open_health_checks: bool = True
    """Whether the health checks that RabbitMQ answers to anybody need no login here either."""

    body_bytes_max: int = 64 * 2**20
    connections_max: int = 1_000
    request_timeout_s: float = 60.0
    """How long a request may take to arrive."""

    hosts: tuple[str, ...] = ()
    """Names under which plain HTTP is answered, besides the machine's own and private ones."""


class MetricsListenerConfig(NamedTuple):
    bind: str = "localhost"
    port: int = 15692
    """0 takes any free port."""

    tls: str | None = None


class PrometheusConfig(NamedTuple):
    is_enabled: bool = True
    """An embedded broker has it only where its configuration says so."""

    listeners: tuple[MetricsListenerConfig, ...] = (MetricsListenerConfig(),)
    wants_login: bool = False


class StatsDConfig(NamedTuple):
    is_enabled: bool = False
    host: str = "localhost"
    port: int = 8125
    format: str = "statsd"
    """``statsd`` or ``dogstatsd``."""

    prefix: str = "leveret"
    interval_s: float = 10.0
    tags_written: tuple[str, ...] = ()
    """Each ``name:value``."""

    has_queues: bool = False

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Names and values."""
        parts = [tag.partition(":") for tag in self.tags_written]
        return [(name, value) for name, _, value in parts]


class MetricsConfig(NamedTuple):
    prometheus: PrometheusConfig = PrometheusConfig()
    statsd: StatsDConfig = StatsDConfig()


class LogFileConfig(NamedTuple):
    path: str | None = None
    """None is standard error."""

    size_bytes_max: int = 10_485_760
    files_max: int = 5
    """Files kept, the one that is written to among them."""


class LogConfig(NamedTuple):
    level: str = "info"
    """``debug``, ``info``, ``warning`` or ``error``."""

    format: str = "text"
    """``text`` or ``json``."""

    levels: tuple[tuple[str, str], ...] = ()
    """Category and its level, where that is another one."""

    file: LogFileConfig = LogFileConfig()
    has_access: bool = False
    """Whether each HTTP request has a line."""

    has_exchange: bool = False
    """Whether there is amq.rabbitmq.log in the virtual host /."""


class CompatibilityConfig(NamedTuple):
    product: str = "Leveret"
    """What connection.start calls the broker; some programs insist on ``RabbitMQ``."""

    topic_hash_words_max: int = 0
    """``#`` that one binding key of a topic exchange may have; 0 is no limit (rule E-85)."""

    event_exchange: bool = False
    """Whether there is amq.rabbitmq.event in the virtual host / (rule E-134)."""

    rabbitmq: str = "any"
    """The release to be as strict as; ``any`` takes what any of them takes."""


class MemoryAlarmConfig(NamedTuple):
    """Exactly one of the two is set, or neither: no alarm."""

    limit_fraction: float | None = 0.6
    """Of the memory the broker may use (the machine's, or its container's)."""

    limit_bytes: int | None = None


class DiskAlarmConfig(NamedTuple):
    free_bytes_min: int | None = 50_000_000
    """RabbitMQ's default; None for no alarm."""


class DescriptorAlarmConfig(NamedTuple):
    limit_fraction: float | None = 0.9
    """Of the file descriptors that the process may have; None for no alarm."""


class AlarmsConfig(NamedTuple):
    memory: MemoryAlarmConfig = MemoryAlarmConfig()
    disk: DiskAlarmConfig = DiskAlarmConfig()
    descriptors: DescriptorAlarmConfig = DescriptorAlarmConfig()


_GUEST: Final = UserConfig("guest", password=Secret("guest"), tags=("administrator",))
_DEFAULT_VHOST: Final = VHostConfig(
    "/", permissions=(PermissionConfig("guest", configure=".*", write=".*", read=".*"),)
)


class Config(NamedTuple):
    """Everything the broker is told from outside."""

    node: NodeConfig = NodeConfig()
    listeners: ListenersConfig = ListenersConfig()
    tls: tuple[TLSConfig, ...] = ()
    auth: AuthConfig = AuthConfig()
    users: tuple[UserConfig, ...] = (_GUEST,)
    vhosts: tuple[VHostConfig, ...] = (_DEFAULT_VHOST,)
    storage: StorageConfig = StorageConfig()
    limits: LimitsConfig = LimitsConfig()
    heartbeat_s: int = 60
    """Offered in connection.tune; 0 is none (rule C-40)."""

    log: LogConfig = LogConfig()
    compatibility: CompatibilityConfig = CompatibilityConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    management: ManagementConfig = ManagementConfig()
    metrics: MetricsConfig = MetricsConfig()
    warnings: tuple[Problem, ...] = ()
    """What is allowed and probably not meant; say it once at start."""

    origin: Origin = Origin("defaults")


DEFAULT_CONFIG: Final = Config()
