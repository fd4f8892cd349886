"""Core: what a message can be routed to, and the bindings that lead there.

A binding is filed twice: with its source under its identity (:attr:`Exchange.bindings`), and with
its destination (:attr:`Destination.incoming`). So binding, unbinding and deleting either end cost
what the bindings concerned cost, never a search through the others. Only
:mod:`broker.core.exchange.base` changes the two, always together.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from broker.wire.tables import encode_table

if TYPE_CHECKING:
    from mypy_extensions import i16, i64

    from broker.core.exchange.base import Exchange
    from broker.core.journal import Journal
    from broker.core.queue.queue import Queue
    from broker.core.recovered import Recovered
    from broker.wire.tables import Arguments

__all__ = ["NO_ROWS", "Binding", "BindingKey", "Destination", "binding_key"]

ARGUMENTS_HASH_BYTES: Final = 12

NO_ROWS: Final[array[int]] = array("Q")
"""Shared, since it is mostly so: must not be changed."""


class Destination:
    """A queue or an exchange: the far end of bindings.

    Two destinations are the same only when they are the same object: a queue that was deleted and
    declared again is another one, without the bindings of the first.
    """

    __slots__ = (
        "declaration",
        "durable",
        "incoming",
        "is_queue",
        "journal",
        "keeps_all",
        "log_id",
        "name",
        "settled_rows",
    )

    def __init__(self, name: str, is_queue: bool, durable: bool = False) -> None:
        self.name: str = name
        self.is_queue: bool = is_queue
        self.durable: bool = durable
        # What the log calls it; 0 where it does not know it. Its record, and what is told there.
        self.log_id: i64 = 0
        self.declaration: bytes = b""
        self.journal: Journal | None = None
        # Whether it keeps messages that are not persistent too.
        self.keeps_all: bool = False
        # Positions and body sizes of messages that left, for the batch that gathers.
        self.settled_rows: array[int] = NO_ROWS
        self.incoming: dict[Binding, None] = {}
        """The bindings that lead here, oldest first (a set that keeps its order)."""

    def as_queue(self) -> Queue | None:
        """Itself, if it is a queue."""
        return None

    def level_of(self, priority: i16) -> int:
        """The level that a message of that priority stands in."""
        return 0

    def journal_started(self, journal: Journal) -> None:
        """Recovery has read everything: from now on changes are told to the journal."""
        self.journal = journal

    def awaits_log(self) -> bool:
        """Whether it wants to know when the log has the messages that it was given."""
        return False

    def written(self, journal: Journal) -> bool:
        """The log has messages: let go of what can be read back. True: there is more to come."""
        return False

    def places_in(self, numbers: set[int]) -> list[int]:
        """Where messages on disk stand that lie in those segments of the log."""
        return []

    def move_cold(self, places: dict[int, int]) -> list[int]:
        """Messages on disk have another position now; returns the old ones that are here."""
        return []

    def restore(self, journal: Journal, found: Recovered) -> None:
        """Take over the messages that recovery has found."""


class Binding:
    """One rule of an exchange: where messages of a key, or of certain headers, go on to."""

    __slots__ = ("arguments", "destination", "identity", "routing_key", "source")

    def __init__(
        self, source: Exchange, destination: Destination, routing_key: str, arguments: Arguments
    ) -> None:
        self.source: Exchange = source
        self.destination: Destination = destination
        self.routing_key: str = routing_key
        self.arguments: Arguments = arguments
        self.identity: BindingKey = binding_key(destination, routing_key, arguments)

    @property
    def durable(self) -> bool:
        """Whether it outlives a restart: both of its ends do (rule B-09)."""
        return self.source.durable and self.destination.durable

    @property
    def properties_key(self) -> str:
        """Its name among the bindings of the same two ends, in the HTTP API (rule B-10)."""
        arguments = self.identity[2]
        if not self.routing_key and not arguments:
            return "~"

        raw_key = self.routing_key.encode("utf-8", "surrogateescape")
        quoted = quote_plus(raw_key).replace("~", "%7E")
        if not arguments:
            return quoted

        digest = hashlib.blake2b(arguments, digest_size=ARGUMENTS_HASH_BYTES)
        return f"{quoted}~{digest.hexdigest()}"


BindingKey = tuple[Destination, str, bytes]
"""What tells the bindings of one source apart: destination, key, canonical arguments."""


def binding_key(destination: Destination, routing_key: str, arguments: Arguments) -> BindingKey:
    """Return the identity of a binding within its source (rule B-01): arguments in any order."""
    if not arguments:
        return (destination, routing_key, b"")

    return (destination, routing_key, encode_table(dict(sorted(arguments.items()))))
