"""The examples of the documentation do what they say."""

from __future__ import annotations

import asyncio
import inspect
import logging
import runpy
from typing import TYPE_CHECKING

import pytest

from tests.helpers.toolkit import needs_leveret
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = PROJECT / "docs" / "examples"
PRINTED = {
    "topics": [
        "archive: sightings.north.meadow",
        "archive: sightings.south.wood",
        "nobody listens to the weather",
        "north: 2 hares, says sightings.north.meadow",
    ],
    "retries": [
        "a@up.example: attempt 1",
        "b@down.example: attempt 1",
        "nobody: attempt 1",
        "b@down.example: attempt 2",
        "b@down.example: attempt 3",
        "dead: nobody, no address (attempt 1)",
        "dead: b@down.example, the mail server is down (attempt 3)",
        "1 put back, 1 thrown away",
    ],
    "pump": [
        "in memory:",
        "order 1: 2 hares",
        "order 2: 5 hares",
        "failed: 12 hares do not fit into one basket",
        "at a broker:",
        "order 1: 2 hares",
        "order 2: 5 hares",
        "failed: 12 hares do not fit into one basket",
        "dead letters: 1",
    ],
    "script": [
        "10 / 3 = 3.33",
        "10 / 2 = 5.00",
        "10 / 1 = 10.00",
        "failed: division by zero",
        "0 left, 1 dead",
    ],
}


@needs_leveret
@pytest.mark.parametrize("name", PRINTED)
async def test_an_example_prints(
    name: str, url: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    main: Callable[[str], object] = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    if inspect.iscoroutinefunction(main):
        await main(url)
    else:
        await asyncio.to_thread(main, url)

    printed = capsys.readouterr().out.splitlines()
    expected = PRINTED[name]
    assert (sorted(printed) if name == "topics" else printed) == expected
