"""Every input that fuzzing begins with, or has ever failed on, and a breath of fuzzing itself."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.__main__ import NAMES
from tests.fuzz.mutation import Found, mutated, search
from tests.fuzz.seeds import CORPUS, seeds_of
from tests.fuzz.targets import TARGETS

COUNTS = {"frames": 200, "tables": 500, "properties": 500, "methods": 500}
COUNT = 100
"""For targets that need a broker each time."""


def test_every_target_can_be_named() -> None:
    assert tuple(TARGETS) == NAMES
    kept = CORPUS.iterdir() if CORPUS.is_dir() else iter(())
    assert {path.name for path in kept} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_stood(name: str) -> None:
    inputs = seeds_of(name)
    assert inputs
    for label, data in inputs.items():
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"{name} fails on {label}") from error


@pytest.mark.parametrize("name", NAMES)
def test_changed_inputs_are_stood(name: str) -> None:
    """Seed and count stand still: whether this passes must not be luck."""
    inputs = list(seeds_of(name).values())
    count = COUNTS.get(name, COUNT)
    assert search(TARGETS[name], inputs, seed=1, seconds=60, count_max=count) == count


def test_changes_can_be_repeated() -> None:
    data = [mutated(b"hare" * 9, [b"leveret"], random.Random(7)) for _ in range(2)]
    assert data[0] == data[1] != b"hare" * 9


def test_what_fails_is_found() -> None:
    def target(data: bytes) -> None:
        assert data[:1] != b"\xff"

    with pytest.raises(Found) as found:
        search(target, [b"\x00"], seed=1, seconds=10)

    assert found.value.data[:1] == b"\xff"
