"""The keys of exporters and of the datagram listener (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.config.datagram_templates import TEMPLATE_FIELDS, template_problem
from broker.config.records import Key, ListOf, Record, Values
from broker.config.schema import (
    DEFAULT_CONFIG,
    DatagramListenerConfig,
    MetricsConfig,
    MetricsListenerConfig,
    PrometheusConfig,
    StatsDConfig,
)
from broker.config.shapes import Boolean, Choice, Integer, Name, Text
from broker.config.tls_fields import tls_name_key
from broker.config.units import Duration, Size

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Report, Scalar

__all__ = ["datagram_key", "metrics_key"]

_D: Final = DEFAULT_CONFIG.metrics
_UNPACKED_BYTES_MAX: Final = 16 * 2**20


class _Tag(Text):
    """``name:value``."""

    def __init__(self) -> None:
        super().__init__("a tag as env:prod", bytes_max=200)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        name, colon, value = node.text.partition(":")
        is_plain = not any(letter in ",|#" or letter.isspace() for letter in node.text)
        if not (name and colon and value and is_plain):
            return self.refuse(node, at, report, "without spaces, commas, '|' and '#'")

        return node.text


class _Prefix(Text):
    def __init__(self) -> None:
        super().__init__("letters, digits, dots, dashes and underscores", bytes_max=100)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if not all(letter.isalnum() or letter in "._-" for letter in node.text):
            return self.refuse(node, at, report)

        return node.text


def _prometheus_key(bind_shape: Text) -> Key[PrometheusConfig]:
    default = MetricsListenerConfig()
    bind = Key("bind", bind_shape, default.bind, "Where to listen.", written="localhost")
    port = Key(
        "port", Integer(0, 65535, "a port"), default.port, "0 takes any free port.", written="15692"
    )
    tls = tls_name_key(default.tls, "HTTPS with what stands under tls by that name; null for HTTP.")
    listener = Record(
        "a listener",
        (bind, port, tls),
        lambda v: MetricsListenerConfig(v[bind], v[port], v[tls]),
        {"host": "the address is called bind", "ssl": "write tls, a name that stands under tls"},
    )
    enabled = Key(
        "enabled",
        Boolean(),
        _D.prometheus.is_enabled,
        "Whether Prometheus may ask. In a broker that is part of another program it may not, unless"
        " this is said.",
        written="true",
    )
    listeners = Key(
        "listeners",
        ListOf("listeners, each a mapping", listener, minimum=1),
        _D.prometheus.listeners,
        "Where it listens; a port that is taken is no reason not to start, unless it stands here.",
    )
    authentication = Key(
        "authentication",
        Boolean(),
        _D.prometheus.wants_login,
        "Whether that takes a login: HTTP basic, of a user with the tag monitoring or"
        " administrator. If not, whoever reaches the port may read.",
        written="false",
    )
    return Key(
        "prometheus",
        Record(
            "prometheus",
            (enabled, listeners, authentication),
            lambda v: PrometheusConfig(v[enabled], v[listeners], v[authentication]),
            {"port": "the port stands under listeners: [{port: ...}]"},
        ),
        _D.prometheus,
        "/metrics, /metrics/per-object and /metrics/detailed, with RabbitMQ's names.",
    )


def _statsd_key(bind_shape: Text) -> Key[StatsDConfig]:
    default = _D.statsd
    enabled = Key("enabled", Boolean(), default.is_enabled, "Whether to send.", written="false")
    host = Key("host", bind_shape, default.host, "Where to send it.", written="localhost")
    port = Key("port", Integer(1, 65535, "a port"), default.port, "Its port.", written="8125")
    name_format = Key(
        "format",
        Choice("statsd", "dogstatsd"),
        default.format,
        "dogstatsd puts names of queues and the like into tags, statsd into names.",
        written="statsd",
    )
    prefix = Key(
        "prefix", _Prefix(), default.prefix, "In front of each name, with a dot.", written="leveret"
    )
    interval = Key(
        "interval",
        Duration(0.1, 3600),
        default.interval_s,
        "How often.",
        written="10s",
    )
    tags = Key(
        "tags",
        ListOf("tags", _Tag()),
        default.tags_written,
        "Sent with everything, where the format has tags: env:prod.",
        written="[]",
    )
    queues = Key(
        "queues",
        Boolean(),
        default.has_queues,
        "Whether to tell of the messages in each queue, of the first thousand.",
        written="false",
    )
    return Key(
        "statsd",
        Record(
            "statsd",
            (enabled, host, port, name_format, prefix, interval, tags, queues),
            lambda v: StatsDConfig(
                is_enabled=v[enabled],
                host=v[host],
                port=v[port],
                format=v[name_format],
                prefix=v[prefix],
                interval_s=v[interval],
                tags_written=v[tags],
                has_queues=v[queues],
            ),
        ),
        default,
        "Sends the same counts over UDP.",
    )


def metrics_key(bind_shape: Text) -> Key[MetricsConfig]:
    """The section, with listeners as AMQP's are."""
    prometheus = _prometheus_key(bind_shape)
    statsd = _statsd_key(bind_shape)
    return Key(
        "metrics",
        Record(
            "the metrics",
            (prometheus, statsd),
            lambda v: MetricsConfig(v[prometheus], v[statsd]),
        ),
        _D,
        "What is told to monitoring systems.",
    )


class _DatagramKeys:
    """The keys of one listener, and what they make."""

    def __init__(self, bind_shape: Text) -> None:
        default = DatagramListenerConfig()
        self.bind = Key("bind", bind_shape, default.bind, "Where to listen.")
        self.port = Key("port", Integer(0, 65535, "a port"), default.port, "0 takes any free port.")
        self.vhost = Key("vhost", Name("a virtual host"), default.vhost, "Where to publish.")
        self.exchange = Key("exchange", Name("an exchange"), default.exchange, "To which exchange.")
        self.format = Key(
            "format", Choice("raw", "syslog", "gelf"), default.format, "What the datagrams are."
        )
        self.routing_key = Key(
            "routing_key",
            Text("a routing key", bytes_max=255),
            default.routing_key,
            "May hold {source} and {port}; for syslog {facility}, {severity}, {hostname} and"
            " {program}; for GELF {host} and {severity}.",
        )
        self.size_max = Key(
            "max_size",
            Size(1, _UNPACKED_BYTES_MAX),
            default.size_bytes_max,
            "Larger ones are dropped; of GELF, what is unpacked and joined counts.",
        )
        self.rate_max = Key(
            "max_rate",
            Integer(1, 1_000_000),
            default.rate_max,
            "A second; what is more is dropped.",
        )
        self.persistent = Key(
            "persistent", Boolean(), default.is_persistent, "Whether they outlive a restart."
        )

    def build(self, values: Values) -> DatagramListenerConfig:
        """Make a listener; its template must fit its format."""
        template = values[self.routing_key]
        kind = values[self.format]
        problem = template_problem(template, kind) if kind in TEMPLATE_FIELDS else None
        if problem is not None:
            values.report.add_at((*values.at, "routing_key"), problem)

        return DatagramListenerConfig(
            bind=values[self.bind],
            port=values[self.port],
            vhost=values[self.vhost],
            exchange=values[self.exchange],
            format=kind,
            routing_key=template,
            size_bytes_max=values[self.size_max],
            rate_max=values[self.rate_max],
            is_persistent=values[self.persistent],
        )


def datagram_key(bind_shape: Text) -> Key[tuple[DatagramListenerConfig, ...]]:
    """The listeners that publish what comes by UDP."""
    keys = _DatagramKeys(bind_shape)
    listener = Record(
        "a datagram listener",
        (
            keys.bind,
            keys.port,
            keys.vhost,
            keys.exchange,
            keys.format,
            keys.routing_key,
            keys.size_max,
            keys.rate_max,
            keys.persistent,
        ),
        keys.build,
        {"host": "the address is called bind"},
    )
    return Key(
        "datagram",
        ListOf("listeners, each a mapping", listener, null_is_empty=True),
        (),
        "Publish each datagram that comes by UDP to an exchange. Nobody logs in there: listen only"
        " where the senders are trusted. format is raw, syslog or gelf; routing_key may hold"
        " {source} and {port}, for syslog {facility}, {severity}, {hostname} and {program}, for"
        " GELF {host} and {severity}.",
        example="- {bind: localhost, port: 5140, vhost: /, exchange: amq.topic, format: syslog,"
        " routing_key: 'syslog.{facility}.{severity}', max_size: 64KiB, max_rate: 10000,"
        " persistent: false}",
    )
