"""Toolkit, tasks: what arrives on a channel, without a task and two queues per message.

aiormq puts each frame into a queue of its channel, from which a task of the channel takes it and
starts a task per message. An :class:`Intake` stands in the place of that queue: it puts deliveries,
confirms and returns together as their frames arrive and hands them on at once, and gives aiormq
everything else.

Invariant: frames of one channel come in order, and content frames follow their method.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from aiormq.abc import DeliveredMessage
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from broker.client.errors import QueueFull, Unavailable, Unroutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiormq.abc import AbstractChannel

__all__ = ["Intake", "Received"]

Frame = tuple[int, Any]
"""What aiormq makes of a frame: a weight, and an object of pamqp's."""

CONTENT_METHODS: Final = (commands.Basic.Deliver, commands.Basic.Return)


class Received:
    """A message that was delivered."""

    __slots__ = ("body", "channel", "header", "is_settled", "method", "properties", "queue")

    def __init__(
        self,
        channel: AbstractChannel,
        method: commands.Basic.Deliver,
        header: ContentHeader,
        body: bytes,
    ) -> None:
        self.channel = channel
        self.method = method
        self.header = header
        self.is_settled = False
        """Whether the broker was told what becomes of it: told again, it closes the channel."""
        self.queue = ""
        """What it was taken from. Its routing key can be another one."""
        self.properties: commands.Basic.Properties = header.properties
        self.body = body

    @property
    def raw(self) -> DeliveredMessage:
        """The message as aiormq has it."""
        return DeliveredMessage(
            delivery=self.method, header=self.header, body=self.body, channel=self.channel
        )

    @property
    def tag(self) -> int:
        """The delivery tag."""
        return self.method.delivery_tag or 0


class Intake(asyncio.Queue[Frame]):
    """Stands in the place of a channel's queue of frames."""

    def __init__(self, channel: AbstractChannel) -> None:
        super().__init__()
        self._channel = channel
        self._inner: asyncio.Queue[Frame] = channel.frames
        channel.frames = self
        self.handlers: dict[str, tuple[str, Callable[[Received], None]]] = {}
        self._unclaimed: dict[str, list[Received]] = {}
        self._sent = 0
        self._unconfirmed: OrderedDict[int, tuple[asyncio.Future[None], str]] = OrderedDict()
        self._returned: set[str] = set()
        self._method: Any = None
        self._header: Any = None
        self._pieces: list[bytes] = []
        self._missing = 0
        self.close_text = ""
        """Why the broker has closed the channel, if it has."""

    def handle(self, consumer_tag: str, queue: str, handler: Callable[[Received], None]) -> None:
        """Hand deliveries of a consumer to ``handler``, those included that came before this."""
        self.handlers[consumer_tag] = (queue, handler)
        for message in self._unclaimed.pop(consumer_tag, ()):
            message.queue = queue
            handler(message)

    def unclaimed(self, consumer_tag: str) -> list[Received]:
        """Return what has come for a consumer that nobody has claimed, and will not."""
        return self._unclaimed.pop(consumer_tag, [])

    def expect_confirm(self, message_id: str) -> asyncio.Future[None]:
        """Return a future for the confirm of what is sent next."""
        self._sent += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed[self._sent] = (future, message_id)
        return future

    def lose(self) -> None:
        """The connection is gone: nothing that waits for a confirm will get one."""
        while self._unconfirmed:
            _, (future, _) = self._unconfirmed.popitem()
            if not future.done():
                future.set_exception(Unavailable("the connection was lost before the confirm"))

    async def put(self, item: Frame) -> None:
        """Take a frame."""
        frame = item[1]
        kind = type(frame)
        if kind is ContentBody:
            self._take_body(frame.value)
        elif kind is ContentHeader and self._method is not None:
            self._header = frame
            self._missing = frame.body_size
            if not self._missing:
                self._finish()
        elif kind in CONTENT_METHODS:
            self._method = frame
        elif kind is commands.Channel.Close:
            self.close_text = frame.reply_text or ""
            await self._inner.put(item)
        elif kind is commands.Basic.Ack:
            self._confirm(frame.delivery_tag, frame.multiple, None)
        elif kind is commands.Basic.Nack:
            self._confirm(frame.delivery_tag, frame.multiple, QueueFull("the queue is full"))
        else:
            await self._inner.put(item)

    async def get(self) -> Frame:
        """Give aiormq what is its own."""
        return await self._inner.get()

    def task_done(self) -> None:
        """As aiormq says after each."""
        self._inner.task_done()

    def _take_body(self, piece: bytes) -> None:
        self._missing -= len(piece)
        self._pieces.append(piece)
        if self._missing <= 0:
            self._finish()

    def _finish(self) -> None:
        method, header, pieces = self._method, self._header, self._pieces
        self._method = self._header = None
        self._pieces = []
        if type(method) is commands.Basic.Return:
            self._returned.add(header.properties.message_id or "")
            return

        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        message = Received(self._channel, method, header, body)
        claimed = self.handlers.get(method.consumer_tag)
        if claimed is None:  # the first ones can be here before we know the consumer tag
            self._unclaimed.setdefault(method.consumer_tag, []).append(message)
        else:
            message.queue, handler = claimed
            handler(message)

    def _confirm(self, tag: int, is_multiple: bool, error: Exception | None) -> None:
        unconfirmed = self._unconfirmed
        if not is_multiple:
            self._resolve(unconfirmed.pop(tag, None), error)
            return

        while unconfirmed:
            first = next(iter(unconfirmed))
            if first > tag:
                return

            self._resolve(unconfirmed.pop(first), error)

    def _resolve(
        self, waiting: tuple[asyncio.Future[None], str] | None, error: Exception | None
    ) -> None:
        if waiting is None:
            return

        future, message_id = waiting
        if message_id in self._returned:
            self._returned.discard(message_id)
            error = Unroutable("there is no such queue")

        if future.done():
            return

        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
