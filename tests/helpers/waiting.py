"""Waiting for something that nobody announces."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["until"]

LOOK_S = 0.02


async def until(is_so: Callable[[], bool | Awaitable[bool]], timeout_s: float = 15.0) -> None:
    """Look again and again; fail if it is not so in time."""
    async with asyncio.timeout(timeout_s):
        while True:
            answer = is_so()
            if await answer if inspect.isawaitable(answer) else answer:
                return

            await asyncio.sleep(LOOK_S)
