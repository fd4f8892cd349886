"""One thing per event loop: connections cannot be shared between loops. Layer: tasks."""

from __future__ import annotations

import asyncio
import threading
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["PerLoop"]

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Keeps a value for each running event loop, and lets go of it with the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T | None:
        """Return the value of the running loop."""
        with self._lock:
            return self._values.get(asyncio.get_running_loop())

    def set(self, value: T) -> T:
        """Set the value of the running loop, and return it."""
        with self._lock:
            self._values[asyncio.get_running_loop()] = value

        return value

    def pop(self) -> T | None:
        """Forget the value of the running loop, and return it."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)
