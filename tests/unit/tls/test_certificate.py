"""What is read of certificates, against a library that reads them all, and as RabbitMQ shows it."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from broker.tls.certificate import (
    Certificate,
    CertificateError,
    certificates_in,
    parse_certificate,
)
from broker.tls.names import USER_SOURCES, distinguished_name, user_name_of, validity_text

if TYPE_CHECKING:
    from tests.helpers.certificates import CertificateFiles

Attribute = x509.NameAttribute
UNUSUAL = ObjectIdentifier("1.2.3.4.5")

# What RabbitMQ 3.10 makes of these subjects: rabbit_cert_info:subject/1.
SUBJECTS = [
    pytest.param(
        [
            [Attribute(NameOID.COUNTRY_NAME, "DE")],
            [Attribute(NameOID.ORGANIZATION_NAME, "Hare, Inc.")],
            [Attribute(NameOID.COMMON_NAME, "shop")],
        ],
        r"CN=shop,O=Hare\, Inc.,C=DE",
        "shop",
        id="usual",
    ),
    pytest.param(
        [
            [Attribute(NameOID.COMMON_NAME, ' lead;"<>\\+=#')],
            [Attribute(NameOID.ORGANIZATION_NAME, "#x ")],
        ],
        r"O=\#x\ ,CN=\ lead\;\"\<\>\\\+=#",
        ' lead;"<>\\+=#',
        id="letters-that-have-a-meaning",
    ),
    pytest.param(
        [[Attribute(NameOID.COMMON_NAME, "größe~\x01")], [Attribute(NameOID.LOCALITY_NAME, " ")]],
        r"L=\ ,CN=gr\C3\B6\C3\9Fe\7E\01",
        "größe~\x01",
        id="not-ascii",
    ),
    pytest.param(
        [
            [
                Attribute(NameOID.COMMON_NAME, "a"),
                Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "b"),
            ],
            [Attribute(NameOID.DOMAIN_COMPONENT, "org")],
            [Attribute(NameOID.USER_ID, "u")],
            [Attribute(NameOID.EMAIL_ADDRESS, "a@b")],
        ],
        "EMAILADDRESS=a@b,UID=u,DC=org,CN=a+OU=b",
        "a",
        id="several-in-one",
    ),
    pytest.param(
        [
            [Attribute(NameOID.SURNAME, "s")],
            [Attribute(NameOID.GIVEN_NAME, "g")],
            [Attribute(NameOID.INITIALS, "i")],
            [Attribute(NameOID.TITLE, "t")],
            [Attribute(NameOID.SERIAL_NUMBER, "12")],
            [Attribute(NameOID.PSEUDONYM, "p")],
            [Attribute(NameOID.GENERATION_QUALIFIER, "q")],
            [Attribute(NameOID.STREET_ADDRESS, "st")],
            [Attribute(NameOID.STATE_OR_PROVINCE_NAME, "BY")],
        ],
        "ST=BY,2.5.4.9=st,GENERATIONQUALIFIER=q,PSEUDONYM=p,SERIALNUMBER=12,TITLE=t,INITIALS=i"
        ",GIVENNAME=g,SN=s",
        None,
        id="people",
    ),
    pytest.param(
        [
            [Attribute(UNUSUAL, "ü,x", _ASN1Type.UTF8String)],
            [Attribute(NameOID.POSTAL_CODE, "12345")],
            [Attribute(NameOID.COMMON_NAME, "ü", _ASN1Type.BMPString)],
        ],
        r"CN=\C3\BC,2.5.4.17=12345,1.2.3.4.5=\C3\BC\,x",
        "ü",
        id="no-names-for-them",
    ),
    pytest.param(
        [[Attribute(NameOID.COMMON_NAME, "one")], [Attribute(NameOID.COMMON_NAME, "two")]],
        "CN=two,CN=one",
        "one,two",
        id="two-common-names",
    ),
]


def named(rdns: list[list[x509.NameAttribute[str]]]) -> x509.Name:
    return x509.Name([x509.RelativeDistinguishedName(attributes) for attributes in rdns])


def read(path: str) -> Certificate:
    with open(path, "rb") as file:
        return certificates_in(file.read())[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("rdns", "text", "common_name"), SUBJECTS)
def test_names_are_shown_as_rabbitmq_shows_them(
    certificates: CertificateFiles,
    rdns: list[list[x509.NameAttribute[str]]],
    text: str,
    common_name: str | None,
) -> None:
    certificate = read(certificates.issue_to("subject", named(rdns)).cert)

    assert distinguished_name(certificate.subject) == text
    assert user_name_of(certificate, "distinguished_name") == text
    assert user_name_of(certificate, "common_name") == common_name


ALTERNATIVES: list[x509.GeneralName] = [
    x509.DNSName("a.example.org"),
    x509.RFC822Name("a@example.org"),
    x509.DNSName("b.example.org"),
    x509.UniformResourceIdentifier("spiffe://example.org/shop"),
    x509.IPAddress(ipaddress.ip_address("192.0.2.7")),
    x509.IPAddress(ipaddress.ip_address("2001:db8::7")),
    x509.RegisteredID(UNUSUAL),
]


@pytest.mark.parametrize(
    ("source", "index", "expected"),
    [
        pytest.param("san_dns", 0, "a.example.org", id="dns"),
        pytest.param("san_dns", 1, "b.example.org", id="second-dns"),
        pytest.param("san_dns", 2, None, id="no-third-dns"),
        pytest.param("san_email", 0, "a@example.org", id="email"),
        pytest.param("san_uri", 0, "spiffe://example.org/shop", id="uri"),
        pytest.param("san_ip", 0, "192.0.2.7", id="ip"),
        pytest.param("san_ip", 1, "2001:db8::7", id="second-ip"),
    ],
)
def test_alternative_names_are_users(
    certificates: CertificateFiles, source: str, index: int, expected: str | None
) -> None:
    files = certificates.issue_to("alternatives", named([]), ALTERNATIVES)

    assert user_name_of(read(files.cert), source, index) == expected


@pytest.mark.parametrize("source", USER_SOURCES)
def test_a_certificate_without_names_stands_for_nobody(
    certificates: CertificateFiles, source: str
) -> None:
    assert user_name_of(read(certificates.issue_to("nobody", named([])).cert), source) is None


def test_everything_else_is_as_a_library_reads_it(certificates: CertificateFiles) -> None:
    files = certificates.client
    with open(files.cert, "rb") as file:
        text = file.read()

    theirs = x509.load_pem_x509_certificates(text)
    ours = certificates_in(text)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.serial == other.serial_number
        assert mine.not_before_s == other.not_valid_before_utc.timestamp()
        assert mine.not_after_s == other.not_valid_after_utc.timestamp()


def test_the_validity_is_shown_from_when_to_when(certificates: CertificateFiles) -> None:
    certificate = read(certificates.server.cert)
    begin, end = (
        datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for seconds in (certificate.not_before_s, certificate.not_after_s)
    )
    assert validity_text(certificate) == f"{begin} - {end}"


def test_a_file_without_certificates_has_none() -> None:
    assert certificates_in(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n") == []


@pytest.mark.parametrize(
    "body",
    [pytest.param(b"AAAA", id="no-der"), pytest.param(b"A", id="no-base64")],
)
def test_a_damaged_certificate_is_an_error(body: bytes) -> None:
    text = b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----\n"
    with pytest.raises(CertificateError):
        certificates_in(text)


@given(data=st.data())
def test_damage_anywhere_is_an_error_or_another_certificate(data: st.DataObject) -> None:
    der = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))

    cut = bytes(der[: data.draw(st.integers(0, len(der)))])
    for damaged in (bytes(der), cut):
        with contextlib.suppress(CertificateError):
            certificate = parse_certificate(damaged)
            distinguished_name(certificate.subject)
            validity_text(certificate)


def _sample() -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = named([[Attribute(NameOID.COMMON_NAME, "shop")], [Attribute(UNUSUAL, "ü")]])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now.replace(year=2060))
        .add_extension(x509.SubjectAlternativeName(ALTERNATIVES), critical=False)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(Encoding.DER)


SAMPLE = _sample()
