"""How pytest, run by a test, comes to the fixtures of the testing kit."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

import broker

if TYPE_CHECKING:
    import pytest

__all__ = ["PLUGIN", "set_path"]

_IS_INSTALLED = any(one.name == "leveret" for one in entry_points(group="pytest11"))

PLUGIN: Final = () if _IS_INSTALLED else ("-p", "leveret_pytest")
"""Options for pytest: where the project is installed, it finds the plugin by itself."""


def set_path(monkeypatch: pytest.MonkeyPatch, *first: str) -> None:
    """Have Python, run by a test, find the broker and the plugin that this one has found.

    What the path is now stays on it: metadata that lie there may be what names the plugin.
    """
    now = [one for one in (os.environ.get("PYTHONPATH"),) if one]
    package = Path(broker.__file__).resolve().parents[1]
    project = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([*first, *now, str(package), str(project)])
    monkeypatch.setenv("PYTHONPATH", path)
