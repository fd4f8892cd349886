"""Texts that cannot be written, and names that do not fit the wire, are refused."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
import yarl

from broker.management.hardening import loggable_path, own_place
from broker.management.json_text import read_json
from tests.helpers.http_api import http_broker

LONG: Final = "x" * 256
HALF: Final = rb'"\ud800"'

BODIES: Final = [
    pytest.param("/queues/%2F/q", b'{"durable":true,"arguments":{"x-foo":%s}}', id="queue"),
    pytest.param("/exchanges/%2F/e", b'{"type":"fanout","arguments":{"x-foo":%s}}', id="exchange"),
    pytest.param("/users/u", b'{"password":%s,"tags":""}', id="password"),
    pytest.param("/users/u", b'{"password":"p","tags":[%s]}', id="tag"),
    pytest.param("/policies/%2F/p", b'{"pattern":%s,"definition":{"max-length":1}}', id="policy"),
    pytest.param("/global-parameters/g", b'{"value":%s}', id="parameter"),
]


@pytest.mark.parametrize("value", [HALF, b"NaN", b"-Infinity"], ids=["surrogate", "nan", "inf"])
@pytest.mark.parametrize(("path", "body"), BODIES)
async def test_what_is_no_json_text_is_refused(path: str, body: bytes, value: bytes) -> None:
    """RabbitMQ: 400 not_json. Written down, it would have damaged the log."""
    async with http_broker() as client:
        answer = await client.ask("PUT", path, data=body.replace(b"%s", value))
        assert answer.status == 400
        assert (await client.get(path)).status == 404


async def test_definitions_and_logins_are_no_way_in_for_it_either() -> None:
    async with http_broker() as client:
        queue = b'{"name":"q","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x":%s}}'
        body = b'{"queues":[%s]}' % queue.replace(b"%s", HALF)
        assert (await client.ask("POST", "/definitions", data=body)).status == 400
        assert (await client.get("/queues/%2F/q")).status == 404
        login = b'{"username":%s,"password":%s}' % (HALF, HALF)
        assert (await client.ask("POST", "/login", data=login)).status in (400, 401)


def test_an_octet_that_is_no_utf_8_is_still_a_text() -> None:
    assert read_json(rb'{"name": "\udcff\ud83d\ude00"}') == {"name": "\udcff\U0001f600"}


NAMES: Final = [
    pytest.param(f"/queues/%2F/{LONG}", {"durable": True}, id="queue"),
    pytest.param(f"/exchanges/%2F/{LONG}", {"type": "fanout"}, id="exchange"),
    pytest.param(f"/vhosts/{LONG}", {}, id="vhost"),
    pytest.param(f"/users/{LONG}", {"password": "p", "tags": ""}, id="user"),
]


@pytest.mark.parametrize(("path", "body"), NAMES)
async def test_a_name_has_255_octets_at_most(path: str, body: dict[str, object]) -> None:
    async with http_broker() as client:
        assert (await client.put(path, body)).status == 400
        assert (await client.get(path)).status == 404
        assert (await client.put(path[:-1], body)).status == 201


async def test_a_routing_key_has_255_octets_at_most() -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        binding = "/bindings/%2F/e/amq.direct/q/q"
        assert (await client.post(binding, {"routing_key": LONG})).status == 400
        assert (await client.post(binding, {"routing_key": LONG[:-1]})).status == 201
        message = {"properties": {}, "payload": "x", "payload_encoding": "string"}
        publish = "/exchanges/%2F/amq.direct/publish"
        assert (await client.post(publish, {**message, "routing_key": LONG})).status == 400


@pytest.mark.parametrize(
    "path",
    [
        "http://guest:SECRET@localhost/api/whoami",
        "//guest:SECRET@localhost/api",
        "FTP://guest:SEC@RET@localhost/",
    ],
)
def test_a_login_within_a_url_is_not_logged(path: str) -> None:
    assert "SEC" not in loggable_path(path)


@pytest.mark.parametrize("target", ["//evil.com", "///evil.com/x", "////evil.com"])
def test_no_form_leads_to_another_site(target: str) -> None:
    assert own_place(target) == ""


REFUSED: Final = [
    pytest.param(b"GET <script> HTTP/1.1\r\nHost: localhost\r\n\r\n", id="target"),
    pytest.param(
        b"GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization Basic <script>\r\n\r\n", id="header"
    ),
    pytest.param(b"<script> / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="method"),
]


@pytest.mark.parametrize("request_bytes", REFUSED)
async def test_what_is_no_request_is_quoted_nowhere(
    request_bytes: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async with http_broker() as client:
        url = yarl.URL(client.broker.management_url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(request_bytes)
        answer = await reader.read()
        writer.close()

    assert b"400" in answer.split(b"\r\n")[0]
    assert b"script" not in answer
    assert b"x-frame-options" in answer.lower()
    assert b"aiohttp" not in answer.lower()
    assert capfd.readouterr().err == ""
