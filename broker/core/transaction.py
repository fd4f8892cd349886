"""A channel's transaction: publishes and settlements that wait for tx.commit (rules TX).

Everything is checked when it is issued; on commit the publishes happen, in order, and then the
settlements, in order (rule TX-04).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.routing import NO_KEEPERS
from broker.errors import PreconditionFailed
from broker.limits import UNCOMMITTED_PER_CHANNEL_MAX

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.message import Message
    from broker.core.queue.queue import Queue

__all__ = ["ACK", "REJECT", "REQUEUE", "Publication", "Settlement", "Transaction"]

ACK = 0
REJECT = 1
REQUEUE = 2


class Publication:
    """A publish that is to happen: its queues were found when it was issued (rule TX-03).

    Attributes:
        keepers: the exchanges that take the message too, once it happens.

    """

    __slots__ = ("is_returned", "keepers", "message", "queues", "ttl_ms")

    def __init__(
        self, message: Message, queues: list[Queue], ttl_ms: i64, is_returned: bool
    ) -> None:
        self.message = message
        self.queues = queues
        self.ttl_ms = ttl_ms
        self.is_returned = is_returned
        self.keepers = NO_KEEPERS


class Settlement:
    """Deliveries that were acknowledged or refused, and how."""

    __slots__ = ("kind", "messages")

    def __init__(self, kind: int, messages: list[Message]) -> None:
        self.kind = kind
        self.messages = messages


class Transaction:
    """What a channel in tx mode has issued since the last commit or rollback."""

    __slots__ = ("_count", "publications", "settlements")

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.settlements: list[Settlement] = []
        self._count: i64 = 0

    def add_publication(self, publication: Publication) -> None:
        """Keep a publish for the commit.

        Raises:
            PreconditionFailed: the transaction has grown beyond its bound.

        """
        # One message may go to more queues than there is room for: it alone does.
        self._grow(max(1, len(publication.queues)) if self._count else 1)
        self.publications.append(publication)

    def add_settlement(self, kind: int, messages: list[Message]) -> None:
        """Keep a settlement for the commit.

        Raises:
            PreconditionFailed: the transaction has grown beyond its bound.

        """
        if not messages:
            # Rule A-02: all of nothing. There may be any number of these.
            return

        self._grow(len(messages))
        self.settlements.append(Settlement(kind, messages))

    def _grow(self, count: i64) -> None:
        if self._count + count > UNCOMMITTED_PER_CHANNEL_MAX:
            raise PreconditionFailed(
                f"transaction too large: more than {UNCOMMITTED_PER_CHANNEL_MAX} uncommitted "
                "publishes and acknowledgements on one channel"
            )

        self._count += count

    def take_publications(self) -> list[Publication]:
        """Hand over the publishes."""
        publications = self.publications
        self.publications = []
        return publications

    def take_settlements(self) -> list[Settlement]:
        """Hand over the settlements; the next transaction begins (rule TX-07)."""
        settlements = self.settlements
        self.settlements = []
        self._count = 0
        return settlements

    def settled_messages(self) -> list[Message]:
        """The deliveries that were settled but not committed."""
        return [message for one in self.settlements for message in one.messages]
