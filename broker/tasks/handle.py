"""Toolkit, tasks: what the sender of a task has of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from broker.client.errors import InvalidValue, ResultTimeout
from broker.tasks.identity import key_of
from broker.tasks.outcome import Outcome, Status

if TYPE_CHECKING:
    from broker.tasks.app import Tasks
    from broker.tasks.results.base import ResultBackend, Stored
    from broker.tasks.signature import Signature

__all__ = ["Handle"]

R = TypeVar("R")


class Handle(Generic[R]):
    """A task that was sent. With its ``id``, ``task.handle(id)`` makes another one elsewhere.

    It sees the results of its own task alone, whatever else was sent under the same id.
    """

    __slots__ = ("_app", "_has_result", "_key", "_signature", "id", "name")

    def __init__(
        self, app: Tasks, name: str, task_id: str, *, signature: Signature, has_result: bool
    ) -> None:
        self._app = app
        self._signature = signature
        self._has_result = has_result
        self.name = name
        self.id = task_id
        self._key = key_of(name, task_id)

    def __repr__(self) -> str:
        return f"<Handle {self.name} {self.id}>"

    async def outcome(self) -> Outcome:
        """Return how far it is, and what came of it if it is done.

        A task that nothing is known of is pending: it waits, or runs, or its result is too old. One
        that the broker has taken out of its queue is ``expired``, or ``failed`` if that was not for
        its age, as soon as the broker has done so; where the queue has no dead letters, nobody
        hears of that, and it is pending.
        """
        link = await self._app.link()
        stored = await self._results.get(self._key, link=link)
        return Outcome(Status.PENDING) if stored is None else self._read(stored)

    async def status(self) -> Status:
        """Return how far it is."""
        return (await self.outcome()).status

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Wait for what it returns.

        Args:
            timeout: how many seconds to wait; None is without end, 0 asks whether it is there.

        Raises:
            TaskFailed: it raised; the text and ``remote_traceback`` say what.
            TaskExpired: it was not run, as its ``ttl`` was over before a worker had it.
            ResultTimeout: it is not done yet.

        """
        outcome = await self.wait(timeout)
        error = outcome.error
        if error is not None:
            raise error

        return cast("R", outcome.value)

    async def wait(self, timeout: float | None = None) -> Outcome:  # noqa: ASYNC109
        """Wait until it is done, and return how that went; raise only :class:`ResultTimeout`."""
        link = await self._app.link()
        results = self._results
        if timeout is not None and timeout <= 0:
            stored = await results.get(self._key, link=link)
            if stored is None or not stored.is_final:
                raise ResultTimeout(f"{self.name} {self.id} is not done")

            return self._read(stored)

        try:
            async with asyncio.timeout(timeout):
                return self._read(await results.wait(self._key, link=link))
        except TimeoutError:
            raise ResultTimeout(f"{self.name} {self.id} is not done after {timeout} s") from None

    async def cancel(self) -> None:
        """Ask the workers not to run it, and to stop it if it runs.

        It reaches workers that are there now. A function in a thread cannot be stopped: it goes on,
        and its result is thrown away.
        """
        await self._app.cancel(self.id, task=self.name)

    async def forget(self) -> None:
        """Delete what is kept of it, and of its having been done."""
        link = await self._app.link()
        if self._app.results is not None:
            await self._app.results.forget(self._key, link=link)

        if self._app.once is not None:
            await self._app.once.forget(self._key)

    @property
    def _results(self) -> ResultBackend:
        results = self._app.results
        if results is None or not self._has_result:
            raise InvalidValue(f"results of {self.name} are not kept: see results= and result=")

        return results

    def _read(self, stored: Stored) -> Outcome:
        outcome = Outcome.read(self._app.codecs, stored.content_type, stored.body)
        if outcome.status is not Status.SUCCEEDED:
            return outcome

        value = self._signature.convert_result(outcome.value, stored.content_type)
        return outcome._replace(value=value)
