"""Toolkit: the client for programs without an event loop: the same names, and no ``await``.

::

    from broker.client.sync import connect

    with connect("amqp://localhost/") as client:
        client.declare("orders")
        client.send("orders", {"hares": 2})
        for delivery in client.receive("orders", wait=1):
            with delivery as order:
                handle(order)

Invariant: all that is done here is to pass calls on to the client, which runs in its own thread.
It may be used by any number of threads.
"""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from broker.client import client as asynchronous
from broker.client.calling import handler_of
from broker.client.checks import (
    check_callable,
    check_count,
    check_grace,
    check_queue,
    check_seconds,
)
from broker.client.errors import Closed
from broker.client.home import Home
from broker.client.intake import PREFETCH_MAX
from broker.client.patience import end_all
from broker.queues.amqp import AmqpQueue

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from datetime import datetime
    from types import TracebackType

    from broker.client.backup import Loaded
    from broker.client.codecs import Codec, Form
    from broker.client.consumer import Ack, Consumer
    from broker.client.dead import DeadLetters
    from broker.client.delivery import Delivery
    from broker.client.events import ClientEvent
    from broker.client.message import DeadLetter, Envelope, Message, QueueStats, Sent, ServerStats
    from broker.client.options import Options
    from broker.client.retry import Retry
    from broker.client.schedule import When
    from broker.client.spec import QueueSpec
    from broker.client.topics import Subscription

__all__ = [
    "SyncClient",
    "SyncConsumer",
    "SyncDeadLetters",
    "SyncDelivery",
    "SyncSubscription",
    "connect",
]

T = TypeVar("T")
R = TypeVar("R")


def connect(
    url: str = "amqp://guest:guest@localhost/",
    *,
    name: str | None = None,
    codec: str | Codec = "json",
    options: Options | None = None,
) -> SyncClient:
    """Connect; see :func:`broker.client.connect`."""
    portal = _Portal()
    try:
        connecting = asynchronous.connect(url, name=name, codec=codec, options=options)
        return SyncClient(portal.run(_connected(connecting)), portal)
    except BaseException:
        portal.close()
        raise


async def _connected(connecting: asynchronous.Connecting) -> asynchronous.Client:
    return await connecting


class _Portal:
    """An event loop in a thread, and the way into it."""

    def __init__(self) -> None:
        self.home = Home()
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(thread_name_prefix="leveret handler")
        self._loop.set_default_executor(self._executor)
        self._lock = threading.Lock()
        self._is_closing = False
        self._last: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="leveret client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[object, object, R]) -> R:
        """Do it there, and wait for it.

        Raises:
            Closed: it is, or was while this went on.
            RuntimeError: it was called in the thread that would have to do it, or in a process that
                was forked from the one that has that thread.

        """
        try:
            self.check_thread()
            with self._lock:
                if self._is_closing:
                    raise Closed("the client is closed")

                # With the lock, so that closing finds it begun and ends it.
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise

        try:
            return future.result()
        except CancelledError:
            if self._is_closing:
                raise Closed("the client was closed meanwhile") from None

            raise
        except BaseException:
            # Interrupted: what was begun is not to go on behind the program's back.
            future.cancel()
            raise

    def check_thread(self) -> None:
        """Refuse to wait in the thread that is waited for, or for one that is not here."""
        self.home.check_process()
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "the client cannot be called from its own thread, in which callbacks of on_event "
                "run: it would wait for itself; pass the event on to another thread"
            )

    def close(self) -> None:
        """End the thread, and whatever others wait for in it: they get :class:`Closed`."""
        self._stop()
        self._thread.join()

    def close_after(self, work: Coroutine[object, object, object]) -> None:
        """Do something there, and then end the thread, for which nobody waits here."""

        async def close() -> None:
            try:
                await work
            finally:
                self._stop()

        self.run(self._begin(close()))

    async def _begin(self, work: Coroutine[object, object, None]) -> None:
        self._last = asyncio.create_task(work)

    def _stop(self) -> None:
        with self._lock:
            if not self._is_closing:
                self._is_closing = True
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_end_all())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            # Nothing can stop a handler in a thread; who waits for it is the program's end.
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._loop.close()


async def _end_all() -> None:
    """Cancel what is still under way on this loop, and see it end."""
    await end_all({task for task in asyncio.all_tasks() if task is not asyncio.current_task()})


class SyncDelivery(Generic[T]):
    """A message that is being handled; see :class:`broker.client.Delivery`."""

    def __init__(self, delivery: Delivery[T], portal: _Portal) -> None:
        self._delivery = delivery
        self._portal = portal

    def __enter__(self) -> T:
        """Return the body; raises DecodeError."""
        return self._portal.run(self._delivery.open())

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._portal.run(self._delivery.settle_for(exc))

    @property
    def body(self) -> T:
        """The value that was sent; raises DecodeError."""
        return self._delivery.body

    @property
    def message(self) -> Message[T]:
        """All that is known of the message; raises DecodeError."""
        return self._delivery.message

    @property
    def id(self) -> str:
        """As it was sent."""
        return self._delivery.id

    @property
    def attempt(self) -> int:
        """Which attempt this is."""
        return self._delivery.attempt

    @property
    def queue(self) -> str:
        """The queue it was taken from."""
        return self._delivery.queue

    @property
    def topic(self) -> str:
        """What it was published under."""
        return self._delivery.topic

    @property
    def headers(self) -> dict[str, object]:
        """What the sender put there."""
        return self._delivery.headers

    @property
    def timestamp(self) -> datetime | None:
        """When it was sent."""
        return self._delivery.timestamp

    @property
    def settled(self) -> bool:
        """Whether it was settled."""
        return self._delivery.settled

    def ack(self) -> bool:
        """It was handled: forget it."""
        return self._portal.run(self._delivery.ack())

    def fail(self, error: BaseException | str | None = None) -> bool:
        """It failed: try again as the queue's policy says, or make it a dead letter."""
        return self._portal.run(self._delivery.fail(error))

    def requeue(self) -> bool:
        """Hand it back; no attempt is counted."""
        return self._portal.run(self._delivery.requeue())

    def dead(self, error: BaseException | str | None = None) -> bool:
        """Make it a dead letter."""
        return self._portal.run(self._delivery.dead(error))

    def touch(self) -> bool:
        """Begin ``ack_timeout`` anew."""
        return self._portal.run(self._touch())

    async def _touch(self) -> bool:
        return self._delivery.touch()


class SyncDeadLetters:
    """The dead letters of a queue; see :class:`broker.client.DeadLetters`."""

    def __init__(self, dead: DeadLetters, portal: _Portal) -> None:
        self._dead = dead
        self._portal = portal

    def count(self) -> int:
        """Return how many there are."""
        return self._portal.run(self._dead.count())

    def list(self, limit: int | None = 100) -> list[DeadLetter[Any]]:
        """Return the oldest of them."""
        return self._portal.run(self._dead.list(limit))

    def replay(self, ids: Iterable[str] | None = None, *, to: str | None = None) -> int:
        """Put them back; returns how many."""
        return self._portal.run(self._dead.replay(ids, to=to))

    def purge(self) -> int:
        """Throw them away; returns how many."""
        return self._portal.run(self._dead.purge())


class SyncConsumer:
    """A consumer at work."""

    def __init__(self, consumer: Consumer[Any], portal: _Portal) -> None:
        self._consumer = consumer
        self._portal = portal

    def cancel(self, grace: float | None = 10.0) -> None:
        """Take no more, and let handlers end."""
        self._portal.run(self._consumer.cancel(grace))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.cancel()


class SyncSubscription:
    """A subscription at work."""

    def __init__(self, subscription: Subscription[Any], portal: _Portal) -> None:
        self._subscription = subscription
        self._portal = portal

    @property
    def dropped(self) -> int:
        """How many messages the handler was too slow for."""
        return self._subscription.dropped

    def cancel(self) -> None:
        """End it."""
        self._portal.run(self._subscription.cancel())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.cancel()


class SyncClient:
    """A client without ``await``; see :class:`broker.client.Client`. Made by :func:`connect`."""

    def __init__(self, client: asynchronous.Client, portal: _Portal) -> None:
        self._client = client
        self._portal = portal
        self._closing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # -- queues

    def declare(
        self, name: str, spec: QueueSpec | None = None, *, passive: bool = False
    ) -> QueueSpec:
        """Make a queue, unless it is there."""
        return self._portal.run(self._client.declare(name, spec, passive=passive))

    def delete(
        self,
        name: str,
        *,
        if_empty: bool = False,
        if_unused: bool = False,
        with_dead: bool = False,
    ) -> int:
        """Delete a queue; returns how many messages went with it. Its dead letters stay, unless
        ``with_dead``."""
        return self._portal.run(
            self._client.delete(name, if_empty=if_empty, if_unused=if_unused, with_dead=with_dead)
        )

    def purge(self, name: str) -> int:
        """Delete the messages that wait in a queue; returns how many."""
        return self._portal.run(self._client.purge(name))

    def exists(self, name: str) -> bool:
        """Say whether there is a queue of that name."""
        return self._portal.run(self._client.exists(name))

    def stats(self, name: str) -> QueueStats:
        """Return what is in a queue now."""
        return self._portal.run(self._client.stats(name))

    def queues(self) -> list[str]:
        """Return the names of all queues; needs ``Options.management_url``."""
        return self._portal.run(self._client.queues())

    def server_stats(self) -> ServerStats:
        """Return what the broker is, and has now; needs ``Options.management_url``."""
        return self._portal.run(self._client.server_stats())

    def dead(self, queue: str) -> SyncDeadLetters:
        """Return the dead letters of a queue."""
        return SyncDeadLetters(self._client.dead(queue), self._portal)

    # -- messages

    def send(
        self,
        queue: str,
        body: object,
        *,
        id: str | None = None,  # noqa: A002 - what one calls it
        priority: int | None = None,
        headers: Mapping[str, object] | None = None,
        when: When | None = None,
    ) -> Sent:
        """Put a message into a queue; returns when the broker has confirmed it."""
        return self._portal.run(
            self._client.send(queue, body, id=id, priority=priority, headers=headers, when=when)
        )

    def send_envelope(self, queue: str, envelope: Envelope) -> Sent:
        """Put a message into a queue of which there is more to say."""
        return self._portal.run(self._client.send_envelope(queue, envelope))

    @overload
    def get(self, queue: str, *, wait: float = ...) -> SyncDelivery[Any] | None: ...

    @overload
    def get(
        self,
        queue: str,
        *,
        wait: float = ...,
        type: type[T],
    ) -> SyncDelivery[T] | None: ...

    @overload
    def get(
        self,
        queue: str,
        *,
        wait: float = ...,
        type: Form,
    ) -> SyncDelivery[Any] | None: ...

    def get(
        self,
        queue: str,
        *,
        wait: float = 0,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> SyncDelivery[Any] | None:
        """Take one message; None if there is none, nor comes one in ``wait`` seconds."""
        found: Delivery[Any] | None
        if type is None:
            found = self._portal.run(self._client.get(queue, wait=wait))
        else:
            found = self._portal.run(self._client.get(queue, wait=wait, type=type))

        return None if found is None else SyncDelivery(found, self._portal)

    @overload
    def receive(
        self, queue: str, *, wait: float | None = ..., prefetch: int = ...
    ) -> Iterator[SyncDelivery[Any]]: ...

    @overload
    def receive(
        self,
        queue: str,
        *,
        wait: float | None = ...,
        prefetch: int = ...,
        type: type[T],
    ) -> Iterator[SyncDelivery[T]]: ...

    @overload
    def receive(
        self,
        queue: str,
        *,
        wait: float | None = ...,
        prefetch: int = ...,
        type: Form,
    ) -> Iterator[SyncDelivery[Any]]: ...

    def receive(
        self,
        queue: str,
        *,
        wait: float | None = None,
        prefetch: int = 1,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> Iterator[SyncDelivery[Any]]:
        """Yield one message after the other, until none comes for ``wait`` seconds; None: for ever.

        Args:
            queue: the queue.
            wait: how long to wait for the next one.
            prefetch: how many to hold ahead.
            type: what bodies are to be.

        """
        check_queue(queue)
        check_count("prefetch", prefetch, high=PREFETCH_MAX)
        if wait is not None:
            check_seconds("wait", wait, is_zero_ok=True, high=math.inf)

        self._client.core.codecs.check_type(type)
        return self._receive(queue, wait, prefetch, type)

    def _receive(
        self, queue: str, wait: float | None, prefetch: int, into: type[Any] | Form | None
    ) -> Iterator[SyncDelivery[Any]]:
        source = AmqpQueue(self._client, queue, into, prefetch=prefetch)
        try:
            while True:
                delivery = self._portal.run(source.take(prefetch, wait=wait))
                if delivery is None:
                    return

                yield SyncDelivery(delivery, self._portal)
        finally:
            self._portal.run(source.close())

    def consume(
        self,
        queue: str,
        handler: Callable[[SyncDelivery[Any]], object],
        *,
        prefetch: int = 10,
        ack: Ack = "after",
        retry: Retry | None = None,
        type: type[Any] | Form | None = None,  # noqa: A002 - what one calls it
    ) -> SyncConsumer:
        """Call ``handler`` with each message, in threads, up to ``prefetch`` of them at a time."""
        check_callable("handler", handler)

        def handle(delivery: Delivery[Any]) -> object:
            return handler(SyncDelivery(delivery, self._portal))

        begin = self._client.consume
        consumer = self._portal.run(
            begin(queue, handle, prefetch=prefetch, ack=ack, retry=retry)
            if type is None
            else begin(queue, handle, prefetch=prefetch, ack=ack, retry=retry, type=type)
        )
        return SyncConsumer(consumer, self._portal)

    # -- topics

    def publish(
        self,
        topic: str,
        body: object,
        *,
        id: str | None = None,  # noqa: A002 - what one calls it
        headers: Mapping[str, object] | None = None,
    ) -> bool:
        """Publish under a topic; returns whether anybody gets it."""
        return self._portal.run(self._client.publish(topic, body, id=id, headers=headers))

    def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[Any]], object],
        *,
        max_pending: int = 1000,
    ) -> SyncSubscription:
        """Call ``handler``, in a thread, with what is published under topics that match."""
        subscription = self._portal.run(
            self._client.subscribe(pattern, handler, max_pending=max_pending)
        )
        return SyncSubscription(subscription, self._portal)

    def bind(self, queue: str, pattern: str) -> None:
        """Let a queue have a copy of what is published under topics that match."""
        self._portal.run(self._client.bind(queue, pattern))

    def unbind(self, queue: str, pattern: str) -> None:
        """Take that back."""
        self._portal.run(self._client.unbind(queue, pattern))

    # -- the rest

    def export(self, path: str | os.PathLike[str], queues: Iterable[str] | None = None) -> int:
        """Write queues with their messages to a file; returns how many there are in it."""
        return self._portal.run(self._client.export(path, queues))

    def load(self, path: str | os.PathLike[str], *, skip: int = 0) -> Loaded:
        """Send the messages of a file, but for the first ``skip``."""
        return self._portal.run(self._client.load(path, skip=skip))

    def on_event(self, callback: Callable[[ClientEvent], object]) -> Callable[[], None]:
        """Call back, in the client's thread, with what happens to it; returns what ends that.

        In that thread the client itself cannot be called: that raises RuntimeError.
        """
        return self._client.on_event(callback)

    @property
    def connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._client.connected

    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait until there is one; raises Unavailable."""
        self._portal.run(self._client.wait_connected(timeout))

    def close(self, grace: float | None = 10.0) -> None:
        """Stop consuming, let handlers end for ``grace`` seconds, and disconnect.

        It takes the grace and four seconds more at most. A handler that has not ended then is left
        behind in its thread, for which Python waits at the end of the program.

        What other threads wait for here ends with :class:`Closed`. In a fork of its process there
        is nothing to do.
        """
        check_grace(grace)
        if self._portal.home.is_other_process:
            return

        self._portal.check_thread()
        if handler_of(self._client.core) is not None:
            self._close_in_handler(grace)
            return

        with self._closing:
            try:
                self._portal.run(self._client.close(grace))
            except Closed:
                return
            finally:
                self._portal.close()

    def _close_in_handler(self, grace: float | None) -> None:
        """What runs the handler cannot end before it has: that is seen to there."""
        if not self._closing.acquire(blocking=False):
            return

        try:
            self._portal.run(self._client.close(grace))
            self._portal.close_after(self._client.core.left.wait())
        except Closed:
            return
        finally:
            self._closing.release()
