"""Nothing that was confirmed is ever lost, whatever happens to the machine, seed by seed.

``SEED=17`` runs one again; ``SEEDS=5000`` runs more of them than usual, ``FIRST=1000`` others.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.simulation.crash import CrashSimulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

SEEDS_USUAL: Final = 600
SEEDS_EACH: Final = 100
"""In one test: pytest's own work for each would take longer than they do."""

SMALL: Final = {
    "CHECKPOINT_BYTES": 12_000,
    "CHUNK_COUNT": 4,
    "COLD_READ_BYTES_MAX": 1_000,
    "HOT_MESSAGES_MAX": 3,
    "MOVED_BYTES_MAX": 2_000,
    "REFILL_COUNT": 2,
    "ROWS_MAX": 3,
    "SMALL_READ_BYTES": 100,
    "SOON_MS": 100,
}
"""So that everything there is for large numbers happens with small ones; compiled, a module keeps
the values that it was built with."""


@pytest.fixture(autouse=True)
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in homes():
        monkeypatch.setattr(module, name, SMALL[name])


def homes() -> list[tuple[ModuleType, str]]:
    """The modules that have one of these numbers, and which."""
    names = [name for name in sys.modules if name.startswith("broker.")]
    modules = [sys.modules[name] for name in names if name != "broker.limits"]
    found = [(module, name) for module in modules for name in SMALL if hasattr(module, name)]
    assert {name for _, name in found} == set(SMALL)
    return found


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
