"""A channel: the state of one conversation, and the way from its frames to the core.

Methods are obeyed by the functions of :mod:`broker.protocol.methods`; what comes with every message
(publish, ack, nack, reject) has its way here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.consumer import Consumer, Deliveries
from broker.core.publishing import Publisher
from broker.core.transaction import ACK, REJECT, REQUEUE, Transaction
from broker.errors import (
    AMQPChannelError,
    ChannelFault,
    CommandInvalid,
    PreconditionFailed,
    UnexpectedFrame,
)
from broker.protocol.content import ContentAssembly
from broker.protocol.publish_run import PublishRun
from broker.protocol.states import CHANNEL_CLOSING, CHANNEL_RUNNING, CHANNEL_TRANSITIONS
from broker.wire import codec
from broker.wire.constants import (
    BASIC_ACK,
    BASIC_DELIVER,
    BASIC_GET_OK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_REJECT,
    BASIC_RETURN,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    FRAME_METHOD,
)
from broker.wire.hot import long_long_at

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.actor import Actor
    from broker.core.confirms import Confirms
    from broker.core.message import Message
    from broker.core.vhost import VirtualHost
    from broker.protocol.connection import Connection
    from broker.wire.framing import FrameDecoder

__all__ = ["Channel", "check_not_reopened"]

CONTENT_METHODS: Final = frozenset({BASIC_PUBLISH, BASIC_RETURN, BASIC_DELIVER, BASIC_GET_OK})
"""Methods that a content follows; of a client only publish makes sense (rule CH-11)."""

ACK_PAYLOAD_BYTES: Final = 13
"""basic.ack and basic.nack: method index, delivery tag, bits. basic.reject is the same."""


def check_not_reopened(index: int) -> None:
    """Rule CH-02.

    Raises:
        ChannelFault: the method opens a channel that is open, or not quite closed.

    """
    if index == CHANNEL_OPEN:
        raise ChannelFault("second 'channel.open' seen", class_id=20, method_id=10)


class Channel:
    """One open channel of a running connection.

    Args:
        connection: which it belongs to.
        channel_id: its number, 1 to 65535.
        vhost: the connection's virtual host.
        actor: the connection's user, for all rights.

    Attributes:
        method_index: the method being processed, for the closes it may cause (rule T-05).
        last_queue: the queue declared last, for methods that name none (rule CH-14).
        prefetch_count: the limit of consumers that are yet to come (rule QS-02).

    """

    __slots__ = (
        "_assembly",
        "_holds_notices",
        "_is_watched",
        "_late_notices",
        "actor",
        "channel_id",
        "confirms",
        "connection",
        "consumers",
        "deliveries",
        "is_ready",
        "last_queue",
        "method_index",
        "number",
        "prefetch_count",
        "publisher",
        "runs",
        "state",
        "transaction",
        "vhost",
    )

    def __init__(
        self, connection: Connection, channel_id: int, vhost: VirtualHost, actor: Actor
    ) -> None:
        self.connection = connection
        self.channel_id = channel_id
        self.number: bytes = channel_id.to_bytes(2, "big")
        self.vhost = vhost
        self.actor = actor
        self.state = CHANNEL_RUNNING
        # Open, no content pending, nobody who looks at settlements: what the fast paths ask before
        # they take a frame.
        self._is_watched = vhost.witness is not None or not vhost.release.takes_stream_nacks
        self.is_ready = not self._is_watched
        self.method_index: i64 = 0
        self.deliveries = Deliveries(connection.output, channel_id, self.consumer_lost)
        self.deliveries.actor = actor
        vhost.deliveries[self.deliveries] = None
        body_bytes_max = connection.node.settings.message_bytes_max
        self.publisher = Publisher(vhost, actor, self.deliveries, body_bytes_max)
        self.runs = PublishRun(self.publisher, channel_id)
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.consumers: dict[str, Consumer] = {}
        self.prefetch_count: i64 = 0
        self.last_queue: str | None = None
        self._assembly: ContentAssembly | None = None
        self._late_notices: list[bytes] = []
        self._holds_notices = False

    def send(self, payload: bytes) -> None:
        """Send a method on this channel."""
        self.deliveries.output.send_method(self.number, payload)

    # -- frames in

    def take_hot(self, decoder: FrameDecoder, index: i64) -> bool:
        """Try the straight way for a method frame; False leaves it to `handle_frame`."""
        if index == BASIC_PUBLISH:
            self.method_index = index
            return self.runs.take(decoder)

        start: i64 = decoder.payload_start
        if decoder.payload_end - start != ACK_PAYLOAD_BYTES:
            return False

        if index == BASIC_ACK:
            self.method_index = index
            buffer = decoder.buffer
            self.ack(long_long_at(buffer, start + 4), buffer[start + 12] & 1 != 0)
            return True

        if index == BASIC_NACK:
            self.method_index = index
            buffer = decoder.buffer
            bits: i64 = buffer[start + 12]
            self.nack(long_long_at(buffer, start + 4), bits & 1 != 0, bits & 2 != 0)
            return True

        if index == BASIC_REJECT:
            self.method_index = index
            buffer = decoder.buffer
            self.nack(long_long_at(buffer, start + 4), False, buffer[start + 12] & 1 != 0)
            return True

        return False

    def handle_frame(self, decoder: FrameDecoder) -> None:
        """Take the decoder's current frame, whatever it is.

        Raises:
            AMQPError: it has no place here, or the method failed.

        """
        if self.state == CHANNEL_CLOSING:
            self._handle_while_closing(decoder)
            return

        assembly = self._assembly
        if assembly is not None:
            if assembly.take(decoder):
                self._assembly = None
                self.is_ready = not self._is_watched
                self._handle_content(assembly)

            return

        if decoder.frame_type != FRAME_METHOD:
            raise UnexpectedFrame(
                "expected method frame, got non method frame instead", class_id=0, method_id=0
            )

        payload = decoder.payload()
        index = int.from_bytes(payload[:4], "big")
        self.method_index = index
        if index in CONTENT_METHODS:
            self._begin_content(index, payload)
        else:
            self.connection.call_method(self, index, payload)

    def _begin_content(self, index: int, payload: bytes) -> None:
        if index == BASIC_PUBLISH:
            # Only to learn whether it decodes; its arguments are read again as they came.
            codec.decode_method(index, payload)

        self._assembly = ContentAssembly(index, payload, self.connection.unfinished)
        self.is_ready = False

    def _handle_content(self, assembly: ContentAssembly) -> None:
        self.method_index = assembly.method_index
        if assembly.method_index != BASIC_PUBLISH:
            raise CommandInvalid("unimplemented method")

        self.runs.publish_assembled(assembly)

    def _handle_while_closing(self, decoder: FrameDecoder) -> None:
        """Only close and close-ok count; content frames go with the rest (rule CH-07)."""
        if decoder.frame_type != FRAME_METHOD:
            return

        index = int.from_bytes(decoder.payload()[:4], "big")
        if index == CHANNEL_CLOSE:
            self.send(codec.CHANNEL_CLOSE_OK)
        elif index == CHANNEL_CLOSE_OK:
            self.connection.forget_channel(self)
        else:
            check_not_reopened(index)

    # -- settlement

    def ack(self, tag: i64, multiple: bool) -> None:
        """basic.ack.

        Raises:
            PreconditionFailed: the tag is not unacked (rules A-01..A-03).

        """
        messages = self._take_unacked(tag, multiple)
        if self.transaction is not None:
            self.transaction.add_settlement(ACK, messages)
        else:
            self.deliveries.settle(messages)

    def nack(self, tag: i64, multiple: bool, requeue: bool) -> None:
        """basic.nack and basic.reject.

        Raises:
            PreconditionFailed: the tag is not unacked (rules A-01..A-03).

        """
        messages = self._take_unacked(tag, multiple)
        if self.transaction is not None:
            self.transaction.add_settlement(REQUEUE if requeue else REJECT, messages)
        elif requeue:
            self.deliveries.give_back(messages, self.method_index == BASIC_REJECT)
        else:
            self.deliveries.reject(messages)

    def _take_unacked(self, tag: i64, multiple: bool) -> list[Message]:
        unacked = self.deliveries.unacked
        if not multiple:
            message = unacked.take(tag)
            if message is not None:
                return [message]
        elif tag == 0:
            # Rule A-02: zero stands for all, and none outstanding is no error.
            return unacked.take_all()
        else:
            messages = unacked.take_until(tag)
            if messages is not None:
                return messages

        shown = int(tag) if tag >= 0 else int(tag) + (1 << 64)
        raise PreconditionFailed(f"unknown delivery tag {shown}")

    # -- consumers

    def remove_consumer(self, consumer: Consumer) -> None:
        """Stop a consumer; what it has unacked stays so (rule CO-12)."""
        self.consumers.pop(consumer.tag, None)
        if consumer.queue.name == self.publisher.reply_name:
            self.publisher.reply_name = None

        consumer.queue.remove_consumer(consumer)

    def check_consumers(self) -> None:
        """Stop the consumers of queues that the user may read no longer (rule C-74)."""
        for consumer in list(self.consumers.values()):
            queue = consumer.queue
            if queue.name != self.publisher.reply_name and not self.actor.may("read", queue.name):
                queue.remove_consumer(consumer)
                self.consumer_lost(consumer)

    def consumer_lost(self, consumer: Consumer) -> None:
        """The consumer has no queue any more: tell the client, if it understands that (CO-13)."""
        self.consumers.pop(consumer.tag, None)
        if self.state == CHANNEL_RUNNING and self.connection.client.wants_cancel_notify:
            notice = codec.encode_basic_cancel(consumer.tag)
            if self._holds_notices:
                # RabbitMQ: who deletes a queue learns of that before its own consumers' end;
                # py-amqp counts on it (rule OR-05).
                self._late_notices.append(notice)
            else:
                self.send(notice)

    def hold_notices(self) -> None:
        """This channel deletes a queue now: what it hears of its own consumers comes afterwards."""
        self._holds_notices = True

    def send_late_notices(self) -> None:
        """Send what had to wait for the answer to queue.delete."""
        self._holds_notices = False
        notices = self._late_notices
        self._late_notices = []
        for notice in notices:
            self.send(notice)

    # -- the end

    def close_for(self, error: AMQPChannelError) -> None:
        """A method failed: close the channel towards the client (rules T-01, CH-07)."""
        class_id = error.class_id
        method_id = error.method_id
        if class_id is None or method_id is None:
            class_id = int(self.method_index >> 16)
            method_id = int(self.method_index & 0xFFFF)

        self._answer_publishes()
        self._set_state(CHANNEL_CLOSING)
        self.send(
            codec.encode_channel_close(
                error.code, error.reply_text, class_id=class_id, method_id=method_id
            )
        )
        self.terminate()

    def _answer_publishes(self) -> None:
        """Confirm what can be before a close is written: nothing may come behind it (CF-09)."""
        if self.confirms is not None:
            self.confirms.flush()

    def _set_state(self, state: int) -> None:
        assert state in CHANNEL_TRANSITIONS[self.state]
        self.state = state

    def stop_deliveries(self) -> None:
        """Deliver nothing more: whatever comes free from now on is for others."""
        for consumer in self.consumers.values():
            consumer.is_cancelled = True

    def terminate(self) -> None:
        """Let go of everything: consumers, unacked deliveries, what is not committed (CH-06)."""
        self._answer_publishes()
        if self.confirms is not None:
            self.confirms.is_closed = True

        if self.deliveries in self.vhost.deliveries:
            del self.vhost.deliveries[self.deliveries]
            self.runs.count_sizes()
            self.runs.close()
            self.publisher.tell(self.vhost.tally.publishes)

        self.is_ready = False
        if self._assembly is not None:
            self._assembly.abandon()
            self._assembly = None

        self.stop_deliveries()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        messages = self.deliveries.unacked.take_all()
        if self.transaction is not None:
            # Rule TX-09: acknowledged but not committed is as good as unacked.
            messages = messages + self.transaction.settled_messages()
            if self.vhost.witness is not None:
                self.vhost.witness.rolled_back(self.deliveries)

            self.transaction = None
            self.publisher.transaction = None
            self.deliveries.transaction = None

        if messages:
            witness = self.vhost.witness
            if witness is not None:
                witness.settling(messages, "closed")

            self.deliveries.give_back(messages, is_failure=True)

        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)

        self.deliveries.end()
