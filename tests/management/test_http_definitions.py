"""Definitions out and in (rules DE-01..DE-12)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.helpers.http_api import http_broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.http_api import HTTPClient

EXPORTED: dict[str, object] = {
    "rabbit_version": "4.3.6",
    "rabbitmq_definition_format": "cluster",
    "users": [
        {
            "name": "ann",
            "password_hash": "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management"],
            "limits": {"max-channels": 7},
        }
    ],
    "vhosts": [
        {"name": "/", "limits": [], "metadata": {"description": "Default", "tags": []}},
        {
            "name": "team",
            "limits": {"max-queues": 9},
            "metadata": {"description": "d", "tags": ["a"], "default_queue_type": "quorum"},
        },
    ],
    "permissions": [{"user": "ann", "vhost": "team", "configure": "^a", "write": ".*", "read": ""}],
    "topic_permissions": [
        {"user": "ann", "vhost": "team", "exchange": "amq.topic", "write": "^a", "read": ".*"}
    ],
    "parameters": [
        {
            "vhost": "team",
            "component": "operator_policy",
            "name": "op",
            "value": {
                "pattern": "^q",
                "definition": {"max-length": 40},
                "priority": 0,
                "apply-to": "all",
            },
        },
        {
            "vhost": "team",
            "component": "federation-upstream",
            "name": "up",
            "value": {"uri": "amqp://"},
        },
    ],
    "global_parameters": [{"name": "cluster_name", "value": "hares"}],
    "policies": [
        {
            "vhost": "team",
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "priority": 3,
            "definition": {"max-length": 10},
        }
    ],
    "queues": [
        {
            "vhost": "team",
            "name": "q1",
            "type": "classic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "classic", "x-max-length": 5},
        },
        {
            "vhost": "team",
            "name": "q2",
            "type": "quorum",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum"},
        },
        {
            "vhost": "team",
            "name": "s",
            "type": "stream",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "stream"},
        },
    ],
    "exchanges": [
        {
            "vhost": "team",
            "name": "x",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        },
        {
            "vhost": "team",
            "name": "amq.rabbitmq.log",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "arguments": {},
        },
    ],
    "bindings": [
        {
            "source": "x",
            "vhost": "team",
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"k": 1},
        },
        {
            "source": "x",
            "vhost": "team",
            "destination": "x",
            "destination_type": "exchange",
            "routing_key": "loop",
            "arguments": {},
        },
    ],
}


def entries(document: object, section: str, **having: object) -> list[dict[str, object]]:
    assert isinstance(document, dict)
    return [one for one in document[section] if having.items() <= one.items()]


async def exported(client: HTTPClient) -> dict[str, object]:
    return (await client.get("/definitions")).facts


async def test_what_rabbitmq_exports_is_imported_and_exported_again() -> None:
    async with http_broker() as client:
        assert (await client.post("/definitions", EXPORTED)).status == 204
        found = await exported(client)
        for section in ("queues", "bindings", "policies", "permissions", "topic_permissions"):
            assert entries(found, section, vhost="team") == EXPORTED[section], section

        assert entries(found, "users", name="ann") == EXPORTED["users"]
        assert entries(found, "vhosts", name="team") == entries(EXPORTED, "vhosts", name="team")
        assert entries(found, "exchanges") == entries(EXPORTED, "exchanges", name="x")
        assert found["global_parameters"] == EXPORTED["global_parameters"]
        parameters = entries(found, "parameters", vhost="team")
        limits = {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}}
        assert [one for one in parameters if one["component"] == "vhost-limits"] == [
            {**limits, "vhost": "team"}
        ]
        others = [one for one in parameters if one["component"] != "vhost-limits"]
        assert others == EXPORTED["parameters"]
        assert found["original_cluster_name"] == "hares"


async def test_importing_an_export_twice_changes_nothing() -> None:
    async with http_broker() as client:
        await client.post("/definitions", EXPORTED)
        once = await exported(client)
        assert (await client.post("/definitions", once)).status == 204
        assert await exported(client) == once


async def test_an_import_survives_a_restart(tmp_path: Path) -> None:
    storage = {"storage": {"data_dir": str(tmp_path)}}
    async with http_broker(storage) as client:
        await client.post("/definitions", EXPORTED)
        once = await exported(client)

    async with http_broker(storage) as client:
        again = await exported(client)
        for section, rows in once.items():
            assert again[section] == rows, section


async def test_what_is_there_stays_and_what_can_change_is_overwritten() -> None:
    """Rule DE-09."""
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {"durable": True, "arguments": {"x-max-length": 1}})
        await client.put("/policies/%2F/p", {"pattern": "a", "definition": {"max-length": 1}})
        document = {
            "queues": [{"vhost": "/", "name": "q", "durable": False, "arguments": {}}],
            "policies": [
                {"vhost": "/", "name": "p", "pattern": "b", "definition": {"max-length": 2}}
            ],
        }
        assert (await client.post("/definitions", document)).status == 204
        assert (await client.get("/queues/%2F/q")).facts["arguments"] == {"x-max-length": 1}
        assert (await client.get("/policies/%2F/p")).facts["pattern"] == "b"


QUEUE = {"vhost": "/", "name": "q"}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"queues": [{"name": "q"}]}, "queues[0]: it has no vhost"),
        (
            {"queues": [{**QUEUE, "vhost": "no"}]},
            'queues[0]: Please create virtual host "no" prior to importing definitions.',
        ),
        (
            {"queues": [{**QUEUE, "arguments": {"x-max-length": -1}}]},
            "queues[0]: precondition_failed: invalid arg 'x-max-length' for queue 'q' in",
        ),
        ({"queues": [{**QUEUE, "arguments": {"x": None}}]}, "queues[0]: arguments: "),
        ({"queues": [7]}, "queues[0]: expected an object"),
        ({"queues": {}}, "queues: expected a list"),
        (
            {"permissions": [{"user": "no", "vhost": "/"}]},
            "permissions[0]: there is no user 'no'",
        ),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": "x", "definition": {"zz": 1}}]},
            'policies[0]: Validation failed\n\n[{<<"zz">>,1}] are not recognised',
        ),
        (
            {"bindings": [{"vhost": "/", "source": "no", "destination": "no"}]},
            "bindings[0]: not_found: no exchange 'no' in vhost '/'",
        ),
        (
            {"users": [{"name": "u", "tags": "", "password_hash": "!"}]},
            "users[0]: ['not_base64', '!']",
        ),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(document: dict[str, object], told: str) -> None:
    async with http_broker() as client:
        answer = await client.post("/definitions", document)
        assert answer.status == 400
        assert answer.facts["error"] == "bad_request"
        assert str(answer.facts["reason"]).startswith(told)


async def test_nothing_is_changed_where_the_document_is_wrong() -> None:
    async with http_broker() as client:
        document = {"vhosts": [{"name": "new"}], "queues": [{"name": "q"}, {"vhost": "no"}]}
        reason = str((await client.post("/definitions", document)).facts["reason"])
        assert len(reason.splitlines()) == 2
        assert "new" not in client.node.vhosts


async def test_more_queues_than_a_virtual_host_may_have_are_refused() -> None:
    """Rule DE-12."""
    async with http_broker() as client:
        await client.put("/vhost-limits/%2F/max-queues", {"value": 1})
        document = {"queues": [{"vhost": "/", "name": name} for name in ("a", "b")]}
        answer = await client.post("/definitions", document)
        assert answer.status == 400
        assert "its limit is 1" in str(answer.facts["reason"])


async def test_one_virtual_host_goes_out_and_in_alone() -> None:
    """Rule DE-10."""
    async with http_broker() as client:
        await client.post("/definitions", EXPORTED)
        document = (await client.get("/definitions/team")).facts
        assert document["rabbitmq_definition_format"] == "single_virtual_host"
        assert not entries(document, "queues", vhost="team")
        await client.put("/vhosts/copy")
        assert (await client.post("/definitions/copy", document)).status == 204
        copied = (await client.get("/definitions/copy")).facts
        for section in ("queues", "exchanges", "bindings", "policies"):
            assert copied[section] == document[section]

        assert (await client.get("/definitions/nothing")).facts["reason"] == "vhost_not_found"


async def test_a_file_can_be_sent_as_a_form() -> None:
    async with http_broker() as client:
        form = aiohttp.FormData()
        raw = json.dumps({"queues": [QUEUE]})
        form.add_field("file", raw, filename="d.json", content_type="application/json")
        form.add_field("redirect", "../#/import-succeeded")
        answer = await client.ask("POST", "/definitions", data=form)
        assert (answer.status, answer.headers["location"]) == (303, "../#/import-succeeded")
        assert "q" in client.node.vhosts["/"].queues


@pytest.mark.parametrize(("raw", "status"), [(b"", 204), (b"zzz", 400), (b"[]", 400)])
async def test_what_is_no_document_is_refused(raw: bytes, status: int) -> None:
    async with http_broker() as client:
        assert (await client.ask("POST", "/definitions", data=raw)).status == status


async def test_exclusive_queues_and_their_bindings_stay_here() -> None:
    """Rule DE-07."""
    async with http_broker() as client:
        answer = await client.ask("GET", "/definitions?download=my%2Ffile.json")
        assert answer.headers["content-disposition"] == 'attachment; filename="myfile.json"'
        assert answer.facts["queues"] == []
        assert answer.facts["exchanges"] == []


async def test_internal_exchanges_come_back_with_their_bindings() -> None:
    async with http_broker() as client:
        await client.put("/exchanges/%2F/in", {"type": "fanout", "internal": True})
        await client.post("/bindings/%2F/e/amq.topic/e/in", {"routing_key": "a"})
        exported = (await client.get("/definitions")).facts

    async with http_broker() as client:
        assert (await client.post("/definitions", exported)).status == 204
        assert (await client.get("/exchanges/%2F/in")).facts["internal"] is True
        assert len((await client.get("/bindings/%2F/e/amq.topic/e/in")).rows) == 1


async def test_hashes_that_rabbitmq_refuses_are_exported_aside() -> None:
    """RabbitMQ takes such a user for one without a password, and we know the password again."""
    async with http_broker({"auth": {"password_hashing": "argon2id"}}) as client:
        await client.put("/users/ann", {"password": "secret", "tags": "management"})
        document = (await client.get("/definitions")).facts
        users = document["users"]
        assert isinstance(users, list)
        [row] = [one for one in users if one["name"] == "ann"]
        assert row["password_hash"] == ""
        assert row["hashing_algorithm"] == "rabbit_password_hashing_sha256"

    async with http_broker() as client:
        assert (await client.post("/definitions", document)).status == 204
        assert (await client.as_user("ann").get("/whoami")).status == 200
        assert (await client.as_user("ann", "").get("/whoami")).status == 401
        shown = (await client.get("/users/ann")).facts
        assert shown["hashing_algorithm"] == "argon2id"
        row["password_hash"] = "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+"
        await client.post("/definitions", {"users": [row]})
        # Whoever has put a hash there means it.
        assert (await client.as_user("ann", "guest").get("/whoami")).status == 200


def without_internal_exchange(version: str, **said: object) -> dict[str, object]:
    """What RabbitMQ 4.3 exports of an internal exchange: its bindings, and not itself."""
    bindings = [
        {"source": source, "destination": name, "destination_type": kind, "routing_key": "k"}
        for source, name, kind in (
            ("inner", "q", "queue"),
            ("src", "inner", "exchange"),
            ("src", "q", "queue"),
        )
    ]
    return {
        "rabbitmq_version": version,
        "exchanges": [{"vhost": "/", "name": "src", "type": "topic", **said}],
        "queues": [{"vhost": "/", "name": "q"}],
        "bindings": [{"vhost": "/", "arguments": {}, **one} for one in bindings],
    }


async def test_bindings_of_internal_exchanges_that_an_export_leaves_out_are_skipped() -> None:
    async with http_broker() as client:
        answer = await client.post("/definitions", without_internal_exchange("4.3.6"))
        assert answer.status == 204
        rows = (await client.get("/exchanges/%2F/src/bindings/source")).rows
        assert [(row["source"], row["destination"]) for row in rows] == [("src", "q")]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(without_internal_exchange("3.10.8"), id="another version"),
        pytest.param(without_internal_exchange("4.3.6", internal=False), id="none left out"),
    ],
)
async def test_bindings_of_exchanges_that_are_nowhere_are_refused(
    document: dict[str, object],
) -> None:
    async with http_broker() as client:
        answer = await client.post("/definitions", document)
        reason = "bindings[0]: not_found: no exchange 'inner' in vhost '/'"
        assert (answer.status, answer.facts["reason"]) == (400, reason)


async def test_queues_that_a_broker_named_are_skipped_with_their_bindings() -> None:
    document = {
        "queues": [{"vhost": "/", "name": "amq.gen-1"}],
        "bindings": [{"vhost": "/", "source": "amq.topic", "destination": "amq.gen-1"}],
    }
    async with http_broker() as client:
        assert (await client.post("/definitions", document)).status == 204
        assert (await client.get("/queues")).rows == []
        assert (await client.get("/bindings")).rows == []
