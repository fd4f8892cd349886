"""Tells clients why a handshake has failed. Layer: tls.

asyncio closes the socket of a handshake that has failed, and with it goes the alert that OpenSSL
has written for the client: that would see the connection end, and nothing of an expired certificate
or of a version that is too old.
"""

from __future__ import annotations

import ssl
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ALERTED", "AlertingContext"]

ALERTED: Final[ContextVar[Callable[[bytes], object] | None]] = ContextVar("alerted", default=None)
"""Sends octets to the client whose connection is made in this context."""


class _AlertingConnection(ssl.SSLObject):
    """Sends the alert at once, when asyncio has not closed the socket yet."""

    outgoing: ssl.MemoryBIO | None = None
    send: Callable[[bytes], object] | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.outgoing is not None and self.send is not None:
                self.send(self.outgoing.read())

            raise


class AlertingContext(ssl.SSLContext):
    """A context whose connections tell the client of what went wrong."""

    sslobject_class = _AlertingConnection

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        connection = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(connection, _AlertingConnection):
            connection.outgoing = outgoing
            connection.send = ALERTED.get()

        return connection
