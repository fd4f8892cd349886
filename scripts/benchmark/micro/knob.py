"""What a micro-benchmark is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["Act", "Micro"]

Act: TypeAlias = Callable[[], int]
"""Does the operations and returns how many they were."""


class Micro(NamedTuple):
    """One operation and what it may depend on."""

    name: str
    knob: str
    """What the values count."""
    values: tuple[int, ...]
    operations: int
    """In one sample, on the compiled build about a hundredth of a second."""
    prepare: Callable[[int, int], Act]
    """Takes a value and about how many operations; what it returns does them, once."""
