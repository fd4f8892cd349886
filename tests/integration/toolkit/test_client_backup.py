"""Queues to a file and back."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import Client, InvalidValue, QueueNotFound, QueueSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Name = Callable[[str], str]


async def bodies(client: Client, queue: str) -> list[Any]:
    found = []
    while (delivery := await client.get(queue)) is not None:
        async with delivery as body:
            found.append(body)

    return found


async def test_all_comes_back_as_it_was(client: Client, name: Name, tmp_path: Path) -> None:
    orders = name("orders")
    path = tmp_path / "orders.jsonl"
    headers = {"n": 2**40, "d": Decimal("1.5"), "t": datetime(2026, 1, 1, tzinfo=UTC), "b": b"\0"}
    spec = QueueSpec(max_priority=9, priority_order="low")
    await client.declare(orders, spec)
    await client.send(orders, "dead", id="d")
    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead("why")
    await client.send(orders, b"\xff\x00", id="b", priority=3, headers=headers)
    await client.send(orders, {"n": 1}, id="j", priority=1)

    assert await client.export(path) == 3
    assert (await client.stats(orders)).ready == 2, "nothing was taken away"
    await client.delete(orders)
    await client.dead(orders).purge()
    assert await client.load(path) == (1, 2, 1)
    first, second = await client.get(orders), await client.get(orders)
    assert first is not None
    assert second is not None

    assert (first.id, first.body, first.priority) == ("j", {"n": 1}, 1)
    assert (second.id, second.body, second.priority) == ("b", b"\xff\x00", 3)
    assert second.headers == headers
    assert second.timestamp is not None
    [letter] = await client.dead(orders).list()
    assert (letter.id, letter.error, letter.reason) == ("d", "why", "rejected")


async def test_order_is_kept(client: Client, name: Name, tmp_path: Path) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    await asyncio.gather(*(client.send(orders, number) for number in range(50)))
    await client.export(path, [orders])

    assert await bodies(client, orders) == list(range(50))
    await client.load(path)
    assert await bodies(client, orders) == list(range(50))


@pytest.mark.parametrize("damage", ["cut", "format", "version", "field", "empty"])
async def test_a_file_that_is_damaged_is_refused_whole(
    client: Client, name: Name, tmp_path: Path, damage: str
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    for number in range(3):
        await client.send(orders, number)

    await client.export(path, [orders])
    text = path.read_text()
    match damage:
        case "cut":
            path.write_text(text[:-20])
        case "format":
            path.write_text(text.replace("leveret-queues", "something"))
        case "version":
            path.write_text(text.replace('"version":1', '"version":2'))
        case "field":
            path.write_text(text.replace('"body"', '"corpse"'))
        case _:
            path.write_text("")

    await client.purge(orders)
    with pytest.raises(InvalidValue):
        await client.load(path)

    assert (await client.stats(orders)).ready == 0, "nothing was sent"


async def test_a_failed_export_leaves_the_file_that_was_there(
    client: Client, name: Name, tmp_path: Path
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text("before")
    with pytest.raises(QueueNotFound):
        await client.export(path, [name("missing")])

    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["orders.jsonl"]


async def test_a_file_of_pymq_is_loaded(client: Client, name: Name, tmp_path: Path) -> None:
    orders, path = name("orders"), tmp_path / "queues.json"
    rows = [
        {"id": "late", "body": "late", "priority": 10, "retries": 0},
        {"id": "soon", "body": "soon", "priority": -5, "retries": 1},
    ]
    queue = {"name": orders, "kind": "priority", "max_retries": 3, "waiting": rows}
    queue["dead_letters"] = [{"id": "gone", "body": "gone", "priority": 0, "retries": 4}]
    path.write_text(json.dumps({"queues": [queue]}))

    assert await client.load(path) == (1, 2, 1)
    assert await bodies(client, orders) == ["soon", "late"]
    assert [letter.id for letter in await client.dead(orders).list()] == ["gone"]
