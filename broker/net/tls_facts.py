"""What was agreed on in a TLS handshake, by the names that RabbitMQ has for it. Layer: net."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from broker.protocol.link import PeerCertificate, TLSFacts
from broker.tls.certificate import Certificate, CertificateError, parse_certificate
from broker.tls.names import distinguished_name, validity_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["suite_facts", "tls_facts_of"]

TLS13: Final = "TLS_"
_EXCHANGES: Final = re.compile(r"(ECDHE|DHE|ECDH|DH)-(ECDSA|RSA|DSS|PSK)-")
_CIPHER: Final = re.compile(r"(AES|ARIA|CAMELLIA)_?(\d+)(?:[-_](GCM|CCM8|CCM_8|CCM))?")
_HASH: Final = re.compile(r"[-_](SHA\d*)$")


def tls_facts_of(
    connection: ssl.SSLObject, user_name_of: Callable[[Certificate], str | None]
) -> TLSFacts:
    """Tell what a connection runs with, and who the client is as far as TLS has verified that.

    Args:
        connection: its handshake is over.
        user_name_of: whom a certificate stands for.

    """
    suite = connection.cipher()
    exchange, cipher, digest = suite_facts(suite[0] if suite is not None else "")
    return TLSFacts(
        protocol=(connection.version() or "").lower(),
        key_exchange=exchange,
        cipher=cipher,
        hash=digest,
        certificate=_certificate_of(connection, user_name_of),
    )


def _certificate_of(
    connection: ssl.SSLObject, user_name_of: Callable[[Certificate], str | None]
) -> PeerCertificate | None:
    # With another mode nothing was verified, whatever the client has shown.
    if connection.context.verify_mode == ssl.CERT_NONE:
        return None

    der = connection.getpeercert(binary_form=True)
    if der is None:
        return None

    try:
        certificate = parse_certificate(der)
    except CertificateError:
        return None  # OpenSSL takes it; it names nobody, so it lets nobody in.

    return PeerCertificate(
        subject=distinguished_name(certificate.subject),
        issuer=distinguished_name(certificate.issuer),
        validity=validity_text(certificate),
        serial=certificate.serial,
        user_name=user_name_of(certificate),
    )


def suite_facts(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a suite that OpenSSL calls so, by Erlang's names."""
    exchange = "rsa"
    if name.startswith(TLS13):
        exchange = "any"
    else:
        match = _EXCHANGES.match(name)
        if match is not None:
            exchange = f"{match[1]}_{match[2]}".lower()

    if "CHACHA20" in name:
        return exchange, "chacha20_poly1305", "aead"

    found = _CIPHER.search(name)
    if found is None:
        return exchange, name.lower(), ""

    family, bits, mode = found.groups()
    if mode is not None:
        mode = mode.replace("CCM8", "CCM_8").lower()
        return exchange, f"{family.lower()}_{bits}_{mode}", "aead"

    digest = _HASH.search(name)
    return exchange, f"{family.lower()}_{bits}_cbc", digest[1].lower() if digest else ""
