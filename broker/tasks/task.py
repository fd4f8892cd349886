"""Toolkit, tasks: a function that can be sent to a worker.

Invariant: a task called is its function called; nothing is sent unless one says so.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from broker.client.checks import check_text, shown
from broker.client.errors import InvalidSchedule, InvalidValue
from broker.client.schedule import At, Cron, Delay, Schedule
from broker.tasks.handle import Handle
from broker.tasks.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta, tzinfo

    from broker.client.schedule import When
    from broker.tasks.app import Tasks
    from broker.tasks.options import Options

__all__ = ["Bound", "Task"]

P = ParamSpec("P")
R = TypeVar("R")
"""What a task returns in the end."""
C = TypeVar("C")
"""What calling the function gives: R, or a coroutine of it."""

CHANGEABLE: Final = frozenset({"priority", "ttl", "key", "queue"})
"""What the sender decides. Everything else is the worker's."""


class Bound(Generic[P, R]):
    """A task and a time; called with arguments, it sends the task for then."""

    __slots__ = ("_task", "_when")

    def __init__(self, task: Task[P, R, Any], when: When) -> None:
        self._task = task
        self._when = when

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Send it with these arguments."""
        return await self._task._send(args, kwargs, when=self._when)


class Task(Generic[P, R, C]):
    """A function that can be sent to a worker: ``await add.q(2, 3)``."""

    def __init__(self, app: Tasks, function: Callable[P, C], name: str, options: Options) -> None:
        self._app = app
        self.function = function
        self.name = name
        self.options = options
        self.signature = Signature(function)
        app.spec.wire_priority(options.priority)
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__qualname__ = getattr(function, "__qualname__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function, here and now. Of an async function this is a coroutine, as ever."""
        return self.function(*args, **kwargs)

    async def q(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Send it with these arguments. When this returns, the broker has it.

        Raises:
            TypeError: the function does not take these arguments.
            EncodeError: the codec cannot write them.
            QueueFull: the queue has reached its limit.
            Unavailable: the broker has not confirmed it in time.

        """
        return await self._send(args, kwargs)

    async def later(self, when: When, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Send it with these arguments, to run in so many seconds, at a moment, or on a schedule's
        next time."""
        return await self._send(args, kwargs, when=when)

    def sched(
        self,
        *,
        delay: float | timedelta | None = None,
        eta: datetime | None = None,
        cron: str | None = None,
        tz: str | tzinfo | None = None,
    ) -> Bound[P, R]:
        """Say when, then with what: ``await add.sched(delay=30)(2, 3)``.

        Args:
            delay: in so many seconds.
            eta: at a moment, which has to have a time zone; at once if it has passed.
            cron: the next time that a cron expression names.
            tz: the time zone of the cron expression, UTC if None. Nothing else takes one.

        """
        if tz is not None and cron is None:
            raise InvalidSchedule(
                "tz is the time zone of a cron expression: a delay needs none, and a moment has "
                "its own"
            )

        given: list[Schedule] = []
        if delay is not None:
            given.append(Delay(delay))

        if eta is not None:
            given.append(At(eta))

        if cron is not None:
            given.append(Cron(cron, "UTC" if tz is None else tz))

        if len(given) != 1:
            raise InvalidSchedule("say one of delay, eta and cron")

        return Bound(self, given[0])

    async def q_many(self, calls: Iterable[tuple[Any, ...]], /) -> list[Handle[R]]:
        """Send it once for each tuple of arguments, and wait for the broker's confirms together."""
        written: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        for args in calls:
            if not isinstance(args, tuple | list):
                raise InvalidValue(f"a call is a tuple of arguments, such as ({shown(args, 40)},)")

            written.append((tuple(args), {}))

        return await self._app.send_many(self, written)

    def using(self, **changes: Any) -> Task[P, R, C]:
        """Return this task with other options, to send it differently this once.

        Args:
            changes: any of ``priority``, ``ttl``, ``queue`` and ``key``, an id: with guarantee
                ``effectively_once`` what is sent twice under one key is done once.

        """
        unknown = set(changes) - CHANGEABLE
        if unknown:
            raise InvalidValue(
                f"{', '.join(sorted(unknown))} cannot be changed for one sending; "
                f"{', '.join(sorted(CHANGEABLE))} can"
            )

        other: Task[P, R, C] = Task(
            self._app, self.function, self.name, replace(self.options, **changes)
        )
        return other

    def handle(self, task_id: str) -> Handle[R]:
        """Return a handle for a task that was sent before, perhaps by another process.

        Raises:
            InvalidValue: nothing can have that id.

        """
        check_text("task_id", task_id)
        return Handle(
            self._app,
            self.name,
            task_id,
            signature=self.signature,
            has_result=self.options.result,
        )

    async def _send(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, when: When | None = None
    ) -> Handle[R]:
        task_id = await self._app.send(self, args, kwargs, when=when)
        return Handle(
            self._app,
            self.name,
            task_id,
            signature=self.signature,
            has_result=self.options.result,
        )
