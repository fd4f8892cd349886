"""A publisher under an alarm: it is not read from until the alarm is over (section MA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.connection import Connection

__all__ = ["Blocking"]


class Blocking:
    """Whether a connection is blocked, and whether it was told.

    Args:
        connection: which one.

    """

    __slots__ = ("_connection", "_is_told", "is_on")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_told = False
        self.is_on = False

    def begin(self) -> None:
        """A part of a content came under an alarm: nothing more is read (rules MA-02, MA-08)."""
        connection = self._connection
        reason = connection.node.alarm_reason()
        self.is_on = True
        connection.link.pause_reading()
        if connection.client.has_capability("connection.blocked"):
            self._is_told = True
            connection.send(codec.encode_connection_blocked(reason))

        connection.log("info", "connection.blocked", {"reason": reason})

    def end(self) -> bool:
        """The last alarm is over: reading goes on (rule MA-04). False when it was not blocked."""
        if not self.is_on:
            return False

        connection = self._connection
        self.is_on = False
        if self._is_told:
            self._is_told = False
            connection.send(codec.CONNECTION_UNBLOCKED)

        if not connection.output.is_stalled:
            connection.link.resume_reading()

        return True

    def lift(self) -> None:
        """The connection ends: read on, without a word."""
        if self.is_on:
            self.is_on = False
            self._connection.link.resume_reading()
