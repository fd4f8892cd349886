"""Toolkit: the client: send, consume, publish, subscribe, and what belongs to that."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from broker.client import wire
from broker.client.backup import Loaded, export_queues, load_queues
from broker.client.calling import call, handler_of
from broker.client.checks import (
    SHORT_TEXT_BYTES_MAX,
    check_callable,
    check_count,
    check_flag,
    check_grace,
    check_kind,
    check_queue,
    check_seconds,
    check_text,
)
from broker.client.codecs import codec_named
from broker.client.consumer import Ack, Consumer
from broker.client.core import Core
from broker.client.dead import DeadLetters, dead_letter_of
from broker.client.errors import Closed, InvalidValue, Unroutable
from broker.client.getting import Getting
from broker.client.intake import PREFETCH_MAX
from broker.client.link import check_url
from broker.client.management import Management
from broker.client.message import DeadLetter, Envelope, Message, QueueStats, Sent, ServerStats
from broker.client.options import Options
from broker.client.patience import carried, end_all
from broker.client.schedule import seconds_until
from broker.client.spec import DEAD_EXCHANGE, QueueSpec, check_priority, dead_queue_name
from broker.client.topics import Subscription, check_topic
from broker.client.topology import Topology

if TYPE_CHECKING:
    import os
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Generator,
        Iterable,
        Mapping,
    )
    from types import TracebackType

    from broker.client.codecs import Codec, Form
    from broker.client.delivery import Delivery
    from broker.client.events import ClientEvent
    from broker.client.retry import Retry
    from broker.client.schedule import When
    from broker.queues.amqp import AmqpQueue

__all__ = ["Client", "Connecting", "connect"]

T = TypeVar("T")


def connect(
    url: str = "amqp://guest:guest@localhost/",
    *,
    name: str | None = None,
    codec: str | Codec = "json",
    options: Options | None = None,
) -> Connecting:
    """Connect: ``async with connect(url) as client``, or ``client = await connect(url)``.

    Args:
        url: ``amqp://user:password@host:port/vhost``; ``amqps`` for TLS; ``?heartbeat=30`` and what
            else aiormq reads.
        name: what the broker's lists of connections call this one.
        codec: what bodies are written with: ``json``, ``msgpack``, ``pickle`` or one of your own.
        options: how long to wait, and what else one seldom changes.

    Raises:
        Unavailable: nobody was there for ``options.timeout`` seconds.
        AccessRefused: user, password or virtual host are wrong.
        InvalidValue: the URL is none of a broker.

    """
    if name is not None:
        check_text("name", name)

    options = Options() if options is None else options
    check_kind("options", options, Options, "Options(timeout=5)")
    codec_named(codec)
    return Connecting(check_url(url), name, codec, options)


class Connecting:
    """What :func:`connect` gives: await it, or enter it."""

    def __init__(self, url: str, name: str | None, codec: str | Codec, options: Options) -> None:
        self._arguments = (url, name, codec, options)
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        client = Client(Core(*self._arguments))
        await client.core.session.start()
        return client


class Client:
    """A connection that comes back by itself, with everything declared and consumed on it.

    Made by :func:`connect`.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        """For the other packages of the toolkit."""

        self._topology = Topology(core)
        self._getting = Getting(core)
        self._management = Management(core.options, core.session.vhost, core.session.account)
        self._running: set[Consumer[Any] | Subscription[Any]] = set()
        self._is_closed = False
        self._leaving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()

    # -- queues

    async def declare(
        self, name: str, spec: QueueSpec | None = None, *, passive: bool = False
    ) -> QueueSpec:
        """Make a queue, unless it is there; again after each reconnect.

        Without a spec, a queue that is there is taken as it is, and one that is not is made with
        ``QueueSpec()``. With ``passive`` nothing is made, and nothing but that the queue is there
        is checked: AMQP asks for no more, and the spec is taken for what the queue is like, its
        retry policy and priorities, say.

        Raises:
            SpecConflict: it is there and declared otherwise.
            QueueNotFound: ``passive``, and it is not there.

        """
        if spec is not None:
            check_kind("spec", spec, QueueSpec, "QueueSpec(max_length=100)")

        if not passive:
            return await self._topology.declare(name, spec)

        await self._topology.count(name)
        if spec is not None:
            self.core.known_specs[name] = spec

        return spec or self.core.spec_of(name) or QueueSpec()

    async def delete(
        self,
        name: str,
        *,
        if_empty: bool = False,
        if_unused: bool = False,
        with_dead: bool = False,
    ) -> int:
        """Delete a queue; returns how many messages went with it.

        Its dead letters stay, in the queue ``<name>.dead``, unless ``with_dead``. A queue that is
        not there is none to delete, and no error.

        Raises:
            ToolkitError: ``if_empty``, and it is not; ``if_unused``, and it has consumers.

        """
        check_flag("with_dead", with_dead)
        count = await self._topology.delete(name, if_empty=if_empty, if_unused=if_unused)
        if with_dead and len(dead := dead_queue_name(name)) <= SHORT_TEXT_BYTES_MAX:
            count += await self._topology.delete(dead, if_empty=False, if_unused=False)

        return count

    async def purge(self, name: str) -> int:
        """Delete the messages that wait in a queue; returns how many."""
        return await self._topology.purge(name)

    async def exists(self, name: str) -> bool:
        """Say whether there is a queue of that name."""
        return await self._topology.exists(name)

    async def stats(self, name: str) -> QueueStats:
        """Return what is in a queue now; raises :class:`QueueNotFound`.

        With ``Options.management_url`` also what happened there, up to some seconds ago.
        """
        ready, consumers = await self._topology.count(name)
        dead = await self.dead(name).count()
        if not self._management.is_there:
            return QueueStats(name, ready, consumers, dead)

        totals = await self._management.queue_totals(name)
        return QueueStats(name, ready, consumers, dead, **totals)

    async def queues(self) -> list[str]:
        """Return the names of all queues; needs ``Options.management_url``."""
        return await self._management.queue_names()

    async def server_stats(self) -> ServerStats:
        """Return what the broker is, and has now; needs ``Options.management_url``."""
        return await self._management.server()

    def dead(self, queue: str) -> DeadLetters:
        """Return the dead letters of a queue."""
        return DeadLetters(self.core, queue)

    # -- messages

    async def send(
        self,
        queue: str,
        body: object,
        *,
        id: str | None = None,  # noqa: A002 - what one calls it
        priority: int | None = None,
        headers: Mapping[str, object] | None = None,
        when: When | None = None,
    ) -> Sent:
        """Put a message into a queue; returns when the broker has confirmed it.

        Args:
            queue: the queue.
            body: any value that the client's codec writes; bytes are sent as they are.
            id: stays with the message whatever happens to it; made up if None.
            priority: what comes first the queue's spec says.
            headers: what else the receiver is to know.
            when: not before: seconds, a moment, or a :class:`Schedule`, of which the next time is
                taken.

        Raises:
            Unroutable: there is no such queue.
            QueueFull: it takes no more.
            InvalidPriority: it does not have that priority.
            EncodeError: the codec cannot write the body.
            Unavailable: nobody has confirmed it in ``send_timeout``.

        """
        envelope = Envelope(body=body, id=id, priority=priority, headers=headers or {}, when=when)
        return await self.send_envelope(queue, envelope)

    async def send_envelope(self, queue: str, envelope: Envelope) -> Sent:
        """Put a message into a queue of which there is more to say; see :meth:`send`."""
        self._check_open()
        check_queue(queue)
        check_kind("envelope", envelope, Envelope, "Envelope(body=5)")
        delay = 0.0
        if envelope.when is not None:
            delay = seconds_until(envelope.when, datetime.now(UTC))
            if delay > 0 and envelope.ttl is not None:
                raise InvalidValue("a message that has to wait cannot have a ttl as well")

        spec = self.core.spec_of(queue)
        priority = (
            check_priority(envelope.priority)
            if spec is None
            else spec.wire_priority(envelope.priority)
        )
        message = wire.outgoing(envelope, self.core.codecs, priority)
        try:
            resent = await self.core.send("", queue, message, delay=delay)
        except Unroutable as problem:
            if type(problem) is not Unroutable:
                raise

            raise Unroutable(f"there is no queue {queue!r}") from problem

        return Sent(message.properties.message_id or "", resent)

    @overload
    async def get(self, queue: str, *, wait: float = ...) -> Delivery[Any] | None: ...

    @overload
    async def get(
        self,
        queue: str,
        *,
        wait: float = ...,
        type: type[T],
    ) -> Delivery[T] | None: ...

    @overload
    async def get(
        self,
        queue: str,
        *,
        wait: float = ...,
        type: Form,
    ) -> Delivery[Any] | None: ...

    async def get(
        self,
        queue: str,
        *,
        wait: float = 0,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> Delivery[Any] | None:
        """Take one message; None if there is none, nor comes one in ``wait`` seconds.

        Raises:
            QueueNotFound: there is no such queue, or none any more when the time is over.

        """
        self._check_open()
        check_queue(queue)
        check_seconds("wait", wait, is_zero_ok=True, high=math.inf)
        into = self.core.codecs.check_type(type)
        if wait > 0:
            return await self._getting.wait(queue, wait, into)

        return await self._getting.get(queue, into)

    @overload
    def receive(
        self, queue: str, *, wait: float | None = ..., prefetch: int = ...
    ) -> AsyncGenerator[Delivery[Any], None]: ...

    @overload
    def receive(
        self,
        queue: str,
        *,
        wait: float | None = ...,
        prefetch: int = ...,
        type: type[T],
    ) -> AsyncGenerator[Delivery[T], None]: ...

    @overload
    def receive(
        self,
        queue: str,
        *,
        wait: float | None = ...,
        prefetch: int = ...,
        type: Form,
    ) -> AsyncGenerator[Delivery[Any], None]: ...

    def receive(
        self,
        queue: str,
        *,
        wait: float | None = None,
        prefetch: int = 1,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> AsyncGenerator[Delivery[Any], None]:
        """Iterate: ``async for delivery in client.receive("orders"):``, one after the other.

        It ends when none has come for ``wait`` seconds; with None it never does. Up to ``prefetch``
        messages are held ahead.
        """
        self._check_open()
        check_queue(queue)
        check_count("prefetch", prefetch, high=PREFETCH_MAX)
        into = self.core.codecs.check_type(type)
        if wait is not None:
            check_seconds("wait", wait, is_zero_ok=True, high=math.inf)

        from broker.queues.amqp import receive

        return receive(self, queue, into, prefetch=prefetch, wait=wait)

    @overload
    async def consume(
        self,
        queue: str,
        handler: Callable[[Delivery[Any]], Awaitable[object] | object],
        *,
        prefetch: int = ...,
        ack: Ack = ...,
        retry: Retry | None = ...,
    ) -> Consumer[Any]: ...

    @overload
    async def consume(
        self,
        queue: str,
        handler: Callable[[Delivery[T]], Awaitable[object] | object],
        *,
        prefetch: int = ...,
        ack: Ack = ...,
        retry: Retry | None = ...,
        type: type[T],
    ) -> Consumer[T]: ...

    @overload
    async def consume(
        self,
        queue: str,
        handler: Callable[[Delivery[Any]], Awaitable[object] | object],
        *,
        prefetch: int = ...,
        ack: Ack = ...,
        retry: Retry | None = ...,
        type: Form,
    ) -> Consumer[Any]: ...

    async def consume(
        self,
        queue: str,
        handler: Callable[[Delivery[Any]], Awaitable[object] | object],
        *,
        prefetch: int = 10,
        ack: Ack = "after",
        retry: Retry | None = None,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> Consumer[Any]:
        """Call ``handler`` with each message, up to ``prefetch`` of them at a time.

        It returns: the message is acknowledged. It raises: ``retry``, or that of the queue's spec,
        says whether and when it is tried again; after that it is a dead letter. It goes on after
        reconnects until :meth:`Consumer.cancel`.

        Args:
            queue: the queue.
            handler: a coroutine function, or a function, which is called in a thread.
            prefetch: how many at a time; 1 to handle them in order.
            ack: ``after`` it was handled; ``before``, so that it is handled at most once, and lost
                if that fails; or ``manual``: what the handler does not settle stays open.
            retry: instead of that of the queue's spec.
            type: what bodies are to be: a class, dataclass or :class:`msgspec.Struct`; what does
                not fit is a dead letter.

        Raises:
            QueueNotFound: there is no such queue.
            InvalidValue: no body can be of that type.

        """
        self._check_open()
        into = self.core.codecs.check_type(type)
        consumer: Consumer[Any] = Consumer(
            self.core, queue, handler, ack=ack, prefetch=prefetch, into=into
        )
        # Its handler may be called, and close this client, before this goes on.
        self._note(consumer)
        try:
            await consumer.start(retry)
        except BaseException:
            self._running.discard(consumer)
            raise

        return consumer

    @overload
    def queue(
        self, name: str, *, spec: QueueSpec | None = ..., prefetch: int | None = ...
    ) -> AmqpQueue[Any]: ...

    @overload
    def queue(
        self,
        name: str,
        type: type[T],
        *,
        spec: QueueSpec | None = ...,
        prefetch: int | None = ...,
    ) -> AmqpQueue[T]: ...

    @overload
    def queue(
        self,
        name: str,
        type: Form,
        *,
        spec: QueueSpec | None = ...,
        prefetch: int | None = ...,
    ) -> AmqpQueue[Any]: ...

    def queue(
        self,
        name: str,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
        *,
        spec: QueueSpec | None = None,
        prefetch: int | None = None,
    ) -> AmqpQueue[Any]:
        """Return a queue as an object: ``send``, and ``async for delivery in queue``."""
        from broker.queues.amqp import AmqpQueue

        return AmqpQueue(self, name, type, spec=spec, prefetch=prefetch)

    # -- topics

    async def publish(
        self,
        topic: str,
        body: object,
        *,
        id: str | None = None,  # noqa: A002 - what one calls it
        headers: Mapping[str, object] | None = None,
    ) -> bool:
        """Publish under a topic; returns whether anybody gets it. Nobody is no error."""
        return await self.publish_envelope(topic, Envelope(body=body, id=id, headers=headers or {}))

    async def publish_envelope(self, topic: str, envelope: Envelope) -> bool:
        """Publish a message of which there is more to say."""
        self._check_open()
        check_topic(topic)
        check_kind("envelope", envelope, Envelope, "Envelope(body=5)")
        if envelope.when is not None:
            raise InvalidValue("what is published is so at once: send to a queue to have it wait")

        message = wire.outgoing(envelope, self.core.codecs, envelope.priority)
        try:
            await self.core.send(self.core.options.topics, topic, message)
        except Unroutable as problem:
            if type(problem) is not Unroutable:
                raise

            return False

        return True

    @overload
    async def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[Any]], Awaitable[object] | object],
        *,
        max_pending: int = ...,
    ) -> Subscription[Any]: ...

    @overload
    async def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[T]], Awaitable[object] | object],
        *,
        max_pending: int = ...,
        type: type[T],
    ) -> Subscription[T]: ...

    @overload
    async def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[Any]], Awaitable[object] | object],
        *,
        max_pending: int = ...,
        type: Form,
    ) -> Subscription[Any]: ...

    async def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[Any]], Awaitable[object] | object],
        *,
        max_pending: int = 1000,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> Subscription[Any]:
        """Call ``handler`` with what is published under topics that match, one at a time, in order.

        ``*`` is one word, ``#`` any number of them. Of more than ``max_pending`` that wait, the
        oldest are dropped. While disconnected, nothing is received: :meth:`bind` a queue to miss
        nothing.
        """
        self._check_open()
        into = self.core.codecs.check_type(type)
        subscription: Subscription[Any] = Subscription(
            self.core,
            pattern,
            lambda delivery: delivery.message,
            handler,
            max_pending=max_pending,
            into=into,
        )
        await subscription.start()
        self._note(subscription)
        return subscription

    async def subscribe_dead(
        self,
        pattern: str,
        handler: Callable[[DeadLetter[Any]], Awaitable[object] | object],
        *,
        max_pending: int = 1000,
    ) -> Subscription[Any]:
        """Call ``handler`` with each message that becomes a dead letter from now on.

        Args:
            pattern: of the names of queues: ``#`` for all, ``orders.*`` for some.
            handler: a coroutine function, or a function, which is called in a thread.
            max_pending: of more than so many that wait, the oldest are dropped.

        """
        self._check_open()
        check_callable("handler", handler)

        async def handle(message: Message[Any]) -> object:
            assert isinstance(message, DeadLetter)
            return await call(handler, message)

        subscription: Subscription[Any] = Subscription(
            self.core,
            pattern,
            lambda delivery: dead_letter_of(self.core, delivery.raw, delivery.topic),
            handle,
            max_pending=max_pending,
            into=None,
        )
        await self.core.ensure_dead_exchange()
        await subscription.start(DEAD_EXCHANGE)
        self._note(subscription)
        return subscription

    async def bind(self, queue: str, pattern: str) -> None:
        """Let a queue have a copy of what is published under topics that match."""
        await self._topology.bind(queue, check_topic(pattern))

    async def unbind(self, queue: str, pattern: str) -> None:
        """Take that back."""
        await self._topology.unbind(queue, check_topic(pattern))

    # -- files

    async def export(
        self, path: str | os.PathLike[str], queues: Iterable[str] | None = None
    ) -> int:
        """Write queues with their messages and dead letters to a file; nothing is taken away.

        Args:
            path: the file. It is there in whole, or not.
            queues: which ones, or one; those that were declared by this client if None.

        Returns:
            How many messages there are in it.

        Raises:
            FileFailed: it cannot be written; what was there is there still.
            QueueNotFound: one of the queues is not there.

        """
        return await export_queues(self, path, queues)

    async def load(self, path: str | os.PathLike[str], *, skip: int = 0) -> Loaded:
        """Declare the queues of a file that are not there, and send its messages.

        Also reads the files that pymq saves. What is wrong with a file is told before anything of
        it is sent, and so is a queue of this client's that has no room for its messages. Of what
        the broker refuses later it has the messages before by then, which nothing takes back: the
        error says where, and its ``loaded`` is the ``skip`` to go on with.

        Args:
            path: the file.
            skip: leave out so many messages, which were loaded before.

        Raises:
            InvalidValue: it is broken, or not whole; nothing was sent.
            FileFailed: it cannot be read.
            QueueFull: a queue takes no more.

        """
        return await load_queues(self, path, skip)

    # -- the connection

    def on_event(self, callback: Callable[[ClientEvent], object]) -> Callable[[], None]:
        """Call back with what happens to the client; returns what ends that."""
        check_callable("callback", callback)
        return self.core.events.listen(callback)

    @property
    def connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self.core.session.is_connected

    async def wait_connected(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until there is one, ``options.timeout`` seconds if None; raises Unavailable."""
        if timeout is not None:
            check_seconds("timeout", timeout, is_zero_ok=True, high=math.inf)

        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        await self.core.session.link(deadline)

    async def close(self, grace: float | None = 10.0) -> None:
        """Stop consuming, let handlers end for ``grace`` seconds, and disconnect.

        It takes the grace and three seconds more at most, whatever has become of the broker; what
        is not settled by then the broker gives to somebody else. For the handler that calls this it
        does not wait: the client is disconnected when that has settled its message, within another
        ``grace``, and whoever else closes it waits for that.
        """
        check_grace(grace)
        self.core.session.home.check()
        handler = handler_of(self.core)
        if self._is_closed:
            if handler is None:
                await self.core.left.wait()

            return

        self._is_closed = True
        running, self._running = self._running, set()
        try:
            await asyncio.gather(
                *(_cancel(one, grace) for one in running),
                *(closer() for closer in list(self.core.closers)),
            )
        finally:
            if handler is None:
                # Who is interrupted leaves nothing open.
                await carried(self._leave())
            else:
                self._leaving = asyncio.create_task(self._leave_after(handler, grace))

    async def _leave_after(self, handler: asyncio.Task[Any], grace: float | None) -> None:
        try:
            await asyncio.wait((handler,), timeout=grace)
            if not handler.done():
                await end_all({handler})
        finally:
            await self._leave()

    async def _leave(self) -> None:
        try:
            await self.core.end_tasks()
            await self.core.session.close()
        finally:
            self.core.left.set()

    def _note(self, one: Consumer[Any] | Subscription[Any]) -> None:
        self._running.add(one)
        one.on_end = lambda: self._running.discard(one)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")


async def _cancel(one: Consumer[Any] | Subscription[Any], grace: float | None) -> None:
    if isinstance(one, Consumer):
        await one.cancel(grace)
    else:
        await one.cancel()
