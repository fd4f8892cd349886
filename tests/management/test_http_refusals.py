"""What is refused before the API sees it is refused as the API does it, and nothing that was sent
is quoted: it may well be a password."""

from __future__ import annotations

import asyncio
import json
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.helpers.http_api import HTTPClient, http_broker

LOGIN: Final = b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
HOST: Final = b"Host: localhost\r\n"
END: Final = b"Connection: close\r\n\r\n"
OVERVIEW: Final = b"GET /api/overview?columns=node HTTP/1.1\r\n"
NO_REQUEST: Final = {"error": "bad_request", "reason": "this is no HTTP request"}
NOT_THERE: Final = {"error": "Object Not Found", "reason": "Not Found"}


async def spoken(client: HTTPClient, request: bytes) -> tuple[list[str], bytes]:
    """The lines of the head of what comes back until the end, and its body."""
    url = urlsplit(client.broker.management_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(request)
    async with asyncio.timeout(5):
        raw = await reader.read()

    writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    return head.decode("latin-1").lower().split("\r\n"), body


REFUSED: Final = [
    pytest.param(b"s3cret garbage\r\n\r\n", 400, NO_REQUEST, id="garbage"),
    pytest.param(b"GET /api/s3cret HTTP/9.9\r\n" + HOST + END, 400, NO_REQUEST, id="version"),
    pytest.param(b"S3C<RET> /api HTTP/1.1\r\n" + HOST + END, 400, NO_REQUEST, id="method"),
    pytest.param(OVERVIEW + HOST + b"s3cret header\r\n" + END, 400, NO_REQUEST, id="no-colon"),
    pytest.param(OVERVIEW + HOST + b"X: s3\0cret\r\n" + END, 400, NO_REQUEST, id="zero-octet"),
    pytest.param(
        b"GET /api/" + b"s3cret" * 2_000 + b" HTTP/1.1\r\n" + HOST + END, 400, NO_REQUEST, id="line"
    ),
    pytest.param(
        OVERVIEW + HOST + b"Content-Length: s3cret\r\n" + END, 400, NO_REQUEST, id="length"
    ),
    pytest.param(b"OPTIONS * HTTP/1.1\r\n" + HOST + LOGIN + END, 404, NOT_THERE, id="options-all"),
    pytest.param(
        b"CONNECT s3cret.example:443 HTTP/1.1\r\n" + HOST + END, 404, NOT_THERE, id="connect"
    ),
    pytest.param(
        b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Expect: s3cret\r\n" + END,
        417,
        {"error": "expectation_failed", "reason": "the request was refused"},
        id="options-that-expects",
    ),
]


@pytest.mark.parametrize(("request_text", "status", "body"), REFUSED)
async def test_a_refusal_is_an_error_of_the_api_and_quotes_nothing(
    request_text: bytes, status: int, body: dict[str, object]
) -> None:
    async with http_broker() as client:
        head, raw = await spoken(client, request_text)
        assert head[0].split()[1] == str(status)
        assert json.loads(raw) == body
        headers = dict(line.split(": ", 1) for line in head[1:])
        assert headers["content-type"] == "application/json"
        assert headers["server"] == "leveret"
        assert headers["x-content-type-options"] == "nosniff"
        assert "s3cret" not in "".join(head)
        assert b"s3cret" not in raw


@pytest.mark.parametrize("wish", [b"s3cret", b"", b"200-ok", b"100-continue, x"])
async def test_what_is_expected_is_not_heeded(wish: bytes) -> None:
    """RabbitMQ 4.3 does not either; the wish was quoted in a 417."""
    async with http_broker() as client:
        head, raw = await spoken(
            client, OVERVIEW + HOST + LOGIN + b"Expect: " + wish + b"\r\n" + END
        )
        assert head[0] == "http/1.1 200 ok"
        assert json.loads(raw) == {"node": client.node.settings.node_name}


async def test_who_asks_whether_to_send_the_body_is_told_to_go_on() -> None:
    async with http_broker() as client:
        body = b"Content-Length: 2\r\nExpect: 100-Continue\r\n"
        request = b"PUT /api/queues/%2F/q HTTP/1.1\r\n" + HOST + LOGIN + body + END + b"{}"
        head, rest = await spoken(client, request)
        assert head == ["http/1.1 100 continue"]
        assert rest.startswith(b"HTTP/1.1 201 Created\r\n")
