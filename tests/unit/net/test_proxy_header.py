"""PROXY headers, whole and in pieces, and everything that looks like one."""

from __future__ import annotations

import asyncio
import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.net.proxy_header import (
    HEADER_BYTES_MAX,
    NOBODY,
    Proxied,
    ProxyHeaderError,
    SilenceError,
    read_proxy_header,
)

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V4 = Proxied("192.0.2.7", 40_000, "198.51.100.1", 5671)
V6 = Proxied("2001:db8::7", 40_000, "2001:db8::1", 5671)
REST = b"AMQP\x00\x00\x09\x01"


def binary(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack("!H", len(body)) + body


def addresses(proxied: Proxied) -> bytes:
    host, local_host = (
        ipaddress.ip_address(text).packed for text in (proxied.host, proxied.local_host)
    )
    return host + local_host + struct.pack("!HH", proxied.port, proxied.local_port)


class Stream:
    """What a peer sends, in pieces of at most some size, and then the end."""

    def __init__(self, data: bytes, piece: int = 1 << 20) -> None:
        self.left = data
        self._piece = piece

    async def receive(self, size: int) -> bytes:
        taken = self.left[: min(size, self._piece)]
        self.left = self.left[len(taken) :]
        return taken


def read(stream: Stream) -> Proxied | None:
    return asyncio.run(read_proxy_header(stream.receive))


GOOD = [
    pytest.param(b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5671\r\n", V4, id="v1-tcp4"),
    pytest.param(b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 5671\r\n", V6, id="v1-tcp6"),
    pytest.param(b"PROXY UNKNOWN\r\n", NOBODY, id="v1-unknown"),
    pytest.param(b"PROXY UNKNOWN ff:: ff:: 1 2\r\n", NOBODY, id="v1-unknown-with-addresses"),
    pytest.param(binary(0x21, 0x11, addresses(V4)), V4, id="v2-tcp4"),
    pytest.param(binary(0x21, 0x21, addresses(V6)), V6, id="v2-tcp6"),
    pytest.param(
        binary(0x21, 0x11, addresses(V4) + b"\x02\x00\x04host" * 20), V4, id="v2-with-more"
    ),
    pytest.param(
        binary(0x21, 0x21, addresses(V6) + bytes(HEADER_BYTES_MAX - 36)), V6, id="v2-largest"
    ),
    pytest.param(binary(0x20, 0x00, b""), None, id="v2-local"),
    pytest.param(binary(0x20, 0x11, addresses(V4)), None, id="v2-local-with-addresses"),
    pytest.param(binary(0x21, 0x00, b""), NOBODY, id="v2-unspecified"),
    pytest.param(binary(0x21, 0x31, bytes(216)), NOBODY, id="v2-unix"),
    pytest.param(
        b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 40000 5671\r\n", V4, id="v1-mapped"
    ),
]


@pytest.mark.parametrize(("header", "expected"), GOOD)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_header_tells_who_the_client_is_and_takes_nothing_else(
    header: bytes, expected: Proxied | None, piece: int
) -> None:
    stream = Stream(header + REST, piece)

    assert read(stream) == expected
    assert stream.left == REST


BAD = [
    pytest.param(REST, "AMQP 0-9-1 in place of a PROXY header", id="amqp"),
    pytest.param(b"\x16\x03\x01\x02\x00", "a TLS handshake in place", id="tls"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", "an HTTP request in place", id="http"),
    pytest.param(b"PROXY TCP4 192.0.2.7", "ended within", id="v1-cut"),
    pytest.param(SIGNATURE + b"\x21", "ended within", id="v2-cut"),
    pytest.param(binary(0x21, 0x11, addresses(V4))[:-1], "ended within", id="v2-body-cut"),
    pytest.param(b"PROXY " + b"x" * 200, "no end within 107", id="v1-oversize"),
    pytest.param(
        SIGNATURE + b"\x21\x11" + struct.pack("!H", HEADER_BYTES_MAX + 1),
        "4097 octets",
        id="v2-oversize",
    ),
    pytest.param(b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n", "malformed", id="v1-no-port"),
    pytest.param(b"PROXY TCP4  192.0.2.7 1.2.3.4 1 2\r\n", "malformed", id="v1-two-spaces"),
    pytest.param(b"PROXY TCP5 192.0.2.7 1.2.3.4 1 2\r\n", "malformed", id="v1-tcp5"),
    pytest.param(b"PROXY TCP4 192.0.2.7 1.2.3.4 01 2\r\n", "malformed", id="v1-leading-zero"),
    pytest.param(b"PROXY TCP4 192.0.2.7 1.2.3.4 1 2 3\r\n", "malformed", id="v1-too-much"),
    pytest.param(b"PROXY TCP4 192.0.2.7 1.2.3.4 99999 2\r\n", "no such port", id="v1-port"),
    pytest.param(b"PROXY TCP4 192.0.2.999 1.2.3.4 1 2\r\n", "no IPv4 address", id="v1-address"),
    pytest.param(b"PROXY TCP4 ::1 ::1 1 2\r\n", "no IPv4 address", id="v1-other-family"),
    pytest.param(b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n", "no IPv6 address", id="v1-ipv4-as-6"),
    pytest.param(b"PROXY UNKNOWNX\r\n", "malformed", id="v1-unknownx"),
    pytest.param(binary(0x11, 0x11, addresses(V4)), "version or command", id="v2-version-1"),
    pytest.param(binary(0x22, 0x11, addresses(V4)), "version or command", id="v2-command"),
    pytest.param(binary(0x21, 0x12, addresses(V4)), "no such family", id="v2-udp"),
    pytest.param(binary(0x21, 0x41, b""), "no such family", id="v2-family"),
    pytest.param(binary(0x21, 0x11, b"x" * 11), "cut off", id="v2-short-addresses"),
]


@pytest.mark.parametrize(("data", "text"), BAD)
def test_anything_else_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(ProxyHeaderError, match=text):
        read(Stream(data))


def test_silence_is_told_apart() -> None:
    with pytest.raises(SilenceError):
        read(Stream(b""))


@given(
    header=st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=300).map(lambda rest: b"PROXY " + rest),
        st.binary(max_size=300).map(lambda rest: SIGNATURE + rest),
    )
)
def test_no_octets_do_anything_but_be_refused_or_understood(header: bytes) -> None:
    stream = Stream(header)
    try:
        proxied = read(stream)
    except ProxyHeaderError:
        return

    if proxied is not None:
        ipaddress.ip_address(proxied.host)
        assert 0 <= proxied.port <= 0xFFFF
