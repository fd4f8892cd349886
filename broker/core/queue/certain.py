"""Dead letters that stay with their queue until every target has taken them (rule DL-13).

Publishing is immediate here, so a letter is taken at once unless its DLX is missing, nothing is
bound to it, or a target refuses. Then it waits and is tried again, those that came first ahead.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.core.dead_letter import RetainedLetter

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.deadlines import Timer
    from broker.core.message import Message
    from broker.core.queue.queue import Queue

__all__ = ["CertainDeadLetters"]

RETRY_MS: Final = 1_000
"""Between two tries. RabbitMQ waits three minutes, since it cannot know whether a try failed."""

TRIED_MAX: Final = 32
"""Letters tried at a time, RabbitMQ's number too: what no target takes does not eat the node."""


class CertainDeadLetters:
    """The dead letters of one queue that nobody has taken yet; they count for its length limits.

    Args:
        queue: where they died.

    """

    __slots__ = ("_letters", "_queue", "_timer", "count", "size_bytes")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._letters: dict[RetainedLetter, None] = {}
        self._timer: Timer | None = None
        self.count: i64 = 0
        self.size_bytes: i64 = 0

    def add(self, message: Message, reason: str) -> None:
        """Keep a message that has died, and try to hand it on."""
        queue = self._queue
        queue.vhost.tally.count_death(queue.type, reason, "at_least_once")
        letter = RetainedLetter(message, reason, self._answered)
        self._letters[letter] = None
        self.count += 1
        self.size_bytes += message.body_size
        if self.count <= TRIED_MAX:
            self._queue.vhost.dead_letters.deliver(self._queue, letter)
        else:
            self._arm(RETRY_MS)

    def messages(self) -> list[Message]:
        """The messages that have died, oldest first."""
        return [letter.message for letter in self._letters]

    def clear(self) -> i64:
        """Forget all letters; returns how many."""
        count: i64 = self.count
        for letter in self._letters:
            self._queue.let_go(letter.message)

        self._letters.clear()
        self.count = 0
        self.size_bytes = 0
        timer = self._timer
        if timer is not None:
            self._queue.vhost.deadlines.cancel(timer)
            self._timer = None

        return count

    def _answered(self, letter: RetainedLetter, is_taken: bool) -> None:
        if letter not in self._letters:
            # It was purged while it was on its way.
            return

        if is_taken:
            self._queue.let_go(letter.message)
            del self._letters[letter]
            self.count -= 1
            self.size_bytes -= letter.message.body_size
        else:
            self._arm(RETRY_MS)

    def _arm(self, after_ms: i64) -> None:
        if self._timer is None:
            deadlines = self._queue.vhost.deadlines
            self._timer = deadlines.schedule(deadlines.now_ms + after_ms, self._retry)

    def _retry(self) -> None:
        self._timer = None
        before: i64 = self.count
        for letter in list(islice(self._letters, TRIED_MAX)):
            self._queue.vhost.dead_letters.deliver(self._queue, letter)

        if self.count:
            # Where all of them went the next ones need not wait.
            self._arm(0 if self.count + TRIED_MAX <= before else RETRY_MS)
