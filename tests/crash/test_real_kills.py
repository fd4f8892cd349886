"""A few rounds of a broker that is killed under load; scripts/soak does as many as one likes."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from tests.crash.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.timeout(60),
]


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(("kill", "pause-resume-kill", "stop-kill"), id="killed"),
        pytest.param(("stop", "kill", "stop-twice"), id="stopped and killed"),
    ],
)
def test_nothing_confirmed_is_lost(tmp_path: Path, ends: tuple[str, ...]) -> None:
    """Rules DU-01, DU-02, DU-03, CF-06."""

    async def run() -> None:
        trial = Trial(tmp_path, seed=1)
        for place, end in enumerate(ends):
            await trial.round(end, seconds=0.3, kills_at_start=place % 2)
            trial.move_directory()

        await trial.finish()
        assert trial.evidence.confirmed_count > 0

    # Not in the loop of pytest: its debug mode is too slow for this.
    asyncio.run(run())
