"""Whom a request is for, whichever way its first line says it (RFC 9112, section 3.2)."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from broker.management.errors import BadRequest
from broker.management.target import target_of


@pytest.mark.parametrize(
    ("line", "host", "path"),
    [
        pytest.param("/api/overview?a=b", "header:1", "/api/overview?a=b", id="a-path"),
        pytest.param("http://url:2/api/overview?a=b", "url:2", "/api/overview?a=b", id="a-url"),
        pytest.param("HTTPS://[::1]:2/a", "[::1]:2", "/a", id="in-capitals"),
        pytest.param("http://url", "url", "/", id="no-path"),
        pytest.param("http://url?a=b", "url", "/?a=b", id="only-a-query"),
        pytest.param("http://url//api", "url", "//api", id="two-slashes"),
        pytest.param("/http://url/api", "header:1", "/http://url/api", id="a-url-as-path"),
    ],
)
def test_the_host_of_a_url_counts_and_not_the_header(line: str, host: str, path: str) -> None:
    request = make_mocked_request("GET", line, headers={"host": "header:1"})
    assert target_of(request) == (host, path)


@pytest.mark.parametrize("line", ["http:///api", "http://guest:guest@localhost/api"])
def test_a_url_without_a_host_or_with_a_login_is_refused(line: str) -> None:
    with pytest.raises(BadRequest):
        target_of(make_mocked_request("GET", line, headers={"host": "localhost"}))
