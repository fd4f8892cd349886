"""What fuzzing feeds: each target takes any octets, and comes back unless the broker is at fault.

A refusal that a target documents is an answer like any other. Whatever else escapes from one is a
defect: an error of another kind, a wrong result, a run without end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.auth.patterns import Pattern, PatternError
from broker.config.loader import load_config
from broker.config.problems import ConfigProblems
from broker.core.message import build_content
from broker.errors import AMQPError, PeerDropped, PreconditionFailed
from broker.limits import SHORT_STRING_BYTES_MAX
from broker.management.app import ROUTER
from broker.management.doorkeeper import credentials_in
from broker.management.errors import HTTPProblem, Unauthenticated
from broker.management.hardening import loggable_path
from broker.management.json_text import parse_object
from broker.management.routes import split_path
from broker.net.proxy_header import HEADER_BYTES_MAX, NOBODY, ProxyHeaderError, read_proxy_header
from broker.protocol.states import CLOSED, CLOSING, RUNNING
from broker.protocol.strangers import describe_stranger
from broker.tls.certificate import CertificateError, parse_certificate
from broker.tls.names import USER_SOURCES, distinguished_name, user_name_of, validity_text
from broker.wire import codec
from broker.wire.framing import FrameDecoder, FrameFault
from broker.wire.properties import (
    PropertiesError,
    parse_properties,
    set_headers,
    with_headers,
    with_reply_to,
    without_expiration,
    without_header,
)
from broker.wire.tables import (
    Field,
    TableError,
    decode_table,
    encode_table,
    fields_equal_for_headers,
    fields_equivalent,
    table_to_plain,
)
from tests.helpers.session import (
    PROTOCOL_HEADER,
    World,
    decode_stream,
    handshake,
    method,
    publish,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TARGETS"]

FRAME_BYTES_MAX: Final = 4_096
PROXY_BYTES_MAX: Final = 16 + HEADER_BYTES_MAX
OPEN: Final = handshake() + method(1, "channel.open") + method(2, "channel.open")
SETUP: Final = (
    method(1, "queue.declare", queue="q")
    + method(1, "queue.bind", queue="q", exchange="amq.topic", routing_key="#")
    + method(1, "queue.bind", queue="q", exchange="amq.headers", arguments={"k": 1})
    + publish(1, "q") * 3
)
LONGEST_CLOSE_S: Final = 40.0


# -- one layer alone


def frames(data: bytes) -> None:
    """In one read or in many: the same frames, and the same fault behind them."""
    whole = _frames_of([data])
    assert _frames_of([data[at : at + 1] for at in range(len(data))]) == whole
    step = 1 + len(data) // 3
    assert _frames_of([data[at : at + step] for at in range(0, len(data), step)]) == whole


def _frames_of(reads: list[bytes]) -> list[object]:
    decoder = FrameDecoder(FRAME_BYTES_MAX)
    found: list[object] = []
    try:
        for read in reads:
            decoder.feed(read)
            while decoder.next_frame():
                assert len(decoder.payload()) <= FRAME_BYTES_MAX
                found.append(decoder.frame())
    except FrameFault as fault:
        found.append((fault.frame_type, fault.payload, fault.size, fault.end_octet))

    return found


def tables(data: bytes) -> None:
    """What decodes is encoded to what decodes to the same (rules F-20, F-21)."""
    try:
        table = decode_table(data, 0, len(data))
    except TableError:
        return

    encoded = encode_table(table)
    again = decode_table(encoded, 4, len(encoded))
    assert list(again) == list(table)
    assert encode_table(again) == encoded
    assert len(encoded) - 4 <= len(data)
    assert list(table_to_plain(table)) == list(table)
    for key, field in table.items():
        assert fields_equivalent(field, again[key])
        assert fields_equal_for_headers(field, again[key])


def properties(data: bytes) -> None:
    """What parses can be read and edited, and what was edited parses."""
    try:
        parsed = parse_properties(data)
    except (PropertiesError, TableError):
        return

    raw = parsed.raw
    headers = parsed.headers()
    plain = parsed.to_plain()
    assert ("headers" in plain) == (parsed.headers_start >= 0)
    for keys_of in (parsed.cc_keys, parsed.bcc_keys):
        try:
            assert all(isinstance(key, str) for key in keys_of())
        except PreconditionFailed:
            continue

    extended = parse_properties(set_headers(raw, {"x-death": Field("l", 1)}))
    assert extended.headers()["x-death"] == Field("l", 1)
    assert [key for key in extended.headers() if key != "x-death"] == [
        key for key in headers if key != "x-death"
    ]
    assert "BCC" not in parse_properties(without_header(raw, "BCC")).headers()
    assert parse_properties(without_expiration(raw)).expiration is None
    assert parse_properties(with_headers(raw, None)).headers_start < 0
    reply_to = "x" * SHORT_STRING_BYTES_MAX
    assert parse_properties(with_reply_to(raw, reply_to)).reply_to == reply_to


def methods(data: bytes) -> None:
    """A method frame's payload decodes, or is refused with one of our errors (F-07..F-09)."""
    with contextlib.suppress(AMQPError, PeerDropped):
        assert codec.decode_method(int.from_bytes(data[:4], "big"), data) is not None


# -- whole connections


def connections(data: bytes) -> None:
    """Octets from the first one on, with whatever handshake they make."""
    _play(data)


def sessions(data: bytes) -> None:
    """Octets on a running connection with two channels, a queue and messages."""
    _play(OPEN + SETUP + data)


def contents(data: bytes) -> None:
    """The first octet is the size of the property list, the rest is the body; from queue to grave.

    A message with any properties is published, expires, is dead-lettered and fetched.
    """
    raw = data[1 : 1 + data[0]] if data else b""
    content = build_content(raw, data[1 + len(raw) :])
    head = 8 + int.from_bytes(content[3:7], "big")
    arguments = {"x-dead-letter-exchange": "amq.fanout", "x-max-length": 0}
    _play(
        OPEN
        + SETUP
        + method(1, "queue.declare", queue="dying", arguments=arguments)
        + method(1, "queue.bind", queue="q", exchange="amq.fanout")
        + method(1, "basic.publish", exchange="amq.headers", mandatory=True)
        + _on_channel_1(content, head)
        + method(2, "basic.publish", routing_key="dying")
        + _on_channel_1(content, head, channel=b"\x00\x02")
        + method(1, "basic.get", queue="q", no_ack=True) * 5
    )


def _on_channel_1(content: bytes, head: int, channel: bytes = b"\x00\x01") -> bytes:
    header = content[:1] + channel + content[3:head]
    body = content[head:]
    return header + (body[:1] + channel + body[3:] if body else b"")


def _play(data: bytes) -> None:
    """Whatever became of the connection, the broker is sane and keeps nothing of it."""
    world = World()
    session = world.connect()
    cut = len(data) // 2
    session.feed(data, [cut])
    decode_stream(session.link.written)
    assert world.bugs == [], world.bugs
    state = session.connection.state
    if state in (RUNNING, CLOSING):
        assert not session.link.is_closed
    elif state != CLOSED:
        world.wait(LONGEST_CLOSE_S)
        assert session.link.is_closed

    session.lose()
    world.wait(LONGEST_CLOSE_S)
    assert world.bugs == [], world.bugs
    assert session.link.late_writes == []
    node = world.node
    assert not node.connections
    assert not node.channel_counts
    assert not node.connection_counts
    assert not any(queue.unacked_count for queue in world.vhost.queues.values())


# -- who comes in, and how


def sasl(data: bytes) -> None:
    """The first octet chooses the mechanism, the rest is the response (section C.3)."""
    name = ("PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL", "\xff")[data[0] % 5 if data else 0]
    start_ok = method(
        0,
        "connection.start-ok",
        client_properties={"capabilities": {"authentication_failure_close": True}},
        mechanism=name,
        response=data[1:].decode("latin-1"),
        locale="en_US",
    )
    _play(PROTOCOL_HEADER + start_ok)


def http(data: bytes) -> None:
    """What is done with a request: its path, query and login, patterns, JSON."""
    text = data.decode("latin-1")
    ROUTER.find(split_path(text))
    assert "password=x" not in loggable_path(f"{text}?password=x")
    with contextlib.suppress(Unauthenticated):
        name, password = credentials_in(text)
        assert name + password is not None

    with contextlib.suppress(HTTPProblem):
        assert isinstance(parse_object(data), dict)

    with contextlib.suppress(PatternError):
        Pattern(text[:200], ignores_case=True).matches("a" * 255)


def yaml(data: bytes) -> None:
    """A configuration is read, or all that is wrong with it is told."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "leveret.yaml"
        path.write_bytes(data)
        with contextlib.suppress(ConfigProblems):
            assert load_config(str(path)) is not None


# -- before a handshake


def proxy(data: bytes) -> None:
    """A PROXY header is understood or refused, and nothing behind it is taken."""
    taken = 0

    async def receive(size: int) -> bytes:
        nonlocal taken
        part = data[taken : taken + size]
        taken += len(part)
        return part

    with contextlib.suppress(ProxyHeaderError):
        proxied = asyncio.run(read_proxy_header(receive))
        if proxied not in (None, NOBODY):
            assert proxied is not None
            for host in (proxied.host, proxied.local_host):
                assert str(ipaddress.ip_address(host)) == host

            assert max(proxied.port, proxied.local_port) <= 0xFFFF

    assert taken <= PROXY_BYTES_MAX
    assert describe_stranger(data[:8])


def certificate(data: bytes) -> None:
    """What a client shows is read, or is no certificate; a user's name comes of it, or none."""
    try:
        shown = parse_certificate(data)
    except CertificateError:
        return

    assert distinguished_name(shown.subject).isprintable()
    assert validity_text(shown)
    for source in USER_SOURCES:
        name = user_name_of(shown, source)
        assert name is None or name


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "frames": frames,
    "tables": tables,
    "properties": properties,
    "methods": methods,
    "handshake": connections,
    "sessions": sessions,
    "contents": contents,
    "sasl": sasl,
    "http": http,
    "yaml": yaml,
    "proxy": proxy,
    "certificate": certificate,
}
