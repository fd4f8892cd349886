"""Toolkit: queues and bindings that were declared, to be declared again on each connection.

Invariant: what one thought of as declared is there, or an event has said that it is not.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from broker.client import wire
from broker.client.checks import check_queue
from broker.client.conflict import explained
from broker.client.dead_exchange import declare_dead_queue
from broker.client.errors import AccessRefused, QueueNotFound, SpecConflict, ToolkitError
from broker.client.events import ClientEvent
from broker.client.link import LIBRARY_ERRORS, LOCKED_ERRORS, LinkLost, translated_error
from broker.client.retry import Exponential
from broker.client.spec import QueueSpec, check_queue_name

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.client.core import Core
    from broker.client.link import Link

__all__ = ["Topology"]

LOCKED_WAIT: Final = Exponential(0.1, cap=5.0, jitter=0.2)
"""How long to wait before a queue is asked for again that the broker keeps for a connection that is
gone, as it does not know yet."""

LOCKED_TRIES_MAX: Final = 60
"""Some five minutes: longer than two of the heartbeats that a broker waits for."""


class Topology:
    """What was declared, and how it is."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._bindings: dict[tuple[str, str], None] = {}
        core.session.add(self)

    async def restore(self, link: Link) -> None:
        """Declare everything on a new connection; what fails is told, and the rest goes on."""
        for name, spec in list(self._core.specs.items()):
            if spec.exclusive:
                await self._try(link, name, self._declare_own(link, name, spec))
            else:
                await self._try(link, name, _declare(link, name, spec))

        for queue, pattern in list(self._bindings):
            await self._try(link, queue, self._bind(link, queue, pattern))

    async def _declare_own(self, link: Link, name: str, spec: QueueSpec) -> None:
        """Declare an exclusive queue; where it is locked, begin to try again."""
        try:
            await _declare(link, name, spec)
        except LOCKED_ERRORS:
            self._core.spawn(self._declare_again(link, name, spec))
            raise

    async def _declare_again(self, link: Link, name: str, spec: QueueSpec) -> None:
        for number in range(1, LOCKED_TRIES_MAX + 1):
            await asyncio.sleep(LOCKED_WAIT.wait(number, random.random()))  # noqa: S311
            if not link.is_alive or self._core.specs.get(name) is not spec:
                return

            try:
                async with link.operation(self._deadline()):
                    await _declare(link, name, spec)
                    for queue, pattern in list(self._bindings):
                        if queue == name:
                            await self._bind(link, queue, pattern)

                return
            except LinkLost:
                if not link.is_alive:
                    return
            except ToolkitError as problem:
                if number == LOCKED_TRIES_MAX or not isinstance(problem, AccessRefused):
                    event = ClientEvent("restore_failed", queue=name, error=problem)
                    self._core.events.emit(event)
                    return

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._core.options.timeout

    async def declare(self, name: str, spec: QueueSpec | None) -> QueueSpec:
        """Make a queue, or find it."""
        check_queue_name(name)
        if spec is None:
            known = self._core.specs.get(name)
            if known is None and await self.exists(name):
                return QueueSpec()

            spec = known or QueueSpec()

        await self._check_order(name, spec)
        wanted = spec
        try:
            await self._core.session.run(lambda link: _declare(link, name, wanted))
        except SpecConflict as problem:
            raise explained(problem, name, wanted) from problem

        self._core.specs[name] = spec
        return spec

    async def _check_order(self, name: str, spec: QueueSpec) -> None:
        """Refuse another order of priorities than this client has sent by: of that no broker knows.

        Raises:
            SpecConflict: it is another one.

        """
        known = self._core.specs.get(name)
        if known is None or None in (known.max_priority, spec.max_priority):
            return

        if known.priority_order != spec.priority_order and await self.exists(name):
            raise SpecConflict(
                f"the queue {name!r} is there, and declared otherwise: priority_order is "
                f"{spec.priority_order!r} here, and this client has declared it with "
                f"{known.priority_order!r}"
            )

    async def exists(self, name: str) -> bool:
        """Say whether there is such a queue."""
        try:
            await self.count(name)
        except QueueNotFound:
            return False

        return True

    async def count(self, name: str) -> tuple[int, int]:
        """Return how many messages wait in a queue, and how many consumers it has."""
        check_queue(name, "name")

        async def ask(link: Link) -> tuple[int, int]:
            async with link.admin() as channel:
                answer = await channel.queue_declare(name, passive=True)
                return answer.message_count or 0, answer.consumer_count or 0

        return await self._core.session.run(ask)

    async def delete(self, name: str, *, if_empty: bool, if_unused: bool) -> int:
        """Delete a queue."""
        check_queue(name, "name")

        async def delete(link: Link) -> int:
            async with link.admin() as channel:
                answer = await channel.queue_delete(name, if_empty=if_empty, if_unused=if_unused)
                return answer.message_count or 0

        try:
            count = await self._core.session.run(delete)
        except SpecConflict as problem:
            # Not empty, or in use: the same reply code, and nothing to do with specs.
            raise ToolkitError(f"the queue {name!r} was not deleted: {problem}") from problem

        self._core.specs.pop(name, None)
        self._core.handled.forget(name)
        self._bindings = {key: None for key in self._bindings if key[0] != name}
        return count

    async def purge(self, name: str) -> int:
        """Delete what waits in a queue."""
        check_queue(name, "name")

        async def purge(link: Link) -> int:
            async with link.admin() as channel:
                return (await channel.queue_purge(name)).message_count or 0

        count = await self._core.session.run(purge)
        self._core.handled.forget(name)
        return count

    async def bind(self, queue: str, pattern: str) -> None:
        """Bind a queue to topics."""
        check_queue(queue)
        await self._core.session.run(lambda link: self._bind(link, queue, pattern))
        self._bindings[queue, pattern] = None

    async def unbind(self, queue: str, pattern: str) -> None:
        """Take a binding back."""
        check_queue(queue)

        async def unbind(link: Link) -> None:
            async with link.admin() as channel:
                await channel.queue_unbind(queue, self._core.options.topics, routing_key=pattern)

        self._bindings.pop((queue, pattern), None)
        await self._core.session.run(unbind)

    async def _bind(self, link: Link, queue: str, pattern: str) -> None:
        async with link.admin() as channel:
            await channel.queue_bind(queue, self._core.options.topics, routing_key=pattern)

    async def _try(self, link: Link, queue: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (*LIBRARY_ERRORS, ValueError) as problem:
            if not link.is_alive:
                raise LinkLost from problem

            error = translated_error(problem) or problem
            spec = self._core.specs.get(queue)
            if isinstance(error, SpecConflict) and spec is not None:
                error = explained(error, queue, spec)

            self._core.events.emit(ClientEvent("restore_failed", queue=queue, error=error))
        except ToolkitError as problem:
            self._core.events.emit(ClientEvent("restore_failed", queue=queue, error=problem))


async def _declare(link: Link, name: str, spec: QueueSpec) -> None:
    if spec.has_dead_letters:
        await declare_dead_queue(link, name, spec)

    async with link.admin() as channel:
        await channel.queue_declare(
            name,
            durable=spec.durable,
            exclusive=spec.exclusive,
            auto_delete=spec.auto_delete,
            arguments=wire.table(spec.arguments_for(name)),
        )
