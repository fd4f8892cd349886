"""Core: what is declared and deleted, told to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.binding import NO_ROWS
from broker.core.declarations import (
    binding_body,
    exchange_body,
    policy_body,
    policy_name_body,
    queue_body,
)
from broker.core.durable import (
    BOUND,
    EXCHANGE_DECLARED,
    EXCHANGE_DELETED,
    POLICY_CLEARED,
    POLICY_SET,
    PURGED,
    QUEUE_DECLARED,
    QUEUE_DELETED,
    STREAM_TRUNCATED,
    UNBOUND,
)
from broker.store.api import LogOwner
from broker.store.records import frame_record

if TYPE_CHECKING:
    from array import array

    from mypy_extensions import i64

    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import Exchange
    from broker.core.policy import Policy
    from broker.core.queue.queue import Queue

__all__ = ["DeclarationJournal"]


class DeclarationJournal(LogOwner):
    """The part of a journal that tells of what people declare: rare, and each with its record.

    Attributes:
        declarations_pending: something of that kind gathers.

    """

    __slots__ = ("_next_id", "_records", "declarations_pending")

    def __init__(self) -> None:
        self._next_id: i64 = 1
        self._records: list[bytes] = []
        self.declarations_pending = False

    def mark_dirty(self) -> None:
        """Something gathers: have it handed over when the turn ends."""
        raise NotImplementedError

    def adopt(self, holder: Destination) -> None:
        """From now on a holder of messages tells what happens to them."""
        raise NotImplementedError

    def _append(self, body: bytes) -> None:
        """Have a declaration, or the like, written."""
        self._records.append(frame_record(body))
        self.declarations_pending = True
        self.mark_dirty()

    def _new_id(self) -> int:
        number = int(self._next_id)
        self._next_id += 1
        return number

    @property
    def next_id(self) -> int:
        """The identity that the next holder gets."""
        return int(self._next_id)

    def queue_declared(self, queue: Queue) -> None:
        """A durable queue has come to be."""
        queue.log_id = self._new_id()
        queue.declaration = bytes((QUEUE_DECLARED,)) + queue_body(queue)
        self.adopt(queue)
        self._append(queue.declaration)

    def queue_deleted(self, queue: Queue) -> None:
        """A durable queue is gone, with all it holds."""
        self._append(bytes((QUEUE_DELETED,)) + int(queue.log_id).to_bytes(4, "little"))
        queue.log_id = 0

    def exchange_declared(self, exchange: Exchange) -> None:
        """A durable exchange has come to be."""
        exchange.log_id = self._new_id()
        self.adopt(exchange)
        exchange.declaration = bytes((EXCHANGE_DECLARED,)) + exchange_body(exchange)
        self._append(exchange.declaration)

    def exchange_deleted(self, exchange: Exchange) -> None:
        """A durable exchange is gone."""
        self._append(bytes((EXCHANGE_DELETED,)) + int(exchange.log_id).to_bytes(4, "little"))
        exchange.log_id = 0

    def bound(self, binding: Binding) -> None:
        """A durable binding has come to be."""
        self._append(bytes((BOUND,)) + binding_body(binding))

    def unbound(self, binding: Binding) -> None:
        """A durable binding is gone, while both its ends are there."""
        self._append(bytes((UNBOUND,)) + binding_body(binding))

    def policy_set(self, policy: Policy, *, is_operator: bool) -> None:
        """A policy was set or replaced."""
        self._append(bytes((POLICY_SET,)) + policy_body(policy, is_operator=is_operator))

    def policy_cleared(self, name: str, *, is_operator: bool) -> None:
        """A policy is gone."""
        self._append(bytes((POLICY_CLEARED,)) + policy_name_body(name, is_operator=is_operator))

    def stream_truncated(self, holder: Destination, first_offset: int) -> None:
        """A stream has dropped all before an offset."""
        body = int(holder.log_id).to_bytes(4, "little") + first_offset.to_bytes(8, "little")
        self._append(bytes((STREAM_TRUNCATED,)) + body)

    def purged(self, holder: Destination, kept: array[int]) -> None:
        """A queue has dropped all but some.

        Args:
            holder: the queue.
            kept: position and body size of each that stays.

        """
        # Those that have left since the last batch are dropped like all the others.
        holder.settled_rows = NO_ROWS
        head = bytes((PURGED,)) + int(holder.log_id).to_bytes(4, "little")
        self._append(head + kept.tobytes())
