"""From files to what TLS connections are made with. Layer: tls.

Invariant: a profile either loads as a whole, or says of everything in it what is wrong and under
which key; OpenSSL is never left to ask for a password on a terminal.
"""

from __future__ import annotations

import os
import ssl
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.tls.alerts import AlertingContext
from broker.tls.certificate import Certificate, CertificateError, certificates_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.schema import TLSConfig, TLSCredentials

__all__ = [
    "EXPIRY_WARNING_S",
    "Chain",
    "Profile",
    "TLSProblem",
    "covers",
    "day_text",
    "load_profile",
]

FILE_BYTES_MAX: Final = 1_048_576
"""Of a certificate, key or CA file; a bundle of all public CAs has a quarter of that."""

EXPIRY_WARNING_S: Final = 30 * 86_400.0
"""Before a certificate expires: automatic renewal has had its chance by then."""

VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
OPTIONS: Final = (
    ssl.OP_NO_COMPRESSION
    | ssl.OP_NO_RENEGOTIATION
    | ssl.OP_CIPHER_SERVER_PREFERENCE
    | ssl.OP_SINGLE_DH_USE
    | ssl.OP_SINGLE_ECDH_USE
)
KEY_REASONS: Final = ("", "BAD_DECRYPT", "BAD_PASSWORD_READ", "PEM_LIB")
"""OpenSSL tells of a wrong password as of a file that it cannot read."""

REASONS: Final = {
    "EE_KEY_TOO_SMALL": "its key is too small: RSA needs 2048 bits, or use an elliptic curve",
    "CA_KEY_TOO_SMALL": "the key of its issuer is too small",
    "CA_MD_TOO_WEAK": "it is signed with a digest that is broken: MD5 or SHA-1",
}


class TLSProblem(NamedTuple):
    """Something to mend in a profile.

    Attributes:
        keys: below the profile: ``("cert",)``, ``("sni", "a.example", "key")``.
        message: what is wrong, and what would be right.
        is_warning: it can be used all the same.

    """

    keys: tuple[str, ...]
    message: str
    is_warning: bool = False


class Chain(NamedTuple):
    """A certificate that is shown to clients, and those that vouch for it.

    Attributes:
        server_name: whom it is shown to: who asks for that name; empty for all others.
        path: the file it came from.
        certificates: the first one is the server's own.

    """

    server_name: str
    path: str
    certificates: tuple[Certificate, ...]

    @property
    def expires_s(self) -> int:
        """When the first of them expires, in seconds since 1970."""
        return min(one.not_after_s for one in self.certificates)


class Profile(NamedTuple):
    """What was loaded.

    Attributes:
        context: makes TLS connections; None where there are problems that are no warnings.
        chains: what is shown, the one for everybody first.
        authorities: who may vouch for clients.
        problems: what is to be mended.

    """

    context: ssl.SSLContext | None
    chains: tuple[Chain, ...]
    authorities: tuple[Certificate, ...]
    problems: tuple[TLSProblem, ...]


def load_profile(config: TLSConfig, now_s: float) -> Profile:
    """Read the files of a profile and try them out.

    Args:
        config: as written; paths are absolute, or start where the process is.
        now_s: seconds since 1970.

    """
    return _Loader(config, now_s).load()


class _Loader:
    """Loads one profile."""

    def __init__(self, config: TLSConfig, now_s: float) -> None:
        self._config = config
        self._now_s = now_s
        self._problems: list[TLSProblem] = []

    def load(self) -> Profile:
        config = self._config
        authorities = self._load_authorities()
        chains: list[Chain] = []
        context = self._load_credentials(config.credentials, (), chains)
        by_name: dict[str, ssl.SSLContext] = {}
        for name, credentials in config.sni:
            other = self._load_credentials(credentials, ("sni", name), chains)
            if other is not None:
                by_name[name] = other

        is_sound = all(one.is_warning for one in self._problems)
        if context is not None and by_name:
            context.sni_callback = _chooser(by_name)

        return Profile(
            context if is_sound else None, tuple(chains), authorities, tuple(self._problems)
        )

    def _complain(self, *keys: str, message: str) -> None:
        self._problems.append(TLSProblem(keys, message))

    def _warn(self, *keys: str, message: str) -> None:
        self._problems.append(TLSProblem(keys, message, is_warning=True))

    def _read(self, path: str, *keys: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                text = file.read(FILE_BYTES_MAX + 1)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            self._complain(*keys, message=f"{path!r} cannot be read: {reason.lower()}")
            return None

        if len(text) > FILE_BYTES_MAX:
            self._complain(*keys, message=f"{path!r} has more than {FILE_BYTES_MAX} bytes")
            return None

        return text

    # -- certificates

    def _certificates(self, path: str, *keys: str) -> tuple[Certificate, ...]:
        text = self._read(path, *keys)
        if text is None:
            return ()

        try:
            found = certificates_in(text)
        except CertificateError as problem:
            self._complain(*keys, message=f"{path!r}: {problem}")
            return ()

        if not found:
            hint = ""
            if b"PRIVATE KEY-----" in text:
                hint = " but a private key - were cert and key interchanged?"

            self._complain(*keys, message=f"{path!r} holds no certificate in PEM{hint}")

        for one in found:
            self._judge_age(one, path, keys)

        return tuple(found)

    def _judge_age(self, certificate: Certificate, path: str, keys: tuple[str, ...]) -> None:
        left_s = certificate.not_after_s - self._now_s
        if left_s <= 0:
            self._warn(*keys, message=f"{path!r} expired on {day_text(certificate.not_after_s)}")
        elif left_s < EXPIRY_WARNING_S:
            day = day_text(certificate.not_after_s)
            self._warn(*keys, message=f"{path!r} expires on {day}, in {left_s / 86_400:.0f} days")

        if certificate.not_before_s > self._now_s:
            day = day_text(certificate.not_before_s)
            self._warn(*keys, message=f"{path!r} is not valid before {day}")

    def _load_authorities(self) -> tuple[Certificate, ...]:
        config = self._config
        if config.ca is None:
            if config.verify != "none":
                self._complain(
                    "verify",
                    message="there is no ca to verify the certificates of clients with - add"
                    " ca: FILE",
                )

            return ()

        if config.verify == "none":
            self._warn("ca", message="it is not used, since verify is none")

        return self._certificates(config.ca, "ca")

    # -- keys

    def _load_credentials(
        self, credentials: TLSCredentials, keys: tuple[str, ...], chains: list[Chain]
    ) -> ssl.SSLContext | None:
        path = credentials.cert
        certificates = self._certificates(path, *keys, "cert")
        has_key = self._check_key(credentials, keys)
        if certificates:
            name = keys[-1] if keys else ""
            chains.append(Chain(name, path, certificates))
            if name and not covers(certificates[0], name):
                self._warn(*keys, "cert", message=f"{path!r} is no certificate for {name!r}")

        context = self._new_context(is_first=not keys)
        if not certificates or not has_key or context is None:
            return None

        try:
            context.load_cert_chain(path, credentials.key, password=_password_of(credentials))
        except (OSError, ValueError) as problem:
            self._explain(problem, credentials, keys)
            return None

        return context

    def _check_key(self, credentials: TLSCredentials, keys: tuple[str, ...]) -> bool:
        path = credentials.key
        text = self._read(path, *keys, "key")
        if text is None:
            return False

        if b"PRIVATE KEY-----" not in text:
            hint = ""
            if b"BEGIN CERTIFICATE" in text:
                hint = " but a certificate - were cert and key interchanged?"

            self._complain(*keys, "key", message=f"{path!r} holds no private key in PEM{hint}")
            return False

        if b"ENCRYPTED" in text and credentials.key_password is None:
            self._complain(
                *keys,
                "key",
                message=f"{path!r} is encrypted - add key_password or key_password_file",
            )
            return False

        if os.name == "posix" and os.stat(path).st_mode & 0o004:
            self._warn(
                *keys, "key", message=f"every user of this machine can read {path!r}: chmod o-r"
            )

        return True

    def _explain(
        self, problem: Exception, credentials: TLSCredentials, keys: tuple[str, ...]
    ) -> None:
        reason = getattr(problem, "reason", None) or ""
        if reason == "KEY_VALUES_MISMATCH":
            self._complain(
                *keys,
                "key",
                message=f"{credentials.key!r} is not the key of the certificate in"
                f" {credentials.cert!r}",
            )
        elif reason in KEY_REASONS:
            # The certificate was read by us already: it is the key that OpenSSL cannot read.
            if credentials.key_password is not None:
                message = f"the password does not open {credentials.key!r}"
                self._complain(*keys, "key_password", message=message)
            else:
                self._complain(*keys, "key", message=f"{credentials.key!r} is damaged")
        else:
            why = REASONS.get(reason) or f"OpenSSL refuses it ({reason.lower()})"
            self._complain(*keys, "cert", message=f"{credentials.cert!r} cannot be used: {why}")

    # -- what is agreed on

    def _new_context(self, *, is_first: bool) -> ssl.SSLContext | None:
        config = self._config
        context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= OPTIONS
        context.minimum_version = VERSIONS[config.min_version]
        if config.ciphers is not None:
            try:
                context.set_ciphers(config.ciphers)
            except ssl.SSLError:
                if is_first:
                    self._complain(
                        "ciphers",
                        message="OpenSSL knows none of them - its names are those of"
                        " `openssl ciphers -v`",
                    )

                return None

        context.verify_mode = VERIFY_MODES[config.verify]
        if config.verify != "none":
            # A session that is resumed is not verified again.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
            if not self._trust(context, is_first=is_first):
                return None

        return context

    def _trust(self, context: ssl.SSLContext, *, is_first: bool) -> bool:
        config = self._config
        for key, path in (("ca", config.ca), ("crl", config.crl)):
            if path is None:
                continue

            try:
                context.load_verify_locations(path)
            except (OSError, ValueError) as problem:
                # What cannot be read as certificates has been told of.
                if is_first and (key == "crl" or isinstance(problem, ssl.SSLError)):
                    self._complain(key, message=f"{path!r} cannot be used: {_reason_of(problem)}")

                return False

        if config.crl is not None:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

        return True


def _reason_of(problem: Exception) -> str:
    reason = getattr(problem, "reason", None) or getattr(problem, "strerror", None)
    return str(reason or problem).lower()


def _password_of(credentials: TLSCredentials) -> Callable[[], str]:
    """Always something to call: where there is nothing, OpenSSL asks on the terminal."""
    secret = credentials.key_password
    text = "" if secret is None else secret.reveal()
    return lambda: text


def _chooser(
    by_name: dict[str, ssl.SSLContext],
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    """Choose by the name that the client wants to talk to; the usual one for all others."""

    def choose(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if not name:
            return

        wanted = name.lower().rstrip(".")
        other = by_name.get(wanted) or by_name.get(f"*.{wanted.partition('.')[2]}")
        if other is not None:
            connection.context = other

    return choose


def covers(certificate: Certificate, name: str) -> bool:
    """Whether clients that ask for a name, or all that a wildcard means, take a certificate."""
    known = {text.lower() for kind, text in certificate.alternative_names if kind == "dns"}
    return name in known or f"*.{name.partition('.')[2]}" in known


def day_text(seconds: float) -> str:
    """The day, and the time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
