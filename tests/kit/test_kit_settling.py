"""Waiting for clients that do not say when they are done, and for those that never stop."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from broker.testing import Broker

WORK_S = 0.01
MINUTE_MS = 60_000


@pytest.mark.parametrize("is_automatic", [False, True])
def test_a_consumer_that_works_after_its_ack_is_waited_for(
    leveret: Broker, is_automatic: bool
) -> None:
    tries: list[float] = []
    connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
    channel = connection.channel()
    channel.queue_declare("work")
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    channel.queue_declare("later", arguments={"x-message-ttl": MINUTE_MS, **back})

    def on_message(_: Any, method: Any, __: Any, body: bytes) -> None:
        tries.append(leveret.clock.now)
        if not is_automatic:
            channel.basic_ack(method.delivery_tag)

        # That it takes a while is what this is about.
        threading.Event().wait(WORK_S)
        channel.basic_publish("", "later", body)

    def consume() -> None:
        with suppress(pika.exceptions.AMQPError):
            channel.start_consuming()

    channel.basic_consume("work", on_message, auto_ack=is_automatic)
    channel.basic_publish("", "work", b"hare")
    leveret.clock.freeze()
    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    leveret.wait_for(lambda: leveret.queue("later").assert_published(1))

    leveret.clock.advance(301, settle=0.2)

    assert [round(one - tries[0]) for one in tries] == [0, 60, 120, 180, 240, 300]
    connection.add_callback_threadsafe(channel.stop_consuming)
    thread.join(5)
    connection.close()


def test_a_client_that_never_stops_sending_keeps_nobody_waiting(leveret: Broker) -> None:
    is_over = threading.Event()

    def publish() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
        channel = connection.channel()
        while not is_over.is_set():
            channel.basic_publish("", "nowhere", b"x")

        connection.close()

    threads = [threading.Thread(target=publish, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()

    leveret.wait_for(lambda: leveret.history.published(), timeout=10)
    watchdog = threading.Timer(20, is_over.set)
    watchdog.start()
    with pytest.raises(AssertionError, match=r"waited 0\.3 s"):
        leveret.wait_for(lambda: False, timeout=0.3)

    assert not is_over.is_set()
    watchdog.cancel()
    is_over.set()
    for thread in threads:
        thread.join(5)


async def test_a_condition_that_must_be_awaited_is_no_condition(leveret: Broker) -> None:
    async def is_so() -> bool:
        await asyncio.sleep(0)
        return False

    with pytest.raises(TypeError, match="returned a coroutine, which is true whatever"):
        await leveret.wait_for(is_so)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("name", ["seconds", "patience", "settle"])
def test_the_clock_is_moved_by_what_is_a_time(leveret: Broker, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        leveret.clock.advance(**{"seconds": 1.0, name: value})
