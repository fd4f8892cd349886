"""Toolkit, tasks: what a task knows of itself while it runs.

Invariant: it is a context variable, so each task sees its own, in threads too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from broker.client.checks import check_seconds
from broker.client.delays import DELAY_S_MAX
from broker.client.errors import ToolkitError
from broker.tasks.once.base import Effect

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from broker.tasks.events import Event

__all__ = ["Again", "NoTask", "Running", "current"]


class NoTask(ToolkitError, RuntimeError):
    """There is no task running here."""


class Again(Exception):
    """Raised by a task that wants to be run again later, whatever errors its policy is for.

    It counts as an attempt, of as many as its policy has; where nobody has given it one, of five,
    as messages of a queue have. A task that has none left fails, and so does one that runs at most
    once.

    Args:
        after: in how many seconds.
        reason: what is logged, and what it failed with if it has no attempt left.

    """

    def __init__(self, after: float = 0.0, reason: str = "it asked to be run again") -> None:
        super().__init__(reason)
        check_seconds("after", after, is_zero_ok=True, high=DELAY_S_MAX)
        self.after = after


class Running:
    """A task that is running."""

    __slots__ = ("_emit", "attempt", "effects", "id", "is_effective", "name", "queue", "sent_at")

    def __init__(
        self,
        task_id: str,
        name: str,
        *,
        attempt: int,
        queue: str,
        sent_at: datetime | None,
        emit: Callable[[Event], None],
    ) -> None:
        self.id: Final = task_id
        self.name: Final = name
        self.attempt: Final = attempt
        self.queue: Final = queue
        self.sent_at: Final = sent_at
        self.effects: list[Effect] = []
        self.is_effective = False
        self._emit = emit

    def emit(self, kind: str, **data: Any) -> None:
        """Tell other processes something, say how far it is. Does not wait; works in threads."""
        from broker.tasks.events import KINDS, Event

        if kind in KINDS or not kind or not kind.replace("_", "").isalnum():
            raise ValueError(
                f"{kind!r} cannot be an event of your own: take letters, digits and _, and none "
                f"of {', '.join(KINDS)}"
            )

        self._emit(Event(kind, self.id, self.name, self.attempt, data=data))

    def effect(self, statement: str, *arguments: object) -> None:
        """Have something done in the idempotency store together with the mark that this is done.

        A statement of SQL, or a command of Redis. It is carried out when the task has returned, in
        one transaction with the mark: so it happens once, even if workers die at any moment, and
        not at all if the task fails.
        """
        if not self.is_effective:
            raise NoTask("effects need guarantee='effectively_once' and a store that has them")

        self.effects.append(Effect(statement, arguments))


CURRENT: Final[ContextVar[Running | None]] = ContextVar("leveret_task", default=None)


def current() -> Running:
    """Return the task that is running here.

    Raises:
        NoTask: there is none, say because its function was called and not sent.

    """
    running = CURRENT.get()
    if running is None:
        raise NoTask("no task is running here")

    return running
