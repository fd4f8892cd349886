"""Waiting for a broker under test, from coroutines and from everywhere else. Layer: testing.

Invariant: who waits either blocks or awaits. What is done for it in the broker runs in the broker's
own loop; what it brought along (a condition) runs where it waits: it may well ask the broker by a
client, which would have to wait for itself in the broker's loop.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    Steps = Callable[[], Iterator[Coroutine[object, object, None]]]

__all__ = ["Bell", "Waited", "wait"]


class Bell:
    """Rings when something has happened; belongs to the broker's loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[bool]] = []

    def ring(self) -> None:
        """Wake who waits."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(True)

    async def wait(self, seconds: float) -> bool:
        """Return when it rings, or after a while; whether it rang."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(seconds, _give_up, future)
        try:
            return await future
        finally:
            timer.cancel()


def _give_up(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


class Waited:
    """Something that takes its time: done when you have it, or awaited in a coroutine.

    Called where no event loop runs, the methods that return this have waited already. In a
    coroutine blocking would stop the client that is waited for: ``await`` it there.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        steps: Steps,
        name: str,
        forgotten: list[str],
    ) -> None:
        self._loop = loop
        self._steps: Steps | None = steps
        self._name = name
        self._forgotten = forgotten

    def __await__(self) -> Generator[object, None, None]:
        for step in self._take():
            future = asyncio.run_coroutine_threadsafe(step, self._loop)
            yield from asyncio.wrap_future(future).__await__()

    def block(self) -> None:
        """Wait here after all, for a client that is in a thread of its own."""
        for step in self._take():
            asyncio.run_coroutine_threadsafe(step, self._loop).result()

    def _take(self) -> Iterator[Coroutine[object, object, None]]:
        steps, self._steps = self._steps, None
        return iter(()) if steps is None else steps()

    def __del__(self) -> None:
        if self._steps is not None:
            text = f"{self._name} was not awaited: write `await {self._name}` in a coroutine"
            self._forgotten.append(text)
            warnings.warn(text, RuntimeWarning, stacklevel=2, source=self)


def wait(
    loop: asyncio.AbstractEventLoop,
    steps: Steps,
    name: str,
    forgotten: list[str],
) -> Waited:
    """Do some work in a broker's loop: at once, or when it is awaited.

    Args:
        loop: the broker's.
        steps: makes the coroutines, one after the other.
        name: what the work is called in warnings.
        forgotten: told of work that was neither done nor awaited.

    """
    waited = Waited(loop, steps, name, forgotten)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        waited.block()

    return waited
