"""Tasks that ask to be run again themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.tasks import NO_RETRY, Again, Fixed, Retry, TaskFailed, Worker, current

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.tasks import Tasks

WAIT_S = 10


@pytest.mark.parametrize(
    ("settings", "options", "attempts", "text"),
    [
        pytest.param({}, {}, 5, "attempt 5 of 5", id="nobody-said"),
        pytest.param({}, {"retry": NO_RETRY}, 1, "attempt 1 of 1", id="not-at-all"),
        pytest.param({"retry": Retry(2, Fixed(100))}, {}, 2, "attempt 2 of 2", id="application"),
        pytest.param({}, {"retry": Retry(3, on=(OSError,))}, 3, "attempt 3 of 3", id="on-others"),
        pytest.param({}, {"retry": Retry(2, never=(Again,))}, 2, "attempt 2 of 2", id="never"),
        pytest.param({}, {"guarantee": "at_most_once"}, 1, "runs at most once", id="at-most-once"),
    ],
)
async def test_a_task_may_ask_so_often(
    make: Callable[..., Tasks],
    settings: dict[str, Any],
    options: dict[str, Any],
    attempts: int,
    text: str,
) -> None:
    tasks = make(**settings)
    seen: list[int] = []

    @tasks.task(**options)
    async def look() -> None:
        seen.append(current().attempt)
        raise Again(after=0.001, reason="not there yet")

    async with tasks, Worker(tasks):
        handle = await look.q()
        with pytest.raises(TaskFailed, match=f"not there yet, and .*{text}"):
            await handle.result(timeout=WAIT_S)

    assert seen == list(range(1, attempts + 1))


async def test_another_failure_has_no_attempts_from_that(make: Callable[..., Tasks]) -> None:
    tasks = make()
    seen: list[int] = []

    @tasks.task
    async def look() -> None:
        seen.append(current().attempt)
        if current().attempt == 2:
            raise ValueError("gone")

        raise Again

    async with tasks, Worker(tasks):
        with pytest.raises(TaskFailed, match="gone"):
            await (await look.q()).result(timeout=WAIT_S)

    assert seen == [1, 2]
