"""Whatever is given for an argument, what is wrong with it is told by one tree of errors."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    Cron,
    Envelope,
    Exponential,
    Fixed,
    InvalidValue,
    Linear,
    Options,
    QueueSpec,
    Retry,
    Schedule,
    connect,
)
from broker.client.checks import check_path, check_text, check_texts, shown
from broker.client.codecs import codec_named
from broker.queues import ContextManagerMiddleware, MemoryQueue, Pump, RetryMiddleware
from broker.tasks import Tasks, Worker

if TYPE_CHECKING:
    from collections.abc import Callable


class Unprintable:
    """Something that cannot even say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("of its own")

    __str__ = __repr__


class UnprintableText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("of its own")


async def dispatch(message: object) -> None:
    """Do nothing with it."""


UNPRINTABLE: Any = Unprintable()
RECORDS = (QueueSpec, Options, Retry, Exponential, Linear, Fixed)


def test_a_value_is_shown_in_few_words() -> None:
    assert shown("x" * 100) == "'" + "x" * 59
    assert shown(5) == "5"
    assert shown(UNPRINTABLE) == "<Unprintable, whose __repr__ raised RuntimeError>"


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, one.name) for kind in RECORDS for one in fields(kind)]
    + [(Envelope, "id"), (Envelope, "ttl"), (Envelope, "headers"), (Envelope, "durable")],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_what_cannot_be_printed_is_refused_like_anything_else(
    kind: Callable[..., object], name: str
) -> None:
    with pytest.raises(InvalidValue, match="Unprintable"):
        kind(**({"body": 1} if kind is Envelope else {}), **{name: UNPRINTABLE})


@pytest.mark.parametrize(
    "make",
    [
        lambda odd: Schedule.cron(odd),
        lambda odd: Schedule.cron("0 6 * * *", tz=odd),
        lambda odd: Schedule.at(odd),
        lambda odd: Schedule.delay(odd),
        lambda odd: Cron(odd),
        lambda odd: Retry.retries(odd),
        lambda odd: QueueSpec(arguments={odd: 1}),
        lambda odd: QueueSpec(max_priority=5).wire_priority(odd),
        lambda odd: QueueSpec().wire_priority(odd),
        lambda odd: codec_named(odd),
        lambda odd: connect(name=odd),
        lambda odd: connect(options=odd),
        lambda odd: MemoryQueue(maxsize=odd),
        lambda odd: Pump(odd, dispatch),
        lambda odd: Pump(MemoryQueue[int](), dispatch, on_error=odd),
        lambda odd: Pump(MemoryQueue[int](), dispatch, middlewares=odd),
        lambda odd: ContextManagerMiddleware(odd),
        lambda odd: RetryMiddleware(odd),
        lambda odd: Tasks(results=odd),
        lambda odd: Tasks(guarantee=odd),
        lambda odd: Tasks().on("failed", tasks=[odd]),
        lambda odd: Worker(Tasks(), queues=odd),
        lambda odd: Worker(Tasks(), queues=[odd]),
        lambda odd: check_text("id", [odd]),
    ],
)
def test_so_it_is_wherever_a_value_is_quoted(make: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidValue):
        make(UNPRINTABLE)


def test_a_text_that_cannot_be_printed() -> None:
    with pytest.raises(InvalidValue, match="UnprintableText"):
        check_text("id", UnprintableText("x" * 300))


@pytest.mark.parametrize("accept", [None, 5, "pickle", {"pickle"}], ids=str)
def test_codecs_to_accept_are_a_tuple(accept: Any) -> None:
    with pytest.raises(InvalidValue, match=r"accept is to be a tuple"):
        Options(accept=accept)


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("abc", ["abc"]),
        (["abc", "d"], ["abc", "d"]),
        ((), []),
        ({"abc": 1}, ["abc"]),
        (iter(["abc"]), ["abc"]),
    ],
    ids=str,
)
def test_one_text_is_one_and_not_its_letters(given: object, texts: list[str]) -> None:
    assert check_texts("ids", given) == texts


@pytest.mark.parametrize("given", [5, True, None, b"abc", [5], [None], [""], UNPRINTABLE])
def test_what_has_no_texts(given: object) -> None:
    with pytest.raises(InvalidValue, match="ids"):
        check_texts("ids", given)


@pytest.mark.parametrize("given", ["", "a\0b", b"x", 5, None, "\ud800", UNPRINTABLE])
def test_what_is_no_path(given: object) -> None:
    with pytest.raises(InvalidValue, match="path"):
        check_path("path", given)


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1", True], ids=str)
async def test_a_pump_has_no_time_that_is_none(seconds: Any) -> None:
    pump = Pump(MemoryQueue[int](), dispatch)
    with pytest.raises(InvalidValue, match=r"^timeout "):
        async with pump.draining(graceful=True, timeout=seconds):
            pass
