"""Names that no other test, run or program uses."""

from __future__ import annotations

import uuid

__all__ = ["unique_name"]


def unique_name(kind: str = "q") -> str:
    """Return a fresh name; the prefix tells a person who looks at the broker where it is from."""
    return f"interop.{kind}.{uuid.uuid4().hex[:12]}"
