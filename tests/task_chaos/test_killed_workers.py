"""A small form of ``scripts/soak tasks``: workers are killed, and each task is done once."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from broker.embedded import Broker
from tests.helpers.toolkit import LIVE_URL
from tests.task_chaos.trial import TaskTrial, judge_ticks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(sys.platform != "linux", reason="finds worker processes in /proc")
@pytest.mark.timeout(60)
async def test_killed_workers_lose_no_task_and_do_none_twice(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_debug(False)
    trial = TaskTrial(
        "", tmp_path, workers=2, count=400, fleet_kills=0, kills_max=2, kill_every_s=0.8
    )
    trial.name = "toolkit-test.chaos"
    trial.limit_s = 45
    if LIVE_URL is not None:
        trial.url = LIVE_URL
        verdict = await trial.run()
    else:
        with Broker.in_thread(log_level="error") as broker:
            trial.url = broker.url
            verdict = await trial.run()

    assert verdict.is_good, verdict
    assert verdict.kills, "nobody was killed, so nothing was tested"


@pytest.mark.parametrize(
    ("seconds", "wrong"),
    [
        pytest.param([1, 2, 3], 0, id="each"),
        pytest.param([1, 3], 1, id="missing"),
        pytest.param([1, 2, 2, 3], 1, id="twice"),
    ],
)
def test_the_judge_of_ticks_sees_what_is_wrong(seconds: list[int], wrong: int) -> None:
    ids = [f"chaos.tick@2030-01-01T00:00:{second:02}.000000+00:00" for second in seconds]
    assert len(judge_ticks(ids)[1]) == wrong
