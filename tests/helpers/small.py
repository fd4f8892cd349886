"""Bounds made so small that everything there is for large numbers happens with small ones.

Compiled, a module has them built in: the same is tested, but some of it happens seldom.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from broker.build import build_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["SMALL", "homes_of_bounds"]

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


def homes_of_bounds() -> Iterator[tuple[ModuleType, str]]:
    """The modules that have one of these, and which; none where it would make no difference."""
    if build_kind() != "plain":
        return

    modules = [module for name, module in sys.modules.items() if name.startswith("broker.")]
    found = [
        (module, bound)
        for module in modules
        for bound in SMALL
        if module.__name__ != "broker.limits" and hasattr(module, bound)
    ]
    assert {bound for _, bound in found} == set(SMALL), "a bound has another name now"
    yield from found
