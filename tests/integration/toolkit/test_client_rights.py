"""What a user needs rights to for each thing, as the page of the toolkit says: so much, no less."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from broker.client import NO_RETRY, AccessRefused, Client, Fixed, QueueSpec, Retry, connect
from broker.embedded import Broker
from tests.helpers.toolkit import needs_leveret
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = needs_leveret

PAGE: Final = PROJECT / "docs" / "toolkit.md"
SECTION: Final = "## Rights"
CODE: Final = re.compile(r"`([^`]+)`")
ALL: Final = ".*"
KINDS: Final = ("configure", "write", "read")
SPEC: Final = QueueSpec(retry=Retry(2, Fixed(0)))


class Row(NamedTuple):
    """What something needs rights to, by the names of exchanges and queues."""

    operation: str
    needs: tuple[tuple[str, str], ...]


def rows() -> list[Row]:
    found = []
    text = PAGE.read_text(encoding="utf-8").partition(SECTION)[2].partition("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[1] == "configure":
            continue

        needs = [
            (kind, name)
            for kind, cell in zip(KINDS, cells[1:], strict=True)
            for name in CODE.findall(cell)
        ]
        found.append(Row(cells[0], tuple(needs)))

    return found


def pattern(names: list[str]) -> str:
    return "^(" + "|".join(re.escape(name).replace(r"\*", ".*") for name in names) + ")$"


def config(needs: tuple[tuple[str, str], ...]) -> dict[str, object]:
    rights = {kind: pattern([name for one, name in needs if one == kind]) for kind in KINDS}
    users = [{"name": name, "password": name} for name in ("guest", "other")]
    everything = dict.fromkeys(KINDS, ALL)
    permissions = {"permissions": {"guest": everything, "other": rights}}
    return {"version": 1, "users": users, "vhosts": {"/": permissions}}


@asynccontextmanager
async def with_rights(operation: str, needs: tuple[tuple[str, str], ...]) -> AsyncIterator[Client]:
    """A client of a user who has these rights, where another one has made what there is."""
    async with Broker(config(needs), log_level="error") as broker, connect(broker.url) as guest:
        await guest.declare("orders", SPEC)
        await guest.declare("dying", QueueSpec(retry=NO_RETRY))
        await guest.send("dying", 0)
        async for delivery in guest.receive("dying", wait=0):
            await delivery.fail("to have a dead letter")

        await guest.send("orders", 0, when=60)
        for queue in ("orders", "dying"):
            await guest.send(queue, 1)

        if operation == "`declare`":
            await guest.delete("orders")

        async with connect(broker.url.replace("guest:guest@", "other:other@")) as other:
            yield other


async def fail(client: Client, spec: QueueSpec, queue: str = "orders") -> None:
    await client.declare(queue, spec, passive=True)
    delivery = await client.get(queue)
    assert delivery is not None
    assert await delivery.fail("no such hare")


async def consume(client: Client) -> None:
    async with await client.consume("orders", print):
        pass


LATER: Final = QueueSpec(retry=Retry(2, Fixed(60)))
OPERATIONS: Final[dict[str, Callable[[Client], Awaitable[Any]]]] = {
    "`declare`": lambda client: client.declare("orders", SPEC),
    "`declare(passive=True)`, `exists`, `stats`": lambda client: client.declare(
        "orders", SPEC, passive=True
    ),
    "`send`": lambda client: client.send("orders", 1),
    "`send(when=...)`": lambda client: client.send("orders", 1, when=60),
    "`get`, `receive`, `consume`": consume,
    "a failure that is tried again at once": lambda client: fail(client, SPEC),
    "a failure that is tried again later": lambda client: fail(client, LATER),
    "the last failure": lambda client: fail(client, QueueSpec(retry=NO_RETRY), "dying"),
    "`dead(...).list`, `.purge`": lambda client: client.dead("dying").list(),
    "`dead(...).replay`": lambda client: client.dead("dying").replay(),
    "`publish`": lambda client: client.publish("a.b", 1),
    "`subscribe`": lambda client: client.subscribe("a.b", print),
    "`subscribe_dead`": lambda client: client.subscribe_dead("#", print),
    "`bind`, `unbind`": lambda client: client.bind("orders", "a.b"),
    "`purge`": lambda client: client.purge("orders"),
    "`delete`": lambda client: client.delete("orders"),
}


def test_the_page_tells_of_each_operation() -> None:
    assert [row.operation for row in rows()] == list(OPERATIONS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.operation)
async def test_who_has_these_rights_may_do_it(row: Row) -> None:
    async with with_rights(row.operation, row.needs) as client:
        await OPERATIONS[row.operation](client)


@pytest.mark.parametrize(
    ("row", "missing"),
    [(row, missing) for row in rows() for missing in row.needs],
    ids=lambda value: value.operation if isinstance(value, Row) else " ".join(value),
)
async def test_who_lacks_one_of_them_may_not(row: Row, missing: tuple[str, str]) -> None:
    needs = tuple(need for need in row.needs if need != missing)
    async with with_rights(row.operation, needs) as client:
        with pytest.raises(AccessRefused):
            await OPERATIONS[row.operation](client)
