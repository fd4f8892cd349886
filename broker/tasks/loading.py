"""Toolkit, tasks: finds an application by the name that is given on a command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from broker.client.checks import check_texts
from broker.client.errors import ToolkitError
from broker.tasks.app import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LoadError", "load_app"]


class LoadError(ToolkitError, ImportError):
    """An application cannot be loaded. A worker without its tasks must not run."""


def load_app(name: str, modules: Iterable[str] = ()) -> Tasks:
    """Return the application called ``module:variable``.

    Args:
        name: module and variable; the variable is ``tasks`` if it is left out.
        modules: further modules to import, for the tasks that they register.

    Raises:
        LoadError: something cannot be imported, or is no application, or has no task.

    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)

    module_name, _, variable = name.partition(":")
    module = _imported(module_name)
    found: object = module
    for part in (variable or "tasks").split("."):
        found = getattr(found, part, None)

    if not isinstance(found, Tasks):
        raise LoadError(f"{name}: {variable or 'tasks'} of {module_name} is no Tasks but {found!r}")

    for one in check_texts("modules", modules):
        _imported(one)

    if not found.registered:
        raise LoadError(f"{name} has no tasks; name the modules that have them, too")

    return found


def _imported(name: str) -> object:
    try:
        return import_module(name)
    except SystemExit as problem:
        raise LoadError(
            f"cannot import {name}: it calls sys.exit({problem.code!r}); is a program without "
            "if __name__ == '__main__'?"
        ) from problem
    except Exception as problem:  # whatever a module does when it is imported
        raise LoadError(f"cannot import {name}: {type(problem).__name__}: {problem}") from problem
