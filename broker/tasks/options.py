"""Toolkit, tasks: what can be said about a task, and about how often it may run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypedDict, get_args

from broker.client.checks import (
    SECONDS_MAX,
    check_flag,
    check_kind,
    check_seconds,
    check_text,
    shown,
)
from broker.client.errors import InvalidValue
from broker.client.retry import Retry
from broker.client.spec import QueueSpec, check_priority, check_queue_name
from broker.tasks.current import Again
from broker.tasks.partition import Partitions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from broker.client.codecs import Codec
    from broker.tasks.once.base import IdempotencyStore
    from broker.tasks.results.base import ResultBackend

__all__ = [
    "GUARANTEES",
    "ONCE_AND_AGAIN",
    "Guarantee",
    "Options",
    "OptionsGiven",
    "PeriodicGiven",
    "Settings",
    "WorkerSettings",
    "check_spec",
    "checked_guarantee",
]

Guarantee = Literal["at_most_once", "at_least_once", "effectively_once"]
"""``at_most_once``: settled before it runs, and not run again, whatever happens.

``at_least_once``: settled when it is done; run again when a worker dies before that.

``effectively_once``: as that, and what is done is remembered in an idempotency store: it is not
done again, and a worker that was thought to be dead and is not cannot finish."""

GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)

KEY_BYTES_MAX: Final = 200
"""Of an id that queues of results are named after."""

NOT_OF_TASKS: Final = {
    "retry": "say retry= of Tasks(...) or of a task",
    "ack_timeout": "say timeout= of a task",
    "dedupe_window": "say guarantee='effectively_once' and once=, which remember what was done",
    "exclusive": "each worker and each sender has connections of its own; say auto_delete=True for "
    "a queue that goes when its last worker does",
}
"""What a queue's spec may say that means nothing for tasks, and what to say instead."""

ONCE_AND_AGAIN: Final = (
    "what runs at most once cannot be retried: leave one of both out, or say of the task which"
)

Overlap = Literal["allow", "skip"]
Missed = Literal["last", "all", "skip"]


class Settings(TypedDict, total=False):
    """What :class:`broker.tasks.Tasks` can be told."""

    codec: str | Codec
    """What arguments and results are written with: ``json``, ``msgpack``, ``pickle`` or one of your
    own."""

    accept: Sequence[str | Codec]
    """What else to read; pickle only if it is named here or there."""

    results: ResultBackend | Literal["amqp"] | None
    """Where results are kept; None is nowhere."""

    guarantee: Guarantee
    """How often a task may run; workers and tasks can be told otherwise."""

    once: IdempotencyStore | None
    """The idempotency store that ``effectively_once`` needs."""

    retry: Retry
    """What to do when a task raises, unless the task says otherwise. By default it fails."""

    queue: str
    """The queue of tasks that name none; by default that of the application's name."""

    spec: QueueSpec
    """What the queues are like."""

    publish_events: bool
    """Whether to publish what happens to tasks, for other processes."""

    timeout: float
    """How many seconds to wait for the broker."""


class OptionsGiven(TypedDict, total=False):
    """What ``@tasks.task(...)`` can be told; :class:`Options` says what it means."""

    queue: str
    retry: Retry
    guarantee: Guarantee
    timeout: float
    priority: int
    ttl: float
    result: bool
    partitions: Partitions
    blocking: bool


class PeriodicGiven(OptionsGiven, total=False):
    """What ``@tasks.every(...)`` can be told."""

    tz: str | tzinfo
    """The time zone of a cron expression; by default UTC."""

    overlap: Overlap
    """``allow`` it to begin while the run before goes on, or ``skip`` that tick."""

    missed: Missed
    """What to do about ticks at which no worker was there: run the ``last`` of them, ``all``, or
    ``skip`` them. A tick that is less than ten seconds late is not missed."""


class WorkerSettings(TypedDict, total=False):
    """What :class:`broker.tasks.Worker` is seldom told."""

    grace: float
    """How many seconds to wait for what runs when stopping; 30 by default."""

    beat: bool
    """Whether to take part in firing periodic tasks; by default it does."""

    lease: float
    """How many seconds a dead worker's tasks stay its own, with ``effectively_once``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a task is sent and run."""

    queue: str
    retry: Retry
    again_attempts: int = 1
    """How many attempts a task has at most that asks for the next one itself; what its policy says,
    if anybody has given it one."""

    guarantee: Guarantee | None = None
    """None: as the worker says."""

    timeout: float | None = None
    """Seconds that an attempt may take."""

    priority: int | None = None
    ttl: float | None = None
    """Seconds that it may wait in its queue before it is not worth running any more."""

    result: bool = True
    """Whether to keep what it returns."""

    partitions: Partitions | None = None
    blocking: bool = True
    """Whether a function that is not ``async`` runs in a thread, so that others go on."""

    key: str | None = None
    """The id to send it under, for something that is to be done once however often it is sent."""

    def __post_init__(self) -> None:
        check_queue_name(self.queue, "queue")
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)

        if self.ttl is not None:
            check_seconds("ttl", self.ttl, high=SECONDS_MAX)

        # A worker would find out only when the task has failed, and could not go on.
        check_kind("retry", self.retry, Retry, "Retry(3)")
        check_priority(self.priority)
        check_flag("result", self.result)
        check_flag("blocking", self.blocking)
        if self.partitions is not None:
            check_kind("partitions", self.partitions, Partitions, "Partitions(8)")

        if self.guarantee is not None:
            checked_guarantee(self.guarantee)

        if self.guarantee == "at_most_once" and self.retry.attempts > 1:
            raise InvalidValue(ONCE_AND_AGAIN)

        if self.key is not None and len(check_text("key", self.key).encode()) > KEY_BYTES_MAX:
            raise InvalidValue(f"a key is a text of 1 to {KEY_BYTES_MAX} bytes")

    @property
    def queues(self) -> list[str]:
        """The queue, or the queues of all its partitions."""
        return [self.queue] if self.partitions is None else self.partitions.queues(self.queue)

    def next_delay(self, attempt: int, error: BaseException) -> float | None:
        """Return the seconds until the next attempt after this one failed; None: there is none."""
        if isinstance(error, Again):
            return error.after if attempt < self.again_attempts else None

        return self.retry.next_delay(attempt, error)

    @property
    def ttl_ms(self) -> int | None:
        """The time to live, as AMQP has it."""
        return None if self.ttl is None else math.ceil(self.ttl * 1000)


def check_spec(spec: QueueSpec) -> None:
    """Refuse what is no spec for queues of tasks.

    Raises:
        InvalidValue: it says something that tasks would not heed; the text says what to say
            instead.

    """
    check_kind("spec", spec, QueueSpec, "QueueSpec(max_length=1000)")
    usual = QueueSpec()
    for name, instead in NOT_OF_TASKS.items():
        if getattr(spec, name) != getattr(usual, name):
            raise InvalidValue(f"the {name} of a spec is not for tasks: {instead}")


def checked_guarantee(value: str) -> Guarantee:
    """Return a guarantee, or raise InvalidValue."""
    for known in GUARANTEES:
        if value == known:
            return known

    # dmq's name for what cannot be had, and what it can only mean.
    if value == "exactly_once":
        return "effectively_once"

    raise InvalidValue(f"a guarantee is one of {', '.join(GUARANTEES)}, not {shown(value)}")
