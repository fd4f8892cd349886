"""Puts together what listeners know of TLS and of proxies. Layer: composition root.

Imported where a configuration asks for one of them: most brokers start without.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.net.antechamber import Antechamber, Entrance, Terms, networks_of
from broker.net.keyring import CertificateFact, Keyring
from broker.tls.names import user_name_of

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Mapping

    from broker.clock import Clock
    from broker.config.schema import AMQPListenerConfig, AuthConfig, Config
    from broker.net.reception import Reception
    from broker.tls.certificate import Certificate

    Log = Callable[[str, str, dict[str, object]], None]
    Answerer = Callable[[], asyncio.BaseProtocol]

__all__ = ["TransportSecurity"]

TLS_READ_BYTES_MAX: Final = 65_536
"""Read of one TLS connection at a time. asyncio holds a buffer of that size for each, from its
first octet on: of its own accord 256 KiB, which is 2.5 GB for ten thousand that are idle."""


class TransportSecurity:
    """Certificates in use, and those who wait to be known.

    Args:
        config: of the broker.
        loop: of the broker.
        clock: knows what day it is.
        log: told of certificates, and of who is refused.

    Raises:
        StartError: a certificate cannot be loaded.

    """

    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, clock: Clock, log: Log
    ) -> None:
        self._auth = config.auth
        self._reception: Reception | None = None
        self._keyring = Keyring(config.tls, clock, log)
        self._keyring.watch(loop)
        self.antechamber = Antechamber(loop, log, timeout_s=config.limits.tls_handshake_timeout_s)

    @property
    def certificates(self) -> list[CertificateFact]:
        """Every certificate in use."""
        return self._keyring.certificates

    def serve(self, reception: Reception) -> None:
        """Tell a reception from now on who the clients are that show a certificate."""
        self._reception = reception
        reception.user_name_of = _namer(self._auth)

    def terms_of(self, listener: AMQPListenerConfig) -> Terms | None:
        """What a listener wants to know; None where clients come in right away."""
        if listener.tls is None and listener.proxies is None:
            return None

        context = None if listener.tls is None else partial(self._keyring.context, listener.tls)
        return Terms(listener.tls or "", context, networks_of(listener.proxies))

    def open_entrance(
        self, names: Mapping[socket.socket, str | None], listening: socket.socket, answer: Answerer
    ) -> Entrance | None:
        """Accept HTTPS at a socket; None where it is for plain HTTP.

        Args:
            names: what each socket makes TLS connections with.
            listening: one of these.
            answer: makes what answers a connection.

        """
        name = names.get(listening)
        if name is None:
            return None

        terms = Terms(name, partial(self._keyring.context, name), is_http=True)
        return Entrance(
            self.antechamber, listening, terms, lambda _proxied: answer(), lambda *_: True
        )

    def take_on(self, config: Config) -> None:
        """Be as another configuration wants it, and read all certificates anew."""
        self._keyring.replace(config.tls)
        self._auth = config.auth
        self.antechamber.timeout_s = config.limits.tls_handshake_timeout_s
        if self._reception is not None:
            self.serve(self._reception)

    def spare_memory(self) -> None:
        """Have asyncio hold less for each connection with TLS; for a process that is ours alone."""
        SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_READ_BYTES_MAX)

    def stop(self) -> None:
        """Look after nothing any more; harmless when it is stopped."""
        self._keyring.stop()
        self.antechamber.stop()


def _namer(auth: AuthConfig) -> Callable[[Certificate], str | None]:
    return lambda certificate: user_name_of(
        certificate, auth.cert_login_from, auth.cert_login_san_index
    )
