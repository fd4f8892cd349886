"""What tests of the toolkit share.

They have a broker each, embedded; or the one whose URL is in ``LEVERET_TOOLKIT_URL``, which may be
RabbitMQ. What needs Leveret is skipped there, and says so.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from broker.client import Client, ClientEvent

__all__ = ["LIVE_URL", "Heard", "needs_leveret"]

LIVE_URL: Final = os.environ.get("LEVERET_TOOLKIT_URL")
"""The broker to test against instead of embedded ones."""

needs_leveret: Final = pytest.mark.skipif(
    LIVE_URL is not None, reason="needs a broker that the test can stop, or look into"
)


class Heard:
    """The events of a client, to be waited for."""

    def __init__(self, client: Client) -> None:
        self.events: list[ClientEvent] = []
        self._changed = asyncio.Event()
        client.on_event(self._note)

    @property
    def kinds(self) -> list[str]:
        """What kinds of events there were."""
        return [event.kind for event in self.events]

    async def wait_for(self, kind: str, count: int = 1) -> ClientEvent:
        """Return the so-manieth event of a kind, once it is there."""
        while True:
            found = [event for event in self.events if event.kind == kind]
            if len(found) >= count:
                return found[count - 1]

            self._changed.clear()
            await self._changed.wait()

    def _note(self, event: ClientEvent) -> None:
        self.events.append(event)
        self._changed.set()
