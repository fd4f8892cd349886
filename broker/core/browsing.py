"""Looking at the messages of a queue without touching them.

A queue may be long and go on working meanwhile: a browser takes note of what is in memory when it
begins, and reads what lies on disk a few messages at a time. It shows what was there at its start
and had not left when it came by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import GONE
from broker.core.queue.quorum import QuorumQueue
from broker.core.queue.stream import StreamQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_extensions import i64

    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.queue.ready import Ready
    from broker.core.queue.stream_log import StreamLog
    from broker.core.vhost import VirtualHost

__all__ = ["UNACKED_COUNT", "Browser", "unacked_parts"]

READ_COUNT: Final = 256

UNACKED_COUNT: Final = 2_000
"""Unacked messages that are looked at in one turn; less than half a millisecond."""


class _Part:
    """Some messages in their order."""

    def skip(self, count: int) -> int:
        """Leave out so many; returns how many there were."""
        raise NotImplementedError

    def take(self, count: int) -> list[Message]:
        """The next messages, none when it is at its end."""
        raise NotImplementedError


class _Listed(_Part):
    """Messages in memory."""

    __slots__ = ("_at", "_messages")

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._at = 0

    def skip(self, count: int) -> int:
        skipped = min(count, len(self._messages) - self._at)
        self._at += skipped
        return skipped

    def take(self, count: int) -> list[Message]:
        found = self._messages[self._at : self._at + count]
        self._at += len(found)
        return found


class _OnDisk(_Part):
    """Messages of one level that lie on disk, by position."""

    __slots__ = ("_at", "_end", "_level")

    def __init__(self, level: Ready) -> None:
        self._level = level
        cold = level.cold
        assert cold is not None
        self._at: int = int(cold.first_position)
        self._end: int = self._at + int(cold.count)

    def skip(self, count: int) -> int:
        skipped = min(count, self._end - self._at)
        self._at += skipped
        return skipped

    def take(self, count: int) -> list[Message]:
        cold = self._level.cold
        if cold is None:
            return []

        # What is at the front has been brought back, or has left, since.
        self._at = max(self._at, int(cold.first_position))
        wanted = min(count, READ_COUNT, self._end - self._at)
        if wanted <= 0:
            return []

        found = cold.peek(self._at, wanted)
        self._at += len(found)
        return found


class _InStream(_Part):
    """The entries of a stream, by offset."""

    __slots__ = ("_at", "_end", "_log")

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self._at: int = int(log.first_offset)
        self._end: int = int(log.safe_offset)

    def skip(self, count: int) -> int:
        skipped = min(count, self._end - self._at)
        self._at += skipped
        return skipped

    def take(self, count: int) -> list[Message]:
        found: list[Message] = []
        self._at = max(self._at, int(self._log.first_offset))
        while len(found) < count and self._at < self._end:
            found.append(self._log.message_at(self._at))
            self._at += 1

        self._log.forget_read()
        return found


class Browser:
    """Walks over the ready messages of a queue in the order in which they would be served.

    Args:
        queue: it may change meanwhile.

    """

    __slots__ = ("_parts",)

    def __init__(self, queue: Queue) -> None:
        self._parts: list[_Part] = []
        if isinstance(queue, StreamQueue):
            if queue.log.count:
                self._parts.append(_InStream(queue.log))

            return

        is_quorum = isinstance(queue, QuorumQueue)
        if is_quorum:
            self._parts.append(_Listed(queue.ready.front()))

        for _, level in queue.ready.levels():
            self._add_level(level)

        if isinstance(queue, QuorumQueue):
            self._parts.append(_Listed(queue.aside_messages()))

    def _add_level(self, level: Ready) -> None:
        cold = level.cold
        hot = level.hot()
        if cold is None:
            self._parts.append(_Listed(_present(level.front() + hot)))
            return

        tail = list(cold.tail)
        self._parts.append(_Listed(_present(level.front() + hot[: len(hot) - len(tail)])))
        self._parts.append(_OnDisk(level))
        self._parts.append(_Listed(tail))

    def skip(self, count: int) -> int:
        """Leave out the next so many; returns how many there were."""
        skipped = 0
        for part in self._parts:
            skipped += part.skip(count - skipped)
            if skipped == count:
                break

        return skipped

    def take(self, count: int) -> list[Message]:
        """The next messages: so many or less; none when there are no more.

        Raises:
            StoreError: they cannot be read.

        """
        while self._parts:
            found = self._parts[0].take(count)
            if found:
                return found

            del self._parts[0]

        return []


def _present(messages: list[Message]) -> list[Message]:
    """Those that have not expired and left their places behind."""
    return [one for one in messages if one.deadline_ms != GONE]


def unacked_parts(vhost: VirtualHost) -> Iterator[list[Message]]:
    """The messages that clients have and have not settled for good, a few at a time.

    Those of a channel are in order. It may go on working between two parts.

    """
    for deliveries in list(vhost.deliveries):
        transaction = deliveries.transaction
        if transaction is not None:
            yield transaction.settled_messages()

        tag: i64 = 0
        while True:
            part = deliveries.unacked.part(tag, UNACKED_COUNT)
            yield part
            if not part:
                break

            tag = part[len(part) - 1].delivery_tag + 1
