"""How pytest, run by a test, comes to the fixtures of the testing kit."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

__all__ = ["PLUGIN"]

_IS_INSTALLED = any(one.name == "leveret" for one in entry_points(group="pytest11"))

PLUGIN: Final = () if _IS_INSTALLED else ("-p", "broker.testing.plugin")
"""Options for pytest: where the project is installed, it finds the plugin by itself."""
