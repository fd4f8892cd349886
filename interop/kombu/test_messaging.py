"""kombu: producers, consumers and the things built of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import kombu
import pytest
from amqp.exceptions import AccessRefused, MessageNacked, NotFound, PreconditionFailed
from kombu import Consumer, Exchange, Producer, Queue, pools
from kombu.mixins import ConsumerMixin, ConsumerProducerMixin

from interop.support.deadline import WITHIN_S, eventually

NameMaker = Callable[[str], str]


def drain(connection: kombu.Connection, until: Callable[[], bool]) -> None:
    """Handle events until the condition holds."""

    def step() -> bool:
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.05)

        return until()

    eventually(step)


def durable(make_name: NameMaker, exchange: Exchange | None = None, **options: Any) -> Queue:
    name = make_name("q")
    return Queue(name, exchange or Exchange(""), routing_key=name, durable=True, **options)


@pytest.mark.parametrize(
    ("serializer", "compression", "body"),
    [
        ("json", None, {"text": "é", "list": [1, 2.5, None, True]}),
        ("pickle", None, {"tuple": (1, 2), "bytes": b"\x00\xff"}),
        ("json", "zlib", {"long": "x" * 100_000}),
        ("raw", None, b"\x00\x01\x02"),
    ],
)
def test_body_survives_serializer(
    connection: kombu.Connection,
    make_name: NameMaker,
    serializer: str,
    compression: str | None,
    body: Any,
) -> None:
    queue = durable(make_name)
    producer = Producer(connection)
    options = {"content_type": "application/data", "content_encoding": "binary"}
    producer.publish(
        body,
        routing_key=queue.name,
        declare=[queue],
        serializer=None if serializer == "raw" else serializer,
        compression=compression,
        headers={"k": "v"},
        **(options if serializer == "raw" else {}),
    )
    bound = queue(connection.channel())
    message = eventually(lambda: bound.get(accept={"json", "pickle"}))
    assert message.decode() == body
    assert message.headers["k"] == "v"
    message.ack()
    assert bound.get() is None


def test_consumer_takes_what_the_producer_declared_and_sent(
    connection: kombu.Connection, make_name: NameMaker
) -> None:
    exchange = Exchange(make_name("x"), "topic", durable=True)
    queue = Queue(make_name("q"), exchange, routing_key="log.#", durable=True)
    received: list[Any] = []

    def on_message(body: Any, message: kombu.Message) -> None:
        received.append((body, message.delivery_info["routing_key"]))
        message.ack()

    with Consumer(connection, [queue], callbacks=[on_message], prefetch_count=5):
        producer = Producer(connection, exchange=exchange)
        for number in range(20):
            producer.publish({"n": number}, routing_key=f"log.{number}.x")

        producer.publish({"n": -1}, routing_key="other")
        drain(connection, lambda: len(received) == 20)

    assert received == [({"n": n}, f"log.{n}.x") for n in range(20)]


def test_drain_events_times_out_when_nothing_comes(
    connection: kombu.Connection, make_name: NameMaker
) -> None:
    with Consumer(connection, [durable(make_name)], callbacks=[lambda *_: None]):
        with pytest.raises(socket.timeout):
            connection.drain_events(timeout=0.1)

        # The timeout did not hurt the connection.
        assert connection.connected
        connection.channel().close()


def test_confirms_of_the_transport_raise_on_nack(url: str, make_name: NameMaker) -> None:
    queue = durable(make_name, queue_arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        producer = Producer(connection)
        producer.publish("fits", routing_key=queue.name, declare=[queue])
        with pytest.raises(MessageNacked):
            producer.publish("too many", routing_key=queue.name)


def test_mandatory_message_that_goes_nowhere_is_returned(connection: kombu.Connection) -> None:
    returned: list[Any] = []
    producer = Producer(
        connection,
        on_return=lambda error, exchange, key, message: returned.append((error, exchange, key)),
    )
    producer.publish("lost", routing_key="interop.nowhere", mandatory=True)
    drain(connection, lambda: bool(returned))
    ((error, exchange, key),) = returned
    assert (error.reply_code, exchange, key) == (312, "", "interop.nowhere")


def test_priorities_order_what_waits(connection: kombu.Connection, make_name: NameMaker) -> None:
    queue = durable(make_name, max_priority=10)
    producer = Producer(connection)
    for priority in (1, 9, 5, 9, 0):
        producer.publish(priority, routing_key=queue.name, declare=[queue], priority=priority)

    bound = queue(connection.channel())
    eventually(lambda: bound.queue_declare(passive=True).message_count == 5)
    assert [bound.get(no_ack=True).payload for _ in range(5)] == [9, 9, 5, 1, 0]


def test_queue_options_become_arguments(connection: kombu.Connection, make_name: NameMaker) -> None:
    name = make_name("q")
    options = {
        "expires": 60.0,
        "message_ttl": 30.0,
        "max_length": 10,
        "max_length_bytes": 10_000,
        "max_priority": 3,
    }
    queue = Queue(name, Exchange(""), routing_key=name, durable=True, **options)
    queue(connection.channel()).declare()
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-message-ttl'"):
        Queue(name, durable=True, **{**options, "message_ttl": 31.0})(
            connection.channel()
        ).queue_declare()


@pytest.mark.parametrize("requeue", [True, False])
def test_reject_with_requeue_of(
    connection: kombu.Connection, make_name: NameMaker, requeue: bool
) -> None:
    queue = durable(make_name)
    Producer(connection).publish("m", routing_key=queue.name, declare=[queue])
    bound = queue(connection.channel())
    message = eventually(bound.get)
    assert not message.delivery_info["redelivered"]
    message.reject(requeue=requeue)
    again = bound.get(no_ack=True)
    if requeue:
        assert again.delivery_info["redelivered"]
    else:
        assert again is None


def test_simple_queue_puts_and_gets(connection: kombu.Connection, make_name: NameMaker) -> None:
    name = make_name("simple")
    make_exchange = Exchange(name, "direct")
    queue = connection.SimpleQueue(name)
    assert make_exchange.name == queue.queue.exchange.name
    for number in range(3):
        queue.put({"n": number})

    eventually(lambda: queue.qsize() == 3)
    for number in range(3):
        message = queue.get(timeout=WITHIN_S)
        assert message.payload == {"n": number}
        message.ack()

    with pytest.raises(queue.Empty):
        queue.get(timeout=0.05)

    queue.close()


def test_simple_buffer_is_transient(connection: kombu.Connection, make_name: NameMaker) -> None:
    name = make_name("buffer")
    # Exclusive, because a RabbitMQ may have been told not to permit shared transient queues.
    buffer = connection.SimpleBuffer(name, queue_opts={"exclusive": True})
    buffer.put("m")
    assert buffer.get(timeout=WITHIN_S).payload == "m"
    buffer.close()


def test_pools_of_connections_and_producers_are_reused(url: str, make_name: NameMaker) -> None:
    queue = durable(make_name)
    connection = kombu.Connection(url)
    pool = pools.producers[connection]
    try:
        seen = set()
        for number in range(10):
            with pool.acquire(block=True) as producer:
                seen.add(id(producer.connection))
                producer.publish(number, routing_key=queue.name, declare=[queue], retry=True)

        assert len(seen) == 1
        with pools.connections[connection].acquire(block=True) as pooled:
            bound = queue(pooled.default_channel)
            eventually(lambda: bound.queue_declare(passive=True).message_count == 10)
    finally:
        pools.reset()


class _Worker(ConsumerMixin):
    """Consumes in `run`, the loop that most kombu programs have."""

    def __init__(self, connection: kombu.Connection, queue: Queue, number: int) -> None:
        self.connection = connection
        self.bodies: list[Any] = []
        self._queue = queue
        self._number = number

    def get_consumers(self, consumer: Any, channel: Any) -> list[Consumer]:
        return [consumer([self._queue], callbacks=[self.on_message], accept=["json"])]

    def on_message(self, body: Any, message: kombu.Message) -> None:
        self.bodies.append(body)
        message.ack()
        self.should_stop = len(self.bodies) == self._number


def test_consumer_mixin_runs_until_told_to_stop(url: str, make_name: NameMaker) -> None:
    queue = durable(make_name)
    with kombu.Connection(url) as connection:
        producer = Producer(connection)
        for number in range(30):
            producer.publish(number, routing_key=queue.name, declare=[queue])

        worker = _Worker(connection.clone(), queue, 30)
        worker.run()

    assert worker.bodies == list(range(30))


class _Server(ConsumerProducerMixin):
    """Answers one request, as kombu's documentation writes an RPC server."""

    def __init__(self, connection: kombu.Connection, queue: Queue) -> None:
        self.connection = connection
        self._queue = queue

    def get_consumers(self, consumer: Any, channel: Any) -> list[Consumer]:
        return [consumer([self._queue], on_message=self.on_request, prefetch_count=1)]

    def on_request(self, message: kombu.Message) -> None:
        self.producer.publish(
            {"result": message.payload["n"] ** 2},
            exchange="",
            routing_key=message.properties["reply_to"],
            correlation_id=message.properties["correlation_id"],
            serializer="json",
            retry=True,
        )
        message.ack()
        self.should_stop = True


def test_request_and_reply(url: str, make_name: NameMaker) -> None:
    queue = durable(make_name)
    with kombu.Connection(url) as client:
        replies = Queue(exclusive=True, auto_delete=True)(client.channel())
        replies.declare()
        Producer(client).publish(
            {"n": 12},
            routing_key=queue.name,
            declare=[queue],
            reply_to=replies.name,
            correlation_id="c-1",
        )
        with kombu.Connection(url) as serving:
            _Server(serving, queue).run()

        reply = eventually(replies.get)
        assert reply.payload == {"result": 144}
        assert reply.properties["correlation_id"] == "c-1"


def test_consumer_cancel_and_recover(connection: kombu.Connection, make_name: NameMaker) -> None:
    queue = durable(make_name)
    received: list[bool] = []
    consumer = Consumer(
        connection,
        [queue],
        callbacks=[lambda _body, message: received.append(message.delivery_info["redelivered"])],
    )
    consumer.consume()
    Producer(connection).publish("m", routing_key=queue.name)
    drain(connection, lambda: len(received) == 1)
    consumer.recover(requeue=True)
    drain(connection, lambda: len(received) == 2)
    consumer.cancel()
    assert received == [False, True]


def test_deleted_queue_cancels_the_consumer(
    url: str, connection: kombu.Connection, make_name: NameMaker
) -> None:
    queue = durable(make_name)
    with Consumer(connection, [queue], callbacks=[lambda *_: None]):
        with kombu.Connection(url) as other:
            queue(other.channel()).delete()

        with pytest.raises(connection.connection_errors + connection.channel_errors):
            drain(connection, lambda: False)


def test_queue_may_be_deleted_under_ones_own_consumer(
    connection: kombu.Connection, make_name: NameMaker
) -> None:
    """The answer to the delete comes before the cancel, at which py-amqp raises."""
    queue = durable(make_name)
    consumer = Consumer(connection, [queue], callbacks=[lambda *_: None])
    consumer.consume()
    assert queue(consumer.channel).delete() == 0
    with pytest.raises(connection.connection_errors + connection.channel_errors):
        drain(connection, lambda: False)


def test_exchange_of_each_type_is_declared_bound_and_deleted(
    connection: kombu.Connection, make_name: NameMaker
) -> None:
    channel = connection.channel()
    for kind in ("direct", "fanout", "topic", "headers"):
        exchange = Exchange(make_name(kind), kind, durable=True)(channel)
        exchange.declare()
        queue = Queue(make_name("q"), exchange, routing_key="k", durable=True)(channel)
        queue.declare()
        Producer(channel, exchange).publish(kind, routing_key="k")
        assert eventually(queue.get).payload == kind
        queue.unbind_from(exchange, routing_key="k")
        exchange.delete()
        with pytest.raises(NotFound):
            Exchange(exchange.name, kind, passive=True)(connection.channel()).declare()


def test_binding_of_exchanges(connection: kombu.Connection, make_name: NameMaker) -> None:
    channel = connection.channel()
    source = Exchange(make_name("source"), "topic", durable=True)(channel)
    target = Exchange(make_name("target"), "fanout", durable=True)(channel)
    source.declare()
    target.declare()
    target.bind_to(source, routing_key="a.*")
    queue = Queue(make_name("q"), target, durable=True)(channel)
    queue.declare()
    producer = Producer(channel, source)
    producer.publish("no", routing_key="b")
    producer.publish("yes", routing_key="a.b")
    assert eventually(queue.get).payload == "yes"
    target.unbind_from(source, routing_key="a.*")


def test_errors_are_typed_by_reply_code(connection: kombu.Connection) -> None:
    with pytest.raises(NotFound, match=r"no queue 'interop\.missing' in vhost '/'"):
        connection.channel().queue_declare("interop.missing", passive=True)

    with pytest.raises(AccessRefused, match="reserved prefix"):
        connection.channel().exchange_declare("amq.mine", "direct")

    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        connection.channel().exchange_declare(
            "amq.direct", "fanout", durable=True, auto_delete=False
        )
