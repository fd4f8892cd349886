"""Tells which of the two builds of the one source is running. Layer: base; imports nothing of ours.

Invariant: a build is compiled as a whole or not at all, so one module speaks for all of them.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final, Literal

__all__ = ["build_kind"]

_WITNESS: Final = "broker.core.message"


def build_kind() -> Literal["compiled", "plain"]:
    """Say whether the hot modules run compiled by mypyc or as plain Python.

    Imports nothing but two empty packages, so that ``leveret --version`` stays instant.
    """
    loaded = sys.modules.get(_WITNESS)
    spec = find_spec(_WITNESS) if loaded is None else loaded.__spec__
    origin = "" if spec is None else spec.origin or ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "plain"
