"""What a broker tells its log, for tests that wait for a line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker import embedded

if TYPE_CHECKING:
    import pytest

__all__ = ["LogLines", "recorded"]


class LogLines:
    """Takes the place of a log, and keeps everything."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self._told = asyncio.Event()

    def __call__(self, level: str, event: str, fields: dict[str, object]) -> None:
        self.lines.append((level, event, fields))
        self._told.set()

    def of(self, event: str) -> list[dict[str, object]]:
        """The fields of every event of that name."""
        return [fields for _, name, fields in self.lines if name == event]

    async def wait_for(self, event: str, count: int = 1) -> dict[str, object]:
        """The last one of that name, when there are so many."""
        async with asyncio.timeout(10):
            while len(self.of(event)) < count:
                self._told.clear()
                await self._told.wait()

        return self.of(event)[-1]


def recorded(monkeypatch: pytest.MonkeyPatch) -> LogLines:
    """Have embedded brokers of this test tell it everything."""
    lines = LogLines()
    monkeypatch.setattr(embedded, "Log", lambda _level: lines)
    return lines
