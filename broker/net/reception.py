"""Who may come in, and who is in. Layer: net.

Invariant: a transport is in :attr:`Reception.transports` from its admission to its
``connection_lost``; their number never passes ``connections_max``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.net.addresses import format_address
from broker.net.transport import AMQPTransport, Session
from broker.net.turnstile import Turnstile, TurnstileRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.proxy_header import Proxied
    from broker.net.pump import Pump
    from broker.protocol.link import Link, Peer
    from broker.tls.certificate import Certificate

__all__ = ["Reception"]

ANYTHING: Final = TurnstileRules()

REFUSAL_LOG_INTERVAL_S: Final = 10.0
"""Refusals for lack of room are told at most this often: a flood shall not flood the log too."""


class Reception:
    """Makes a transport for each accepted socket and keeps count of them.

    Args:
        pump: drives the broker core.
        open_session: makes the AMQP connection behind a link.
        log: told about refusals.
        connections_max: sockets open at once, handshakes included; what is over is closed unheard,
            since the process has no file descriptors to spare for it.
        rules: how many may come in how fast, and may stand about.

    """

    def __init__(
        self,
        pump: Pump,
        open_session: Callable[[Link, Peer], Session],
        log: Callable[[str, str, dict[str, object]], None],
        *,
        connections_max: int,
        rules: TurnstileRules = ANYTHING,
    ) -> None:
        self.pump = pump
        self.open_session = open_session
        self.transports: set[AMQPTransport] = set()
        self._turnstile = Turnstile[AMQPTransport](
            rules._replace(handshakes_max=max(1, min(rules.handshakes_max, connections_max // 2)))
        )
        self._log = log
        self._connections_max = connections_max
        self._refused = 0
        self._refusal_told_at = -REFUSAL_LOG_INTERVAL_S
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_open = True
        # Whom the certificate of a client stands for; a configuration says so.
        self.user_name_of: Callable[[Certificate], str | None] = lambda _certificate: None

    def make_transport(self, proxied: Proxied | None = None) -> AMQPTransport:
        """The protocol factory for asyncio's servers, and for sockets that a proxy has opened."""
        return AMQPTransport(self, proxied)

    def has_room(self, host: str, waiting: int) -> bool:
        """Whether one more socket, of that address, may wait beside so many others."""
        is_full = len(self.transports) + waiting >= self._connections_max
        if is_full and self._is_open:
            self._refuse(host, "too many open sockets")

        return self._is_open and not is_full

    def may_enter(self, host: str, listener: str) -> bool:
        """Whether somebody from that address may come in now at that listener."""
        if not self._is_open:
            return False

        why = self._turnstile.haste(host, listener, self.pump.loop.time())
        if why:
            self._refuse(host, why)

        return not why

    def admit(self, transport: AMQPTransport, peer: Peer) -> bool:
        """Let a transport in unless the house is full or closed."""
        if not self._is_open:
            return False

        if len(self.transports) >= self._connections_max:
            self._refuse(format_address(peer.host, peer.port), "too many open sockets")
            return False

        why = self._turnstile.refusal(peer)
        if transport.is_proxied:
            # Nobody has asked before, since nobody knew who it is.
            listener = f"{peer.local_host}:{peer.local_port}"
            why = why or self._turnstile.haste(peer.host, listener, self.pump.loop.time())

        if why:
            self._refuse(format_address(peer.host, peer.port), why)
            return False

        self.transports.add(transport)
        self._empty.clear()
        oldest = self._turnstile.enter(transport, peer)
        if oldest is not None:
            why = "too many that have not logged in: the oldest of them makes room"
            self._refuse(format_address(peer.host, peer.port), why)
            oldest.abort()

        return True

    def settled(self, transport: AMQPTransport) -> None:
        """Somebody has logged in."""
        self._turnstile.settled(transport)

    def disgraced(self, host: str) -> None:
        """Somebody from that address has sent what is no handshake."""
        self._turnstile.charge(host, self.pump.loop.time())

    def dismiss(self, transport: AMQPTransport) -> None:
        """Forget a transport whose socket is closed."""
        self.transports.discard(transport)
        self._turnstile.leave(transport)
        if not self.transports:
            self._empty.set()

    def shut(self) -> None:
        """Let nobody in from now on."""
        self._is_open = False

    def open(self) -> None:
        """Let clients in again."""
        self._is_open = True

    async def wait_empty(self) -> None:
        """Return when the last transport is gone."""
        await self._empty.wait()

    def abort_all(self) -> None:
        """Close every socket at once."""
        for transport in tuple(self.transports):
            transport.abort()

    def _refuse(self, peer: str, why: str) -> None:
        self._refused += 1
        now_s = self.pump.loop.time()
        if now_s - self._refusal_told_at < REFUSAL_LOG_INTERVAL_S:
            return

        self._refusal_told_at = now_s
        fields: dict[str, object] = {
            "peer": peer,
            "reason": why,
            "open": len(self.transports),
            "refused": self._refused,
        }
        self._log("warning", "connection.refused", fields)
        self._refused = 0
