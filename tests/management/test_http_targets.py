"""First lines of requests that are whole URLs, as proxies send them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.helpers.http_api import http_broker

if TYPE_CHECKING:
    from tests.helpers.http_api import HTTPClient

LOGIN = "authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"


async def _asked(client: HTTPClient, first_line: str, headers: str) -> tuple[int, bytes]:
    """Status and body of what is answered to a request, as it stands there."""
    address = urlsplit(client.broker.management_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    request = f"{first_line} HTTP/1.1\r\n{headers}{LOGIN}connection: close\r\n\r\n"
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("url", "header", "status"),
    [
        pytest.param("http://127.0.0.1:15672/api/whoami", "localhost", 200, id="the-same"),
        pytest.param("http://localhost/api/whoami?x=y", "evil.example", 200, id="url-counts"),
        pytest.param("http://evil.example/api/whoami", "localhost", 421, id="rebound"),
        pytest.param("http://x@localhost/api/whoami", "localhost", 400, id="with-a-login"),
        pytest.param("http://localhost/whoami", "localhost", 404, id="not-of-the-api"),
        pytest.param("http://localhost", "localhost", 404, id="no-path"),
    ],
)
async def test_a_whole_url_is_served_as_its_path(url: str, header: str, status: int) -> None:
    async with http_broker() as client:
        answered, body = await _asked(client, f"GET {url}", f"host: {header}\r\n")
        assert answered == status
        assert (b'"guest"' in body) is (status == 200)


async def test_a_page_of_the_host_in_the_url_is_ours() -> None:
    async with http_broker() as client:
        line = "DELETE http://localhost:1/api/queues/%2F/none"
        ours, theirs = (
            "host: x\r\norigin: http://localhost:1\r\n",
            "host: x\r\norigin: http://x\r\n",
        )
        assert (await _asked(client, line, ours))[0] == 404
        assert (await _asked(client, line, theirs))[0] == 403
