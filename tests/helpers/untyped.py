"""Libraries without annotations, imported as what they are to the type checker: anything."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["pamqp", "pika"]

pika: Any = import_module("pika")
pamqp: Any = import_module("pamqp")
for _module in ("body", "commands", "frame", "header"):
    import_module(f"pamqp.{_module}")
