"""Socket addresses as the broker and its logs see them. Layer: net; pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from broker.protocol.link import Peer

if TYPE_CHECKING:
    from asyncio import BaseTransport

    from broker.net.proxy_header import Proxied
    from broker.protocol.link import TLSFacts

__all__ = ["format_address", "is_loopback_address", "peer_of", "plain_address"]


def plain_address(host: str) -> str:
    """Cut the zone off and write an IPv4 address that came mapped into IPv6 as IPv4."""
    host = host.partition("%")[0]
    if host.startswith("::ffff:") and "." in host:
        return host[len("::ffff:") :]

    return host


def is_loopback_address(host: str) -> bool:
    """Whether an address is 127.0.0.0/8 or ::1, mapped forms included (rule C-36)."""
    try:
        return ipaddress.ip_address(plain_address(host)).is_loopback
    except ValueError:
        return False


def format_address(host: str, port: int) -> str:
    """``127.0.0.1:5672`` or ``[::1]:5672``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_of(
    transport: BaseTransport, proxied: Proxied | None = None, tls: TLSFacts | None = None
) -> Peer:
    """Name both ends of an accepted socket; a peer that is gone again has no name.

    Args:
        transport: of the socket.
        proxied: whom it is a proxy for.
        tls: what was agreed on.

    """
    host, port = _host_and_port(transport.get_extra_info("peername"))
    local_host, local_port = _host_and_port(transport.get_extra_info("sockname"))
    is_loopback = is_loopback_address(host)
    if proxied is not None:
        if proxied.host:
            host, port, local_host, local_port = proxied

        # From this machine comes who comes from the proxy's machine, if that is this one.
        is_loopback = is_loopback and is_loopback_address(proxied.host)

    return Peer(
        host=host,
        port=port,
        local_host=local_host,
        local_port=local_port,
        is_loopback=is_loopback,
        is_tls=transport.get_extra_info("ssl_object") is not None,
        tls=tls,
    )


def _host_and_port(name: object) -> tuple[str, int]:
    if isinstance(name, tuple) and len(name) >= 2:
        return plain_address(str(name[0])), int(name[1])

    return "", 0
