"""Each micro-benchmark does what it says, at the smallest of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.benchmark.micro.__main__ import MICROS

if TYPE_CHECKING:
    from scripts.benchmark.micro.knob import Micro


@pytest.mark.parametrize("micro", MICROS, ids=lambda micro: micro.name)
def test_operations_are_done_and_counted(micro: Micro) -> None:
    act = micro.prepare(micro.values[0], 200)
    assert 190 <= act() <= 4_000


def test_names_are_unique_and_knobs_have_several_values() -> None:
    assert len({micro.name for micro in MICROS}) == len(MICROS)
    assert all(len(micro.values) >= 3 for micro in MICROS)
