"""A broker core without sockets, and clients of it that are a list of bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.auth.mechanisms import Credentials, build_mechanisms
from broker.auth.passwords import make_password_hash
from broker.auth.users import UserStore
from broker.clock import SystemClock
from broker.core.actor import Actor
from broker.core.node import Node
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.core.settings import NodeSettings
from broker.protocol.connection import Connection
from broker.protocol.link import Link, Peer
from scripts.benchmark.frames import long_string, method, short_string

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue

__all__ = ["Caller", "Stage"]

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_PEER: Final = Peer("127.0.0.1", 1, "127.0.0.1", 2, is_loopback=True, is_tls=False)
_TUNE: Final = b"\x07\xff\x00\x02\x00\x00\x00\x00"
"""2047 channels, frames of 128 KiB, no heartbeat."""


class _Drain(Link):
    """Takes what is written and counts it."""

    def __init__(self) -> None:
        self.written_bytes = 0
        self.last = b""

    def write(self, data: bytes) -> None:
        self.written_bytes += len(data)
        self.last = data

    def close(self) -> None:
        """There is nothing to close."""

    def abort(self) -> None:
        """There is nothing to close."""

    def pause_reading(self) -> None:
        """Whoever calls `Caller.send` reads on regardless."""

    def resume_reading(self) -> None:
        """Nothing was paused."""


class Stage:
    """A node with the virtual host ``/`` and the user guest."""

    def __init__(self) -> None:
        users = UserStore(loopback_only_users=["guest"])
        users.add_user("guest", make_password_hash("guest", b"salt"), tags=["administrator"])
        users.set_permissions("guest", vhost="/", configure=".*", write=".*", read=".*")
        self.clock = SystemClock()
        self.node = Node(
            NodeSettings(),
            self.clock,
            users=users,
            mechanisms=build_mechanisms(["PLAIN"], anonymous=Credentials("guest", "guest")),
            random_bytes=os.urandom,
            log=_ignore,
        )
        self.vhost = self.node.add_vhost("/")

    def declare(self, name: str, *, durable: bool = False) -> Queue:
        """A classic queue."""
        actor = Actor("/", None, None)
        return declare_queue(self.vhost, actor, QueueRequest(name, durable, False, False, {}))

    def settle(self) -> None:
        """End a turn as the rim does."""
        self.node.flush()
        while self.node.wants_turn():
            self.node.resume()
            self.node.flush()


def _ignore(level: str, event: str, fields: dict[str, object]) -> None:
    """Nobody reads the log of a stage."""


class Caller:
    """A client with channel 1 open."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.link = _Drain()
        self._connection = Connection(stage.node, self.link, _PEER)
        login = long_string(b"\0guest\0guest") + short_string("en_US")
        self.send(
            _HEADER
            + method(0, 10, 11, long_string(b"") + short_string("PLAIN") + login)
            + method(0, 10, 31, _TUNE)
            + method(0, 10, 40, short_string("/") + b"\0\0")
            + method(1, 20, 10, b"\0")
        )
        assert self.link.last.startswith(b"\x01\x00\x01") or b"\x00\x14\x00\x0b" in self.link.last

    def send(self, data: bytes) -> None:
        """One read of the rim's, and all that follows from it."""
        self._stage.node.advance(self._stage.clock.monotonic())
        self._connection.receive_data(data)
        self._stage.settle()
