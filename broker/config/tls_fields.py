"""The keys of TLS and of proxies that tell who the client is (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING, Final

from broker.config.records import Key, ListOf, NamedMap, Record, Values
from broker.config.schema import DEFAULT_CONFIG, AuthConfig, Secret, TLSConfig, TLSCredentials
from broker.config.shapes import Choice, Integer, Name, Nullable, SecretText, Text
from broker.config.tree import Scalar
from broker.tls.names import USER_SOURCES

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.shapes import JSON
    from broker.config.tree import Node, Report

__all__ = ["AUTH_FROM", "AUTH_SAN_INDEX", "LISTENER_PROXY", "TLS", "tls_name_key"]

_OLD_VERSIONS: Final = ("1.0", "1.1", "1", "SSLv3")
_SAN_INDEX_MAX: Final = 999


class _File(Text):
    """The path of a file that has to be there."""

    def __init__(self) -> None:
        super().__init__("the path of a file")

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if not node.text or "\0" in node.text:
            return self.refuse(node, at, report)

        return os.path.expanduser(node.text)


class _Version(Choice):
    """A version of TLS; YAML takes 1.2 without quotes for a number, and people write it so."""

    def __init__(self) -> None:
        super().__init__("1.2", "1.3")

    def read(self, node: Node, at: Keys, report: Report) -> str:
        if isinstance(node, Scalar) and isinstance(node.value, float):
            return self.accept(node, at, report)

        return super().read(node, at, report)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if node.text in _OLD_VERSIONS:
            return self.refuse(node, at, report, "what is older has been broken")

        return super().accept(node, at, report)

    def json_schema(self) -> JSON:
        return {"anyOf": [{"enum": [*self.options, *map(float, self.options)]}]}


class _Network(Text):
    """An address, or all that begin alike."""

    def __init__(self) -> None:
        super().__init__("a network as 10.0.0.0/8, or an address", bytes_max=64)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        try:
            return str(ipaddress.ip_network(node.text))
        except ValueError:
            pass

        try:
            meant = ipaddress.ip_network(node.text, strict=False)
        except ValueError:
            return self.refuse(node, at, report)

        return self.refuse(node, at, report, f"the network of that address is {meant}")


def _complain_about_server_name(name: str) -> str:
    labels = name.removeprefix("*.").split(".")
    is_right = all(label and label.replace("-", "").replace("_", "").isalnum() for label in labels)
    if not is_right or not name.isascii():
        return "expected a host name as shop.example.org, or *.example.org for all below"

    if name != name.lower():
        return "write it in lower case: clients ask for it so"

    return ""


# -- TLS

CERT: Final = Key(
    "cert",
    _File(),
    "",
    "The certificate that is shown to clients, and after it those that vouch for it, in PEM.",
    is_required=True,
    written="/etc/leveret/tls.crt",
)
KEY: Final = Key(
    "key", _File(), "", "Its private key, in PEM.", is_required=True, written="/etc/leveret/tls.key"
)
KEY_PASSWORD: Final = Key(
    "key_password",
    Nullable(SecretText("a password as a text"), "none"),
    None,
    "Opens the key where it is encrypted; best ${NAME}, from the environment.",
    written="null",
)
KEY_PASSWORD_FILE: Final = Key(
    "key_password_file",
    Nullable(_File(), "none"),
    None,
    "A file that holds this password instead.",
    written="null",
)
CA: Final = Key(
    "ca",
    Nullable(_File(), "none"),
    None,
    "Certificates of those who may vouch for clients, in PEM.",
    written="null",
)
CRL: Final = Key(
    "crl",
    Nullable(_File(), "none"),
    None,
    "Lists of certificates that are revoked, one for each of ca, in PEM.",
    written="null",
)
VERIFY: Final = Key(
    "verify",
    Choice("none", "optional", "required"),
    "none",
    "Whether clients show a certificate: one that is shown has to be right, and with required one"
    " has to be shown.",
    written="none",
)
MIN_VERSION: Final = Key(
    "min_version", _Version(), "1.2", "Older versions of TLS are refused.", written="'1.2'"
)
CIPHERS: Final = Key(
    "ciphers",
    Nullable(Text("names of ciphers as OpenSSL has them", bytes_max=2000), "what is safe today"),
    None,
    "For TLS 1.2, as OpenSSL has their names; TLS 1.3 has none that are not safe.",
    written="null",
)

_MISNOMERS: Final = {
    "certfile": "write cert",
    "certificate": "write cert",
    "tls_cert": "write cert",
    "keyfile": "write key",
    "private_key": "write key",
    "tls_key": "write key",
    "cacertfile": "write ca",
    "ca_file": "write ca",
    "password": "write key_password",
    "fail_if_no_peer_cert": "write verify: required",
    "versions": "write min_version",
    "honor_cipher_order": "the order of the server always counts",
    "client_renegotiation": "nobody can renegotiate",
}


def _credentials(values: Values) -> TLSCredentials:
    password = values[KEY_PASSWORD]
    return TLSCredentials(
        values[CERT],
        values[KEY],
        None if password is None else Secret(password),
        values[KEY_PASSWORD_FILE],
    )


_CREDENTIAL_KEYS: Final = (CERT, KEY, KEY_PASSWORD, KEY_PASSWORD_FILE)
SNI: Final = Key(
    "sni",
    NamedMap(
        "host names to certificates",
        Record(
            "a certificate",
            _CREDENTIAL_KEYS,
            lambda v: (v.name, _credentials(v)),
            _MISNOMERS,
        ),
        _complain_about_server_name,
    ),
    (),
    "Other certificates for those who ask for these names; *.example.org is every name right below"
    " example.org.",
    example="'*.example.org': {cert: /etc/leveret/example.crt, key: /etc/leveret/example.key}",
)


def _tls(values: Values) -> TLSConfig:
    return TLSConfig(
        values.name,
        _credentials(values),
        values[CA],
        values[CRL],
        values[VERIFY],
        values[MIN_VERSION],
        values[CIPHERS],
        values[SNI],
    )


TLS: Final = Key(
    "tls",
    NamedMap(
        "names to certificates and what belongs to them",
        Record(
            "tls",
            (*_CREDENTIAL_KEYS, CA, CRL, VERIFY, MIN_VERSION, CIPHERS, SNI),
            _tls,
            _MISNOMERS,
        ),
    ),
    DEFAULT_CONFIG.tls,
    "What listeners make TLS connections with, by names of your choice. Relative paths start at"
    " this file. The files are read anew when they change; connections stay.",
)


def tls_name_key(default: str | None, doc: str) -> Key[str | None]:
    """The key of a listener that names one of these."""
    shape = Nullable(Name("a name that stands under tls"), "no TLS")
    return Key("tls", shape, default, doc, written=default or "null")


# -- who the client is

TRUSTED: Final = Key(
    "trusted",
    ListOf("networks", _Network(), minimum=1),
    (),
    "Addresses of the proxies.",
    is_required=True,
)
LISTENER_PROXY: Final = Key(
    "proxy_protocol",
    Nullable(Record("proxy_protocol", (TRUSTED,), lambda v: v[TRUSTED]), "none"),
    None,
    "Proxies whose connections begin with a PROXY header (version 1 or 2) that tells who the client"
    " is: {trusted: [10.0.0.0/8]}. From elsewhere such a header is refused.",
    written="null",
)

_AUTH: Final = AuthConfig()
AUTH_FROM: Final = Key(
    "cert_login_from",
    Choice(*USER_SOURCES),
    _AUTH.cert_login_from,
    "What of a client's certificate is the name of its user, where it logs in with EXTERNAL:"
    " distinguished_name as CN=shop,O=Example, common_name, or an alternative name: san_dns,"
    " san_email, san_uri, san_ip.",
    written="distinguished_name",
)
AUTH_SAN_INDEX: Final = Key(
    "cert_login_san_index",
    Integer(0, _SAN_INDEX_MAX),
    _AUTH.cert_login_san_index,
    "Which one of several alternative names; 0 is the first.",
    written="0",
)
