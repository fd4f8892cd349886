"""A broker under test from start to end: quickly there, and gone without a trace."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from broker.errors import ConfigError, StartError
from broker.testing import Broker
from tests.helpers.raw_client import commands, raw_client
from tests.helpers.untyped import pika
from tests.kit.leaks import run

if TYPE_CHECKING:
    from collections.abc import Callable

BROKERS = 30
OBJECTS_PER_BROKER_MAX = 20
"""Modules that are imported late are objects too; a broker has some thousands."""


def test_brokers_leave_nothing_behind() -> None:
    """``python -m tests.kit.leaks 1000`` does the same a thousand times."""
    before, after = run(BROKERS)

    assert (after.threads, after.descriptors) == (before.threads, before.descriptors)
    assert after.objects - before.objects < BROKERS * OBJECTS_PER_BROKER_MAX


def quickest(action: Callable[[], object], count: int = 10) -> float:
    """Milliseconds of the best of several: a loaded machine makes all others lie."""
    times: list[float] = []
    for _ in range(count):
        started_s = time.perf_counter()
        action()
        times.append((time.perf_counter() - started_s) * 1_000)

    return min(times)


def test_a_broker_is_there_within_50_ms_and_a_virtual_host_within_10() -> None:
    def make_broker() -> None:
        Broker().start().stop()

    with Broker() as broker:
        assert quickest(make_broker) < 50
        assert quickest(broker.fresh_vhost) < 10


def test_a_client_that_is_not_closed_does_not_hold_the_end_up() -> None:
    broker = Broker().start()
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    started_s = time.monotonic()
    broker.stop()

    assert time.monotonic() - started_s < 2
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.channel()

    broker.stop()


async def test_clients_of_the_same_loop_can_answer_the_end() -> None:
    async with AsyncExitStack() as clients:
        async with Broker() as broker:
            client = await clients.enter_async_context(raw_client(broker.host, broker.port))
            await client.open()
            closing = asyncio.create_task(client.read())
            closing.add_done_callback(lambda _: client.send(0, commands.Connection.CloseOk()))

        assert (await closing).reply_code == 320
        assert await client.read_to_end() == b""


def test_what_is_wrong_at_the_start_is_told_and_leaves_nothing() -> None:
    threads = threading.active_count()
    with pytest.raises(ConfigError, match=r"limits\.chanel_max"):
        Broker({"limits": {"chanel_max": 1}}).start()

    with Broker() as broker, pytest.raises(StartError, match="the port is taken"):
        Broker(port=broker.port).start()

    assert threading.active_count() == threads


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="use `with Broker"):
        broker.queue("q").assert_empty()

    assert repr(broker) == "<Broker not running>"
    with broker, pytest.raises(RuntimeError, match="started already"):
        broker.start()


def test_waiting_within_the_broker_is_refused(leveret: Broker) -> None:
    with pytest.raises(RuntimeError, match=r"wait_idle\(\) waits for the broker"):
        leveret.stage.call(leveret.wait_idle)


def test_a_wait_that_fails_says_what_for(leveret: Broker) -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.01 s for a hare"):
        leveret.wait_for(lambda: False, timeout=0.01, what="a hare")


@pytest.mark.parametrize("durable", [False, True])
def test_a_virtual_host_is_there_again_after_a_restart(durable: bool) -> None:
    definitions = {"queues": [{"name": "declared", "durable": True}]}
    with Broker(durable=durable) as broker, broker.fresh_vhost(definitions=definitions) as fresh:
        fresh.faults.restart()

        with pika.BlockingConnection(pika.URLParameters(fresh.url)) as connection:
            connection.channel().queue_declare("q")
            assert fresh.queues == ["declared", "q"]

        fresh.stop()
        fresh.stop()
        broker.faults.restart()
        assert list(broker.stage.node.vhosts) == ["/"]


def test_a_virtual_host_that_is_gone_leaves_nothing_in_the_history() -> None:
    """Or a run of thousands of tests on one broker would fill it up."""
    with Broker() as broker:
        with broker.fresh_vhost() as kept:
            with broker.fresh_vhost() as gone:
                for each in (kept, gone):
                    publish_confirmed(each.url)

                assert len(gone.history.confirmed()) == 1
                gone.history.clear()
                assert not gone.history.events

            ledger = broker.stage.ledger
            assert {one.vhost for one in ledger.events} == {kept.vhost}
            assert kept.history.published().bodies == [b"hare"]

        assert not vars(ledger)["_by_content"]
        assert not vars(ledger)["_by_bytes"]


def publish_confirmed(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"hare")
