"""Core: what recovery has found of the messages that an exchange delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.exchange.due import Due, DueMessages
from broker.core.recovered import Recovered, count_positions

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.durable import StoredMessage
    from broker.core.recovered import Live

__all__ = ["RecoveredDelays"]


class RecoveredDelays(Recovered):
    """The messages that wait, as the log has told so far.

    Attributes:
        messages: by due time.
        number: of the last that came.

    """

    __slots__ = ("messages", "number")

    def __init__(self, exchange: Destination) -> None:
        super().__init__(exchange)
        self.messages = DueMessages()
        self.number = 0

    def add(self, stored: StoredMessage, place: i64, position: i64) -> None:
        self.number += 1
        self.messages.add(Due(int(stored.deadline(place)), self.number, int(position)))

    def take_due_index(self, buffer: bytes, start: i64, end: i64) -> None:
        self.number = max(self.number, self.messages.take_index(buffer, start, end))

    def finish(self) -> None:
        if self._gone:
            self.messages.settle_all(self._gone)

        if self._latest:
            self.messages.move(self._latest)

    def count_live(self, live: Live) -> None:
        for positions in self.messages.positions():
            count_positions(positions, live)

    @property
    def count(self) -> int:
        return self.messages.count
