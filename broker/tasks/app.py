"""Toolkit, tasks: the application: its tasks, where they go, and what is kept of them.

Invariant: it may be used from several threads and event loops at once: each loop has its own
connections, and nothing else here changes once the tasks are registered.
"""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

from broker.client.checks import (
    check_callable,
    check_flag,
    check_kind,
    check_seconds,
    check_text,
    shown,
)
from broker.client.codecs import Codecs
from broker.client.errors import InvalidValue
from broker.client.link import check_url
from broker.client.patience import ANSWER_S, at_most, carried
from broker.client.retry import NO_RETRY, Retry
from broker.client.spec import QueueSpec, check_queue_name
from broker.tasks.dropped import Dropped, may_drop
from broker.tasks.events import Callbacks, Event, EventCallback
from broker.tasks.identity import key_of
from broker.tasks.link import Link
from broker.tasks.once.base import IdempotencyStore
from broker.tasks.options import (
    ONCE_AND_AGAIN,
    Options,
    OptionsGiven,
    PeriodicGiven,
    Settings,
    check_spec,
    checked_guarantee,
)
from broker.tasks.per_loop import PerLoop
from broker.tasks.periodic import Periodic
from broker.tasks.results.amqp import AmqpResults
from broker.tasks.results.base import ResultBackend
from broker.tasks.sender import Sender
from broker.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import timedelta
    from types import TracebackType

    from broker.client.schedule import Schedule, When
    from broker.client.topics import Subscription
    from broker.tasks.handle import Handle

__all__ = ["AT_WORK", "Tasks"]

P = ParamSpec("P")
R = TypeVar("R")

AMQP_RESULTS: Final = "amqp"
AT_WORK: Final[ContextVar[bool]] = ContextVar("leveret_at_work", default=False)
"""Whether this is a worker, or a task that it runs, and not the program around it."""
TASK_NAME_BYTES_MAX: Final = 200
"""AMQP has 255; the topics of its events have more in them."""

DEAD_LETTERS_MAX: Final = 10_000
"""Tasks that failed for good and are kept for a look at them, per queue."""


class Tasks:
    """Functions that run elsewhere, or later, or again and again.

    ::

        tasks = Tasks("amqp://guest:guest@localhost/")

        @tasks.task
        async def add(x: int, y: int) -> int:
            return x + y

        handle = await add.q(2, 3)
        assert await handle.result(timeout=10) == 5

    Args:
        url: of the broker.
        name: of the application: its queues and topics begin with it.
        settings: see :class:`Settings`.

    """

    def __init__(
        self,
        url: str = "amqp://guest:guest@localhost/",
        *,
        name: str = "tasks",
        **settings: Unpack[Settings],
    ) -> None:
        unknown = set(settings) - Settings.__annotations__.keys()
        if unknown:
            raise InvalidValue(f"no such setting of tasks: {', '.join(sorted(unknown))}")

        results = settings.get("results", AMQP_RESULTS)
        if isinstance(results, str):
            if results != AMQP_RESULTS:
                raise InvalidValue(f"results is 'amqp', a backend or None, not {shown(results)}")

            results = AmqpResults()

        if results is not None:
            check_kind("results", results, ResultBackend, "AmqpResults()")

        self.url = check_url(url)
        self.name = check_queue_name(name)
        self.codecs = Codecs(settings.get("codec", "json"), settings.get("accept", ()))
        self.results: ResultBackend | None = results
        self.guarantee = checked_guarantee(settings.get("guarantee", "at_least_once"))
        self.once = settings.get("once")
        self.retry = settings.get("retry", NO_RETRY)
        self.has_retry = "retry" in settings
        """Whether anybody has said so; a task that nobody has may still ask to be run again."""

        self.queue = settings.get("queue", name)
        spec = settings.get("spec")
        self.spec = QueueSpec(max_dead_letters=DEAD_LETTERS_MAX) if spec is None else spec
        self.publish_events = settings.get("publish_events", False)
        self.timeout = settings.get("timeout", 10.0)
        self._check_settings()
        self.callbacks = Callbacks()
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._periodic: dict[str, Periodic] = {}
        self._links: PerLoop[Link] = PerLoop()
        self._opening: PerLoop[asyncio.Lock] = PerLoop()
        self._dropped: PerLoop[Dropped] = PerLoop()
        self.may_drop = may_drop(self.spec)
        self._sender = Sender(self)

    def _check_settings(self) -> None:
        check_queue_name(self.queue, "queue")
        check_kind("retry", self.retry, Retry, "Retry(3)")
        check_spec(self.spec)
        check_flag("publish_events", self.publish_events)
        check_seconds("timeout", self.timeout)
        if self.once is not None:
            check_kind("once", self.once, IdempotencyStore, "SqliteOnce('once.sqlite')")

        if self.guarantee == "at_most_once" and self.retry.attempts > 1:
            raise InvalidValue(ONCE_AND_AGAIN)

    def __repr__(self) -> str:
        return f"<Tasks {self.name}: {', '.join(self._tasks) or 'none'}>"

    # -- declaring tasks

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        **given: Unpack[OptionsGiven],
    ) -> _Decorator: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        **given: Unpack[OptionsGiven],
    ) -> Any:
        """Make a task of a function, ``async`` or not.

        Args:
            function: the function.
            name: what workers know it by; by default module and function.
            given: ``queue``; ``retry``, what to do when it raises; ``guarantee``; ``timeout``, the
                seconds that an attempt may take; ``priority``; ``ttl``, the seconds it may wait;
                ``result``, whether to keep what it returns; ``partitions``; ``blocking``, whether a
                function that is not async runs in a thread.

        """
        decorator = _Decorator(self, name, given)
        return decorator if function is None else decorator(function)

    def every(
        self,
        schedule: Schedule | timedelta | float | str,
        *,
        name: str | None = None,
        **given: Unpack[PeriodicGiven],
    ) -> _PeriodicDecorator:
        """Run a function that takes no arguments again and again, once per tick in all workers.

        Args:
            schedule: seconds, a cron expression, or a :class:`Schedule`. Seconds are counted from
                1970, so that all workers count the same.
            name: what workers know it by.
            given: ``tz``, the time zone of a cron expression, and of nothing else; ``overlap``,
                whether to ``allow`` it
                to begin while the run before goes on, or ``skip`` that tick; ``missed``, what to do
                about ticks at which no worker was there: run the ``last`` of them, ``all``, or
                ``skip`` them; and what a task can be told.

        """
        periodic = Periodic.of(
            schedule,
            tz=given.pop("tz", None),
            overlap=given.pop("overlap", "allow"),
            missed=given.pop("missed", "last"),
        )
        return _PeriodicDecorator(_Decorator(self, name, given), periodic)

    def on(
        self,
        *kinds: str,
        tasks: Iterable[Task[..., Any, Any] | str] | Task[..., Any, Any] | str = (),
        slower_than: float | None = None,
    ) -> Callable[[_E], _E]:
        """Call the function with events of these kinds; of all kinds, if none is given.

        Args:
            kinds: any of ``queued``, ``started``, ``succeeded``, ``failed``, ``retried``,
                ``cancelled``, ``refused``, and those that tasks emit.
            tasks: tasks, or patterns of their names; one of them, or several.
            slower_than: only those that took more than so many seconds, so none of kinds that take
                no time.

        """
        several = (tasks,) if isinstance(tasks, str | Task) else tuple(tasks)
        for one in several:
            if not isinstance(one, str | Task):
                raise InvalidValue(f"tasks are tasks or patterns of their names, not {shown(one)}")

        names = tuple(one if isinstance(one, str) else one.name for one in several)

        def register(callback: _E) -> _E:
            self.callbacks.add(callback, kinds, tasks=names, slower_than=slower_than)
            return callback

        return register

    def register(self, task: Task[..., Any, Any], periodic: Periodic | None = None) -> None:
        """Add a task.

        Raises:
            InvalidValue: there is another one of that name.

        """
        if task.name in self._tasks:
            raise InvalidValue(f"there are two tasks {task.name!r}; give one of them a name")

        self._tasks[task.name] = task
        if periodic is not None:
            self._periodic[task.name] = periodic

    @property
    def registered(self) -> dict[str, Task[..., Any, Any]]:
        """All tasks, by name."""
        return self._tasks

    @property
    def periodic(self) -> dict[str, Periodic]:
        """The schedules of periodic tasks, by name."""
        return self._periodic

    def queues(self) -> dict[str, QueueSpec]:
        """Return the queues of all tasks, and what they are like."""
        found: dict[str, QueueSpec] = {}
        for task in self._tasks.values():
            options = task.options
            spec = self.spec
            if options.partitions is not None:
                spec = replace(spec, single_active_consumer=True)

            found |= dict.fromkeys(options.queues, spec)

        return found

    # -- sending

    async def send(
        self,
        task: Task[..., Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        when: When | None = None,
    ) -> str:
        """Send a task and return its id; ``task.q(...)`` is the typed way."""
        return await self._sender.send(task, args, kwargs, when=when)

    async def send_many(
        self,
        task: Task[P, R, Any],
        calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]],
    ) -> list[Handle[R]]:
        """Send a task several times, and wait for the broker's confirms together."""
        ids = await asyncio.gather(
            *(self._sender.send(task, args, kwargs) for args, kwargs in calls)
        )
        return [task.handle(task_id) for task_id in ids]

    async def cancel(self, task_id: str, *, task: Task[..., Any, Any] | str | None = None) -> None:
        """Ask all workers not to run a task, and to stop it if it runs.

        Args:
            task_id: its id.
            task: which task it is, or its name; None is every task of that id.

        """
        name = task.name if isinstance(task, Task) else task or ""
        link = await self.link()
        client = await link.client()
        await client.publish(f"{self.name}.control.cancel", key_of(name, task_id))

    async def listen(
        self, callback: EventCallback, *kinds: str, tasks: str = "#"
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        """Call back with events of all processes; returns what ends that.

        Events that tasks emit are always published, others where ``publish_events`` is set.

        Args:
            callback: called with each :class:`Event`, one after the other.
            kinds: of these kinds; of all kinds, if none is given. ``queued`` is told where a task
                is sent alone: see :meth:`on`.
            tasks: a topic pattern for the names of tasks, ``mail.*`` for instance.

        """
        if "queued" in kinds:
            raise InvalidValue(
                "queued is told in the process that sends a task, and is not published: "
                "see Tasks.on('queued')"
            )

        link = await self.link()
        client = await link.client()
        subscriptions: list[Subscription[Event]] = []

        async def stop() -> None:
            await carried(asyncio.gather(*(one.cancel() for one in subscriptions)))

        try:
            for kind in kinds or ("*",):
                topic = f"{self.name}.event.{kind}.{tasks}"
                subscriptions.append(
                    await client.subscribe(
                        topic, lambda message: callback(message.body), type=Event
                    )
                )
        except BaseException:
            await stop()
            raise

        return stop

    # -- connections

    async def link(self) -> Link:
        """Return the running loop's connections, opened when they are first needed."""
        link = self._links.get() or await self._open()
        if not AT_WORK.get():
            link.is_kept = True

        return link

    async def _open(self) -> Link:
        lock = self._opening.get() or self._opening.set(asyncio.Lock())
        async with lock:
            link = self._links.get()
            if link is None:
                link = Link(self.url, name=f"{self.name} tasks", timeout=self.timeout)
                await link.start()
                self._links.set(link)

        return link

    async def watch(self, link: Link, queue: str) -> None:
        """Tell the senders of tasks of a queue, if the broker drops one."""
        if not self.spec.has_dead_letters:
            return

        dropped = self._dropped.get()
        if dropped is None or dropped.link is not link:
            dropped = self._dropped.set(Dropped(self, link))

        await dropped.watch(queue)

    async def watch_all(self, link: Link) -> None:
        """Do so of the queues of all tasks that this can happen to."""
        for name, task in self._tasks.items():
            options = task.options
            periodic = self._periodic.get(name)
            is_asked_for = options.result and self.results is not None
            if periodic is not None and periodic.overlap == "skip":
                is_asked_for = True  # by the next tick

            if is_asked_for and (options.ttl is not None or self.may_drop):
                for queue in options.queues:
                    await self.watch(link, queue)

    def current_link(self) -> Link | None:
        """Return the running loop's connections, if they are open."""
        return self._links.get()

    async def close(self, grace: float | None = 10.0) -> None:
        """Close the running loop's connections.

        Callbacks may end for ``grace`` seconds, None for as long as it takes. Besides it takes
        three seconds at most, whatever has become of the broker and the stores.
        """
        try:
            await at_most(grace, self.callbacks.finish())
        finally:
            # Who is interrupted leaves nothing open.
            await carried(self._leave())

    async def _leave(self) -> None:
        link = self._links.pop()
        dropped = self._dropped.pop()
        if dropped is not None:
            await dropped.close()

        stores = [one.close() for one in (self.results, self.once) if one is not None]
        await at_most(ANSWER_S, asyncio.gather(*stores))
        if link is not None:
            await link.close()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.link()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close the running loop's connections."""
        await self.close()


_E = TypeVar("_E", bound=EventCallback)


class _Decorator:
    """What ``@tasks.task(...)`` is, before it is given a function."""

    def __init__(self, app: Tasks, name: str | None, given: OptionsGiven) -> None:
        self._app = app
        self._name = name
        is_bound_once = (given.get("guarantee") or app.guarantee) == "at_most_once"
        self._is_told_to_block = "blocking" in given
        if app.results is None and given.get("result"):
            raise InvalidValue("results of these tasks are not kept: Tasks(results=None) says so")

        has_retry = "retry" in given or app.has_retry
        given.setdefault("queue", app.queue)
        retry = given.setdefault("retry", NO_RETRY if is_bound_once else app.retry)
        check_kind("retry", retry, Retry, "Retry(3)")
        policy = retry if has_retry else Retry()
        try:
            self._options = Options(again_attempts=policy.attempts, **given)
        except TypeError as problem:
            raise InvalidValue(f"no such option of a task: {problem}") from None

        if is_bound_once and self._options.retry.attempts > 1:
            raise InvalidValue(ONCE_AND_AGAIN)

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make a task of a function."""
        return self.make(function, None)

    def make(self, function: Callable[..., Any], periodic: Periodic | None) -> Task[..., Any, Any]:
        """Make a task of a function, and register it."""
        check_callable("a task", function)
        name = name_of(function) if self._name is None else self._name
        if len(check_text("name", name).encode()) > TASK_NAME_BYTES_MAX:
            raise InvalidValue(f"a task's name has {TASK_NAME_BYTES_MAX} bytes at most: {name:.60}")

        if "\n" in name:
            raise InvalidValue(f"a task's name is of one line, not {name!r:.60}")

        task: Task[..., Any, Any] = Task(self._app, function, name, self._options)
        if task.is_async and self._is_told_to_block:
            raise InvalidValue(
                f"blocking is about functions that are not async, and {name} is: it never runs in "
                "a thread"
            )

        if periodic is not None:
            try:
                task.signature.check((), {})
            except TypeError as problem:
                raise InvalidValue(
                    f"nobody is there to give {task.name} its arguments: {problem}"
                ) from None

        self._app.register(task, periodic)
        return task


class _PeriodicDecorator:
    """What ``@tasks.every(...)`` is, before it is given a function."""

    def __init__(self, decorator: _Decorator, periodic: Periodic) -> None:
        self._decorator = decorator
        self._periodic = periodic

    @overload
    def __call__(
        self, function: Callable[[], Coroutine[Any, Any, R]], /
    ) -> Task[[], R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[[], R], /) -> Task[[], R, R]: ...

    def __call__(self, function: Callable[[], Any], /) -> Any:
        """Make a periodic task of a function."""
        return self._decorator.make(function, self._periodic)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function's task.

    In the program that is run it is that of the module that a worker imports, not ``__main__``.
    """
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif path is not None:
            module = Path(path).stem

    qualified = getattr(function, "__qualname__", type(function).__qualname__)
    if "<lambda>" in qualified:
        raise InvalidValue("a lambda has no name that a worker could know it by; say name=")

    return f"{module}.{qualified.replace('<locals>.', '')}"
