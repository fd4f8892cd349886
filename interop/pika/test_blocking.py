"""pika: the blocking connection, in the way most synchronous programs use it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import NackError, UnroutableError

from interop.support.deadline import WITHIN_S, eventually

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel


def exclusive_queue(channel: BlockingChannel) -> str:
    name: str = channel.queue_declare("", exclusive=True).method.queue
    return name


def fill(channel: BlockingChannel, queue: str, number: int) -> None:
    for index in range(number):
        channel.basic_publish("", queue, b"%d" % index)


def ready(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def take(channel: BlockingChannel, queue: str, number: int) -> list[bytes]:
    bodies = []
    for _ in range(number):
        method, _properties, body = channel.basic_get(queue, auto_ack=True)
        assert method is not None
        bodies.append(body)

    return bodies


def pump(connection: pika.BlockingConnection, until: Any) -> None:
    """Let the connection work until a condition holds."""

    def step() -> bool:
        connection.process_data_events(time_limit=0.02)
        return bool(until())

    eventually(step)


def test_publish_then_get_on_one_channel_sees_the_message(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    channel.basic_publish("", queue, b"one")
    method, properties, body = channel.basic_get(queue)
    assert body == b"one"
    assert (method.exchange, method.routing_key, method.message_count) == ("", queue, 0)
    assert not method.redelivered
    assert properties.headers is None
    assert properties.delivery_mode is None
    assert channel.basic_get(queue) == (None, None, None)


def test_all_properties_arrive_as_they_were_sent(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="identity",
        headers={"int": -5, "long": 2**40, "text": "é", "list": [1, "x", None], "map": {"a": True}},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
    )
    channel.basic_publish("", queue, b"", sent)
    _, got, _ = channel.basic_get(queue, auto_ack=True)
    assert got == sent


def test_confirmed_publish_returns_and_unroutable_one_raises(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    queue = exclusive_queue(channel)
    channel.basic_publish("", queue, b"there", mandatory=True)
    assert take(channel, queue, 1) == [b"there"]
    channel.basic_publish("", "interop.nowhere", b"dropped", mandatory=False)
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("", "interop.nowhere", b"returned", mandatory=True)

    (message,) = unroutable.value.messages
    assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
    assert message.body == b"returned"


def test_full_queue_nacks_a_confirmed_publish(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    queue = channel.queue_declare(
        "", exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    ).method.queue
    channel.basic_publish("", queue, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"too many")

    assert ready(channel, queue) == 1


def test_returns_without_confirms_come_to_the_callback(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    returned: list[tuple[int, str, bytes]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, body: returned.append(
            (method.reply_code, method.routing_key, body)
        )
    )
    for index in range(3):
        channel.basic_publish("amq.direct", f"interop.{index}", b"%d" % index, mandatory=True)

    pump(connection, lambda: len(returned) == 3)
    assert returned == [(312, f"interop.{index}", b"%d" % index) for index in range(3)]


def test_consumer_generator_yields_and_cancel_requeues(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=5)
    seen = []
    for method, _properties, body in channel.consume(queue, inactivity_timeout=WITHIN_S):
        assert method is not None, "nothing came"
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 4:
            break

    # What was prefetched and not acked is rejected with requeue.
    channel.cancel()
    assert take(channel, queue, 6) == [b"%d" % index for index in range(4, 10)]


def test_consumer_generator_ends_a_silence_with_none(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    first = next(channel.consume(queue, inactivity_timeout=0.05))
    assert first == (None, None, None)
    channel.cancel()


def test_start_consuming_runs_until_stopped(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    fill(channel, queue, 50)
    bodies: list[bytes] = []

    def on_message(its: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        bodies.append(body)
        its.basic_ack(method.delivery_tag)
        if len(bodies) == 50:
            its.stop_consuming()

    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    assert bodies == [b"%d" % index for index in range(50)]
    assert ready(channel, queue) == 0


def test_nack_multiple_requeues_all_in_order(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    fill(channel, queue, 5)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[2], multiple=True, requeue=True)
    again = [channel.basic_get(queue) for _ in range(4)]
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"4", False),
    ]


def test_nack_multiple_without_requeue_drops(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    fill(channel, queue, 3)
    for _ in range(2):
        channel.basic_get(queue)

    channel.basic_nack(0, multiple=True, requeue=False)
    assert take(channel, queue, 1) == [b"2"]
    assert channel.basic_get(queue)[0] is None


def test_recover_requeues_what_is_unacked(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    fill(channel, queue, 2)
    for _ in range(2):
        channel.basic_get(queue)

    channel.basic_recover(requeue=True)
    again = [channel.basic_get(queue) for _ in range(2)]
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"0", True),
        (b"1", True),
    ]


def test_prefetch_of_the_channel_is_shared_by_its_consumers(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    version = connection._impl.server_properties
    if version["product"] == "RabbitMQ" and version["version"] >= "4.3":
        pytest.skip("RabbitMQ 4.3 ignores global prefetch")

    queues = [exclusive_queue(channel) for _ in range(2)]
    for queue in queues:
        fill(channel, queue, 5)

    channel.basic_qos(prefetch_count=3, global_qos=True)
    got: list[int] = []
    for queue in queues:
        channel.basic_consume(queue, lambda _c, method, _p, _b: got.append(method.delivery_tag))

    pump(connection, lambda: len(got) == 3)
    assert sum(ready(channel, queue) for queue in queues) == 7
    channel.basic_ack(got[-1], multiple=True)
    pump(connection, lambda: len(got) == 6)
    assert sum(ready(channel, queue) for queue in queues) == 4


def test_callback_from_another_thread_runs_in_the_connection(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    """The way to ack from a worker thread."""
    queue = exclusive_queue(channel)
    fill(channel, queue, 20)
    channel.basic_qos(prefetch_count=5)
    done: list[int] = []
    threads: list[threading.Thread] = []

    def acknowledge(tag: int) -> None:
        channel.basic_ack(tag)
        done.append(tag)
        if len(done) == 20:
            channel.stop_consuming()

    def on_message(_channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        def work(tag: int = method.delivery_tag) -> None:
            connection.add_callback_threadsafe(lambda: acknowledge(tag))

        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()

    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    for thread in threads:
        thread.join()

    assert sorted(done) == list(range(1, 21))
    assert ready(channel, queue) == 0


def test_heartbeats_keep_a_silent_connection(parameters: pika.URLParameters) -> None:
    parameters.heartbeat = 1
    with pika.BlockingConnection(parameters) as connection:
        # More silent seconds than either side tolerates without heartbeats.
        deadline = time.monotonic() + 3.5
        while time.monotonic() < deadline:
            connection.process_data_events(time_limit=0.5)

        assert connection.channel().queue_declare("", exclusive=True)


def test_client_that_sends_no_heartbeat_is_dropped(parameters: pika.URLParameters) -> None:
    parameters.heartbeat = 1
    connection = pika.BlockingConnection(parameters)
    socket = connection._impl._transport._sock
    # Nobody pumps the connection: it is silent. The broker may take three intervals.
    socket.settimeout(1.0)

    def dropped() -> bool:
        try:
            return socket.recv(4096) == b""
        except ConnectionResetError:
            return True
        except (TimeoutError, BlockingIOError):
            return False

    eventually(dropped, within=6.0)
    connection._impl._transport.abort()


def test_large_bodies_pass_in_both_directions(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    bodies = [bytes([index]) * (2_000_000 + index) for index in range(4)]
    for body in bodies:
        channel.basic_publish("", queue, body)

    assert take(channel, queue, 4) == bodies


def test_small_frames_when_the_client_asks_for_them(parameters: pika.URLParameters) -> None:
    parameters.frame_max = 8192
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        queue = exclusive_queue(channel)
        body = bytes(range(256)) * 200
        channel.basic_publish("", queue, body)
        assert take(channel, queue, 1) == [body]


def test_exchange_bindings_and_topic_routing(channel: BlockingChannel, make_name: Any) -> None:
    source, target = make_name("source"), make_name("target")
    channel.exchange_declare(source, "topic")
    channel.exchange_declare(target, "fanout")
    queue = exclusive_queue(channel)
    channel.queue_bind(queue, target)
    channel.exchange_bind(target, source, "*.error")
    for key in ("app.error", "app.info", "a.b.error"):
        channel.basic_publish(source, key, key.encode())

    assert take(channel, queue, 1) == [b"app.error"]
    channel.exchange_unbind(target, source, "*.error")
    channel.basic_publish(source, "app.error", b"late")
    assert channel.basic_get(queue)[0] is None


def test_transaction_commits_and_rolls_back(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    channel.tx_select()
    channel.basic_publish("", queue, b"never")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    assert ready(channel, queue) == 0
    channel.tx_commit()
    assert take(channel, queue, 1) == [b"kept"]


def test_deleted_queue_cancels_its_consumer(
    connection: pika.BlockingConnection, channel: BlockingChannel, make_name: Any
) -> None:
    queue = make_name("q")
    channel.queue_declare(queue, durable=True)
    tag = channel.basic_consume(queue, lambda *_: None)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    connection.channel().queue_delete(queue)
    pump(connection, lambda: cancelled)
    assert cancelled == [tag]
    assert channel.is_open


def test_server_named_consumer_tags_differ(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    tags = {channel.basic_consume(queue, lambda *_: None) for _ in range(5)}
    assert len(tags) == 5
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 5
