"""A user's program, for the type checkers: what it says about types is checked by mypy --strict.

Nothing here is run but the assertions about types, which do nothing; where a line has to be wrong,
an ignore that nothing needed would be an error.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, assert_type

from broker.tasks import Fixed, Handle, MemoryOnce, Partitions, Retry, Status, Tasks

if TYPE_CHECKING:
    from collections.abc import Coroutine

tasks = Tasks("amqp://localhost/", once=MemoryOnce(), codec="msgpack", results=None)


@tasks.task
async def add(x: int, y: int = 1) -> int:
    return x + y


@tasks.task
def shout(text: str) -> str:
    return text.upper()


def day_of(day: date) -> str:
    return day.isoformat()


@tasks.task(name="book", retry=Retry(3, Fixed(1)), partitions=Partitions(8, by=day_of))
async def book(day: date) -> list[date]:
    return [day]


@tasks.task(queue="plain", timeout=3)
def plain(text: str, *, loud: bool = False) -> bytes:
    return text.encode()


@tasks.every(60, overlap="skip")
async def tidy_up() -> None: ...


@tasks.every("0 6 * * *", tz="Europe/Berlin", missed="all", queue="reports")
def report() -> int:
    return 1


async def use() -> None:
    called: Coroutine[Any, Any, int] = add(1, 2)
    assert_type(await called, int)
    assert_type(shout("a"), str)
    assert_type(await add.q(1, y=2), Handle[int])
    assert_type(await (await add.q(1)).result(timeout=1), int)
    assert_type(await (await book.q(date(2030, 1, 1))).result(), list[date])
    assert_type(await (await plain.q("a", loud=True)).result(), bytes)
    assert_type(await add.sched(delay=3)(1, 2), Handle[int])
    assert_type(await add.later(3, 1, y=2), Handle[int])
    assert_type(await add.using(priority=3).q(1), Handle[int])
    assert_type(await (await add.q(1)).status(), Status)
    assert_type(await tidy_up.q(), Handle[None])
    assert_type(await report.q(), Handle[int])
    assert_type(add.handle("1"), Handle[int])


async def misuse() -> None:
    await add.q("one")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await add.q(1, z=2)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    await add.sched(delay=3)()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    await add.later(3, "one")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    await plain.q("a", True)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    tasks.task(colour="red")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
