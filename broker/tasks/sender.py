"""Toolkit, tasks: how a call becomes a message.

The id of the message is that of the task, its type is the task's name, its body the arguments.

Invariant: a task that was sent is durable and in its queue, confirmed by the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.client.errors import QueueFull, QueueNotFound, Unroutable
from broker.client.message import Envelope
from broker.tasks.events import Event
from broker.tasks.frames import template
from broker.tasks.identity import new_id

if TYPE_CHECKING:
    from broker.client.schedule import When
    from broker.tasks.app import Tasks
    from broker.tasks.link import Link
    from broker.tasks.task import Task

__all__ = ["Sender"]

NO_RESULT: Final = "x-no-result"


class _Call(NamedTuple):
    """A call of a task, written."""

    task: Task[..., Any, Any]
    id: str
    body: bytes
    content_type: str
    reply_to: str
    when: When | None


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

        await self._declare(link, queue)
        body, content_type = app.codecs.encode([args, kwargs])
        reply_to = ""
        if options.result and app.results is not None:
            reply_to = await app.results.prepare(link)
            if options.ttl is not None or app.may_drop:
                await app.watch(link, queue)

        task_id = options.key or new_id()
        if app.callbacks.want("queued"):
            app.callbacks.tell(Event("queued", task_id, task.name))

        call = _Call(task, task_id, body, content_type, reply_to, when)
        try:
            await self._put(link, queue, call)
        except (QueueNotFound, Unroutable) as problem:
            if isinstance(problem, QueueFull):
                raise

            # It was deleted, or went as it was to when it was not in use, and is made again.
            link.forget_declared(queue)
            await self._declare(link, queue)
            await self._put(link, queue, call)

        return task_id

    async def _put(self, link: Link, queue: str, call: _Call) -> None:
        options = call.task.options
        if call.when is not None:
            client = await link.client()
            envelope = Envelope(
                body=call.body,
                id=call.id,
                priority=options.priority,
                when=call.when,
                ttl=options.ttl,
                type=call.task.name,
                reply_to=call.reply_to or None,
                content_type=call.content_type,
            )
            await client.send_envelope(queue, envelope)
            return

        props = template(
            call.content_type,
            call.task.name,
            priority=self._app.spec.wire_priority(options.priority),
            reply_to=call.reply_to,
            expiration_ms=options.ttl_ms,
        )
        await link.port.send(queue, call.id, props.with_id(call.id), call.body)

    async def _declare(self, link: Link, queue: str) -> None:
        if not link.has_declared(queue):
            await link.declare(queue, self._app.queues().get(queue, self._app.spec))
