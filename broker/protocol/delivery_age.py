"""How long deliveries have been waiting for their settlement, without a clock in any of them.

Delivery tags grow with time. Once a minute, or more often where the node's timeout is shorter, a
connection notes, for each channel with something unacked, which tag would be next: whatever has a
lower tag was delivered before. So the oldest unacked delivery tells its age to the minute, at no
cost to those that are settled in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.argument_rules import QUORUM, integer_value
from broker.errors import PreconditionFailed

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.deadlines import Timer
    from broker.core.message import Message
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection

__all__ = ["CHECK_MS", "DeliveryAges"]

CHECK_MS: Final = 60_000
"""Between two looks at a channel at most, RabbitMQ's interval too (rule MA-10)."""

SOON_MS: Final = 1_000
"""A look that is due earlier than this after another one waits."""

MARKS_MAX: Final = 64
"""Notes kept for one channel; with more, every second one is forgotten."""


class DeliveryAges:
    """Watches the unacked deliveries of one connection (rules MA-10, MA-12).

    Args:
        connection: whose channels to watch, from `watch` to `stop`.

    """

    __slots__ = ("_connection", "_marks", "_timer")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # By channel, oldest first: the time, and the delivery tag that was next then.
        self._marks: dict[Channel, list[tuple[int, int]]] = {}
        self._timer: Timer | None = None

    def watch(self) -> None:
        """There is a consumer, or a delivery, that may have to be waited for."""
        if self._timer is None:
            self._schedule(self._interval_ms())

    @property
    def mark_count(self) -> int:
        """Notes that are kept, of all channels."""
        return sum(len(marks) for marks in self._marks.values())

    def _interval_ms(self) -> int:
        """Between two looks: a short timeout of the node is looked for more often."""
        timeout_ms = self._connection.node.settings.consumer_timeout_ms
        return max(SOON_MS, min(timeout_ms, CHECK_MS)) if timeout_ms > 0 else CHECK_MS

    def _schedule(self, after_ms: i64) -> None:
        deadlines = self._connection.node.deadlines
        self._timer = deadlines.schedule(deadlines.now_ms + after_ms, self._check)

    def stop(self) -> None:
        """The connection has ended."""
        timer = self._timer
        if timer is not None:
            self._connection.node.deadlines.cancel(timer)
            self._timer = None

        self._marks.clear()

    def _check(self) -> None:
        """Look at every channel, and close those that have waited too long."""
        self._timer = None
        is_needed = False
        marks = self._marks
        self._marks = {}
        wait_ms = self._interval_ms()
        late: list[tuple[Channel, int]] = []
        for channel in self._connection.channels.values():
            oldest = channel.deliveries.unacked.oldest()
            is_needed = is_needed or oldest is not None or bool(channel.consumers)
            if oldest is None:
                continue

            timeout_ms = self._timeout_of(oldest)
            if timeout_ms <= 0:
                continue

            kept = self._mark(channel, marks.get(channel, []), int(oldest.delivery_tag))
            left_ms = timeout_ms - (kept[-1][0] - kept[0][0])
            if left_ms <= 0:
                late.append((channel, timeout_ms))
            else:
                self._marks[channel] = kept
                wait_ms = min(wait_ms, max(left_ms, SOON_MS))

        if is_needed:
            self._schedule(wait_ms)

        for channel, timeout_ms in late:
            self._connection.close_channel(channel, _timed_out(channel, timeout_ms))

    def _mark(
        self, channel: Channel, marks: list[tuple[int, int]], oldest_tag: int
    ) -> list[tuple[int, int]]:
        """The notes that still say something: the first one when the oldest was there already."""
        kept = [mark for mark in marks if mark[1] > oldest_tag]
        if len(kept) >= MARKS_MAX:
            kept = kept[::2]

        now_ms = int(self._connection.node.deadlines.now_ms)
        kept.append((now_ms, int(channel.deliveries.next_tag)))
        return kept

    def _timeout_of(self, message: Message) -> int:
        """Milliseconds, or 0 for none: of the consumer, the queue, or the node (rule MA-12)."""
        consumer = message.consumer
        assert consumer is not None
        queue = consumer.queue
        if queue.type == QUORUM:
            asked_ms = integer_value(consumer.arguments.get("x-consumer-timeout"))
            if asked_ms is not None:
                return asked_ms

        timeout_ms = queue.settings.consumer_timeout_ms
        if timeout_ms is None:
            timeout_ms = self._connection.node.settings.consumer_timeout_ms

        return timeout_ms


def _timed_out(channel: Channel, timeout_ms: int) -> PreconditionFailed:
    return PreconditionFailed(
        f"delivery acknowledgement on channel {channel.channel_id} timed out. "
        f"Timeout value used: {timeout_ms} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more",
        class_id=0,
        method_id=0,
    )
