"""The seam between a connection and whatever carries its bytes. Layer: protocol; no I/O.

Invariant: a connection knows its peer only through these two types, so that a test can put a list
in the place of a socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from mypy_extensions import mypyc_attr

__all__ = ["Link", "Peer", "PeerCertificate", "TLSFacts"]


class PeerCertificate(NamedTuple):
    """What a client has shown and TLS has verified, as RabbitMQ tells of it."""

    subject: str
    """As RFC 4514 writes it."""

    issuer: str
    validity: str
    serial: int
    user_name: str | None
    """Whom EXTERNAL logs in (rule C-22); None where the certificate has no such name."""


class TLSFacts(NamedTuple):
    """What was agreed on, by Erlang's names."""

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    certificate: PeerCertificate | None


class Peer(NamedTuple):
    """Both ends of one connection, as facts that do not change while it lives."""

    host: str
    """Address of the client, without a zone (``192.0.2.7``, ``2001:db8::7``); may be empty."""

    port: int
    local_host: str
    local_port: int
    is_loopback: bool
    """Whether the client's address is 127.0.0.0/8, ::1 or their IPv4-mapped form (rule C-36)."""

    is_tls: bool
    tls: TLSFacts | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Link(ABC):
    """What a connection may ask of its carrier. None of these raises, in whatever state."""

    __slots__ = ()

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send ``data`` after all that was written before; nothing after close or abort.

        The carrier keeps a reference: ``data`` is immutable bytes, never a reused buffer.
        """

    @abstractmethod
    def close(self) -> None:
        """Send what was written, then close both directions; idempotent.

        ``connection_lost`` follows later, never from within this call.
        """

    @abstractmethod
    def abort(self) -> None:
        """Close at once and forget what was not sent; idempotent, ``connection_lost`` follows."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Feed no more input until :meth:`resume_reading`; idempotent."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Feed input again; idempotent."""

    def settled(self) -> None:
        """The handshake is over: somebody is known at the other end."""
        return

    def disgraced(self) -> None:
        """What came is no handshake, or leads nowhere: nobody is known at the other end."""
        return
