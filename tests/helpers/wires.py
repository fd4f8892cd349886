"""A network for interop/compare that is a node in this thread, with a clock that costs no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.protocol.connection import Connection
from broker.protocol.link import Link, Peer
from interop.compare.node_administration import NodeAdministration
from interop.compare.session import Target
from tests.helpers.session import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interop.compare.network import Wire

__all__ = ["EmbeddedNetwork", "embedded_target"]


def embedded_target() -> Target:
    """A node of its own with its administration."""
    network = EmbeddedNetwork()
    administration = NodeAdministration(network.world.node, network.run)
    return Target(network, administration=administration)


class EmbeddedNetwork:
    """Connects to a node of its own; waiting moves the clock from deadline to deadline."""

    def __init__(self) -> None:
        self.world = World()

    def connect(self, *, is_from_afar: bool = False) -> Wire:
        return _EmbeddedWire(self.world, is_from_afar)

    def ready(self, wires: Sequence[Wire], seconds: float) -> Sequence[Wire]:
        world = self.world
        # Whole milliseconds, as the node counts, and one at least, or a wait would never end.
        end_s = round(self.now() + max(seconds, 0.001), 3)
        while True:
            found = [wire for wire in wires if isinstance(wire, _EmbeddedWire) and wire.is_ready]
            left_s = round(end_s - self.now(), 3)
            if found or left_s <= 0:
                return found

            due_s = world.node.next_deadline()
            step_s = left_s if due_s is None else round(due_s - self.now(), 3)
            world.wait(min(left_s, max(0.001, step_s)))

    def run(self, command: Callable[[], None]) -> None:
        """Do one thing to the node from outside a connection."""
        self.world.node.advance(self.now())
        command()
        self.world.settle()

    def now(self) -> float:
        return self.world.clock.monotonic()

    def wall(self) -> float:
        return self.world.clock.wall()


class _EmbeddedWire:
    """The client's end."""

    def __init__(self, world: World, is_from_afar: bool) -> None:
        self._world = world
        self._link = _KeepingLink()
        host = "192.0.2.7" if is_from_afar else "127.0.0.1"
        peer = Peer(host, 40_000, "127.0.0.1", 5672, not is_from_afar, is_tls=False)
        self._connection = Connection(world.node, self._link, peer)

    @property
    def is_ready(self) -> bool:
        return bool(self._link.pending) or self._link.is_closed

    def send(self, data: bytes) -> None:
        if not self._link.is_closed:
            self._connection.receive_data(data)
            self._world.settle()

    def receive(self) -> bytes:
        data = b"".join(self._link.pending)
        self._link.pending.clear()
        return data

    def close(self) -> None:
        if self._link.is_paused:
            # Nobody sees the end of a stream that is not read.
            self._link.on_resume = self._lose_soon
        else:
            self._lose()

    def _lose(self) -> None:
        self._connection.connection_lost()
        self._world.settle()

    def _lose_soon(self) -> None:
        deadlines = self._world.node.deadlines
        deadlines.schedule(deadlines.now_ms, self._lose)


class _KeepingLink(Link):
    """The broker's end: what it writes waits to be taken."""

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self.is_closed = False
        self.is_paused = False
        self.on_resume: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        if not self.is_closed:
            self.pending.append(data)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        """What a scenario sends from now on waits in the connection."""
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        if self.on_resume is not None:
            self.on_resume()
