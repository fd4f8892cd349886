"""The HTTP API with TLS, and what it tells of TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from broker.embedded import Broker
from tests.helpers.raw_client import RawClient

if TYPE_CHECKING:
    import ssl

    from tests.helpers.certificates import CertificateFiles

GUEST = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def secure(ours: CertificateFiles, **profile: object) -> dict[str, Any]:
    keys: dict[str, object] = {"cert": ours.server.cert, "key": ours.server.key, **profile}
    return {
        "listeners": {"amqps": [{}]},
        "tls": {"default": keys},
        "management": {
            "enabled": True,
            "listeners": [{"bind": "127.0.0.1", "port": 0, "tls": "default"}],
        },
        "metrics": {
            "prometheus": {
                "enabled": True,
                "listeners": [{"bind": "127.0.0.1", "port": 0, "tls": "default"}],
            }
        },
    }


class Asker:
    """Asks a broker by HTTPS."""

    def __init__(self, broker: Broker, session: aiohttp.ClientSession, tls: ssl.SSLContext) -> None:
        self._broker = broker
        self._session = session
        self._tls = tls

    async def get(self, path: str) -> tuple[int, Any]:
        url = f"{self._broker.management_url}/api{path}"
        async with self._session.get(url, ssl=self._tls, headers=GUEST) as answer:
            return answer.status, await answer.json()


async def test_a_connection_is_shown_with_what_rabbitmq_shows_of_tls(
    certificates: CertificateFiles,
) -> None:
    ours = certificates
    async with (
        Broker(secure(ours, ca=ours.ca, verify="optional")) as broker,
        aiohttp.ClientSession() as session,
    ):
        port = next(one.port for one in broker._running.addresses if one.is_tls)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=ours.context(ours.client), server_hostname="localhost"
        )
        await RawClient(reader, writer).open()
        asker = Asker(broker, session, ours.context())
        status, [row] = await asker.get("/connections")
        assert status == 200
        assert row["ssl"] is True
        assert row["ssl_protocol"] == "tlsv1.3"
        assert row["ssl_key_exchange"] == "any"
        assert row["ssl_cipher"] in ("aes_256_gcm", "chacha20_poly1305", "aes_128_gcm")
        assert row["ssl_hash"] == "aead"
        assert row["peer_cert_subject"].startswith("CN=shop,")
        assert row["peer_cert_issuer"].endswith("O=Hares")
        assert row["peer_cert_validity"].count("Z - 20") == 1
        assert row["peer_cert_serial_number"].isdecimal()

        _, overview = await asker.get("/overview")
        assert {(one["protocol"], one["tls"]) for one in overview["listeners"]} == {
            ("amqp", False),
            ("amqp/ssl", True),
            ("https", True),
        }
        status, _ = await asker.get("/health/checks/protocol-listener/amqps")
        assert status == 200
        writer.close()


@pytest.mark.parametrize(
    ("within", "status"),
    [("13/months", 503), ("400/days", 503), ("11/months", 200), ("2/weeks", 200), ("x/days", 400)],
)
async def test_the_health_check_tells_of_certificates_that_expire(
    certificates: CertificateFiles, within: str, status: int
) -> None:
    async with (
        Broker(secure(certificates)) as broker,
        aiohttp.ClientSession() as session,
    ):
        asker = Asker(broker, session, certificates.context())
        found, body = await asker.get(f"/health/checks/certificate-expiration/{within}")
        assert found == status
        if status == 503:
            assert body["reason"] == "Certificates expiring"
            assert {one["protocol"] for one in body["expired"]} == {"amqp/ssl", "https"}
            [first, *_] = body["expired"]
            assert first["certfile"] == certificates.server.cert
            assert len(first["certfile_expires_on"][0]) == len("2026-04-01 19:31:01")
            assert (first["cacertfile"], first["cacertfile_expires_on"]) == (None, [])


async def test_all_certificates_are_listed(certificates: CertificateFiles) -> None:
    ours = certificates
    sni = {"*.example.org": ours.wildcard._asdict()}
    async with (
        Broker(secure(ours, ca=ours.ca, verify="optional", sni=sni)) as broker,
        aiohttp.ClientSession() as session,
    ):
        _, rows = await Asker(broker, session, ours.context()).get("/certificates")
        assert [(one["tls"], one["server_name"], one["purpose"]) for one in rows] == [
            ("default", None, "server"),
            ("default", "*.example.org", "server"),
            ("default", None, "authority"),
        ]
        assert rows[0]["names"] == ["localhost", "127.0.0.1", "::1"]
        assert 360 < rows[0]["days_left"] <= 365


async def test_prometheus_is_told_when_certificates_expire(certificates: CertificateFiles) -> None:
    async with (
        Broker(secure(certificates)) as broker,
        aiohttp.ClientSession() as session,
        session.get(f"{broker.metrics_url}/metrics", ssl=certificates.context()) as answer,
    ):
        assert broker.metrics_url.startswith("https://")
        name = 'leveret_tls_certificate_expiry_timestamp_seconds{tls="default",server_name="",'
        assert name in await answer.text()


async def test_plain_http_is_told_to_speak_https(certificates: CertificateFiles) -> None:
    async with (
        Broker(secure(certificates)) as broker,
        aiohttp.ClientSession() as session,
    ):
        plain = broker.management_url.replace("https://", "http://")
        async with session.get(f"{plain}/api/whoami", headers=GUEST) as answer:
            assert answer.status == 400
            assert "HTTPS" in await answer.text()
            assert "location" not in answer.headers


async def test_https_may_ask_for_certificates_as_well(certificates: CertificateFiles) -> None:
    ours = certificates
    async with (
        Broker(secure(ours, ca=ours.ca, verify="required")) as broker,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(aiohttp.ClientError):
            await Asker(broker, session, ours.context()).get("/whoami")

        status, who = await Asker(broker, session, ours.context(ours.client)).get("/whoami")
        assert (status, who["name"]) == (200, "guest")
