"""The keys of the HTTP API (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.config.records import Key, ListOf, Record
from broker.config.schema import DEFAULT_CONFIG, HTTPListenerConfig, ManagementConfig
from broker.config.shapes import Boolean, Integer
from broker.config.tls_fields import tls_name_key

if TYPE_CHECKING:
    from broker.config.shapes import Text

__all__ = ["management_key"]

_D: Final = DEFAULT_CONFIG.management


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
            (enabled, listeners),
            lambda v: ManagementConfig(v[enabled], v[listeners]),
            {"port": "the port stands under listeners: [{port: ...}]"},
        ),
        _D,
        "The HTTP API: the paths and answers of RabbitMQ's management plugin.",
    )
