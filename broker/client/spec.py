"""Toolkit: what a queue is to be like, and the AMQP arguments that this is.

Invariant: whatever one asks for that a broker would ignore or refuse is refused here, by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from broker.client.checks import (
    SECONDS_MAX,
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_queue,
    check_seconds,
    shown,
)
from broker.client.errors import InvalidName, InvalidPriority, InvalidValue
from broker.client.fields import entries_of
from broker.client.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DEAD_EXCHANGE",
    "DEAD_SUFFIX",
    "NAMED",
    "QueueSpec",
    "check_priority",
    "check_queue_name",
    "dead_queue_name",
]

DEAD_EXCHANGE: Final = "leveret.dead"
"""The topic exchange that every dead letter goes through, by the name of the queue it was in."""

DEAD_SUFFIX: Final = ".dead"
"""The dead letters of the queue ``orders`` are in the queue ``orders.dead``."""

QUEUE_NAME_BYTES_MAX: Final = 200
"""AMQP has 255; the names of what belongs to a queue are its name and some more."""

CLASSIC_PRIORITY_MAX: Final = 255
QUORUM_PRIORITY_MAX: Final = 31
NAMED: Final = {
    "x-queue-type": ("kind", ("classic", "quorum")),
    "x-max-priority": ("max_priority", None),
    "x-single-active-consumer": ("single_active_consumer", None),
    "x-message-ttl": ("message_ttl", None),
    "x-expires": ("expires", None),
    "x-max-length": ("max_length", None),
    "x-max-length-bytes": ("max_bytes", None),
    "x-overflow": ("on_full", ("reject-publish", "drop-head")),
}
"""Arguments that have a name here, and the values that can be said by it, if not all can."""

FLAGS: Final = ("durable", "exclusive", "auto_delete", "dead_letter", "single_active_consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """What a queue is like. ``QueueSpec()`` is a durable queue with five attempts and dead letters.

    Some of it the broker keeps, and compares when the queue is declared again. The rest is of each
    client that declares it: ``retry``, ``ack_timeout``, ``dedupe_window``, ``priority_order``.

    Times are seconds, fractions included. What is None is the broker's default, mostly no limit.
    """

    kind: Literal["classic", "quorum"] = "classic"
    durable: bool = True
    """Survives a restart of the broker, and so do its messages."""

    exclusive: bool = False
    """This client's alone, and gone with its connection."""

    auto_delete: bool = False
    """Gone when its last consumer is."""

    expires: float | None = None
    """Gone when it was not used for so long."""

    retry: Retry = field(default_factory=Retry)
    """How often, and how long apart, a message is handled that fails."""

    ack_timeout: float | None = None
    """How long handling may take without :meth:`Delivery.touch`; after that it has failed."""

    message_ttl: float | None = None
    """How long a message waits before it is a dead letter."""

    max_length: int | None = None
    """How many messages may wait."""

    max_bytes: int | None = None
    """How many bytes of messages may wait."""

    on_full: Literal["reject", "drop-oldest"] = "reject"
    """What happens then: the sender is told, with :class:`QueueFull`, or the oldest goes."""

    max_priority: int | None = None
    """Messages have priorities from 0 to this one."""

    priority_order: Literal["high", "low"] = "high"
    """Which comes first: ``high`` numbers, as in AMQP, or ``low`` ones. It concerns senders alone:
    on the wire the higher number is always first. So each program that sends there has to declare
    it, or name it with ``declare(..., passive=True)``."""

    dead_letter: bool = True
    """Keep what failed for good, or expired, in the queue ``<name>.dead``; else it is gone."""

    max_dead_letters: int | None = None
    """How many of them to keep; the oldest go first."""

    dedupe_window: float | None = None
    """Skip a message whose id a consumer of this client has handled within so many seconds."""

    single_active_consumer: bool = False
    """One consumer at a time, the next one when that is gone; so order holds."""

    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Further arguments of ``queue.declare``, for what has no name here."""

    def __post_init__(self) -> None:
        for name in ("expires", "ack_timeout", "message_ttl", "dedupe_window"):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name), high=SECONDS_MAX)

        for name in ("max_length", "max_bytes", "max_priority", "max_dead_letters"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

        for name in FLAGS:
            check_flag(name, getattr(self, name))

        check_choice("kind", self.kind, ("classic", "quorum"))
        check_choice("on_full", self.on_full, ("reject", "drop-oldest"))
        check_choice("priority_order", self.priority_order, ("high", "low"))
        check_kind("retry", self.retry, Retry, "Retry(3)")
        entries_of("argument", self.arguments)
        if self.max_priority is not None and self.max_priority > self._priority_bound:
            raise InvalidValue(
                f"a {self.kind} queue has priorities up to {self._priority_bound}, "
                f"not {self.max_priority}"
            )

        if self.kind == "quorum" and (self.exclusive or self.auto_delete or not self.durable):
            raise InvalidValue("a quorum queue is durable, and neither exclusive nor auto_delete")

        self._check_used()

    def _check_used(self) -> None:
        """Refuse what would make no difference beside the rest, or would be said twice."""
        if self.on_full != "reject" and self.max_length is None and self.max_bytes is None:
            raise InvalidValue(
                f"on_full={self.on_full!r} is about a limit: say max_length or max_bytes"
            )

        if self.priority_order != "high" and self.max_priority is None:
            raise InvalidValue("priority_order is about priorities: say max_priority")

        if self.max_dead_letters is not None and not self.has_dead_letters:
            kind = "an exclusive queue" if self.exclusive else "a queue with dead_letter=False"
            raise InvalidValue(f"max_dead_letters is about dead letters, and {kind} keeps none")

        for argument, (name, values) in NAMED.items():
            given = self.arguments.get(argument)
            if given is not None and (values is None or given in values):
                raise InvalidValue(
                    f"the argument {argument} has a name here: say {name}=, and the toolkit knows "
                    "of it"
                )

    @property
    def _priority_bound(self) -> int:
        return CLASSIC_PRIORITY_MAX if self.kind == "classic" else QUORUM_PRIORITY_MAX

    @property
    def has_dead_letters(self) -> bool:
        """Whether there is a queue for dead letters: not for what goes with its connection."""
        return self.dead_letter and not self.exclusive

    @property
    def refuses_when_full(self) -> bool:
        """Whether the queue may refuse what is sent: then that waits with whoever sends it."""
        has_limit = self.max_length is not None or self.max_bytes is not None
        return has_limit and self.on_full == "reject"

    def arguments_for(self, name: str) -> dict[str, object]:
        """Return the arguments of ``queue.declare`` for the queue ``name``."""
        found: dict[str, object] = {}
        if self.kind != "classic":
            found["x-queue-type"] = self.kind

        if self.has_dead_letters:
            found["x-dead-letter-exchange"] = DEAD_EXCHANGE
            found["x-dead-letter-routing-key"] = name

        if self.max_length is not None or self.max_bytes is not None:
            is_rejecting = self.on_full == "reject"
            found["x-overflow"] = "reject-publish" if is_rejecting else "drop-head"

        if self.max_priority is not None and self.kind == "classic":
            found["x-max-priority"] = self.max_priority

        if self.single_active_consumer:
            found["x-single-active-consumer"] = True

        _put(found, "x-message-ttl", _as_ms(self.message_ttl))
        _put(found, "x-expires", _as_ms(self.expires))
        _put(found, "x-max-length", self.max_length)
        _put(found, "x-max-length-bytes", self.max_bytes)
        return found | dict(self.arguments)

    def dead_arguments(self) -> dict[str, object]:
        """Return the arguments of ``queue.declare`` for the queue of the dead letters."""
        found: dict[str, object] = {}
        if self.kind != "classic":
            found["x-queue-type"] = self.kind

        if self.max_dead_letters is not None:
            found["x-max-length"] = self.max_dead_letters
            found["x-overflow"] = "drop-head"

        return found

    def wire_priority(self, priority: int | None) -> int | None:
        """Return the priority to send for the one that was given; None to send none.

        Raises:
            InvalidPriority: the queue does not have that one.

        """
        if self.max_priority is None:
            if priority is not None and priority != 0:
                raise InvalidPriority(
                    f"priority {shown(priority)} would be ignored: the queue has no max_priority"
                )

            return None

        given = 0 if priority is None else priority
        if isinstance(given, bool) or not isinstance(given, int):
            raise InvalidPriority(f"a priority is a whole number, not {shown(given)}")

        if not 0 <= given <= self.max_priority:
            raise InvalidPriority(f"priority {given} is not between 0 and {self.max_priority}")

        return given if self.priority_order == "high" else self.max_priority - given

    def given_priority(self, wire: int | None) -> int:
        """Return the priority that a message was given, from the one it has on the wire."""
        if self.max_priority is None or self.priority_order == "high":
            return wire or 0

        return max(0, self.max_priority - (wire or 0))


def check_priority(priority: int | None) -> int | None:
    """Return a priority for a queue of which nothing is known, if AMQP has that one.

    Raises:
        InvalidPriority: it has not.

    """
    if priority is None:
        return None

    is_number = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= CLASSIC_PRIORITY_MAX:
        raise InvalidPriority(
            f"priority {shown(priority)} is not between 0 and {CLASSIC_PRIORITY_MAX}"
        )

    return priority


def dead_queue_name(name: str) -> str:
    """Return the name of the queue with the dead letters of the queue ``name``."""
    return name + DEAD_SUFFIX


def check_queue_name(name: str, argument: str = "name") -> str:
    """Return the name if a queue can be declared by it.

    Raises:
        InvalidName: it cannot, and the text says why.

    """
    check_queue(name, argument)
    if len(name) > QUEUE_NAME_BYTES_MAX:
        raise InvalidName(f"{name[:40]!r}... is longer than {QUEUE_NAME_BYTES_MAX} bytes")

    if name.startswith("amq."):
        raise InvalidName(f"{name!r}: names that begin with amq. are the broker's own")

    if "#" in name.split("."):
        raise InvalidName(f"{name!r}: the word # is a pattern of topics")

    return name


def _put(arguments: dict[str, object], key: str, value: int | None) -> None:
    if value is not None:
        arguments[key] = value


def _as_ms(seconds: float | None) -> int | None:
    """Round up: nothing is to expire early."""
    return None if seconds is None else math.ceil(seconds * 1000)
