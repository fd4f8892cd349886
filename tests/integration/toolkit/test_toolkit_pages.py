"""What the pages about the toolkit show can be done so."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.pages import blocks, cells, run
from tests.helpers.toolkit import needs_leveret
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_leveret

DOCS = PROJECT / "docs"
COMING_FROM = DOCS / "coming-from.md"
NO_CODE = {"Coming from pymq, dmq or python-cq", "What does not happen here"}
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


async def test_the_page_for_those_who_come_from_elsewhere(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    count = 0
    for snippet in cells(COMING_FROM):
        if snippet.source.startswith("test_") or snippet.section in NO_CODE:
            continue

        await run(snippet._replace(source=snippet.source.replace(USUAL_URL, url)), names)
        count += 1

    assert count > 90
    assert "handled" in capsys.readouterr().out


def test_the_tests_that_the_page_names_are_there() -> None:
    rows = [snippet.source for snippet in cells(COMING_FROM) if "::" in snippet.source]
    assert len(rows) > 20
    for row in rows:
        file, _, function = row.partition("::")
        [path] = (PROJECT / "tests").rglob(file)
        assert f"def {function}(" in path.read_text(encoding="utf-8"), row
