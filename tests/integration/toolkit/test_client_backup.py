"""Queues to a file and back."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    Client,
    FileFailed,
    Fixed,
    InvalidValue,
    Options,
    QueueFull,
    QueueNotFound,
    QueueSpec,
    connect,
)
from broker.client.backup_file import Writing
from tests.helpers.toolkit import Heard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.helpers.proxy import Proxy

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


@pytest.mark.parametrize(
    "damage",
    ["cut", "format", "version", "field", "empty", "short", "line", "queue", "more", "name"],
)
async def test_a_file_that_is_damaged_is_refused_whole(
    client: Client, name: Name, tmp_path: Path, damage: str
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    for number in range(3):
        await client.send(orders, number)

    await client.export(path, [orders])
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    match damage:
        case "cut":
            path.write_text(text[:-20])
        case "format":
            path.write_text(text.replace("leveret-queues", "something"))
        case "version":
            path.write_text(text.replace('"version":2', '"version":3'))
        case "field":
            path.write_text(text.replace('"body"', '"corpse"'))
        case "short":
            path.write_text("".join(lines[:-1]))
        case "line":
            path.write_text("".join(lines[:3] + lines[4:]))
        case "queue":
            path.write_text("".join(lines[:1] + lines[2:]))
        case "more":
            path.write_text(text + lines[3])
        case "name":
            path.write_text(text.replace(orders, "a+b"))
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


async def test_a_file_that_counts_nothing_is_loaded(
    client: Client, name: Name, tmp_path: Path
) -> None:
    """As they were written before they had a last line."""
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    await client.send(orders, 1)
    await client.export(path, orders)
    lines = path.read_text().replace('"version":2', '"version":1').splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))

    assert await client.load(path) == (1, 1, 0)
    assert await bodies(client, orders) == [1, 1]


async def failed(work: Awaitable[object], kind: type[OSError]) -> FileFailed:
    """Return what is raised, which is both of the toolkit and of Python's."""
    async with asyncio.timeout(5):
        with pytest.raises(FileFailed) as caught:
            await work

    assert isinstance(caught.value, kind)
    return caught.value


@pytest.mark.parametrize(
    ("place", "kind", "why"),
    [
        (".", OSError, "Is a directory"),
        ("missing/orders.jsonl", FileNotFoundError, "No such file or directory"),
        ("/proc/orders.jsonl", OSError, None),
        ("/dev/full", OSError, "Not a regular file"),
        ("x" * 300, OSError, "File name too long"),
        ("before.jsonl/orders.jsonl", OSError, "Not a directory"),
    ],
    ids=lambda one: f"{one!s:.30}",
)
async def test_a_file_that_cannot_be_written_is_told_at_once(
    client: Client, name: Name, tmp_path: Path, place: str, kind: type[OSError], why: str | None
) -> None:
    """An error of the system is none of the connection, which would be tried again for ever."""
    heard = Heard(client)
    orders = name("orders")
    await client.declare(orders)
    await client.send(orders, 1)
    (tmp_path / "before.jsonl").write_text("before")
    path = tmp_path / place
    problem = await failed(client.export(path, [orders]), kind)

    assert problem.filename == str(path)
    assert why in (None, problem.strerror)
    assert os.listdir(tmp_path) == ["before.jsonl"]
    assert heard.kinds == []
    assert (await client.stats(orders)).ready == 1


@pytest.mark.parametrize("size", [1, 100], ids=["at-the-end", "in-the-middle"])
async def test_a_disk_that_is_full_leaves_what_was_there(
    client: Client, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    path.write_text("before")
    await client.declare(orders)
    for _ in range(3):
        await client.send(orders, b"x" * 1000 * size)

    temporary = tmp_path / "temporary"
    temporary.touch()
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: (full, str(temporary)))
    problem = await failed(client.export(path, [orders]), OSError)

    assert problem.errno == errno.ENOSPC
    assert problem.filename == str(path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["orders.jsonl"]


@pytest.mark.parametrize(
    ("place", "kind"), [(".", OSError), ("missing.jsonl", FileNotFoundError)], ids=str
)
async def test_a_file_that_cannot_be_read_is_told_at_once(
    client: Client, tmp_path: Path, place: str, kind: type[OSError]
) -> None:
    problem = await failed(client.load(tmp_path / place), kind)
    assert problem.filename == str(tmp_path / place)


@pytest.mark.parametrize("path", ["", b"orders.jsonl", 5, None, "a\0b"], ids=repr)
async def test_a_path_that_is_none(client: Client, path: Any) -> None:
    for work in (client.export(path), client.load(path)):
        with pytest.raises(InvalidValue, match=r"^path "):
            await work


async def test_an_export_that_loses_its_connection_begins_again(
    url: str, proxy: Proxy, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    add, cutting = Writing.add_message, []
    seen: list[bytes] = []

    def cut(self: Writing, queue: str, raw: Any, *, is_dead: bool) -> None:
        seen.append(raw.body)
        add(self, queue, raw, is_dead=is_dead)
        if len(seen) == 2:
            cutting.append(asyncio.ensure_future(proxy.cut()))

    monkeypatch.setattr(Writing, "add_message", cut)
    async with connect(proxy.url, options=Options(backoff=Fixed(0.01))) as client:
        await client.declare(orders)
        for number in range(3):
            await client.send(orders, number)

        async with asyncio.timeout(10):
            assert await client.export(path, [orders]) == 3

        assert len(seen) > 3, "it was begun again"
        await client.purge(orders)
        assert await client.load(path) == (1, 3, 0)


async def test_a_link_to_a_file_stays_one(client: Client, name: Name, tmp_path: Path) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    path.symlink_to(tmp_path / "elsewhere.jsonl")
    await client.declare(orders)
    await client.export(path, [orders])

    assert path.is_symlink()
    assert await client.load(path) == (1, 0, 0)


async def exported(client: Client, orders: str, path: Path, count: int) -> None:
    await client.declare(orders)
    for number in range(count):
        await client.send(orders, number)

    await client.export(path, [orders])
    await client.delete(orders)


async def test_what_a_queue_has_no_room_for_is_refused_whole(
    client: Client, name: Name, tmp_path: Path
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await exported(client, orders, path, 5)
    await client.declare(orders, QueueSpec(max_length=6))
    await client.send(orders, "first")
    await client.send(orders, "second")
    with pytest.raises(
        QueueFull, match=r"takes 6 messages and has 2, and the file has 5"
    ) as caught:
        await client.load(path)

    assert caught.value.loaded == 0
    assert await bodies(client, orders) == ["first", "second"]
    assert await client.load(path) == (1, 5, 0)


async def test_where_a_queue_is_full_one_goes_on_later(
    client: Client, url: str, name: Name, tmp_path: Path
) -> None:
    """No transaction takes back what went in before: brokers call that partial completion."""
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await exported(client, orders, path, 5)
    async with connect(url) as other:
        await other.declare(orders, QueueSpec(max_length=3))

    with pytest.raises(
        QueueFull, match=r"3 of the 5 messages .*, line 6 is not: .*skip=3"
    ) as caught:
        await client.load(path)

    assert await bodies(client, orders) == [0, 1, 2]
    assert await client.load(path, skip=caught.value.loaded) == (1, 5, 0)
    assert await bodies(client, orders) == [3, 4]


@pytest.mark.parametrize("skip", [-1, 6, "1", None], ids=str)
async def test_more_than_there_is_cannot_be_left_out(
    client: Client, name: Name, tmp_path: Path, skip: Any
) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await exported(client, orders, path, 5)
    with pytest.raises(InvalidValue, match=r"^skip "):
        await client.load(path, skip=skip)

    assert not await client.exists(orders)


async def test_dead_letters_need_a_queue(client: Client, name: Name, tmp_path: Path) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    await client.send(orders, 1)
    delivery = await client.get(orders)
    assert delivery is not None
    await delivery.dead()
    await client.send(orders, 2)
    await client.export(path, [orders])
    await client.delete(orders)
    await client.delete(f"{orders}.dead")
    await client.declare(orders, QueueSpec(dead_letter=False))
    with pytest.raises(QueueNotFound, match="nothing of it was sent"):
        await client.load(path)

    assert (await client.stats(orders)).ready == 0


async def test_one_queue_is_not_its_letters(client: Client, name: Name, tmp_path: Path) -> None:
    orders, path = name("orders"), tmp_path / "orders.jsonl"
    await client.declare(orders)
    await client.send(orders, 1)
    assert await client.export(path, orders) == 1
    assert await client.export(path, [orders, orders]) == 1, "nor is it there twice"


@pytest.mark.parametrize("queues", [5, [5], b"orders", [""]], ids=str)
async def test_queues_are_texts(client: Client, tmp_path: Path, queues: Any) -> None:
    with pytest.raises(InvalidValue, match="queues"):
        await client.export(tmp_path / "orders.jsonl", queues)

    assert os.listdir(tmp_path) == []


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
