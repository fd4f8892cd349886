"""Toolkit, tasks: what to say when an optional library is not there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.client.errors import ToolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MissingExtra", "needs_extra"]


class MissingExtra(ToolkitError, ImportError):
    """An optional library is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import something inside of this that only an extra installs."""
    try:
        yield
    except ImportError as problem:
        raise MissingExtra(
            f"{problem.name or extra} is not installed: pip install 'leveret[{extra}]'"
        ) from problem
