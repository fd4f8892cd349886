"""One accepted socket. Layer: net; the only place that feeds bytes to a connection.

Invariant: between ``connection_made`` and ``connection_lost`` a transport has exactly one session,
and after :meth:`AMQPTransport.close` or :meth:`~AMQPTransport.abort` that session is fed nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from broker.limits import (
    LINGER_BYTES_MAX,
    LINGER_S,
    OUTPUT_BYTES_HIGH,
    OUTPUT_BYTES_LOW,
)
from broker.net.addresses import peer_of
from broker.protocol.link import Link

if TYPE_CHECKING:
    from broker.net.proxy_header import Proxied
    from broker.net.reception import Reception
    from broker.protocol.link import TLSFacts

__all__ = ["AMQPTransport", "Session"]


class Session(Protocol):
    """The part of an AMQP connection that the rim drives."""

    def receive_data(self, data: bytes) -> None: ...

    def receive_eof(self) -> None: ...

    def connection_lost(self) -> None: ...

    def pause_output(self) -> None: ...

    def resume_output(self) -> None: ...


class AMQPTransport(asyncio.Protocol, Link):
    """Feeds what arrives to the session, and carries what the session writes.

    TCP_NODELAY is asyncio's (and uvloop's) own default, for sockets that say they are TCP's.
    """

    __slots__ = (
        "_discarded_bytes",
        "_host",
        "_is_closing",
        "_is_paused",
        "_linger",
        "_proxied",
        "_pump",
        "_reception",
        "_session",
        "_transport",
    )

    _transport: asyncio.Transport

    def __init__(self, reception: Reception, proxied: Proxied | None = None) -> None:
        self._reception = reception
        self._proxied = proxied
        self._host = ""
        self._pump = reception.pump
        self._session: Session | None = None
        self._is_closing = False
        self._is_paused = False
        self._discarded_bytes = 0
        self._linger: asyncio.TimerHandle | None = None

    @property
    def is_proxied(self) -> bool:
        """Whether it is a proxy that has opened the socket, for somebody whose address it tells."""
        return self._proxied is not None and self._proxied.host != ""

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, so there is nothing to test for.
        self._transport = cast("asyncio.Transport", transport)
        peer = peer_of(transport, self._proxied, self._tls_facts())
        self._host = peer.host
        if not self._reception.admit(self, peer):
            self.abort()
            return

        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH, low=OUTPUT_BYTES_LOW)
        self._pump.advance()
        self._session = self._reception.open_session(self, peer)
        self._pump.settle()

    def _tls_facts(self) -> TLSFacts | None:
        connection = self._transport.get_extra_info("ssl_object")
        if connection is None:
            return None

        # Imported where there is TLS: most brokers start without.
        from broker.net.tls_facts import tls_facts_of

        return tls_facts_of(connection, self._reception.user_name_of)

    def data_received(self, data: bytes) -> None:
        session = self._session
        if self._is_closing or session is None:
            self._discard(len(data))
            return

        pump = self._pump
        pump.advance()
        session.receive_data(data)
        pump.settle()

    def eof_received(self) -> None:
        # A client that shuts its sending half is gone (rule C-80). asyncio sends what is left and
        # closes; a peer that does not take it any more is given up after a while.
        if not self._is_closing and self._session is not None:
            self._pump.advance()
            self._session.receive_eof()
            self._pump.settle()

        self._is_closing = True
        self._arm_linger()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

        self._reception.dismiss(self)
        session, self._session = self._session, None
        if session is not None:
            self._pump.advance()
            session.connection_lost()
            self._pump.settle()

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.pause_output()

    def resume_writing(self) -> None:
        if self._session is not None:
            self._pump.advance()
            self._session.resume_output()
            self._pump.settle()

    # --- called by the session

    def write(self, data: bytes) -> None:
        if not self._is_closing:
            self._transport.write(data)

    def close(self) -> None:
        """Send what was written and half-close; close for good when the peer has closed too.

        A socket that is closed while input lies unread answers with RST, and that may take the last
        words (a close method, the header of rule C-03) from a peer that has not read them yet.
        """
        if self._is_closing:
            return

        self._is_closing = True
        transport = self._transport
        if not transport.can_write_eof():
            transport.close()
        else:
            try:
                transport.write_eof()
            except OSError:
                transport.abort()
                return

            self._resume_transport()

        self._arm_linger()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def pause_reading(self) -> None:
        if not self._is_paused and not self._is_closing and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._resume_transport()

    def settled(self) -> None:
        self._reception.settled(self)

    def disgraced(self) -> None:
        self._reception.disgraced(self._host)

    # ---

    def _resume_transport(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _arm_linger(self) -> None:
        if self._linger is None:
            self._linger = self._pump.loop.call_later(LINGER_S, self._transport.abort)

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > LINGER_BYTES_MAX:
            self._transport.abort()
