"""Toolkit: the client: send, consume, publish, subscribe, and what belongs to that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping
    from types import TracebackType

    from broker.client.codecs import Codec
    from broker.client.delivery import Delivery
    from broker.client.message import Envelope, Message, QueueStats, Sent
    from broker.client.retry import Retry
    from broker.client.schedule import When
    from broker.client.spec import QueueSpec

__all__ = ["Client", "Connecting", "connect"]

T = TypeVar("T")
Ack = Literal["after", "before", "manual"]
"""When a message is forgotten: after it was handled, before, or when the handler says so."""


def connect(
    url: str = "amqp://guest:guest@localhost/",
    *,
    name: str | None = None,
    codec: str | Codec = "json",
    timeout: float = 10.0,
    send_timeout: float = 30.0,
) -> Connecting:
    """Connect: ``async with connect(url) as client``, or ``client = await connect(url)``.

    Args:
        url: ``amqp://user:password@host:port/vhost``; ``amqps`` for TLS; ``?heartbeat=30`` and what
            else aio-pika reads.
        name: what the broker's lists of connections call this one.
        codec: what bodies are written with: ``json``, ``msgpack``, ``pickle`` or one of your own.
        timeout: how long anything but sending waits for the broker, reconnecting included.
        send_timeout: how long sending does.

    """
    raise NotImplementedError


class Connecting:
    """What :func:`connect` gives: await it, or enter it."""

    def __await__(self) -> Generator[Any, None, Client]:
        raise NotImplementedError

    async def __aenter__(self) -> Client:
        raise NotImplementedError

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        raise NotImplementedError


class Client:
    """A connection that comes back by itself, with everything declared and consumed on it."""

    async def declare(
        self, name: str, spec: QueueSpec | None = None, *, passive: bool = False
    ) -> QueueSpec:
        """Make a queue, unless it is there; again after each reconnect.

        Without a spec a queue that is there is taken as it is, and one that is not is made with
        ``QueueSpec()``.

        Raises:
            SpecConflict: it is there and declared otherwise.
            QueueNotFound: ``passive``, and it is not there.

        """
        raise NotImplementedError

    async def delete(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Delete a queue; its dead letters stay. Returns how many messages went with it."""
        raise NotImplementedError

    async def purge(self, name: str) -> int:
        """Delete the messages that wait in a queue; returns how many."""
        raise NotImplementedError

    async def exists(self, name: str) -> bool:
        """Say whether there is a queue of that name."""
        raise NotImplementedError

    async def stats(self, name: str) -> QueueStats:
        """Return what is in a queue now."""
        raise NotImplementedError

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

        Raises:
            Unroutable: there is no such queue.
            QueueFull: it takes no more.
            Unavailable: nobody has confirmed it in ``send_timeout``.

        """
        raise NotImplementedError

    async def send_envelope(self, queue: str, envelope: Envelope) -> Sent:
        """Put a message into a queue of which there is more to say."""
        raise NotImplementedError

    async def get(
        self,
        queue: str,
        *,
        wait: float = 0,
        type: type[T] | None = None,  # noqa: A002
    ) -> Delivery[T] | None:
        """Take one message; None if there is none, nor comes one in ``wait`` seconds."""
        raise NotImplementedError

    async def consume(
        self,
        queue: str,
        handler: Callable[[Delivery[T]], Awaitable[object] | object],
        *,
        prefetch: int = 10,
        ack: Ack = "after",
        retry: Retry | None = None,
        type: type[T] | None = None,  # noqa: A002
    ) -> Consumer:
        """Call ``handler`` with each message, up to ``prefetch`` of them at a time.

        It returns: the message is acknowledged. It raises: ``retry``, or that of the queue's spec,
        says whether and when it is tried again; after that it is a dead letter. It goes on after
        reconnects until :meth:`Consumer.cancel`.
        """
        raise NotImplementedError

    async def publish(
        self,
        topic: str,
        body: object,
        *,
        id: str | None = None,  # noqa: A002
        headers: Mapping[str, object] | None = None,
    ) -> bool:
        """Publish under a topic; returns whether anybody gets it."""
        raise NotImplementedError

    async def publish_envelope(self, topic: str, envelope: Envelope) -> bool:
        """Publish a message of which there is more to say."""
        raise NotImplementedError

    async def subscribe(
        self,
        pattern: str,
        handler: Callable[[Message[T]], Awaitable[object] | object],
        *,
        max_pending: int = 1000,
        type: type[T] | None = None,  # noqa: A002
    ) -> Subscription:
        """Call ``handler`` with what is published under topics that match, one at a time, in order.

        ``*`` is one word, ``#`` any number of them. Of more than ``max_pending`` that wait, the
        oldest are dropped.
        """
        raise NotImplementedError

    async def bind(self, queue: str, pattern: str) -> None:
        """Let a queue have a copy of what is published under topics that match."""
        raise NotImplementedError

    async def unbind(self, queue: str, pattern: str) -> None:
        """Take that back."""
        raise NotImplementedError

    def on_event(self, callback: Callable[[ClientEvent], object]) -> Callable[[], None]:
        """Call back with what happens to the client; returns what ends that."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether there is a connection at this moment."""
        raise NotImplementedError

    async def wait_connected(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until there is one."""
        raise NotImplementedError

    async def close(self, grace: float = 10.0) -> None:
        """Stop consuming, let handlers end for ``grace`` seconds, and disconnect."""
        raise NotImplementedError


class Consumer:
    """A consumer at work."""

    queue: str

    async def cancel(self, grace: float | None = 10.0) -> None:
        """Take no more, let handlers end for ``grace`` seconds (None: as long as it takes), then
        cancel them: their messages are handed back, and no attempt is counted."""
        raise NotImplementedError


class Subscription:
    """A subscription at work."""

    pattern: str

    async def cancel(self) -> None:
        """End it."""
        raise NotImplementedError


class ClientEvent:
    """What happened: ``kind`` is one of connected, disconnected, reconnected, ..."""

    kind: str
