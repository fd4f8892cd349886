"""Restarts of a broker under test: what comes back, and what it comes back from."""

from __future__ import annotations

import os
import socket
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker.errors import StartError
from broker.testing import Broker
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks nothing")


def connect(broker: Broker) -> Any:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


@contextmanager
def forked_child(act: Callable[[], object] = bool) -> Iterator[Callable[[], str]]:
    """A child that has copies of all descriptors, for as long as this lasts.

    Args:
        act: what it does first.

    Yields what tells how that went.

    """
    until, end = os.pipe()
    answer, told = os.pipe()
    with warnings.catch_warnings():
        # Of threads that the child has not: it does next to nothing.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()

    if child == 0:
        try:
            os.close(end)
            text = repr(act())
        except Exception as problem:
            text = str(problem)

        os.write(told, text.encode())
        os.close(told)
        os.read(until, 1)
        os._exit(0)

    os.close(told)
    try:
        yield lambda: os.read(answer, 1_000).decode()
    finally:
        os.close(end)
        os.close(until)
        os.close(answer)
        os.waitpid(child, 0)


@needs_fork
def test_a_connection_is_dropped_though_a_child_was_forked_with_it() -> None:
    with Broker() as broker:
        channel = connect(broker).channel()
        with forked_child():
            assert broker.faults.drop_connections() == 1
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                channel.queue_declare("q")


@needs_fork
def test_and_so_is_one_that_is_not_read_from() -> None:
    with Broker() as broker:
        channel = connect(broker).channel()
        broker.faults.raise_alarm()
        channel.basic_publish("", "q", b"held back")
        broker.wait_for(lambda: broker.connections[0].is_blocked)
        with forked_child():
            assert broker.faults.drop_connections() == 1
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                channel.queue_declare("q")


@needs_fork
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("is_crash", [False, True])
def test_a_broker_restarts_though_a_child_was_forked_with_its_sockets(
    is_crash: bool, durable: bool
) -> None:
    with Broker(durable=durable) as broker, forked_child():
        url = broker.url
        broker.faults.restart(is_crash=is_crash)
        assert broker.url == url
        connect(broker).close()


@needs_fork
def test_a_forked_child_is_told_that_the_broker_is_not_there() -> None:
    with Broker() as broker, forked_child(lambda: broker.queues) as told:
        assert told() == (
            "the broker is not running: it runs in the process that this one was forked from"
        )

    with Broker() as broker, forked_child(broker.stop) as told:
        assert told() == "None"
        connect(broker).close()


def test_a_restart_without_its_port_says_so_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.testing.stage.PORT_WAIT_S", 0.0)
    with Broker() as broker:
        port = broker.port

        def take_port() -> socket.socket:
            thief = socket.socket()
            thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            thief.bind((broker.host, port))
            thief.listen()
            return thief

        ends = broker.stage._end_player
        thieves: list[socket.socket] = []

        async def end(player: Any, *, is_crash: bool) -> None:
            await ends(player, is_crash=is_crash)
            thieves.append(take_port())

        monkeypatch.setattr(broker.stage, "_end_player", end)
        with pytest.raises(StartError, match=f"{port}: the port is taken"):
            broker.faults.restart()

        with pytest.raises(RuntimeError, match=r"its restart has failed .* tries again"):
            broker.queues  # noqa: B018

        thieves[0].close()
        broker.faults.restart()
        connect(broker).close()
        assert broker.port == port


def test_a_broker_with_a_data_directory_of_its_own_keeps_what_is_there(tmp_path: Path) -> None:
    with Broker({"storage": {"data_dir": str(tmp_path)}}) as broker:
        with connect(broker) as connection:
            connection.channel().queue_declare("q", durable=True)

        broker.faults.restart(keep=True)
        assert broker.queues == ["q"]
        with pytest.raises(ValueError, match=r"which the configuration names"):
            broker.faults.restart(keep=False)

    assert any(tmp_path.iterdir())


def test_other_settings_of_the_storage_do_not_make_a_durable_broker_forget() -> None:
    with Broker({"storage": {"sync": "none"}}, durable=True) as broker:
        with connect(broker) as connection:
            connection.channel().queue_declare("q", durable=True)

        broker.faults.restart()
        assert broker.queues == ["q"]


@pytest.mark.parametrize("is_crash", [False, True])
def test_returns_that_do_not_count_do_not_count_after_a_restart_either(is_crash: bool) -> None:
    """Rules QQ-03, QQ-04: the message comes back as one that was delivered, and may go on so."""
    with Broker(durable=True, compat="rabbitmq-4.3") as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1}
            channel.queue_declare("q", durable=True, arguments=arguments)
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"hare")
            for _ in range(3):
                tag = channel.basic_get("q")[0].delivery_tag
                channel.basic_nack(tag, requeue=True)

        broker.wait_for(lambda: broker.queue("q").ready == 1)
        broker.faults.restart(is_crash=is_crash)

        with connect(broker) as connection:
            got, properties, _ = connection.channel().basic_get("q")
            assert got.redelivered
            assert not properties.headers
