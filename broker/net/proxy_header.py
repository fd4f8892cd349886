"""The PROXY header, by which a proxy tells who its client is. Layer: net; the reading is pure.

Both versions of the specification (HAProxy's, of 2020). A header is either understood as a whole or
refused: half of one could make somebody be taken for another.

Invariant: no octet behind the header is taken from the socket, and no more than a header may have.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.protocol.strangers import PROXY_V1, PROXY_V2, describe_stranger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Receive = Callable[[int], Awaitable[bytes]]

__all__ = [
    "HEADER_BYTES_MAX",
    "NOBODY",
    "Proxied",
    "ProxyHeaderError",
    "SilenceError",
    "parse_line",
    "read_proxy_header",
]

LINE_BYTES_MAX: Final = 107
"""Of version 1, CRLF included; the specification's own bound."""

HEADER_BYTES_MAX: Final = 4_096
"""What follows the first 16 octets of version 2. Addresses take 36, the rest is for what a proxy
adds: names and certificates, which nobody reads here."""

PREFIX_BYTES: Final = len(PROXY_V2)
FIXED_BYTES: Final = 16
COMMAND_LOCAL: Final = 0x20
COMMAND_PROXY: Final = 0x21
FAMILY_UNKNOWN: Final = 0x00
TCP_OVER_IPV4: Final = 0x11
TCP_OVER_IPV6: Final = 0x21
UNIX_STREAM: Final = 0x31
ADDRESS_BYTES: Final = {FAMILY_UNKNOWN: 0, TCP_OVER_IPV4: 4, TCP_OVER_IPV6: 16, UNIX_STREAM: 108}

_LINE: Final = re.compile(
    rb"PROXY TCP(?P<version>[46]) (?P<host>[0-9A-Fa-f.:]{2,39}) (?P<local_host>[0-9A-Fa-f.:]{2,39})"
    rb" (?P<port>0|[1-9][0-9]{0,4}) (?P<local_port>0|[1-9][0-9]{0,4})\r\n"
)
_UNKNOWN: Final = b"PROXY UNKNOWN"


class Proxied(NamedTuple):
    """Whom a proxy speaks for, and whom that one has connected to."""

    host: str
    port: int
    local_host: str
    local_port: int


NOBODY: Final = Proxied("", 0, "", 0)
"""For somebody of whom the proxy knows nothing: they may be anywhere, and not on this machine."""


class ProxyHeaderError(ValueError):
    """No PROXY header, or a damaged one."""


class SilenceError(ProxyHeaderError):
    """The connection was closed without a word, as those who only look whether one listens do."""


async def read_proxy_header(receive: Receive) -> Proxied | None:
    """Take a header from a connection; None where the proxy speaks for itself.

    Args:
        receive: gives at most so many octets; none at the end.

    Raises:
        ProxyHeaderError: it begins with something else, or the header is damaged.

    """
    prefix = await _read_prefix(receive)
    if prefix == PROXY_V2:
        rest = await _exactly(receive, FIXED_BYTES - PREFIX_BYTES)
        size = int.from_bytes(rest[2:4], "big")
        if size > HEADER_BYTES_MAX:
            raise ProxyHeaderError(
                f"the PROXY header has {size} octets: {HEADER_BYTES_MAX} at most"
            )

        return _parse_binary(rest, await _exactly(receive, size))

    # Octet by octet, since what follows the line belongs to somebody else.
    line = prefix
    while not line.endswith(b"\r\n"):
        if len(line) >= LINE_BYTES_MAX:
            raise ProxyHeaderError(f"the PROXY header has no end within {LINE_BYTES_MAX} octets")

        line += await _exactly(receive, 1)

    return parse_line(line)


async def _read_prefix(receive: Receive) -> bytes:
    """Take as much as tells the versions apart, and not one more from somebody who sends none."""
    data = b""
    while len(data) < PREFIX_BYTES:
        more = await receive(PREFIX_BYTES - len(data))
        if not more:
            if not data:
                raise SilenceError("nothing was sent")

            raise ProxyHeaderError("the connection ended within the PROXY header")

        data += more
        if not (PROXY_V2.startswith(data) or PROXY_V1.startswith(data[: len(PROXY_V1)])):
            raise ProxyHeaderError(f"{describe_stranger(data)} in place of a PROXY header")

    return data


async def _exactly(receive: Receive, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await receive(size - len(data))
        if not more:
            raise ProxyHeaderError("the connection ended within the PROXY header")

        data += more

    return data


def parse_line(line: bytes) -> Proxied:
    """Read a header of version 1.

    Raises:
        ProxyHeaderError: it is damaged.

    """
    if line == _UNKNOWN + b"\r\n" or line.startswith(_UNKNOWN + b" "):
        return NOBODY

    match = _LINE.fullmatch(line)
    if match is None:
        raise ProxyHeaderError(f"the PROXY header is malformed: {line!r}")

    version = int(match["version"])
    hosts = [_address(match[name].decode("ascii"), version) for name in ("host", "local_host")]
    ports = [int(match[name]) for name in ("port", "local_port")]
    if max(ports) > 0xFFFF:
        raise ProxyHeaderError(f"the PROXY header has no such port: {max(ports)}")

    return Proxied(hosts[0], ports[0], hosts[1], ports[1])


def _address(text: str, version: int) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None

    if address is None or address.version != version:
        raise ProxyHeaderError(f"the PROXY header has no IPv{version} address: {text!r}")

    return _plain(address)


def _plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An IPv4 address that came within an IPv6 one is that IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)

    return str(address)


def _parse_binary(fixed: bytes, body: bytes) -> Proxied | None:
    """Read what follows the signature of version 2."""
    command, family = fixed[0], fixed[1]
    if command == COMMAND_LOCAL:
        return None

    if command != COMMAND_PROXY:
        raise ProxyHeaderError(f"the PROXY header has no such version or command: {command:#04x}")

    size = ADDRESS_BYTES.get(family)
    if size is None:
        raise ProxyHeaderError(f"the PROXY header has no such family for TCP: {family:#04x}")

    if size in (4, 16):
        if len(body) < 2 * size + 4:
            raise ProxyHeaderError("the addresses in the PROXY header are cut off")

        host, local_host = (
            _plain(ipaddress.ip_address(part)) for part in (body[:size], body[size : 2 * size])
        )
        port = int.from_bytes(body[2 * size : 2 * size + 2], "big")
        local_port = int.from_bytes(body[2 * size + 2 : 2 * size + 4], "big")
        return Proxied(host, port, local_host, local_port)

    return NOBODY
