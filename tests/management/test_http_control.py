"""What an operator sets over HTTP while the broker runs: the configuration, alarms, the log."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import aiohttp
import pytest

from broker.embedded import Broker
from tests.helpers.http_api import HTTPClient, http_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FILE: Final = """\
version: 1
management: {enabled: true}
users:
  - {name: guest, password: guest, tags: [administrator]}
  - {name: old, password: secret}
vhosts:
  /:
    permissions: {guest: {configure: ".*", write: ".*", read: ".*"}}
    queues: {a: {}, b: {}}
"""
WITHOUT_B: Final = FILE.replace(", b: {}", ", c: {}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that configures a broker."""
    path = tmp_path / "leveret.yaml"
    path.write_text(FILE)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


@asynccontextmanager
async def broker_with_file(path: Path) -> AsyncIterator[HTTPClient]:
    async with Broker(path, log_level="error") as broker, aiohttp.ClientSession() as session:
        yield HTTPClient(broker, session)


async def test_a_configuration_is_shown_and_then_taken_on(path: Path) -> None:
    async with broker_with_file(path) as client:
        facts = (await client.get("/config/reload")).facts
        assert facts == {"config_files": [str(path)], "can_reload": True}
        write(path, WITHOUT_B + "heartbeat: 5s\nnode: {name: other}\n")
        changes = [
            {"action": "change", "key": "heartbeat", "text": "60 -> 5"},
            {"action": "restart", "key": "node", "text": ""},
            {"action": "add", "key": "vhosts./.queues.c", "text": ""},
            {"action": "orphan", "key": "vhosts./.queues.b", "text": ""},
        ]
        shown = await client.post("/config/reload", {"dry_run": True, "prune": True})
        assert shown.facts == {
            "applied": False,
            "dry_run": True,
            "changes": changes,
            "pruned": ["vhosts./.queues.b"],
        }
        assert sorted(client.node.vhosts["/"].queues) == ["a", "b"]
        kept = await client.post("/config/reload")
        assert kept.facts["applied"]
        assert kept.facts["pruned"] == []
        assert sorted(client.node.vhosts["/"].queues) == ["a", "b", "c"]
        assert client.node.settings.heartbeat_s == 5
        pruned = await client.post("/config/reload", {"prune": "true"})
        assert pruned.facts["pruned"] == ["vhosts./.queues.b"]
        assert sorted(client.node.vhosts["/"].queues) == ["a", "c"]


async def test_a_configuration_with_mistakes_changes_nothing_and_names_them_all(
    path: Path,
) -> None:
    async with broker_with_file(path) as client:
        write(path, WITHOUT_B + "heartbeet: 5s\nlimits: {channel_max: x}\n")
        answer = await client.post("/config/reload")
        assert (answer.status, answer.facts["error"]) == (400, "configuration_refused")
        reasons = answer.facts["reason"]
        assert isinstance(reasons, list)
        assert [line.split(":")[1] for line in map(str, reasons)] == ["10", "11"]
        assert sorted(client.node.vhosts["/"].queues) == ["a", "b"]
        write(path, WITHOUT_B)
        outcome = await client.broker.reload(is_dry=True)
        assert [str(one) for one in outcome.plan.changes] == [
            "add vhosts./.queues.c",
            "orphan vhosts./.queues.b",
        ]


async def test_without_a_file_nothing_is_reloaded() -> None:
    async with http_broker() as client:
        assert (await client.get("/config/reload")).facts["can_reload"] is False
        answer = await client.post("/config/reload")
        assert (answer.status, answer.facts["error"]) == (400, "no_configuration")
        with pytest.raises(RuntimeError):
            await client.broker.reload()


# -- alarms


async def in_effect(client: HTTPClient) -> list[str]:
    facts = (await client.get("/alarms")).facts
    return [name for name, one in facts.items() if isinstance(one, dict) and one["in_effect"]]


@pytest.mark.parametrize(
    ("resource", "over", "below"),
    [
        pytest.param("memory", {"fraction": 1e-9}, {"fraction": 0.9}, id="memory-share"),
        pytest.param("memory", {"bytes": 0}, {"bytes": str(2**50)}, id="memory-bytes"),
        pytest.param("memory", {"fraction": 0}, {"off": True}, id="memory-off"),
        pytest.param("disk", {"bytes": 2**60}, {"bytes": 1}, id="disk-bytes"),
        pytest.param("disk", {"memory_fraction": 1000}, {"memory_fraction": 0}, id="disk-share"),
        pytest.param("file_descriptors", {"fraction": 0}, {"off": "true"}, id="descriptors"),
        pytest.param("memory", {"raised": True}, {"raised": False}, id="memory-by-hand"),
        pytest.param("disk", {"raised": True}, {"raised": "false"}, id="disk-by-hand"),
    ],
)
async def test_an_alarm_comes_and_goes_with_what_is_set(
    tmp_path: Path, resource: str, over: dict[str, object], below: dict[str, object]
) -> None:
    async with http_broker({"storage": {"data_dir": str(tmp_path)}}) as client:
        assert await in_effect(client) == []
        assert (await client.put(f"/alarms/{resource}", over)).status == 204
        assert await in_effect(client) == [resource]
        health = await client.get("/health/checks/alarms")
        assert health.status == (200 if resource == "file_descriptors" else 503)
        assert (await client.put(f"/alarms/{resource}", below)).status == 204
        assert await in_effect(client) == []
        await client.put(f"/alarms/{resource}", over)
        assert (await client.delete(f"/alarms/{resource}")).status == 204
        assert await in_effect(client) == []
        assert (await client.get("/health/checks/alarms")).status == 200


async def test_the_limits_in_force_are_told_with_where_they_come_from(tmp_path: Path) -> None:
    config = {"storage": {"data_dir": str(tmp_path)}, "alarms": {"memory": {"limit": "2GiB"}}}
    async with http_broker(config) as client:
        facts = (await client.get("/alarms/memory")).facts
        assert (facts["bytes"], facts["limit"], facts["as_configured"]) == (2**31, 2**31, True)
        await client.put("/alarms/memory", {"fraction": 0.5})
        facts = (await client.get("/alarms/memory")).facts
        assert (facts["bytes"], facts["fraction"], facts["as_configured"]) == (None, 0.5, False)
        [node] = (await client.get("/nodes")).rows
        assert node["mem_limit"] == facts["limit"]
        assert facts["used"] != 0


WRONG: Final = [
    ("memory", {}),
    ("memory", {"fraction": 0.5, "bytes": 1}),
    ("memory", {"fraction": 1.5}),
    ("memory", {"fraction": True}),
    ("memory", {"fraction": "half"}),
    ("memory", {"bytes": -1}),
    ("memory", {"bytes": "1GB"}),
    ("memory", {"off": False}),
    ("memory", {"raised": True, "bytes": 1}),
    ("disk", {"fraction": 0.5}),
    ("file_descriptors", {"raised": True}),
]


@pytest.mark.parametrize(("resource", "body"), WRONG)
async def test_what_is_no_limit_is_refused(resource: str, body: dict[str, object]) -> None:
    async with http_broker() as client:
        before = (await client.get("/alarms")).facts
        assert (await client.put(f"/alarms/{resource}", body)).status == 400
        for key in ("memory", "disk"):
            old, new = before[key], (await client.get(f"/alarms/{key}")).facts
            assert isinstance(old, dict)
            assert (old["in_effect"], old["limit"]) == (new["in_effect"], new["limit"])

        assert (await client.put("/alarms/patience", {"off": True})).status == 404


async def test_publishers_of_an_embedded_broker_are_held_back_on_request() -> None:
    async with http_broker() as client:
        client.broker.set_alarm("memory")
        assert client.node.alarm_reason() == "low on memory"
        client.broker.set_alarm("disk")
        assert client.node.alarm_reason() == "low on disk & memory"
        client.broker.set_alarm("memory", is_on=False)
        assert client.node.alarm_reason() == "low on disk"


# -- the log


async def test_levels_of_the_log_are_set_and_its_file_is_opened_anew(tmp_path: Path) -> None:
    async with http_broker() as client:
        assert (await client.get("/log")).facts == {
            "level": "warning",
            "levels": {},
            "format": "text",
            "file": None,
        }
        body = {"level": "error", "levels": {"queue": "debug"}}
        answer = await client.put("/log", body)
        assert answer.facts == {"format": "text", "file": None, **body}
        log = client.broker._log
        assert [log.wants("warning", "a.b"), log.wants("debug", "queue.b")] == [False, True]
        for wrong in ({"level": "loud"}, {"levels": {"queue": 1}}, {"levels": ["queue"]}):
            assert (await client.put("/log", wrong)).status == 400

        assert (await client.get("/log")).facts["level"] == "error"
        path = tmp_path / "broker.log"
        log.configure(log.config._replace(file=log.config.file._replace(path=str(path))))
        path.rename(tmp_path / "broker.log.old")
        assert (await client.post("/log/reopen")).status == 204
        log("error", "test.line", {})
        assert "test.line" in path.read_text()
        log.close()
