"""What the pages about the toolkit show can be done so."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.pages import blocks, run
from tests.helpers.toolkit import needs_leveret
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_leveret

DOCS = PROJECT / "docs"
USUAL_URL = "amqp://localhost/"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


async def test_the_page_of_the_toolkit(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in blocks(DOCS / "toolkit.md"):
        await run(snippet._replace(source=snippet.source.replace(USUAL_URL, url)), names)
        if "script" in names:
            await asyncio.to_thread(names.pop("script"))

    printed = capsys.readouterr().out
    assert "3 on attempt 1" in printed
    assert "nowhere attempts no address 1" in printed
    assert "from a script" in printed
