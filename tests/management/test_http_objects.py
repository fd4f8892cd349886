"""Virtual hosts, users, rights, limits, topology, connections: what requests do to them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pytest

from tests.helpers.http_api import http_broker
from tests.helpers.raw_client import commands, raw_client

if TYPE_CHECKING:
    from tests.helpers.http_api import HTTPClient

STEPS: Final = Path(__file__).with_name("golden") / "requests.txt"
"""Verb, path and body, then the status, and the reason of a refusal: as RabbitMQ 4.3 answers."""


async def test_requests_are_answered_as_rabbitmq_answers_them() -> None:
    wrong = []
    async with http_broker() as client:
        for line in STEPS.read_text(encoding="utf-8").splitlines():
            request, _, wanted = line.partition(" -> ")
            verb, path, *body = request.split(" ", 2)
            answer = await client.ask(verb, path, data=body[0].encode() if body else None)
            reason = answer.value.get("reason", "") if isinstance(answer.value, dict) else ""
            shown = f"{answer.status} {reason}" if answer.status >= 400 else str(answer.status)
            if shown.strip() != wanted.replace("\\n", "\n").strip():
                wrong.append((request, shown, wanted))

    assert not wrong


# -- lists


async def names(client: HTTPClient, path: str) -> list[object]:
    value = (await client.get(path)).value
    rows = value["items"] if isinstance(value, dict) else value
    assert isinstance(rows, list)
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        pytest.param("", ["a1", "a2", "b1"], id="by-name"),
        pytest.param("?sort=name&sort_reverse=true", ["b1", "a2", "a1"], id="reverse"),
        pytest.param("?sort=messages&columns=name", ["a1", "b1", "a2"], id="by-a-number"),
        pytest.param("?sort=nothing", ["a1", "a2", "b1"], id="by-nothing"),
        pytest.param("?name=b", ["a1", "a2", "b1"], id="no-filter-without-pages"),
        pytest.param("?page=1&name=A", ["a1", "a2"], id="filter"),
        pytest.param("?page=1&name=^.1&use_regex=true", ["a1", "b1"], id="pattern"),
        pytest.param("?page=1&name=(&use_regex=true", [], id="broken-pattern"),
        pytest.param("?page=2&page_size=2", ["b1"], id="second-page"),
        pytest.param("?page=1&page_size=1&sort=messages&sort_reverse=true", ["a2"], id="all"),
    ],
)
async def test_lists_come_in_the_order_and_in_the_pages_asked_for(
    query: str, wanted: list[str]
) -> None:
    async with http_broker() as client:
        for name in ("b1", "a2", "a1"):
            await client.put(f"/queues/%2F/{name}", {})

        body = {"properties": {}, "routing_key": "a2", "payload": "", "payload_encoding": "string"}
        await client.post("/exchanges/%2F/amq.default/publish", body)
        assert await names(client, f"/queues{query}") == wanted


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=x", "bad_request"),
        ("page=0", "invalid_pagination_parameters"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=2", "page_out_of_range"),
    ],
)
async def test_pages_that_cannot_be_are_refused(query: str, error: str) -> None:
    async with http_broker() as client:
        answer = await client.get(f"/queues?{query}")
        assert (answer.status, answer.facts["error"]) == (400, error)


async def test_columns_reach_into_objects() -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {"arguments": {"x-max-length": 5}})
        [row] = (await client.get("/queues?columns=name,arguments.x-max-length,no.thing")).rows
        assert row == {"name": "q", "arguments": {"x-max-length": 5}}
        [row] = (await client.get("/queues?disable_stats=true&enable_queue_totals=true")).rows
        assert row["messages"] == 0
        assert "message_stats" not in row


# -- names


async def test_names_may_hold_anything() -> None:
    name = "a/b ~%2F ü \U0001f407"
    quoted = quote(name, safe="")
    async with http_broker() as client:
        assert (await client.put(f"/vhosts/{quoted}")).status == 201
        assert (await client.put(f"/queues/{quoted}/{quoted}", {})).status == 201
        body = {"routing_key": name, "arguments": {"x": 1}}
        made = await client.post(f"/bindings/{quoted}/e/amq.topic/q/{quoted}", body)
        assert made.status == 201
        key = made.headers["location"].rpartition("/")[2]
        path = f"/bindings/{quoted}/e/amq.topic/q/{quoted}/{quote(key, safe='')}"
        assert (await client.get(path)).facts["routing_key"] == name
        assert (await client.delete(path)).status == 204
        assert (await client.delete(f"/queues/{quoted}/{quoted}")).status == 204


# -- durable


async def test_what_is_said_over_http_outlives_the_broker(tmp_path: Path) -> None:
    storage = {"storage": {"data_dir": str(tmp_path)}}
    async with http_broker(storage) as client:
        await client.put("/vhosts/v", {"description": "d", "tags": "a"})
        await client.put("/users/u", {"password": "x", "tags": "monitoring"})
        await client.put("/queues/v/q", {"durable": True})
        await client.put("/policies/v/p", {"pattern": "q", "definition": {"max-length": 3}})
        await client.put("/global-parameters/g", {"value": [1]})

    async with http_broker(storage) as client:
        assert (await client.get("/vhosts/v")).facts["description"] == "d"
        assert (await client.get("/users/u")).facts["tags"] == ["monitoring"]
        assert (await client.get("/queues/v/q")).facts["policy"] == "p"
        assert (await client.get("/global-parameters/g")).facts["value"] == [1]
        assert (await client.as_user("u", "x").get("/whoami")).status == 200


# -- connections


async def test_a_connection_is_seen_at_once_and_closed_with_the_reason() -> None:
    async with (
        http_broker() as client,
        raw_client(client.broker.host, client.broker.port) as peer,
    ):
        await peer.open()
        [row] = (await client.get("/connections")).rows
        name = quote(str(row["name"]), safe="")
        assert (row["user"], row["channels"], row["state"]) == ("guest", 1, "running")
        [seen] = (await client.get(f"/connections/{name}/channels")).rows
        assert seen["name"] == f"{row['name']} (1)"
        assert (await client.get(f"/channels/{name}%20(1)")).facts["confirm"] is False
        headers = {"x-reason": "go away"}
        answer = await client.ask("DELETE", f"/connections/{name}", headers=headers)
        assert answer.status == 204
        assert (await peer.read()).reply_text == "CONNECTION_FORCED - go away"
        peer.send(0, commands.Connection.CloseOk())
        assert (await client.get("/connections")).rows == []


async def test_alarms_are_seen_by_probes() -> None:
    async with http_broker() as client:
        assert (await client.get("/health/checks/alarms")).status == 200
        client.node.set_alarm("disk", True)
        answer = await client.get("/health/checks/alarms")
        assert answer.status == 503
        assert answer.facts["alarms"] == [
            {"node": client.node.settings.node_name, "resource": "disk space"}
        ]
        ready = await client.as_user(None).get("/health/checks/ready-to-serve-clients")
        assert ready.status == 200


async def test_what_cannot_be_saved_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: str, _state: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with http_broker({"storage": {"data_dir": str(tmp_path)}}) as client:
        assert (await client.put("/users/ann", {"password": "x", "tags": ""})).status == 201
        with monkeypatch.context() as patch:
            patch.setattr("broker.keeper.write_node_file", fail)
            answer = await client.put("/users/bob", {"password": "x", "tags": ""})
            assert answer.status == 500
            assert "no space left on device" in str(answer.facts["reason"])
