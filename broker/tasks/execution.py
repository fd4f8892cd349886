"""Toolkit, tasks: what becomes of a task that a worker has received.

Invariant: a message is settled once, and last: when its outcome is stored, when it was sent again,
or when it is among the dead letters. A worker that dies before that leaves it to another one. With
``at_most_once`` it is settled first, and the broker has seen that before the task begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from broker.client import wire
from broker.client.calling import failure_of, for_thread, outcome_of
from broker.client.errors import DecodeError, MessageTooLarge, ToolkitError
from broker.tasks.beat import DONE, SCHEDULE
from broker.tasks.current import CURRENT, Again, Running
from broker.tasks.events import KINDS, Event
from broker.tasks.frames import template
from broker.tasks.identity import key_of, parts_of, sent_at
from broker.tasks.once.base import ClaimState
from broker.tasks.outcome import Failure, Outcome, Status
from broker.tasks.port import CONNECTION_ERRORS
from broker.tasks.results.base import Stored
from broker.tasks.sender import NO_RESULT
from broker.tasks.signature import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from broker.tasks.app import Tasks
    from broker.tasks.board import Board
    from broker.tasks.intake import Received
    from broker.tasks.link import Link
    from broker.tasks.once.base import Effect, IdempotencyStore
    from broker.tasks.options import Guarantee
    from broker.tasks.results.base import ResultBackend
    from broker.tasks.task import Task

__all__ = ["Execution", "TaskTimeout", "UnknownTask"]

LOG: Final = logging.getLogger("leveret.tasks")

HELD_POLL_S: Final = 1.0
"""How often to look again at a task that another worker holds."""
LARGE_BYTES: Final = 65_536
"""A result of more may be too large for a broker, which closes the channel for it."""


class UnknownTask(ToolkitError, LookupError):
    """No task of that name is registered in this worker."""


class TaskTimeout(ToolkitError, TimeoutError):
    """An attempt has taken longer than the task's ``timeout``."""


class Call:
    """A message, read."""

    __slots__ = (
        "args",
        "attempt",
        "content_type",
        "headers",
        "id",
        "key",
        "kwargs",
        "message",
        "task",
    )

    def __init__(self, message: Received, task: Task[..., Any, Any]) -> None:
        given = message.properties
        self.message = message
        self.task = task
        self.id: str = given.message_id or ""
        self.key = key_of(task.name, self.id)
        self.headers: dict[str, Any] = given.headers or {}
        self.attempt = _attempt(self.headers) if self.headers else 1
        self.content_type: str = given.content_type or ""
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}


def _attempt(headers: dict[str, Any]) -> int:
    attempt = headers.get(wire.ATTEMPT)
    return attempt if isinstance(attempt, int) and attempt > 0 else 1


class Execution:
    """Runs tasks, one call of :meth:`run` each."""

    def __init__(
        self,
        app: Tasks,
        link: Link,
        board: Board,
        *,
        guarantee: Guarantee,
        executor: Executor,
        lease_s: float,
    ) -> None:
        self._app = app
        self._link = link
        self._port = link.port
        self._board = board
        self._guarantee = guarantee
        self._owner = board.worker
        self._executor = executor
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._events_published = app.publish_events
        self._publishing: set[asyncio.Task[None]] = set()
        self._cancelled: dict[str, None] = {}
        self._claimed: dict[str, asyncio.Future[None]] = {}
        self.cancellable: dict[str, asyncio.Task[None]] = {}

    # -- from a message to its end

    async def run(self, message: Received) -> None:
        """Do all that there is to do about a message."""
        name = message.properties.message_type or ""
        task = self._app.registered.get(name)
        if task is None:
            await self._refuse(message, UnknownTask(f"no task {name!r} is known to this worker"))
            return

        call = Call(message, task)
        guarantee = task.options.guarantee or self._guarantee
        if self._cancelled and self._is_cancelled(call):
            await self._conclude(call, Outcome(Status.CANCELLED, attempt=call.attempt))
            return

        if guarantee == "at_least_once":
            await self._attempt(call, None)
        elif guarantee == "at_most_once":
            if self._port.ack(message):
                await self._port.barrier()
                await self._attempt(call, None)
        else:
            await self._once(call)

    async def _once(self, call: Call) -> None:
        store = self._app.once
        assert store is not None
        key = call.key
        while key in self._claimed:
            # The connection was lost, so it was handed out again, to us, and we are at it.
            await asyncio.wait((self._claimed[key],))

        done = self._claimed[key] = self._loop.create_future()
        try:
            await self._claim(call, store)
        finally:
            del self._claimed[key]
            done.set_result(None)

    async def _claim(self, call: Call, store: IdempotencyStore) -> None:
        while True:
            claim = await store.claim(call.key, self._owner, lease_s=self._lease_s)
            if claim.state is ClaimState.OURS:
                break

            if claim.state is ClaimState.DONE:
                content_type, _, body = claim.outcome.partition(b"\n")
                await self._store(call, Stored(content_type.decode(), body))
                self._settle(call)
                return

            # Another worker has it: alive, and then it will be done, or dead, and then its lease
            # runs out.
            await asyncio.sleep(min(max(claim.wait_s, 0.01), HELD_POLL_S))
            if call.message.channel is not self._port.work_channel:
                return

        try:
            await self._attempt(call, store)
        except BaseException:
            await asyncio.shield(store.release(call.key, self._owner))
            raise

    async def _attempt(self, call: Call, store: IdempotencyStore | None) -> None:
        task = call.task
        number = self._board.begin(call.id, task.name, call.attempt)
        this = asyncio.current_task()
        assert this is not None
        self.cancellable[call.key] = this
        running = Running(
            call.id,
            task.name,
            attempt=call.attempt,
            queue=call.message.queue,
            sent_at=sent_at(call.id),
            emit=self._emit,
        )
        running.is_effective = store is not None and store.has_effects
        if self._wants("started"):
            self._tell(Event("started", call.id, task.name, call.attempt))

        failure: BaseException | None = None
        value: object = None
        try:
            value = await self._call(call, running)
        except asyncio.CancelledError as problem:
            is_by_name = self._is_cancelled(call)
            if not is_by_name and (self._board.is_draining or self._link.port.is_ending):
                raise

            while this.cancelling():
                this.uncancel()

            if is_by_name:
                self._board.end(number)
                number = 0
                await self._conclude(call, Outcome(Status.CANCELLED, attempt=call.attempt))
                return

            # Handed back, it would come again before all others, to do so again.
            failure = RuntimeError("it cancelled itself")
            failure.__cause__ = problem
        except Exception as problem:
            failure = problem
        finally:
            self.cancellable.pop(call.key, None)
            seconds = self._board.end(number) if number else 0.0

        if failure is None:
            outcome = Outcome(Status.SUCCEEDED, value, None, call.attempt, seconds)
            await self._conclude(call, outcome, running.effects)
        else:
            await self._failed(call, failure, seconds)

    async def _call(self, call: Call, running: Running) -> object:
        task = call.task
        options = task.options
        parts: Any = self._app.codecs.decode(call.message.body, call.content_type)
        try:
            args, kwargs = parts
        except (TypeError, ValueError) as problem:
            raise ArgumentError("the message is no list of arguments") from problem

        args, kwargs = task.signature.convert(args, kwargs, call.content_type)
        token = CURRENT.set(running)
        try:
            if options.timeout is None:
                return await self._invoke(task, args, kwargs, lambda: None)

            try:
                async with asyncio.timeout(None) as timeout:
                    begin_clock = functools.partial(_begin_clock, timeout, options.timeout)
                    return await self._invoke(task, args, kwargs, begin_clock)
            except TimeoutError as problem:
                if not timeout.expired():
                    raise

                raise TaskTimeout(f"it took more than {options.timeout} s") from problem
        finally:
            CURRENT.reset(token)

    async def _invoke(
        self,
        task: Task[..., Any, Any],
        args: list[Any],
        kwargs: dict[str, Any],
        on_begin: Callable[[], None],
    ) -> object:
        """Call the function; ``on_begin`` is called, in the event loop, when it begins."""
        if task.is_async:
            on_begin()
            return await outcome_of(task.function(*args, **kwargs))

        value: object
        if task.options.blocking:
            work = functools.partial(task.function, *args, **kwargs)
            value = await self._in_thread(work, on_begin)
        else:
            on_begin()
            began_s = self._loop.time()
            try:
                value = task.function(*args, **kwargs)
            except Exception:
                raise
            except BaseException as problem:
                raise failure_of(problem) from problem

            # Nothing could end it meanwhile, but it has had its time.
            limit_s = task.options.timeout
            if limit_s is not None and self._loop.time() - began_s > limit_s:
                if inspect.iscoroutine(value):
                    value.close()

                raise TaskTimeout(f"it took more than {limit_s} s")

        # An async function within one that is not: a decorator has made it so.
        return await outcome_of(value) if inspect.isawaitable(value) else value

    async def _in_thread(self, work: Callable[[], object], on_begin: Callable[[], None]) -> object:
        # One that has hung keeps its thread, so this one may wait for a thread for a while.
        context = contextvars.copy_context()
        work = for_thread(work)

        def step() -> object:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(begun)

            return context.run(work)

        def begun() -> None:
            if not running.done():
                on_begin()

        running = self._loop.run_in_executor(self._executor, step)
        return await outcome_of(running)

    # -- how it ends

    async def _conclude(self, call: Call, outcome: Outcome, effects: Sequence[Effect] = ()) -> None:
        """Store the final outcome, then settle."""
        task = call.task
        try:
            body, content_type = outcome.write(self._app.codecs)
        except ToolkitError as problem:
            outcome = outcome._replace(
                status=Status.FAILED, value=None, failure=Failure.of(problem)
            )
            effects = ()
            body, content_type = outcome.write(self._app.codecs)

        guarantee = task.options.guarantee or self._guarantee
        if guarantee == "effectively_once":
            store = self._app.once
            assert store is not None
            packed = content_type.encode() + b"\n" + body
            try:
                is_ours = await self._complete(call, store, packed, effects)
            except asyncio.CancelledError:
                raise
            except Exception as problem:
                if not effects:
                    raise

                # What the effects said cannot be done: the task has failed.
                await self._failed(call, problem, outcome.seconds)
                return

            if not is_ours and outcome.status is not Status.CANCELLED:
                LOG.warning("%s %s was taken over, so its end is dropped", task.name, call.id)
                return

        # Whoever has the result finds the dead letter.
        if outcome.status is Status.FAILED:
            await self._bury(call.message, outcome.failure, "attempts", call.attempt)

        await self._store(call, Stored(content_type, body))
        self._settle(call)
        self._count(call, outcome)

    async def _complete(
        self, call: Call, store: IdempotencyStore, packed: bytes, effects: Sequence[Effect]
    ) -> bool:
        """Mark it as done.

        As long as the store is away, wait: begun anew, it would be done twice.
        """
        try:
            return await store.complete(call.key, self._owner, packed, effects)
        except Exception as problem:
            if not store.is_away(problem):
                raise

            LOG.warning(
                "%s %s is done, and its store is away: %r", call.task.name, call.id, problem
            )

        wait_s = AWAY_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, AWAY_MAX_S)
            try:
                claim = await store.claim(call.key, self._owner, lease_s=self._lease_s)
                if claim.state is not ClaimState.OURS:
                    # The mark may have been made before the store went away.
                    return claim.state is ClaimState.DONE and claim.outcome == packed

                return await store.complete(call.key, self._owner, packed, effects)
            except Exception as problem:
                if not store.is_away(problem):
                    raise

    def _count(self, call: Call, outcome: Outcome) -> None:
        name, status = call.task.name, outcome.status
        counts = self._board.counts_of(name)
        counts.seconds += outcome.seconds
        if status is Status.SUCCEEDED:
            counts.succeeded += 1
        elif status is Status.FAILED:
            counts.failed += 1
            assert outcome.failure is not None
            LOG.error(
                "%s %s failed in attempt %d: %s: %s\n%s",
                name,
                call.id,
                outcome.attempt,
                outcome.failure.error_type,
                outcome.failure.message,
                outcome.failure.traceback,
            )
        else:
            counts.cancelled += 1

        if self._wants(status.value):
            error = outcome.failure and f"{outcome.failure.error_type}: {outcome.failure.message}"
            self._tell(
                Event(
                    status.value,
                    call.id,
                    name,
                    outcome.attempt,
                    seconds=outcome.seconds,
                    error=error,
                )
            )

    async def _failed(self, call: Call, error: BaseException, seconds: float) -> None:
        """Send it again later, or be done with it."""
        task = call.task
        guarantee = task.options.guarantee or self._guarantee
        failure = Failure.of(error)
        delay = None
        is_hopeless = isinstance(error, ArgumentError | DecodeError)
        if guarantee != "at_most_once" and not is_hopeless:
            delay = task.options.next_delay(call.attempt, error)

        if delay is None:
            if isinstance(error, Again):
                why = "it runs at most once"
                if guarantee != "at_most_once":
                    why = f"this was attempt {call.attempt} of {task.options.again_attempts}"

                failure = failure._replace(message=f"{failure.message}, and {why}")

            outcome = Outcome(Status.FAILED, None, failure, call.attempt, seconds)
            await self._conclude(call, outcome)
            return

        if guarantee == "effectively_once":
            assert self._app.once is not None
            await self._app.once.release(call.key, self._owner)

        counts = self._board.counts_of(task.name)
        counts.retried += 1
        counts.seconds += seconds
        text = f"{failure.error_type}: {failure.message}"
        LOG.warning(
            "%s %s failed in attempt %d, again in %.3g s: %s",
            task.name,
            call.id,
            call.attempt,
            delay,
            text,
        )
        if self._wants("retried"):
            self._tell(
                Event(
                    "retried",
                    call.id,
                    task.name,
                    call.attempt,
                    seconds=seconds,
                    error=text,
                    delay=delay,
                )
            )

        if not await self._send_again(call, delay):
            # Its queue is full: the next attempt is made here, with the message in hand.
            call.attempt += 1
            if guarantee == "effectively_once":
                assert self._app.once is not None
                await self._claim(call, self._app.once)
            else:
                await self._attempt(call, None)

            return

        if self._app.results is not None and self._app.results.is_shared:
            outcome = Outcome(Status.RETRYING, None, failure, call.attempt, seconds)
            body, content_type = outcome.write(self._app.codecs)
            await self._store(call, Stored(content_type, body, is_final=False))

        self._port.ack(call.message)

    async def _send_again(self, call: Call, delay: float) -> bool:
        """Put it into its queue once more, confirmed, before this one is acknowledged."""
        return await self._link.resend(call.message, delay, {wire.ATTEMPT: call.attempt + 1})

    async def _store(self, call: Call, stored: Stored) -> None:
        results = self._app.results
        if results is None or not call.task.options.result or NO_RESULT in call.headers:
            return

        try:
            await self._store_in(results, call, stored)
        except MessageTooLarge as problem:
            LOG.error("the result of %s %s cannot be sent: %s", call.task.name, call.id, problem)
            told = Outcome(Status.FAILED, failure=Failure.of(problem), attempt=call.attempt)
            body, content_type = told.write(self._app.codecs)
            await self._store_in(results, call, Stored(content_type, body))

    async def _store_in(self, results: ResultBackend, call: Call, stored: Stored) -> None:
        reply_to = call.message.properties.reply_to or ""
        if (call.task.options.guarantee or self._guarantee) != "at_most_once":
            # Should the connection go, the task is run again, and its result stored then.
            await results.store(call.key, stored, link=self._link, reply_to=reply_to)
            return

        port = self._port
        while True:
            if not port.is_open:
                await port.wait_open_in_time()

            channel = port.work_channel
            try:
                await results.store(call.key, stored, link=self._link, reply_to=reply_to)
                if len(stored.body) > LARGE_BYTES:
                    await port.barrier()

                return
            except CONNECTION_ERRORS as problem:
                if channel is port.work_channel and channel is not None and not channel.is_closed:
                    raise

                LOG.debug("storing the result of %s again: %r", call.id, problem)

    def _settle(self, call: Call) -> None:
        self._tell_beat(call.message)
        self._port.ack(call.message)

    def _tell_beat(self, message: Received) -> None:
        """Say that a run has ended, if somebody waits for that."""
        schedule = (message.properties.headers or {}).get(SCHEDULE)
        if schedule:
            done = template("", DONE).with_id(message.properties.message_id or "")
            self._port.post(str(schedule), done, b"")

    async def _refuse(self, message: Received, error: Exception) -> None:
        """Nobody here can run this: it is a dead letter at once."""
        failure = Failure.of(error)
        name = message.properties.message_type or ""
        task_id = message.properties.message_id or ""
        LOG.error("refused %s %s: %s", name, task_id, error)
        outcome = Outcome(Status.FAILED, failure=failure)
        await self._bury(message, failure, "refused", 1)
        if self._app.results is not None and message.properties.reply_to:
            body, content_type = outcome.write(self._app.codecs)
            await self._app.results.store(
                key_of(name, task_id),
                Stored(content_type, body),
                link=self._link,
                reply_to=message.properties.reply_to,
            )

        self._tell_beat(message)
        self._port.ack(message)
        if self._wants("refused"):
            self._tell(Event("refused", task_id, name, error=str(error)))

    async def _bury(
        self, message: Received, failure: Failure | None, reason: str, attempt: int
    ) -> None:
        """Put a copy among the dead letters."""
        if not self._app.spec.has_dead_letters:
            return

        assert failure is not None
        await self._link.bury(
            message,
            {
                wire.ATTEMPT: attempt,
                wire.ERROR: wire.shortened(failure.message),
                wire.ERROR_TYPE: failure.error_type,
                wire.TRACEBACK: wire.shortened(failure.traceback),
                wire.REASON: reason,
                wire.DEAD_AT: datetime.now(UTC).isoformat(),
                wire.QUEUE: message.queue,
            },
        )

    # -- events

    def cancel(self, key: str) -> None:
        """Do not run a task, and stop it if it runs; without a name, every task of that id."""
        name, task_id = parts_of(key)
        self._cancelled[key_of(name, task_id)] = None
        if len(self._cancelled) > CANCELLED_MAX:
            del self._cancelled[next(iter(self._cancelled))]

        for known, running in list(self.cancellable.items()):
            if known == key or (not name and parts_of(known)[1] == task_id):
                running.cancel()

    def _is_cancelled(self, call: Call) -> bool:
        return call.key in self._cancelled or key_of("", call.id) in self._cancelled

    async def finish(self) -> None:
        """Wait until what is to be published is."""
        if self._publishing:
            await asyncio.wait(set(self._publishing))

    def _wants(self, kind: str) -> bool:
        return self._events_published or self._app.callbacks.want(kind)

    def _emit(self, event: Event) -> None:
        """Take an event of a task's own, from any thread."""
        self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: Event) -> None:
        from dataclasses import replace

        event = replace(event, worker=self._owner)
        self._app.callbacks.tell(event)
        if self._events_published or event.kind not in KINDS:
            task = self._loop.create_task(self._publish(event))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish(self, event: Event) -> None:
        try:
            client = await self._link.client()
            await client.publish(f"{self._app.name}.event.{event.topic}", event.as_dict())
        except (ToolkitError, OSError) as problem:
            LOG.warning("the event %s was not published: %s", event.topic, problem)


def _begin_clock(timeout: asyncio.Timeout, seconds: float) -> None:
    timeout.reschedule(asyncio.get_running_loop().time() + seconds)


AWAY_S: Final = 0.1
AWAY_MAX_S: Final = 5.0
CANCELLED_MAX: Final = 10_000
"""Tasks that are not to be run, of which it is not known yet where they are."""
