"""The client without ``await``, for scripts."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    Closed,
    DecodeError,
    Envelope,
    InvalidValue,
    Options,
    QueueSpec,
    Retry,
    Unavailable,
)
from broker.client.sync import SyncClient, connect
from broker.embedded import Broker
from tests.helpers.toolkit import LIVE_URL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker.client import ClientEvent


@dataclass
class Order:
    hares: int


@pytest.fixture
def client() -> Iterator[SyncClient]:
    if LIVE_URL is not None:
        with connect(LIVE_URL) as opened:
            yield opened

        return

    with Broker.in_thread(log_level="error") as broker, connect(broker.url) as opened:
        yield opened


@pytest.fixture
def orders(client: SyncClient) -> Iterator[str]:
    name = f"toolkit-test.sync.{uuid.uuid4().hex[:12]}"
    yield name
    for one in (name, f"{name}.dead"):
        with suppress(Closed):
            client.delete(one)


def test_a_script_sends_and_receives(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    sent = client.send(orders, {"hares": 2}, id="o-1", headers={"k": "v"})
    client.send_envelope(orders, Envelope(body=3))
    found: list[Any] = []
    for delivery in client.receive(orders, wait=1):
        with delivery as order:
            found.append((delivery.id == sent.id, order, delivery.headers, delivery.attempt))

    assert found == [(True, {"hares": 2}, {"k": "v"}, 1), (False, 3, {}, 1)]
    assert client.stats(orders).ready == 0


def test_one_message_at_a_time(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    assert client.get(orders) is None
    client.send(orders, Order(2))
    delivery = client.get(orders, wait=1, type=Order)
    assert delivery is not None
    assert (delivery.body, delivery.queue, delivery.topic) == (Order(2), orders, orders)
    assert delivery.timestamp == delivery.message.timestamp
    assert delivery.touch()
    assert delivery.ack()
    assert (delivery.settled, delivery.ack()) == (True, False)


def test_what_fails_is_tried_again_and_then_dead(client: SyncClient, orders: str) -> None:
    client.declare(orders, QueueSpec(retry=Retry.retries(0)))
    client.send(orders, 1, id="a")
    delivery = client.get(orders)
    assert delivery is not None
    with pytest.raises(ZeroDivisionError), delivery as number:
        assert number / 0

    dead = client.dead(orders)
    assert [letter.error for letter in dead.list()] == ["division by zero"]
    assert (dead.count(), dead.replay(["a"]), dead.purge()) == (1, 1, 0)
    for settle in ("requeue", "fail"):
        delivery = client.get(orders, wait=1)
        assert delivery is not None
        assert getattr(delivery, settle)()

    assert client.dead(orders).count() == 1


def test_what_cannot_be_read_is_dead(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    client.send(orders, "no order")
    delivery = client.get(orders, type=Order)
    assert delivery is not None
    with pytest.raises(DecodeError):
        delivery.__enter__()

    assert [letter.reason for letter in client.dead(orders).list()] == ["undecodable"]


def test_interrupted_it_hands_back(client: SyncClient, orders: str) -> None:
    client.declare(orders, QueueSpec(retry=Retry(1)))
    client.send(orders, 1)
    delivery = client.get(orders)
    assert delivery is not None
    with pytest.raises(KeyboardInterrupt), delivery:
        raise KeyboardInterrupt

    again = client.get(orders, wait=5)
    assert again is not None
    assert (again.attempt, again.ack(), client.dead(orders).count()) == (1, True, 0)


def test_handlers_run_in_threads(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    handled: queue.Queue[tuple[Any, bool]] = queue.Queue()
    main = threading.current_thread()
    with client.consume(
        orders, lambda delivery: handled.put((delivery.body, threading.current_thread() is main))
    ):
        client.send(orders, 1)
        assert handled.get(timeout=5) == (1, False)

    with client.consume(orders, lambda delivery: handled.put((delivery.body, True)), type=Order):
        client.send(orders, Order(2))
        assert handled.get(timeout=5) == (Order(2), True)


def test_topics(client: SyncClient, orders: str) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    client.declare(orders)
    client.bind(orders, f"{orders}.#")
    with client.subscribe(f"{orders}.*", heard.put) as subscription:
        assert client.publish(f"{orders}.x", 1)
        assert heard.get(timeout=5).body == 1
        assert subscription.dropped == 0

    assert client.stats(orders).ready == 1
    client.unbind(orders, f"{orders}.#")
    assert not client.publish(f"{orders}.x", 2)
    assert client.purge(orders) == 1


def test_files(client: SyncClient, orders: str, tmp_path: Path) -> None:
    client.declare(orders)
    client.send(orders, 1)
    assert client.export(tmp_path / "x.jsonl") == 1
    assert client.load(tmp_path / "x.jsonl").messages == 1
    assert client.stats(orders).ready == 2


def test_many_threads_may_use_one(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    threads = [
        threading.Thread(target=lambda: [client.send(orders, n) for n in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    assert client.stats(orders).ready == 40


def test_its_thread_ends_with_it(client: SyncClient, orders: str) -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name == "leveret client"]

    before = len(threads())
    with pytest.raises(Unavailable):
        connect("amqp://127.0.0.1:1/", options=Options(timeout=0.1))

    assert len(threads()) == before


def test_closed_it_does_nothing_more() -> None:
    if LIVE_URL is not None:
        closed = connect(LIVE_URL)
        closed.close()
    else:
        with Broker.in_thread(log_level="error") as broker:
            closed = connect(broker.url)
            closed.wait_connected(1)
            assert closed.connected
            closed.close()

    closed.close()
    with pytest.raises(Closed):
        closed.send("orders", 1)


def test_arguments_that_make_no_sense_are_refused(client: SyncClient, orders: str) -> None:
    odd: Any = "1"
    with pytest.raises(InvalidValue, match=r"^prefetch "):
        client.receive(orders, prefetch=0)

    with pytest.raises(InvalidValue, match=r"^wait "):
        client.receive(orders, wait=odd)

    with pytest.raises(InvalidValue, match=r"^grace "):
        client.close(odd)

    with pytest.raises(InvalidValue, match=r"^callback "):
        client.on_event(odd)

    assert not client.exists(orders), "it was not closed by that"


def test_who_waits_while_it_is_closed_is_told(client: SyncClient, orders: str) -> None:
    client.declare(orders)
    told: queue.Queue[BaseException] = queue.Queue()

    def wait() -> None:
        try:
            client.get(orders, wait=60)
        except Closed as problem:
            told.put(problem)

    thread = threading.Thread(target=wait, daemon=True)
    with connect(LIVE_URL or client._client.core.session._url) as other:
        thread.start()
        deadline = time.monotonic() + 5
        while other.stats(orders).consumers == 0:
            assert time.monotonic() < deadline

        client.close()
        assert isinstance(told.get(timeout=5), Closed)
        other.delete(orders)

    thread.join(5)
    assert not thread.is_alive()


def test_a_callback_that_calls_the_client_is_told_why_not(client: SyncClient, orders: str) -> None:
    told: queue.Queue[BaseException] = queue.Queue()

    def on_event(event: ClientEvent) -> None:
        for call in (lambda: client.exists(orders), client.close):
            try:
                call()
            except RuntimeError as problem:
                told.put(problem)

    client.declare(orders, QueueSpec(retry=Retry(1)))
    client.send(orders, 1)
    delivery = client.get(orders, wait=5)
    assert delivery is not None
    client.on_event(on_event)
    thread = threading.Thread(target=delivery.dead, daemon=True)
    thread.start()
    for _ in range(2):
        assert "its own thread" in str(told.get(timeout=5))

    thread.join(5)
    assert not thread.is_alive()
    assert client.dead(orders).count() == 1
