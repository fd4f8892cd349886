"""TLS as clients meet it: who gets in, who does not, and what the log says of them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.embedded import Broker
from broker.net.keyring import LOOK_INTERVAL_S
from broker.protocol.connection import Connection
from tests.helpers.log_lines import LogLines, recorded
from tests.helpers.raw_client import PROTOCOL_HEADER, RawClient, commands
from tests.helpers.untyped import pamqp, pika

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.transport_security import TransportSecurity
    from tests.helpers.certificates import CertificateFiles, Files

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

OPENSSL = shutil.which("openssl")
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see"
    " the broker logfile."
)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> LogLines:
    return recorded(monkeypatch)


def settings(ours: CertificateFiles, **profile: object) -> dict[str, Any]:
    """A broker with TLS."""
    keys: dict[str, object] = {"cert": ours.server.cert, "key": ours.server.key, **profile}
    return {"listeners": {"amqps": [{}]}, "tls": {"default": keys}}


def mutual(ours: CertificateFiles, source: str = "common_name", *users: str) -> dict[str, Any]:
    """A broker that logs in whoever shows a certificate."""
    config = settings(ours, ca=ours.ca, verify="optional")
    config["auth"] = {"mechanisms": ["EXTERNAL", "PLAIN"], "cert_login_from": source}
    config["users"] = [{"name": "guest", "password": "guest"}, *({"name": one} for one in users)]
    return config


def tls_port(broker: Broker) -> int:
    return next(one.port for one in broker._running.addresses if one.is_tls)


def security_of(broker: Broker) -> TransportSecurity:
    security = broker._running.security
    assert security is not None
    return security


async def connect(
    broker: Broker, context: ssl.SSLContext, name: str = "localhost"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", tls_port(broker), ssl=context, server_hostname=name
    )


async def open_raw(broker: Broker, context: ssl.SSLContext) -> RawClient:
    return RawClient(*await connect(broker, context))


async def greet(broker: Broker, context: ssl.SSLContext) -> None:
    """With TLS 1.3 a client learns of its refusal when it reads for the first time."""
    client = await open_raw(broker, context)
    client.writer.write(PROTOCOL_HEADER)
    await client.read()


def serial_of(connection: asyncio.StreamWriter) -> int:
    shown = connection.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown).serial_number


def serial_in(files: Files) -> int:
    with open(files.cert, "rb") as file:
        return x509.load_pem_x509_certificate(file.read()).serial_number


# -- those who get in


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_aio_pika_sends_and_gets_large_messages(
    certificates: CertificateFiles, version: str
) -> None:
    context = certificates.context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    async with Broker(settings(certificates)) as broker:
        connection = await aio_pika.connect(broker.tls_url, ssl_context=context)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue("large")
            body = bytes(range(256)) * 8_000
            await channel.default_exchange.publish(aio_pika.Message(body), "large")
            got = await queue.get()
            assert got.body == body
            [peer] = [one.peer for one in broker.node.connections if isinstance(one, Connection)]
            assert peer.tls is not None
            assert peer.tls.protocol == version.lower().replace("_", ".")


def test_pika_logs_in_with_a_certificate(certificates: CertificateFiles) -> None:
    config = mutual(certificates, "common_name", "shop")
    with Broker.in_thread(config) as broker:
        options = pika.SSLOptions(certificates.context(certificates.client), "localhost")
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            tls_port(broker),
            ssl_options=options,
            credentials=pika.credentials.ExternalCredentials(),
        )
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hare")
        assert channel.basic_get("q", auto_ack=True)[2] == b"hare"
        connection.close()


SOURCES = [
    ("distinguished_name", "CN=shop,OU=clients,O=Hares"),
    ("common_name", "shop"),
    ("san_dns", "shop.example.org"),
    ("san_email", "shop@example.org"),
    ("san_uri", "spiffe://example.org/shop"),
]


@pytest.mark.parametrize(("source", "user"), SOURCES, ids=[source for source, _ in SOURCES])
async def test_external_logs_in_whom_the_certificate_names(
    certificates: CertificateFiles, source: str, user: str
) -> None:
    """Rules C-11, C-22."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hares"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "clients"),
            x509.NameAttribute(NameOID.COMMON_NAME, "shop"),
        ]
    )
    names: list[x509.GeneralName] = [
        x509.DNSName("shop.example.org"),
        x509.RFC822Name("shop@example.org"),
        x509.UniformResourceIdentifier("spiffe://example.org/shop"),
    ]
    files = certificates.issue_to("sources", subject, names)
    async with Broker(mutual(certificates, source, user)) as broker:
        client = await open_raw(broker, certificates.context(files))
        client.writer.write(PROTOCOL_HEADER)
        start = await client.read()
        assert start.mechanisms == "EXTERNAL PLAIN"
        tune = await client.ask(0, commands.Connection.StartOk(mechanism="EXTERNAL", response=""))
        assert tune.name == "Connection.Tune"
        [connection] = [one for one in broker.node.connections if isinstance(one, Connection)]
        assert connection.user is not None
        assert connection.user.name == user
        client.writer.close()


# -- those who do not


IMPOSTORS = [
    pytest.param("foreign", "unable to get local issuer certificate", id="foreign"),
    pytest.param("expired", "certificate has expired", id="expired"),
    pytest.param("self_signed", "self-signed certificate", id="self-signed"),
    pytest.param(None, "the client has shown no certificate", id="none"),
]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize(("which", "reason"), IMPOSTORS)
async def test_without_the_right_certificate_nobody_gets_in(
    certificates: CertificateFiles, log: LogLines, which: str | None, reason: str, version: str
) -> None:
    files = None if which is None else getattr(certificates, which)
    context = certificates.context(files)
    context.maximum_version = ssl.TLSVersion[version]
    async with Broker(settings(certificates, ca=certificates.ca, verify="required")) as broker:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            await greet(broker, context)

        told = await log.wait_for("connection.refused")
        assert reason in str(told["reason"])
        assert not broker.node.connections


async def test_a_revoked_certificate_is_none(certificates: CertificateFiles, log: LogLines) -> None:
    crl = certificates.revoke("revoked", certificates.client)
    config = settings(certificates, ca=certificates.ca, crl=crl, verify="required")
    async with Broker(config) as broker:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert certificate revoked"):
            await greet(broker, certificates.context(certificates.client))

        assert "certificate revoked" in str((await log.wait_for("connection.refused"))["reason"])


async def test_a_client_that_trusts_others_says_so(
    certificates: CertificateFiles, log: LogLines
) -> None:
    def try_it(port: int) -> None:
        context = certificates.context(ca=certificates.other_ca)
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            raise AssertionError("it trusts nobody here")

    async with Broker(settings(certificates)) as broker:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(try_it, tls_port(broker))

        told = await log.wait_for("connection.refused")
        assert told["reason"] == "the client broke the handshake off: unknown ca"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
async def test_old_versions_are_refused(
    certificates: CertificateFiles, log: LogLines, version: str
) -> None:
    context = certificates.context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion[version]
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with Broker(settings(certificates)) as broker:
        with pytest.raises(OSError, match=r"(?i)alert protocol version"):
            await connect(broker, context)

        told = await log.wait_for("connection.refused")
        assert told["reason"] == "the client speaks no version of TLS that is allowed here"


async def test_no_cipher_in_common_is_told(certificates: CertificateFiles, log: LogLines) -> None:
    context = certificates.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    async with Broker(settings(certificates, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")) as broker:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert handshake failure"):
            await connect(broker, context)

        told = await log.wait_for("connection.refused")
        assert told["reason"] == "the client has no cipher that is allowed here"


PLAIN = [
    pytest.param(PROTOCOL_HEADER, "AMQP 0-9-1 on a port with TLS", id="amqp"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", "an HTTP request on a port with TLS", id="http"),
    pytest.param(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n", "a PROXY header on a port", id="proxy"),
    pytest.param(b"\xff" * 64, "no AMQP 0-9-1: b'\\xff\\xff", id="bytes"),
]


@pytest.mark.parametrize(("data", "reason"), PLAIN)
async def test_plain_octets_on_the_tls_port_are_told_for_what_they_are(
    certificates: CertificateFiles, log: LogLines, data: bytes, reason: str
) -> None:
    async with Broker(settings(certificates)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", tls_port(broker))
        writer.write(data)
        assert await reader.read() == b""
        told = await log.wait_for("connection.refused")
        assert str(told["reason"]).startswith(reason)
        writer.close()


async def test_tls_on_the_plain_port_is_told(certificates: CertificateFiles, log: LogLines) -> None:
    """Rule C-05."""
    async with Broker(settings(certificates)) as broker:
        with pytest.raises(OSError, match=r"WRONG_VERSION_NUMBER|RECORD_LAYER"):
            await asyncio.open_connection(
                broker.host, broker.port, ssl=certificates.context(), server_hostname="localhost"
            )

        told = await log.wait_for("connection.refused")
        assert str(told["reason"]).startswith("a TLS handshake, on a port without TLS")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", id="half-a-hello"),
    ],
)
async def test_a_handshake_that_takes_too_long_is_over(
    certificates: CertificateFiles, log: LogLines, sent: bytes
) -> None:
    config = settings(certificates)
    config["limits"] = {"tls_handshake_timeout": "100ms"}
    async with Broker(config) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", tls_port(broker))
        writer.write(sent)
        assert await reader.read() == b""
        told = await log.wait_for("connection.refused")
        assert told["reason"] == "no TLS handshake within 0.1 s"
        assert len(security_of(broker).antechamber) == 0
        writer.close()


async def test_whoever_waits_longest_gives_way(
    certificates: CertificateFiles, log: LogLines
) -> None:
    async with Broker(settings(certificates)) as broker:
        antechamber = security_of(broker).antechamber
        antechamber._waiting_max = 3
        idlers = [await asyncio.open_connection("127.0.0.1", tls_port(broker)) for _ in range(5)]
        for reader, _ in idlers[:2]:
            assert await reader.read() == b""

        assert "this one does longest" in str((await log.wait_for("connection.refused"))["reason"])
        # Who means it gets in all the same.
        client = await open_raw(broker, certificates.context())
        await client.open()
        assert len(antechamber) == 2
        for _, writer in [*idlers, (client.reader, client.writer)]:
            writer.close()


async def test_who_comes_too_fast_is_closed_before_the_handshake(
    certificates: CertificateFiles, log: LogLines
) -> None:
    config = settings(certificates)
    config["limits"] = {"connection_rate": 1}
    async with Broker(config) as broker:
        told: list[bytes | None] = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection("127.0.0.1", tls_port(broker))
            writer.write(PROTOCOL_HEADER)
            with contextlib.suppress(ConnectionResetError):
                told.append(await reader.read())

            writer.close()

        reasons = [str(one["reason"]) for one in log.of("connection.refused")]
        assert any("limits.connection_rate" in one for one in reasons)
        assert sum(one.startswith("AMQP 0-9-1 on") for one in reasons) < 12


async def test_of_handshakes_that_have_begun_fewer_may_wait(
    certificates: CertificateFiles, log: LogLines
) -> None:
    async with Broker(settings(certificates)) as broker:
        antechamber = security_of(broker).antechamber
        antechamber._handshakes_max = 2
        begun = [await asyncio.open_connection("127.0.0.1", tls_port(broker)) for _ in range(4)]
        for _, writer in begun:
            writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")

        for reader, _ in begun[:2]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

        assert "more than 2 wait" in str((await log.wait_for("connection.refused"))["reason"])
        client = await open_raw(broker, certificates.context())
        await client.open()
        for _, writer in [*begun, (client.reader, client.writer)]:
            writer.close()


async def test_a_flood_of_refusals_does_not_flood_the_log(
    certificates: CertificateFiles, log: LogLines
) -> None:
    async with Broker(settings(certificates)) as broker:
        for _ in range(40):
            reader, writer = await asyncio.open_connection("127.0.0.1", tls_port(broker))
            writer.write(PROTOCOL_HEADER)
            await reader.read()
            writer.close()

        assert 10 <= len(log.of("connection.refused")) <= 20


# -- EXTERNAL where it is none


async def test_external_is_not_offered_without_a_certificate(
    certificates: CertificateFiles, log: LogLines
) -> None:
    """Rules C-11, C-22, C-30: who asks for it all the same is refused like a wrong password."""
    async with Broker(mutual(certificates, "common_name", "shop")) as broker:
        client = await open_raw(broker, certificates.context())
        client.writer.write(PROTOCOL_HEADER)
        assert (await client.read()).mechanisms == "PLAIN"
        close = await client.ask(
            0,
            commands.Connection.StartOk(
                client_properties={"capabilities": {"authentication_failure_close": True}},
                mechanism="EXTERNAL",
                response="",
            ),
        )
        assert (close.reply_code, close.reply_text) == (403, REFUSED)
        told = await log.wait_for("login.refused")
        assert told["reason"] == "the client has shown no certificate"
        client.writer.close()


@pytest.mark.parametrize(
    ("source", "user", "reason"),
    [
        pytest.param("common_name", "shop", "there is no such user", id="no-such-user"),
        pytest.param("san_uri", "", "has no name for a user", id="no-such-name"),
    ],
)
async def test_a_certificate_of_nobody_is_refused(
    certificates: CertificateFiles, log: LogLines, source: str, user: str, reason: str
) -> None:
    """Rules C-22, C-30, C-32."""
    async with Broker(mutual(certificates, source)) as broker:
        client = await open_raw(broker, certificates.context(certificates.client))
        client.writer.write(PROTOCOL_HEADER)
        await client.read()
        close = await client.ask(
            0,
            commands.Connection.StartOk(
                client_properties={"capabilities": {"authentication_failure_close": True}},
                mechanism="EXTERNAL",
                response="",
            ),
        )
        assert (close.reply_code, close.reply_text) == (403, REFUSED)
        told = await log.wait_for("login.refused")
        assert told["user"] == user
        assert reason in str(told["reason"])
        client.writer.close()


async def test_external_is_nothing_on_a_plain_port(
    certificates: CertificateFiles, log: LogLines
) -> None:
    """Rule C-33."""
    async with Broker(mutual(certificates, "common_name", "shop")) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        client = RawClient(reader, writer)
        writer.write(PROTOCOL_HEADER)
        assert (await client.read()).mechanisms == "PLAIN"
        client.send(0, commands.Connection.StartOk(mechanism="EXTERNAL", response=""))
        told = await log.wait_for("connection.dropped")
        assert told["reason"] == "SASL mechanism 'EXTERNAL' is not on offer"
        writer.close()


# -- which certificate


NAMES = [
    pytest.param("localhost", "server", id="the-usual-one"),
    pytest.param("shop.example.org", "wildcard", id="wildcard"),
    pytest.param("SHOP.example.ORG", "wildcard", id="whatever-case"),
    pytest.param("second.example.org", "second", id="exact-before-wildcard"),
    pytest.param("a.b.example.org", "server", id="one-label-only"),
    pytest.param("other.test", "server", id="unknown"),
    pytest.param("127.0.0.1", "server", id="no-name"),
]


@pytest.mark.parametrize(("name", "which"), NAMES)
async def test_the_name_decides_which_certificate_is_shown(
    certificates: CertificateFiles, name: str, which: str
) -> None:
    sni = {
        "*.example.org": certificates.wildcard._asdict(),
        "second.example.org": certificates.second._asdict(),
    }
    context = certificates.context()
    context.check_hostname = False
    async with Broker(settings(certificates, sni=sni)) as broker:
        _, writer = await connect(broker, context, name)
        assert serial_of(writer) == serial_in(getattr(certificates, which))
        writer.close()


# -- files that change


class Changing:
    """A broker whose certificate can be replaced."""

    def __init__(self, directory: Path, certificates: CertificateFiles) -> None:
        self.directory = directory
        self.certificates = certificates
        self.put(certificates.server)
        path = directory / "leveret.yaml"
        path.write_text(
            "version: 1\nlisteners: {amqps: [{}]}\ntls: {default: {cert: a.crt, key: a.key}}\n"
        )
        self.broker = Broker(path)

    def put(self, files: Files) -> None:
        for source, name in zip(files, ("a.crt", "a.key"), strict=True):
            fresh = self.directory / f"{name}.new"
            shutil.copyfile(source, fresh)
            fresh.chmod(0o600)
            fresh.rename(self.directory / name)

    def look(self) -> None:
        """What happens every few seconds; a change is taken when nothing changes any more."""
        for _ in range(2):
            security_of(self.broker)._keyring.look()

    async def serial(self) -> int:
        context = self.certificates.context()
        context.check_hostname = False
        _, writer = await connect(self.broker, context)
        serial = serial_of(writer)
        writer.close()
        return serial


@pytest.fixture
async def changing(
    tmp_path: Path, certificates: CertificateFiles, log: LogLines
) -> AsyncIterator[Changing]:
    made = Changing(tmp_path, certificates)
    async with made.broker:
        yield made


@pytest.mark.parametrize("how", ["look", "hangup"])
async def test_a_new_certificate_is_taken_and_connections_stay(
    changing: Changing, log: LogLines, how: str
) -> None:
    certificates = changing.certificates
    client = await open_raw(changing.broker, certificates.context())
    await client.open()
    changing.put(certificates.second)
    if how == "look":
        changing.look()
    else:
        assert (await changing.broker.reload()).is_applied

    assert await changing.serial() == serial_in(certificates.second)
    [told] = log.of("tls.reloaded")
    assert "second.example.org" in str(told["names"])
    assert (await client.ask(1, commands.Queue.Declare(queue="still"))).queue == "still"
    client.writer.close()


@pytest.mark.parametrize("how", ["look", "hangup"])
async def test_a_bad_certificate_is_refused_and_the_old_one_stays(
    changing: Changing, log: LogLines, how: str
) -> None:
    certificates = changing.certificates
    shutil.copyfile(certificates.second.cert, changing.directory / "a.crt")
    if how == "look":
        for _ in range(3):  # it is told once, however often it is looked at
            changing.look()

        [told] = log.of("tls.refused")
        assert "is not the key of the certificate" in str(told["reason"])
    else:
        outcome = await changing.broker.reload()
        assert not outcome.is_applied
        assert ":3:35: tls.default.key: " in outcome.problems[0]

    assert await changing.serial() == serial_in(certificates.server)
    changing.put(certificates.second)
    changing.look()
    assert await changing.serial() == serial_in(certificates.second)


async def test_half_a_change_is_waited_with(changing: Changing, log: LogLines) -> None:
    certificates = changing.certificates
    keyring = security_of(changing.broker)._keyring
    shutil.copyfile(certificates.second.cert, changing.directory / "a.crt")
    keyring.look()
    changing.put(certificates.second)
    changing.look()
    assert not log.of("tls.refused")
    assert await changing.serial() == serial_in(certificates.second)
    assert LOOK_INTERVAL_S >= 1


# -- proxies


def spoken_by(proxied: str, local: str = "198.51.100.1") -> bytes:
    return f"PROXY TCP4 {proxied} {local} 40000 5671\r\n".encode()


def binary_header(proxied: str) -> bytes:
    body = socket.inet_aton(proxied) + socket.inet_aton("198.51.100.1")
    body += struct.pack("!HH", 40_000, 5671)
    return b"\r\n\r\n\x00\r\nQUIT\n\x21\x11" + struct.pack("!H", len(body)) + body


def behind_proxy(*networks: str) -> dict[str, Any]:
    return {"listeners": {"amqp": [{"proxy_protocol": {"trusted": list(networks)}}]}}


PROXIED = [
    pytest.param(spoken_by("192.0.2.7"), "192.0.2.7:40000 -> 198.51.100.1:5671", id="v1"),
    pytest.param(binary_header("192.0.2.7"), "192.0.2.7:40000 -> 198.51.100.1:5671", id="v2"),
]


@pytest.mark.parametrize(("header", "name"), PROXIED)
async def test_a_trusted_proxy_tells_who_the_client_is(header: bytes, name: str) -> None:
    config = behind_proxy("127.0.0.0/8")
    config["auth"] = {"loopback_only_users": []}
    async with Broker(config) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        # With the first octets of the client in the same packet.
        writer.write(header + PROTOCOL_HEADER)
        client = RawClient(reader, writer)
        assert (await client.read()).name == "Connection.Start"
        [connection] = [one for one in broker.node.connections if isinstance(one, Connection)]
        assert connection.name == name
        assert not connection.peer.is_loopback
        writer.close()


async def test_a_proxy_may_speak_for_a_client_with_tls(certificates: CertificateFiles) -> None:
    config = settings(certificates)
    config["listeners"]["amqps"][0]["proxy_protocol"] = {"trusted": ["127.0.0.1"]}
    async with Broker(config) as broker:
        client = await asyncio.to_thread(_speak_through, tls_port(broker), certificates.context())
        assert await asyncio.to_thread(client.recv, 3) == b"\x01\x00\x00"
        [connection] = [one for one in broker.node.connections if isinstance(one, Connection)]
        assert (connection.peer.host, connection.peer.is_tls) == ("192.0.2.7", True)
        client.close()


def _speak_through(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port))
    plain.sendall(binary_header("192.0.2.7"))
    secured = context.wrap_socket(plain, server_hostname="localhost")
    secured.sendall(PROTOCOL_HEADER)
    return secured


@pytest.mark.parametrize(
    ("proxied", "is_let_in"),
    [
        pytest.param("192.0.2.7", False, id="from-afar"),
        pytest.param("127.0.0.9", True, id="from-this-machine"),
    ],
)
async def test_loopback_only_counts_for_the_client_and_not_for_the_proxy(
    log: LogLines, proxied: str, is_let_in: bool
) -> None:
    """Rule C-36."""
    async with Broker(behind_proxy("127.0.0.1")) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(spoken_by(proxied))
        client = RawClient(reader, writer)
        answer = await client.log_in(capabilities={"authentication_failure_close": True})
        assert answer.name == ("Connection.Tune" if is_let_in else "Connection.Close")
        writer.close()


async def test_loopback_only_counts_for_certificates_as_well(
    certificates: CertificateFiles, log: LogLines
) -> None:
    """Rule C-36."""
    config = mutual(certificates, "common_name", "shop")
    config["auth"]["loopback_only_users"] = ["shop"]
    config["listeners"]["amqps"][0]["proxy_protocol"] = {"trusted": ["127.0.0.1"]}
    async with Broker(config) as broker:
        context = certificates.context(certificates.client)
        client = await asyncio.to_thread(_speak_through, tls_port(broker), context)
        start = pamqp.frame.marshal(
            commands.Connection.StartOk(mechanism="EXTERNAL", response=""), 0
        )
        await asyncio.to_thread(client.sendall, start)
        told = await log.wait_for("login.refused")
        assert "only log in from this machine" in str(told["reason"])
        client.close()


HEADERLESS = [
    pytest.param(PROTOCOL_HEADER, "AMQP 0-9-1 in place of a PROXY header", id="none"),
    pytest.param(b"PROXY TCP4 192.0.2.7\r\n", "the PROXY header is malformed", id="malformed"),
    pytest.param(b"PROXY " + b"x" * 500, "no end within 107 octets", id="oversize"),
    pytest.param(
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff",
        "has 65535 octets: 4096 at most",
        id="v2-oversize",
    ),
]


@pytest.mark.parametrize(("data", "reason"), HEADERLESS)
async def test_a_proxy_that_tells_nothing_right_is_refused(
    log: LogLines, data: bytes, reason: str
) -> None:
    async with Broker(behind_proxy("127.0.0.1")) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(data)
        with contextlib.suppress(ConnectionResetError):  # what was not read of it
            assert await reader.read() == b""

        assert reason in str((await log.wait_for("connection.refused"))["reason"])
        assert not broker.node.connections
        writer.close()


async def test_a_proxy_that_says_nothing_is_not_waited_for(log: LogLines) -> None:
    config = behind_proxy("127.0.0.1")
    config["limits"] = {"tls_handshake_timeout": "100ms"}
    async with Broker(config) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(b"PROXY TCP4")
        assert await reader.read() == b""
        told = await log.wait_for("connection.refused")
        assert told["reason"] == "no PROXY header within 0.1 s"
        writer.close()


@pytest.mark.parametrize("header", [spoken_by("192.0.2.7"), binary_header("192.0.2.7")])
async def test_whoever_is_not_trusted_cannot_be_somebody_else(log: LogLines, header: bytes) -> None:
    async with Broker(behind_proxy("192.0.2.0/24")) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(header + PROTOCOL_HEADER)
        assert await reader.read() == PROTOCOL_HEADER
        told = await log.wait_for("connection.refused")
        assert str(told["reason"]).startswith("a PROXY header, on a port without TLS")
        writer.close()


async def test_whoever_is_not_trusted_comes_in_as_himself() -> None:
    async with Broker(behind_proxy("192.0.2.0/24")) as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        client = RawClient(reader, writer)
        await client.open()
        [connection] = [one for one in broker.node.connections if isinstance(one, Connection)]
        assert connection.peer.host == "127.0.0.1"
        writer.close()


# -- OpenSSL's own client


def s_client(broker: Broker, ca: str, *options: str, typed: str = "") -> str:
    assert OPENSSL is not None
    command = [OPENSSL, "s_client", "-connect", f"127.0.0.1:{tls_port(broker)}", "-CAfile", ca]
    done = subprocess.run(
        [*command, *options],
        input=typed,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
        errors="replace",
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl here")
@pytest.mark.parametrize(
    ("options", "typed", "expected"),
    [
        pytest.param(["-tls1_3"], "", "Verify return code: 0 (ok)", id="tls-1.3"),
        pytest.param(["-tls1_2"], "", "Verify return code: 0 (ok)", id="tls-1.2"),
        pytest.param(["-tls1_2"], "", "Compression: NONE", id="no-compression"),
        pytest.param(["-tls1_2"], "R\n", "no renegotiation", id="no-renegotiation"),
        pytest.param(
            ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "", "alert protocol version", id="tls-1.1"
        ),
        pytest.param(
            ["-tls1_2", "-cipher", "NULL:@SECLEVEL=0"], "", "handshake failure", id="no-encryption"
        ),
    ],
)
async def test_openssl_finds_nothing_weak(
    certificates: CertificateFiles, options: list[str], typed: str, expected: str
) -> None:
    async with Broker(settings(certificates)) as broker:
        said = await asyncio.to_thread(s_client, broker, certificates.ca, *options, typed=typed)
        assert expected in said, said
