"""What carries a scenario's bytes to a broker: sockets, or what a test puts in their place."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Network", "SocketNetwork", "Wire"]


class Wire(Protocol):
    """One connection to a broker."""

    def send(self, data: bytes) -> None:
        """Write all of it; whether the broker still listens is its own affair."""

    def receive(self) -> bytes:
        """What has come; nothing when the broker has closed. Call it only when it is ready."""

    def close(self) -> None:
        """Close both directions."""


class Network(Protocol):
    """Makes connections, and waits for them: it is also the clock."""

    def connect(self, *, is_from_afar: bool = False) -> Wire:
        """A new connection, from this machine's loopback address unless it is to be another."""

    def ready(self, wires: Sequence[Wire], seconds: float) -> Sequence[Wire]:
        """Wait that long at most; return the connections on which something has come."""

    def now(self) -> float:
        """Seconds since some moment."""

    def wall(self) -> float:
        """Seconds since 1970, for the broker."""


class SocketNetwork:
    """A broker that listens on TCP."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port

    def connect(self, *, is_from_afar: bool = False) -> Wire:
        host = _own_address() if is_from_afar else self._host
        return _SocketWire(socket.create_connection((host, self._port), timeout=10))

    def ready(self, wires: Sequence[Wire], seconds: float) -> Sequence[Wire]:
        own = [wire for wire in wires if isinstance(wire, _SocketWire)]
        return select.select(own, [], [], seconds)[0]

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


def _own_address() -> str:
    """An address of this machine that is not the loopback one; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]

    return address


class _SocketWire:
    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 20)
        except OSError:
            return b""

    def close(self) -> None:
        self._socket.close()
