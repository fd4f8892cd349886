"""Bodies of requests that do not come whole, or are not what they are said to be."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import urlsplit

import pytest

from broker.embedded import Broker
from tests.helpers.http_api import http_broker
from tests.helpers.waiting import until

AUTHORIZATION = b"Authorization: Basic " + base64.b64encode(b"guest:guest") + b"\r\n"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"content-encoding": "gzip"}, b"not gzip", id="another encoding"),
        pytest.param({"content-type": "multipart/form-data"}, b"x", id="a form without boundary"),
        pytest.param(
            {"content-type": "multipart/form-data; boundary=b"}, b"x", id="a form without parts"
        ),
        pytest.param(
            {"content-type": "multipart/form-data; boundary=b"},
            b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
            id="a part without a name",
        ),
    ],
)
async def test_a_body_that_cannot_be_read_is_a_mistake_of_the_client(
    headers: dict[str, str], body: bytes
) -> None:
    async with http_broker() as client:
        answer = await client.ask("POST", "/definitions", headers=headers, data=body)
        assert (answer.status, answer.facts["error"]) == (400, "bad_request")


async def test_a_body_that_is_said_to_be_too_large_is_not_waited_for() -> None:
    async with Broker({"management": {"enabled": True, "max_body_size": 1024}}) as broker:
        status = await _begin(broker, b"Content-Length: 1025\r\n", b"{")
        assert status == b"HTTP/1.1 400 Bad Request"


async def test_a_client_that_vanishes_in_its_request_is_no_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []

    def is_answered() -> bool:
        lines.extend(capsys.readouterr().err.splitlines())
        return any("access.request" in line for line in lines)

    config = {"management": {"enabled": True}, "log": {"access": True}}
    async with Broker(config, log_level="info") as broker:
        await _begin(broker, b"Content-Length: 1000\r\n", b"{", waits=False)
        await until(is_answered)

    assert any("status=400" in line for line in lines)
    assert not any("management.fault" in line for line in lines)


async def _begin(broker: Broker, headers: bytes, body: bytes, *, waits: bool = True) -> bytes:
    """Send the beginning of a request, and tell the first line of the answer."""
    address = urlsplit(broker.management_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = b"POST /api/definitions HTTP/1.1\r\nHost: x\r\n" + AUTHORIZATION + headers + b"\r\n"
    writer.write(head + body)
    line = await reader.readline() if waits else b""
    writer.close()
    await writer.wait_closed()
    return line.strip()
