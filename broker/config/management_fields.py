"""The keys of the HTTP API (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.config.records import Key, ListOf, Record
from broker.config.schema import DEFAULT_CONFIG, HTTPListenerConfig, ManagementConfig
from broker.config.shapes import Boolean, Integer, Text
from broker.config.tls_fields import tls_name_key
from broker.config.units import Duration, Size

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Report, Scalar

__all__ = ["management_key"]

_D: Final = DEFAULT_CONFIG.management
_HOST_NAME: Final = re.compile(r"(\*\.)?[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*")
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


class _Origin(Text):
    """Scheme, host and port of a site."""

    def __init__(self) -> None:
        super().__init__("an origin, as https://example.org, or '*'", bytes_max=300)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        text = node.text
        if text == "*" or _ORIGIN.fullmatch(text):
            return text

        hint = "an origin has no path: leave out what follows the host" if "/" in text else ""
        return self.refuse(node, at, report, hint)


class _HostName(Text):
    """The name of a host, without a port."""

    def __init__(self) -> None:
        super().__init__("the name of a host, as broker.example.org", bytes_max=253)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        text = node.text
        if text == "*" or _HOST_NAME.fullmatch(text):
            return text

        hint = "leave out scheme, port and path" if set(text) & set(":/") else ""
        return self.refuse(node, at, report, hint)


CORS_ORIGINS: Final = Key(
    "cors_origins",
    ListOf("origins, as https://example.org", _Origin()),
    _D.cors_origins,
    "Sites whose pages may use the API from a browser, as https://console.example.org; '*' lets all"
    " sites ask, but with no login that the browser has by itself.",
    written="[]",
)
SESSION_TIMEOUT: Final = Key(
    "login_session_timeout",
    Duration(1, 31_536_000),
    _D.session_timeout_s,
    "How long a login at /api/login lasts.",
    written="8h",
)
OPEN_HEALTH_CHECKS: Final = Key(
    "open_health_checks",
    Boolean(),
    _D.has_open_health_checks,
    "Whether the health checks that need no login in RabbitMQ need none here.",
    written="true",
)
BODY_SIZE: Final = Key(
    "max_body_size",
    Size(1024, 2**31 - 1),
    _D.body_bytes_max,
    "Size of the body of a request.",
    written="64MiB",
)
CONNECTIONS: Final = Key(
    "connections",
    Integer(1, 65_535),
    _D.connections_max,
    "Connections at a time; of more, the one is closed that has been idle for longest.",
    written="1000",
)
REQUEST_TIMEOUT: Final = Key(
    "request_timeout",
    Duration(0.1, 3_600),
    _D.request_timeout_s,
    "A request has that long to arrive, its first line and headers ten seconds at most.",
    written="60s",
)

HOSTS: Final = Key(
    "hosts",
    ListOf("names of hosts, as broker.example.org", _HostName()),
    _D.hosts,
    "Names by which plain HTTP may be asked for, as broker.example.org or *.example.org, so that no"
    " page can ask under a name of its own; '*' is any. Addresses, the machine's own name and names"
    " that public DNS does not have (localhost, one word, .local, .internal) always may.",
    written="[]",
)


def management_key(bind_shape: Text) -> Key[ManagementConfig]:
    """The section, with listeners as AMQP's are."""
    bind = Key(
        "bind", bind_shape, HTTPListenerConfig().bind, "Where to listen.", written="localhost"
    )
    port = Key(
        "port",
        Integer(0, 65535, "a port"),
        HTTPListenerConfig().port,
        "0 takes any free port.",
        written="15672",
    )
    tls = tls_name_key(
        HTTPListenerConfig().tls, "HTTPS with what stands under tls by that name; null for HTTP."
    )
    listener = Record(
        "a listener",
        (bind, port, tls),
        lambda v: HTTPListenerConfig(v[bind], v[port], v[tls]),
        {"host": "the address is called bind", "ssl": "write tls, a name that stands under tls"},
    )
    enabled = Key(
        "enabled",
        Boolean(),
        _D.is_enabled,
        "Whether there is the HTTP API. In a broker that is part of another program there is none,"
        " unless this is said.",
        written="true",
    )
    listeners = Key(
        "listeners",
        ListOf("listeners, each a mapping", listener, minimum=1),
        _D.listeners,
        "Where it listens; a port that is taken is no reason not to start, unless it stands here.",
    )
    return Key(
        "management",
        Record(
            "the management",
            (
                enabled,
                listeners,
                CORS_ORIGINS,
                SESSION_TIMEOUT,
                OPEN_HEALTH_CHECKS,
                BODY_SIZE,
                CONNECTIONS,
                REQUEST_TIMEOUT,
                HOSTS,
            ),
            lambda v: ManagementConfig(
                v[enabled],
                v[listeners],
                cors_origins=v[CORS_ORIGINS],
                session_timeout_s=v[SESSION_TIMEOUT],
                has_open_health_checks=v[OPEN_HEALTH_CHECKS],
                body_bytes_max=v[BODY_SIZE],
                connections_max=v[CONNECTIONS],
                request_timeout_s=v[REQUEST_TIMEOUT],
                hosts=v[HOSTS],
            ),
            {
                "port": "the port stands under listeners: [{port: ...}]",
                "cors": "write cors_origins",
            },
        ),
        _D,
        "The HTTP API: the paths and answers of RabbitMQ's management plugin.",
    )
