"""Asks a broker whether it answers. Layer: net; blocking, for the command line.

It goes as far as a client can go without a password: to connection.start (rule C-01).
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack
from typing import Final, NamedTuple

from broker.errors import AMQPError, StartError
from broker.net.addresses import format_address
from broker.wire.tables import decode_table

__all__ = ["Pong", "ping"]

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
FRAME_METHOD: Final = 1
FRAME_END: Final = 0xCE
FRAME_HEADER_BYTES: Final = 7
CONNECTION_START: Final = b"\x00\x0a\x00\x0a"

PROPERTIES_AT: Final = 6
"""Where the server properties start in the method frame: behind the ids and the version."""

START_BYTES_MAX: Final = 128 * 1024

NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING")
CERTIFICATE_WANTED: Final = "CERTIFICATE_REQUIRED"


class Pong(NamedTuple):
    """Who answered, and how soon."""

    product: str
    version: str
    elapsed_s: float
    tls: str = ""
    """The version of TLS; empty without."""


def ping(host: str, port: int, timeout_s: float, context: ssl.SSLContext | None = None) -> Pong:
    """Connect, send the protocol header and wait for connection.start.

    Args:
        host: where.
        port: where.
        timeout_s: for all of it.
        context: makes a TLS connection; None for a plain one.

    Raises:
        StartError: nobody answers in time, or something that is no AMQP 0-9-1 broker does.

    """
    where = format_address(host, port)
    started_s = time.monotonic()
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((host, port), timeout_s))
            tls = ""
            if context is not None:
                secured = context.wrap_socket(connection, server_hostname=host)
                connection = opened.enter_context(secured)
                tls = secured.version() or ""

            connection.sendall(PROTOCOL_HEADER)
            payload = _read_start(connection, where, started_s + timeout_s)
    except ssl.SSLError as problem:
        raise StartError(_tls_problem(problem, where)) from None
    except TimeoutError:
        raise StartError(f"no answer from {where} within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise StartError(f"cannot connect to {where}: {reason}") from None

    product, version = _identity(payload, where)
    return Pong(product, version, time.monotonic() - started_s, tls)


def _tls_problem(problem: ssl.SSLError, where: str) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is refused: {problem.verify_message}"
            " (--ca FILE names who vouches for it)"
        )

    reason = problem.reason or str(problem)
    if reason in NO_TLS:
        return f"what answers at {where} does not speak TLS"

    if CERTIFICATE_WANTED in reason:
        return f"{where} wants to see a certificate: --cert FILE and --key FILE"

    return f"no TLS with {where}: {reason.lower().replace('_', ' ')}"


def _read_start(connection: socket.socket, where: str, deadline_s: float) -> bytes:
    header = _read(connection, FRAME_HEADER_BYTES, where, deadline_s)
    size = int.from_bytes(header[3:7], "big")
    if header[:3] != bytes([FRAME_METHOD, 0, 0]) or size > START_BYTES_MAX:
        raise StartError(f"what answers at {where} does not speak AMQP 0-9-1")

    body = _read(connection, size + 1, where, deadline_s)
    if not body.startswith(CONNECTION_START) or body[-1] != FRAME_END:
        raise StartError(f"what answers at {where} does not speak AMQP 0-9-1")

    return body[:-1]


def _read(connection: socket.socket, size: int, where: str, deadline_s: float) -> bytes:
    data = b""
    while len(data) < size:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError

        connection.settimeout(left_s)
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise StartError(f"{where} closed the connection without an answer")

        data += chunk

    return data


def _identity(payload: bytes, where: str) -> tuple[str, str]:
    start = PROPERTIES_AT + 4
    end = start + int.from_bytes(payload[PROPERTIES_AT:start], "big")
    try:
        properties = decode_table(payload, start, end)
    except AMQPError as problem:
        raise StartError(f"{where} sends a malformed connection.start: {problem}") from None

    product, version = (
        str(properties[key].value) if key in properties else "unknown"
        for key in ("product", "version")
    )
    return product, version
