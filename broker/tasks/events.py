"""Toolkit, tasks: what happens to tasks, told to whoever wants to know.

Callbacks run in the process where it happens: ``queued`` where a task is sent, everything else in
the worker. Published, which is off by default, events go through the client's topics, where other
processes listen. They carry neither arguments nor results: those may be secrets.

Invariant: a callback that fails is logged; it does not concern the task, nor other callbacks.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from broker.client.checks import check_callable, check_kind, check_seconds
from broker.client.errors import InvalidValue

__all__ = ["KINDS", "Callbacks", "Event", "EventCallback"]

LOG: Final = logging.getLogger("leveret.tasks")

KINDS: Final = ("queued", "started", "succeeded", "failed", "retried", "cancelled", "refused")
"""``refused``: no task of that name is known here, or the message cannot be read."""

TIMELESS: Final = frozenset({"queued", "started", "refused"})
"""Those that say nothing of how long something took."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a task."""

    kind: str
    """One of :data:`KINDS`, or what a task has emitted."""

    task_id: str
    task: str
    attempt: int = 1
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    worker: str = ""
    seconds: float | None = None
    """How long it ran, once it has."""

    error: str | None = None
    delay: float | None = None
    """Of ``retried``: in how many seconds."""

    data: dict[str, Any] = field(default_factory=dict)
    """What a task gave along with an event of its own."""

    @property
    def topic(self) -> str:
        """What it is published under, below the name of the application."""
        return f"{self.kind}.{self.task}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


EventCallback = Callable[[Event], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class _Rule:
    callback: EventCallback
    kinds: frozenset[str]
    tasks: tuple[str, ...]
    slower_than: float | None

    def wants(self, event: Event) -> bool:
        if self.kinds and event.kind not in self.kinds:
            return False

        if self.tasks and not any(fnmatchcase(event.task, pattern) for pattern in self.tasks):
            return False

        if self.slower_than is None:
            return True

        return event.seconds is not None and event.seconds > self.slower_than


class Callbacks:
    """Who is to be told of what."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._wanted: frozenset[str] = frozenset()
        self._is_all_wanted = False
        self._running: set[asyncio.Task[None]] = set()

    def add(
        self,
        callback: EventCallback,
        kinds: tuple[str, ...],
        *,
        tasks: tuple[str, ...] = (),
        slower_than: float | None = None,
    ) -> None:
        """Call ``callback`` with events of these kinds; of all kinds, if none is given."""
        check_callable("a callback", callback)
        for kind in kinds:
            check_kind("the kind of an event", kind, str, "'failed'")

        if slower_than is not None:
            check_seconds("slower_than", slower_than, is_zero_ok=True)
            for kind in kinds:
                if kind in TIMELESS or kind not in KINDS:
                    raise InvalidValue(
                        f"slower_than is about tasks that have run; {kind!r} takes no time"
                    )

        self._rules.append(_Rule(callback, frozenset(kinds), tasks, slower_than))
        self._wanted |= frozenset(kinds)
        self._is_all_wanted |= not kinds

    def want(self, kind: str) -> bool:
        """Say whether anybody may want an event of that kind."""
        return self._is_all_wanted or kind in self._wanted

    def tell(self, event: Event) -> None:
        """Call those who want it, from the event loop and without waiting for them."""
        for rule in self._rules:
            if rule.wants(event):
                task = asyncio.get_running_loop().create_task(_call(rule.callback, event))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def finish(self) -> None:
        """Wait for what is running."""
        if self._running:
            await asyncio.wait(set(self._running))


async def _call(callback: EventCallback, event: Event) -> None:
    try:
        result = callback(event)
        if inspect.isawaitable(result):
            await result
    except Exception:
        LOG.exception("a callback for %s of %s has failed", event.kind, event.task)
