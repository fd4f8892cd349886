"""With TLS the toolkit trusts whom the library trusts by itself, and nobody else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import aiormq
import pytest

from broker.client import AccessRefused, Options, Unavailable, connect
from broker.embedded import Broker
from broker.tasks import Tasks, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.helpers.certificates import CertificateFiles

WAIT_S = 10


def settings(ours: CertificateFiles, server: str) -> dict[str, Any]:
    files = getattr(ours, server)
    keys = {"cert": files.cert, "key": files.key, "ca": ours.ca, "verify": "optional"}
    return {
        "listeners": {"amqps": [{}]},
        "tls": {"default": keys},
        "auth": {"mechanisms": ["EXTERNAL", "PLAIN"], "cert_login_from": "common_name"},
        "users": [{"name": "guest", "password": "guest"}, {"name": "shop"}],
    }


@asynccontextmanager
async def url_of(
    ours: CertificateFiles, server: str, options: dict[str, str]
) -> AsyncIterator[str]:
    files = {
        "ca": ours.ca,
        "other_ca": ours.other_ca,
        "cert": ours.client.cert,
        "key": ours.client.key,
    }
    query = {name: files.get(value, value) for name, value in options.items()}
    async with Broker(settings(ours, server), log_level="error") as broker:
        yield f"{broker.tls_url}?{urlencode(query, quote_via=quote)}"


CASES = [
    pytest.param("server", {"cafile": "ca"}, True, id="known"),
    pytest.param("server", {}, False, id="unknown"),
    pytest.param("server", {"cafile": "other_ca"}, False, id="by-another-authority"),
    pytest.param("wildcard", {"cafile": "ca"}, False, id="of-another-name"),
    pytest.param("expired", {"cafile": "ca"}, False, id="expired"),
    pytest.param("expired", {"no_verify_ssl": "1"}, True, id="not-verified"),
    pytest.param(
        "server",
        {"cafile": "ca", "certfile": "cert", "keyfile": "key", "auth": "external"},
        True,
        id="certificate",
    ),
    pytest.param("server", {"cafile": "ca", "auth": "external"}, False, id="no-certificate"),
]


@pytest.mark.parametrize(("server", "options", "is_trusted"), CASES)
async def test_whom_it_trusts(
    certificates: CertificateFiles, server: str, options: dict[str, str], is_trusted: bool
) -> None:
    async with url_of(certificates, server, options) as url:
        try:
            await (await aiormq.connect(url)).close()
            is_trusted_by_library = True
        except (aiormq.AMQPError, OSError):
            is_trusted_by_library = False

        assert is_trusted_by_library is is_trusted
        if is_trusted:
            async with connect(url) as client:
                await client.declare("orders")
                await client.send("orders", "x" * 500_000)
                delivery = await client.get("orders", wait=WAIT_S)
                assert delivery is not None
                assert await delivery.ack()
        else:
            with pytest.raises((Unavailable, AccessRefused)):
                await asyncio.wait_for(connect(url, options=Options(timeout=0.3)), WAIT_S)


@pytest.mark.parametrize(
    ("options", "is_trusted"),
    [({"cafile": "ca"}, True), ({"cafile": "other_ca"}, False)],
    ids=["known", "unknown"],
)
async def test_whom_tasks_trust(
    certificates: CertificateFiles, options: dict[str, str], is_trusted: bool
) -> None:
    async with url_of(certificates, "server", options) as url:
        tasks = Tasks(url, timeout=10 if is_trusted else 0.3)

        @tasks.task
        async def double(number: int) -> int:
            return 2 * number

        if is_trusted:
            async with tasks, Worker(tasks):
                assert await (await double.q(2)).result(timeout=WAIT_S) == 4
        else:
            with pytest.raises(Unavailable):
                await double.q(2)
