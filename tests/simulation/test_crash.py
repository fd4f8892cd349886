"""Nothing that was confirmed is ever lost, whatever happens to the machine, seed by seed.

``SEED=17`` runs one again; ``SEEDS=5000`` runs more of them than usual, ``FIRST=1000`` others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from tests.helpers.small import SMALL, homes_of_bounds
from tests.simulation.crash import CrashSimulation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)

SEEDS_USUAL: Final = 1_500
SEEDS_EACH: Final = 50
"""In one test: pytest's own work for each would take longer than they do."""


@pytest.fixture(autouse=True)
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in homes_of_bounds():
        monkeypatch.setattr(module, name, SMALL[name])


def starts() -> list[int]:
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]

    first = int(os.environ.get("FIRST", "0"))
    return list(range(first, first + int(os.environ.get("SEEDS", SEEDS_USUAL)), SEEDS_EACH))


def seeds(start: int) -> Iterator[int]:
    return iter([start] if "SEED" in os.environ else range(start, start + SEEDS_EACH))


@pytest.mark.parametrize("start", starts())
def test_what_was_promised_is_there_after_every_crash(start: int) -> None:
    """The invariants of crash.py hold to the end."""
    for seed in seeds(start):
        try:
            CrashSimulation(seed).run()
        except Exception as error:
            error.add_note(f"SEED={seed} runs this again")
            raise
