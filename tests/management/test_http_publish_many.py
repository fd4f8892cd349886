"""Putting many messages into a queue with one request, which RabbitMQ does not have."""

from __future__ import annotations

import pytest

from tests.helpers.http_api import HTTPClient, http_broker

WHERE = "/queues/%2F/q/messages"
GOOD = {"payload": "x", "payload_encoding": "string"}


def rows(*payloads: str) -> dict[str, object]:
    return {"messages": [{"payload": one, "payload_encoding": "string"} for one in payloads]}


async def payloads(client: HTTPClient) -> list[object]:
    answer = await client.get("/queues/%2F/q/browse")
    items = answer.facts["items"]
    assert isinstance(items, list)
    return [item["payload"] for item in items]


async def test_messages_come_in_their_order_with_their_properties() -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        last = {"payload": "Yw==", "payload_encoding": "base64", "properties": {"priority": 3}}
        answer = await client.post(WHERE, {"messages": [GOOD, {**GOOD, "payload": "b"}, last]})
        assert (answer.status, answer.value) == (200, {"published": 3, "reason": None})
        assert await payloads(client) == ["x", "b", "c"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(7, "a message is an object with payload and payload_encoding", id="number"),
        pytest.param({"payload": "x"}, "a message is an object with payload", id="no-encoding"),
        pytest.param({**GOOD, "payload_encoding": "z"}, "unsupported_encoding: z", id="encoding"),
        pytest.param({**GOOD, "properties": {"priority": "x"}}, "not_int: priority", id="property"),
        pytest.param(
            {**GOOD, "properties": {"user_id": "somebody"}}, "user_id property", id="user-id"
        ),
    ],
)
async def test_those_before_the_first_that_cannot_be_are_in(bad: object, reason: str) -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        answer = await client.post(WHERE, {"messages": [GOOD, bad, GOOD]})
        assert (answer.status, answer.facts["published"]) == (200, 1)
        assert reason in str(answer.facts["reason"])
        assert await payloads(client) == ["x"]


async def test_a_queue_that_is_full_says_so() -> None:
    async with http_broker() as client:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await client.put("/queues/%2F/q", {"arguments": arguments})
        answer = await client.post(WHERE, rows("a", "b"))
        assert answer.facts["published"] == 1
        assert str(answer.facts["reason"]).startswith("rejected")


async def test_what_cannot_be_at_all_is_refused() -> None:
    async with http_broker() as client:
        assert (await client.post(WHERE, rows("a"))).status == 404
        await client.put("/queues/%2F/q", {})
        assert (await client.post(WHERE, {"messages": 3})).status == 400
        assert (await client.post(WHERE, {})).status == 400
        assert (await client.post(WHERE, rows(*["x"] * 1001))).status == 400
        client.node.set_alarm("memory", True)
        answer = await client.post(WHERE, rows("a"))
        assert (answer.status, answer.facts["error"]) == (503, "resource_alarm")
        client.node.set_alarm("memory", False)
        assert await payloads(client) == []
