"""What kombu's own suite wants of a broker in a container, written anew for the fixture.

Simple queues, priorities, two ends of a fanout, and consumers that come back: with faults where the
original stops a container or waits.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.testing import Broker

kombu: Any = import_module("kombu")
limits: Any = import_module("kombu.utils.limits")
mixins: Any = import_module("kombu.mixins")


@pytest.fixture
def connection(leveret_url: str) -> Iterator[Any]:
    with kombu.Connection(leveret_url, failover_strategy="round-robin") as connection:
        yield connection


class Program:
    """The usual program on kombu: it runs until it is told to stop, whatever becomes of its socket.

    Of kombu's pauses only those are shortened that it offers for that.
    """

    restart_limit = limits.TokenBucket(1_000)

    def __init__(self, url: str, queue: Any) -> None:
        self.connection = kombu.Connection(url, heartbeat=0)
        self.connect_max_retries = None
        self.queue = queue
        self.done: list[object] = []

    def get_consumers(self, consumer_class: Any, channel: Any) -> list[Any]:
        return [consumer_class([self.queue], callbacks=[self.on_task], prefetch_count=1)]

    def on_task(self, body: object, message: Any) -> None:
        self.done.append(body)
        message.ack()

    def on_connection_error(self, exc: BaseException, interval: float) -> None:
        """Try again at once."""


Worker: Any = type("Worker", (Program, mixins.ConsumerMixin), {})


@contextmanager
def running(worker: Any) -> Iterator[Any]:
    thread = threading.Thread(target=worker.run, kwargs={"safety_interval": 0.02})
    thread.start()
    try:
        yield worker
    finally:
        worker.should_stop = True
        thread.join()
        worker.connection.release()


@pytest.mark.parametrize(
    ("password", "vhost", "code"),
    [pytest.param("wrong", "", 403, id="password"), pytest.param("guest", "no", 530, id="vhost")],
)
def test_who_may_not_connect_is_told_why(
    leveret: Broker, password: str, vhost: str, code: int
) -> None:
    url = f"amqp://guest:{password}@{leveret.host}:{leveret.port}/{vhost}"
    with kombu.Connection(url) as connection, pytest.raises(Exception, match=f"{code}"):
        connection.connect()


def test_the_next_address_is_taken_when_the_first_does_not_answer(leveret: Broker) -> None:
    addresses = f"amqp://guest:guest@{leveret.host}:1/;{leveret.url}"
    with kombu.Connection(addresses) as connection:
        connection.ensure_connection(max_retries=2, interval_start=0)
        assert connection.connected
        assert len(leveret.connections) == 1


def test_a_simple_queue_keeps_what_is_put(leveret: Broker, connection: Any) -> None:
    with connection.SimpleQueue("simple") as queue:
        queue.put({"hello": "hare"}, headers={"k1": "v1"})
        leveret.wait_for(lambda: queue.qsize() == 1)
        message = queue.get(timeout=1)
        assert (message.payload, message.headers["k1"]) == ({"hello": "hare"}, "v1")
        message.ack()
        with pytest.raises(queue.Empty):
            queue.get_nowait()

    leveret.wait_idle()
    leveret.queue("simple").assert_published(1).assert_acked(1).assert_empty()


def test_a_simple_buffer_needs_no_acknowledgement(leveret: Broker, connection: Any) -> None:
    with connection.SimpleBuffer("buffer") as buffer:
        buffer.put({"hello": "hare"})
        assert buffer.get(timeout=1).payload == {"hello": "hare"}

    assert leveret.history.delivered(queue="buffer").one().is_automatic


def test_what_is_urgent_comes_first(leveret: Broker, connection: Any) -> None:
    queue = kombu.Queue("tasks", max_priority=10)
    producer = connection.Producer()
    for priority in (6, 3, 9):
        producer.publish({"p": priority}, routing_key="tasks", declare=[queue], priority=priority)

    leveret.wait_idle()
    bound = queue(connection.default_channel)
    assert [bound.get(no_ack=True).payload["p"] for _ in range(3)] == [9, 6, 3]


def test_each_queue_of_a_fanout_gets_a_copy(leveret: Broker, connection: Any) -> None:
    exchange = kombu.Exchange("news", "fanout")
    queues = [kombu.Queue(name, exchange) for name in ("left", "right")]
    connection.Producer(exchange=exchange).publish({"n": 1}, declare=queues)

    leveret.wait_for(lambda: leveret.exchange("news").assert_published(1))
    assert set(leveret.history.published().one().to) == {"left", "right"}


def test_a_message_that_is_requeued_comes_again(leveret: Broker, connection: Any) -> None:
    queue = kombu.Queue("tasks")(connection.default_channel)
    queue.declare()
    connection.Producer().publish("hare", routing_key="tasks")
    leveret.wait_for(lambda: leveret.queue("tasks").assert_ready(1))
    queue.get().requeue()
    message = queue.get()
    assert message.delivery_info["redelivered"]
    message.reject()

    leveret.wait_idle()
    leveret.queue("tasks").assert_requeued(1).assert_rejected(2).assert_empty()


def test_a_message_for_nobody_comes_back(leveret: Broker, connection: Any) -> None:
    returned: list[int] = []
    producer = connection.Producer(on_return=lambda exc, *_: returned.append(exc.reply_code))
    producer.publish("hare", routing_key="nowhere", mandatory=True)
    leveret.wait_idle()
    connection.drain_events(timeout=1)

    assert returned == [312]


@pytest.mark.parametrize("fault", ["drop", "close", "restart", "cancel"])
def test_a_worker_consumes_again_after(leveret: Broker, fault: str) -> None:
    queue = leveret.queue("tasks")
    with running(Worker(leveret.url, kombu.Queue("tasks"))) as worker:
        leveret.wait_for(lambda: queue.assert_consumers(1))
        if fault == "restart":
            leveret.faults.restart()
        elif fault == "drop":
            leveret.faults.drop_connections()
        elif fault == "close":
            leveret.faults.close_connections()
        else:
            leveret.faults.cancel_consumers("tasks")

        leveret.wait_for(lambda: queue.assert_consumers(1))
        with kombu.Connection(leveret.url) as connection:
            connection.Producer().publish("hare", routing_key="tasks")

        leveret.wait_for(lambda: queue.assert_acked(1))
        assert worker.done == ["hare"]
