"""Requests take their share of the loop while messages move, and users take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.management import pacing
from broker.management.errors import HTTPProblem
from broker.management.pacing import (
    BURST_S,
    DEBT_S,
    LOOK_S,
    SHARE,
    WAITING_PER_USER_MAX,
    Pacer,
    Visitor,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Stage:
    """A pacer with a clock that is set by hand, and clients that move so many bytes a second."""

    def __init__(self, bytes_per_s: int = 10_000_000) -> None:
        self.now_s = 100.0
        self.bytes_per_s = bytes_per_s
        self.pacer = Pacer(lambda: int(self.now_s * self.bytes_per_s), lambda: self.now_s)
        self.pass_time(LOOK_S)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    async def spend(self, seconds: float, name: str = "u") -> None:
        """A request that takes so much of the loop."""

        async def handle() -> None:
            self.pass_time(seconds)

        await self.pacer.measured(handle(), Visitor(name))

    def wait(self, name: str = "u") -> asyncio.Task[None]:
        return asyncio.ensure_future(self.pacer.turn(Visitor(name)))

    async def let_time_pass(self, seconds: float) -> None:
        """The timer of the pacer runs, as if it were so much later."""
        self.pass_time(seconds)
        await settle()
        self.pacer._go_on()
        await settle()


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def test_who_asks_now_and_then_never_waits() -> None:
    stage = Stage()
    for _ in range(200):
        await stage.spend(0.01)
        stage.pass_time(0.15)
        await stage.pacer.turn(Visitor("u"))

    assert stage.pacer.waiting_count == 0


async def test_nobody_waits_while_nothing_moves() -> None:
    stage = Stage(bytes_per_s=1_000)
    for _ in range(100):
        await stage.spend(0.1)
        await stage.pacer.turn(Visitor("u"))


async def test_who_asks_without_end_gets_a_share_of_the_loop() -> None:
    stage = Stage()
    began_s = stage.now_s
    spent_s = 0.0
    while stage.now_s < began_s + 30:
        turn = stage.wait()
        await settle()
        while not turn.done():
            await stage.let_time_pass(0.1)

        await stage.spend(0.02)
        spent_s += 0.02

    took_s = stage.now_s - began_s
    assert 0.5 * SHARE * took_s < spent_s < SHARE * took_s + BURST_S
    stage.pacer.stop()


async def test_a_request_that_took_long_is_paid_for_and_no_more_than_so_much() -> None:
    stage = Stage()
    await stage.spend(60.0)
    turn = stage.wait()
    await stage.let_time_pass(DEBT_S / SHARE * 0.9)
    assert not turn.done()
    await stage.let_time_pass(DEBT_S / SHARE * 0.2)
    assert turn.done()


async def test_users_take_turns() -> None:
    stage = Stage()
    await stage.spend(BURST_S)
    first = [stage.wait("many") for _ in range(10)]
    await settle()
    other = stage.wait("one")
    while not other.done():
        await stage.let_time_pass(0.01)

    assert sum(turn.done() for turn in first) == 1
    stage.pacer.stop()
    await asyncio.gather(*first)


async def test_who_comes_when_too_many_wait_is_refused_and_others_are_not() -> None:
    stage = Stage()
    await stage.spend(BURST_S)
    waiting = [stage.wait("many") for _ in range(WAITING_PER_USER_MAX)]
    await settle()
    with pytest.raises(HTTPProblem) as refused:
        await stage.pacer.turn(Visitor("many"))

    assert refused.value.status == 503
    other = stage.wait("one")
    await settle()
    assert stage.pacer.waiting_count == WAITING_PER_USER_MAX + 1
    stage.pacer.stop()
    await asyncio.gather(other, *waiting)
    assert stage.pacer.waiting_count == 0


async def test_who_comes_when_all_places_are_taken_leaves_no_line_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "WAITING_MAX", 1)
    stage = Stage()
    await stage.spend(BURST_S)
    first = stage.wait("one")
    await settle()
    with pytest.raises(HTTPProblem):
        await stage.pacer.turn(Visitor("other"))

    await stage.let_time_pass(1.0)
    assert first.done()
    await stage.pacer.turn(Visitor("other"))


async def test_who_is_free_never_waits() -> None:
    stage = Stage()
    await stage.spend(10.0)
    await stage.pacer.turn(Visitor("", is_free=True))


async def test_a_long_handler_waits_where_it_gives_others_a_turn() -> None:
    stage = Stage()
    steps: list[int] = []

    async def handle(visitor: Visitor) -> str:
        await stage.pacer.turn(visitor)
        for number in range(3):
            stage.pass_time(2 * BURST_S)
            steps.append(number)
            await asyncio.sleep(0)

        return "done"

    visitor = Visitor("u")
    handling = asyncio.ensure_future(stage.pacer.measured(handle(visitor), visitor))
    await settle()
    assert steps == [0]
    await stage.let_time_pass(1.1 * DEBT_S / SHARE)
    assert steps == [0, 1]
    stage.pacer.stop()
    await settle()
    stage.pacer.stop()
    assert await handling == "done"


@pytest.mark.parametrize(
    ("awaited", "error"),
    [
        pytest.param(lambda: asyncio.wait_for(_forever(), 0), TimeoutError, id="timeout"),
        pytest.param(lambda: _raise(KeyError("k")), KeyError, id="a-fault"),
    ],
)
async def test_what_a_handler_awaits_may_fail_and_be_caught(
    awaited: Callable[[], Awaitable[None]], error: type[Exception]
) -> None:
    stage = Stage()

    async def handle() -> str:
        with pytest.raises(error):
            await awaited()

        await asyncio.sleep(0)
        return "caught"

    assert await stage.pacer.measured(handle(), Visitor("u")) == "caught"
    with pytest.raises(error):
        await stage.pacer.measured(_through(awaited), Visitor("u"))


async def test_a_request_that_is_cancelled_cleans_up() -> None:
    stage = Stage()
    cleaned: list[bool] = []

    async def handle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    handling = asyncio.ensure_future(stage.pacer.measured(handle(), Visitor("u")))
    await settle()
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handling

    assert cleaned == [True]


async def _forever() -> None:
    await asyncio.Event().wait()


async def _raise(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def _through(awaited: Callable[[], Awaitable[None]]) -> None:
    await awaited()
