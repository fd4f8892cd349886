"""Toolkit, tasks: how a call becomes a message.

The id of the message is that of the task, its type is the task's name, its body the arguments.

Invariant: a task that was sent is durable and in its queue, confirmed by the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.client.errors import QueueFull, QueueNotFound, Unroutable
from broker.client.message import Envelope
from broker.tasks.events import Event
from broker.tasks.frames import template
from broker.tasks.identity import new_id

if TYPE_CHECKING:
    from broker.client.schedule import When
    from broker.client.spec import QueueSpec
    from broker.tasks.app import Tasks
    from broker.tasks.link import Link
    from broker.tasks.task import Task

__all__ = ["Sender"]

NO_RESULT: Final = "x-no-result"


class Sender:
    """Sends the tasks of an application."""

    def __init__(self, app: Tasks) -> None:
        self._app = app

    async def send(
        self,
        task: Task[..., Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        when: When | None = None,
    ) -> str:
        """Send a task, and return its id when the broker has it."""
        app, options = self._app, task.options
        try:
            task.signature.check(args, kwargs)
        except TypeError as problem:
            raise TypeError(f"{task.name}: {problem}") from None

        link = await app.link()
        queue = options.queue
        if options.partitions is not None:
            queue = options.partitions.queue_for(queue, args, kwargs)

        spec = await self._declare(link, queue)
        body, content_type = app.codecs.encode([args, kwargs])
        reply_to = ""
        if options.result and app.results is not None:
            reply_to = await app.results.prepare(link)
            if options.ttl is not None or app.may_drop:
                await app.watch(link, queue)

        task_id = options.key or new_id()
        if app.callbacks.want("queued"):
            app.callbacks.tell(Event("queued", task_id, task.name))

        if when is not None:
            envelope = Envelope(
                body=body,
                id=task_id,
                priority=options.priority,
                when=when,
                ttl=options.ttl,
                type=task.name,
                reply_to=reply_to or None,
                content_type=content_type,
            )
            client = await link.client()

            async def put() -> None:
                await client.send_envelope(queue, envelope)
        else:
            props = template(
                content_type,
                task.name,
                priority=app.spec.wire_priority(options.priority),
                reply_to=reply_to,
                expiration_ms=options.ttl_ms,
            ).with_id(task_id)

            async def put() -> None:
                await link.port.send(queue, task_id, props, body)

        try:
            await put()
        except (QueueNotFound, Unroutable) as problem:
            is_to_go = spec.auto_delete or spec.expires is not None
            if isinstance(problem, QueueFull) or not is_to_go:
                raise

            # It went as it was to, when it was not in use, and is made again.
            link.forget_declared(queue)
            await self._declare(link, queue)
            await put()

        return task_id

    async def _declare(self, link: Link, queue: str) -> QueueSpec:
        spec = self._app.spec
        if not link.has_declared(queue):
            await link.declare(queue, self._app.queues().get(queue, spec))

        return spec
