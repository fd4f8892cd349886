"""Libraries without annotations, imported as what they are to the type checker: anything."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["pika"]

pika: Any = import_module("pika")
