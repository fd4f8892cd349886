"""pika: errors of channels and connections, with the codes and texts programs match on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from interop.support.names import unique_name

Action = Callable[[BlockingChannel, str], Any]


def _in_use(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_consume(name, lambda *_: None)
    channel.queue_delete(name, if_unused=True)


def _not_empty(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"")
    channel.queue_delete(name, if_empty=True)


def _other_durability(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, auto_delete=True, arguments={"x-expires": 10_000})
    channel.queue_declare(name, durable=False, auto_delete=True, arguments={"x-expires": 10_000})


def _other_argument(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.queue_declare(name, exclusive=True, arguments={"x-message-ttl": 1000})


def _second_consumer(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.basic_consume(name, lambda *_: None, exclusive=True)
    channel.basic_consume(name, lambda *_: None)


def _bad_expiration(channel: BlockingChannel, name: str) -> None:
    channel.basic_publish("", name, b"", pika.BasicProperties(expiration="soon"))
    channel.basic_qos(prefetch_count=1)


def _missing_exchange(channel: BlockingChannel, name: str) -> None:
    channel.basic_publish(name, "key", b"")
    channel.basic_qos(prefetch_count=1)


def _unknown_tag(channel: BlockingChannel, _name: str) -> None:
    channel.basic_ack(99)
    channel.basic_qos(prefetch_count=1)


def _confirm_after_tx(channel: BlockingChannel, _name: str) -> None:
    channel.tx_select()
    channel.confirm_delivery()


@pytest.mark.parametrize(
    ("action", "code", "text"),
    [
        pytest.param(
            lambda channel, name: channel.queue_declare(name, passive=True),
            404,
            "NOT_FOUND - no queue '{name}' in vhost '/'",
            id="missing queue",
        ),
        pytest.param(
            lambda channel, name: channel.basic_consume(name, lambda *_: None),
            404,
            "NOT_FOUND - no queue '{name}' in vhost '/'",
            id="consume from a missing queue",
        ),
        pytest.param(
            lambda channel, name: channel.basic_get(name),
            404,
            "NOT_FOUND - no queue '{name}' in vhost '/'",
            id="get from a missing queue",
        ),
        pytest.param(
            lambda channel, name: channel.queue_purge(name),
            404,
            "NOT_FOUND - no queue '{name}' in vhost '/'",
            id="purge a missing queue",
        ),
        pytest.param(
            _missing_exchange,
            404,
            "NOT_FOUND - no exchange '{name}' in vhost '/'",
            id="publish to a missing exchange",
        ),
        pytest.param(
            lambda channel, name: channel.queue_declare(f"amq.{name}", durable=True),
            403,
            "ACCESS_REFUSED - queue name 'amq.{name}' contains reserved prefix 'amq.*'",
            id="reserved name",
        ),
        pytest.param(
            lambda channel, _name: channel.exchange_delete("amq.direct"),
            403,
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
            id="delete a system exchange",
        ),
        pytest.param(
            _second_consumer,
            403,
            "ACCESS_REFUSED - queue '{name}' in vhost '/' in exclusive use",
            id="exclusive consumer",
        ),
        pytest.param(
            lambda channel, _name: channel.exchange_declare("amq.direct", "topic", durable=True),
            406,
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/':"
            " received 'topic' but current is 'direct'",
            id="another exchange type",
        ),
        pytest.param(
            _other_durability,
            406,
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/':"
            " received 'false' but current is 'true'",
            id="another durability",
        ),
        pytest.param(
            _other_argument,
            406,
            "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{name}' in vhost"
            " '/': received the value '1000' of type 'signedint' but current is none",
            id="another argument",
        ),
        pytest.param(
            _in_use, 406, "PRECONDITION_FAILED - queue '{name}' in vhost '/' in use", id="in use"
        ),
        pytest.param(
            _not_empty,
            406,
            "PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty",
            id="not empty",
        ),
        pytest.param(
            _bad_expiration,
            406,
            "PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
            id="expiration",
        ),
        pytest.param(
            _unknown_tag, 406, "PRECONDITION_FAILED - unknown delivery tag 99", id="unknown tag"
        ),
        pytest.param(
            _confirm_after_tx,
            406,
            "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
            id="confirms after transactions",
        ),
    ],
)
def test_channel_is_closed_with(
    connection: pika.BlockingConnection, action: Action, code: int, text: str
) -> None:
    name = unique_name()
    channel, bystander = connection.channel(), connection.channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        action(channel, name)

    assert (closed.value.reply_code, closed.value.reply_text) == (code, text.format(name=name))
    assert channel.is_closed
    assert bystander.queue_declare("", exclusive=True), "other channels are unharmed"
    connection.channel().queue_delete(name)


@pytest.mark.parametrize(
    ("action", "code", "text"),
    [
        pytest.param(
            lambda channel: channel.basic_recover(requeue=False),
            540,
            "NOT_IMPLEMENTED - requeue=false",
            id="recover without requeue",
        ),
        pytest.param(
            lambda channel: channel.flow(active=False),
            540,
            "NOT_IMPLEMENTED - active=false",
            id="flow",
        ),
        pytest.param(
            lambda channel: channel.basic_qos(prefetch_size=1000),
            540,
            "NOT_IMPLEMENTED - prefetch_size!=0 (1000)",
            id="prefetch size",
        ),
    ],
)
def test_connection_is_closed_with(
    connection: pika.BlockingConnection,
    action: Callable[[BlockingChannel], Any],
    code: int,
    text: str,
) -> None:
    channel = connection.channel()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        action(channel)

    assert (closed.value.reply_code, closed.value.reply_text) == (code, text)
    assert connection.is_closed


def test_consumer_tag_used_twice_closes_the_connection(
    connection: pika.BlockingConnection,
) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    # Beneath the blocking channel, which would refuse the second by itself.
    channel.basic_consume(queue, lambda *_: None, consumer_tag="twice")
    channel._impl._consumers.clear()
    channel._consumer_infos.clear()
    with pytest.raises(ConnectionClosedByBroker) as closed:
        channel.basic_consume(queue, lambda *_: None, consumer_tag="twice")

    assert closed.value.reply_code == 530
    assert closed.value.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 'twice'"


def test_wrong_password_is_an_authentication_error(parameters: pika.URLParameters) -> None:
    parameters.credentials = pika.PlainCredentials("guest", "not-the-password")
    with pytest.raises(ProbableAuthenticationError, match=r"403.*Login was refused using"):
        pika.BlockingConnection(parameters)


def test_missing_vhost_is_an_access_error(parameters: pika.URLParameters) -> None:
    parameters.virtual_host = "/interop-missing"
    with pytest.raises(ProbableAccessDeniedError, match=r"530.*vhost /interop-missing not found"):
        pika.BlockingConnection(parameters)


def test_exclusive_queue_is_locked_to_another_connection(
    connection: pika.BlockingConnection, parameters: pika.URLParameters
) -> None:
    queue = connection.channel().queue_declare("", exclusive=True).method.queue
    with pika.BlockingConnection(parameters) as other:
        channel = other.channel()
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.queue_delete(queue)

    assert closed.value.reply_code == 405
    assert closed.value.reply_text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'."
    )


def test_publish_error_arrives_at_the_next_call(channel: BlockingChannel) -> None:
    """A publish has no answer: what follows it on the channel meets the close."""
    channel.basic_publish("interop.no-such-exchange", "key", b"")
    with pytest.raises(ChannelClosedByBroker):
        channel.queue_declare("", exclusive=True)


def test_channel_number_may_be_used_again_after_an_error(
    connection: pika.BlockingConnection,
) -> None:
    for _ in range(3):
        channel = connection.channel(channel_number=5)
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("interop.missing", passive=True)


def test_more_channels_than_negotiated_are_refused(parameters: pika.URLParameters) -> None:
    parameters.channel_max = 4
    with pika.BlockingConnection(parameters) as connection:
        for _ in range(4):
            connection.channel()

        with pytest.raises((pika.exceptions.NoFreeChannels, ConnectionClosedByBroker)):
            connection.channel()
