"""Certificates for tests, made once for all: an authority, servers, clients and impostors."""

from __future__ import annotations

import datetime
import ssl
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CertificateFiles", "Files"]

YEAR = datetime.timedelta(days=365)
PASSWORD = "open sesame"


class Files(NamedTuple):
    """A certificate and its key."""

    cert: str
    key: str


class CertificateFiles:
    """Makes certificates as files, each when it is asked for first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)

    @cached_property
    def authority(self) -> trustme.CA:
        return trustme.CA(organization_name="Hares")

    @cached_property
    def stranger(self) -> trustme.CA:
        """An authority that nobody here trusts."""
        return trustme.CA(organization_name="Foxes")

    @cached_property
    def ca(self) -> str:
        return self._write("ca.crt", self.authority.cert_pem.bytes())

    @cached_property
    def other_ca(self) -> str:
        return self._write("other-ca.crt", self.stranger.cert_pem.bytes())

    @cached_property
    def server(self) -> Files:
        return self.issue("server", "localhost", "127.0.0.1", "::1")

    @cached_property
    def second(self) -> Files:
        """Another server, as after a renewal or for another name."""
        return self.issue("second", "second.example.org", "localhost", "127.0.0.1")

    @cached_property
    def wildcard(self) -> Files:
        return self.issue("wildcard", "*.example.org")

    @cached_property
    def client(self) -> Files:
        return self.issue("client", "client.example.org", common_name="shop", organization="Hares")

    @cached_property
    def expired(self) -> Files:
        """A client or server whose time is over."""
        return self.issue("expired", "localhost", common_name="shop", not_after=self.now - YEAR)

    @cached_property
    def foreign(self) -> Files:
        """A client whom an unknown authority vouches for."""
        return self.issue("foreign", "localhost", common_name="shop", by=self.stranger)

    @cached_property
    def self_signed(self) -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop")])
        built = self._builder(name, name, key).sign(key, hashes.SHA256())
        return self._write_both("self-signed", built, key)

    def issue(
        self,
        stem: str,
        *identities: str,
        common_name: str | None = None,
        organization: str | None = None,
        not_after: datetime.datetime | None = None,
        by: trustme.CA | None = None,
    ) -> Files:
        """Make a certificate for these host names and addresses."""
        made = (by or self.authority).issue_cert(
            *identities,
            common_name=common_name,
            organization_name=organization,
            not_before=self.now - 2 * YEAR,
            not_after=not_after or self.now + YEAR,
        )
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        return Files(
            self._write(f"{stem}.crt", chain),
            self._write(f"{stem}.key", made.private_key_pem.bytes()),
        )

    def issue_to(
        self, stem: str, subject: x509.Name, names: list[x509.GeneralName] | None = None
    ) -> Files:
        """Make a certificate for any subject and alternative names."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self.authority.cert_pem.bytes())
        builder = self._builder(subject, authority.subject, key)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)

        return self._write_both(stem, builder.sign(self._authority_key, hashes.SHA256()), key)

    def revoke(self, stem: str, files: Files) -> str:
        """Make a list that revokes one certificate."""
        authority = x509.load_pem_x509_certificate(self.authority.cert_pem.bytes())
        with open(files.cert, "rb") as file:
            revoked = x509.load_pem_x509_certificate(file.read())

        entry = (
            x509.RevokedCertificateBuilder()
            .serial_number(revoked.serial_number)
            .revocation_date(self.now - YEAR)
            .build()
        )
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(self.now - YEAR)
            .next_update(self.now + YEAR)
            .add_revoked_certificate(entry)
            .sign(self._authority_key, hashes.SHA256())
        )
        return self._write(f"{stem}.crl", made.public_bytes(serialization.Encoding.PEM))

    def encrypt(self, stem: str, files: Files) -> Files:
        """The same with a key that PASSWORD opens."""
        with open(files.key, "rb") as file:
            key = serialization.load_pem_private_key(file.read(), None)

        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
        return Files(files.cert, self._write(f"{stem}.key", text))

    def context(self, files: Files | None = None, *, ca: str | None = None) -> ssl.SSLContext:
        """What a client connects with.

        Args:
            files: what it shows, if anything.
            ca: whom it trusts; the authority unless another is named.

        """
        context = ssl.create_default_context(cafile=ca or self.ca)
        if files is not None:
            context.load_cert_chain(files.cert, files.key)

        return context

    @cached_property
    def _authority_key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - YEAR)
            .not_valid_after(self.now + YEAR)
        )

    def _write_both(
        self, stem: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> Files:
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        shown = certificate.public_bytes(serialization.Encoding.PEM)
        return Files(self._write(f"{stem}.crt", shown), self._write(f"{stem}.key", secret))

    def _write(self, name: str, text: bytes) -> str:
        path = self.directory / name
        path.write_bytes(text)
        path.chmod(0o600)
        return str(path)
