"""A costly pattern over many names gives others their turn, and does not go on for ever."""

from __future__ import annotations

import asyncio

import pytest

from broker.management import paging, searching
from broker.management.errors import BadRequest

COSTLY = "(a|a)*b"
NAMES = ["a" * 200 + str(number) for number in range(50)] + ["aab"]


@pytest.fixture(autouse=True)
def _forgets() -> None:
    paging._matcher.cache_clear()


async def test_others_have_their_turn_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SEARCH_TURN_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    found = list(await paging._matcher(COSTLY)(NAMES))
    counting.cancel()
    assert found == [False] * 50 + [True]
    assert turns > 40


async def test_a_search_that_takes_too_long_is_given_up_and_goes_on_when_it_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searching, "SEARCH_TURN_S", 0.0)
    monkeypatch.setattr(searching, "SEARCH_S", 0.0)
    match = paging._matcher(COSTLY)
    for _ in NAMES:
        with pytest.raises(BadRequest, match="takes too long"):
            await match(NAMES)

    assert list(await match(NAMES)) == [False] * 50 + [True]


async def test_names_that_were_searched_are_remembered_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paging, "VERDICTS_MAX", 3)
    match = paging._matcher("^a")
    assert list(await match(["a1", "b2"])) == [True, False]
    assert list(await match(["a3", "a1", "b4", "b5"])) == [True, True, False, False]
    assert list(await match(["b5", "a1"])) == [False, True]
