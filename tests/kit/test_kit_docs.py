"""docs/testing.md as a newcomer reads it: every example goes into a file, and pytest is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.helpers.kit_plugin import PLUGIN, set_path

if TYPE_CHECKING:
    import pytest
    from pytest import Pytester  # noqa: PT013 - a type

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS_MAX = 15


def test_every_example_of_the_page_passes(
    pytester: Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_path(monkeypatch)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 6
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    for number, block in enumerate(blocks):
        (pytester.path / f"test_example_{number}.py").write_text(block, encoding="utf-8")

    result = pytester.runpytest_subprocess(
        *PLUGIN, "-p", "no:cacheprovider", "-W", "error", timeout=SECONDS_MAX
    )

    result.assert_outcomes(passed=len(blocks))
