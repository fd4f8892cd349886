"""Toolkit: queues and bindings that were declared, to be declared again on each connection.

Invariant: what one thought of as declared is there, or an event has said that it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client import wire
from broker.client.checks import check_queue
from broker.client.dead_exchange import declare_dead_exchange
from broker.client.errors import QueueNotFound, SpecConflict, ToolkitError
from broker.client.events import ClientEvent
from broker.client.link import LIBRARY_ERRORS, LinkLost, translated_error
from broker.client.spec import DEAD_EXCHANGE, QueueSpec, check_queue_name, dead_queue_name

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.client.core import Core
    from broker.client.link import Link

__all__ = ["Topology"]


class Topology:
    """What was declared, and how it is."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._bindings: dict[tuple[str, str], None] = {}
        core.session.add(self)

    async def restore(self, link: Link) -> None:
        """Declare everything on a new connection; what fails is told, and the rest goes on."""
        for name, spec in list(self._core.specs.items()):
            await self._try(link, name, _declare(link, name, spec))

        for queue, pattern in list(self._bindings):
            await self._try(link, queue, self._bind(link, queue, pattern))

    async def declare(self, name: str, spec: QueueSpec | None) -> QueueSpec:
        """Make a queue, or find it."""
        check_queue_name(name)
        if spec is None:
            known = self._core.specs.get(name)
            if known is None and await self.exists(name):
                return QueueSpec()

            spec = known or QueueSpec()

        wanted = spec
        await self._core.session.run(lambda link: _declare(link, name, wanted))
        self._core.specs[name] = spec
        return spec

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
            self._core.events.emit(ClientEvent("restore_failed", queue=queue, error=error))
        except ToolkitError as problem:
            self._core.events.emit(ClientEvent("restore_failed", queue=queue, error=problem))


async def _declare(link: Link, name: str, spec: QueueSpec) -> None:
    if spec.has_dead_letters:
        await link.ensure(DEAD_EXCHANGE, declare_dead_exchange)
        async with link.admin() as channel:
            dead = dead_queue_name(name)
            await channel.queue_declare(
                dead, durable=spec.durable, arguments=wire.table(spec.dead_arguments())
            )
            await channel.queue_bind(dead, DEAD_EXCHANGE, routing_key=name)

    async with link.admin() as channel:
        await channel.queue_declare(
            name,
            durable=spec.durable,
            exclusive=spec.exclusive,
            auto_delete=spec.auto_delete,
            arguments=wire.table(spec.arguments_for(name)),
        )
