"""Faults: each is what the real event is to a client, codes and texts included."""

from __future__ import annotations

import threading
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from broker.testing import Broker
from tests.helpers.raw_client import commands, raw_client
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.helpers.raw_client import RawClient


exceptions = pika.exceptions


def connect(broker: Broker, name: str = "") -> Any:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    parameters.socket_timeout = 5
    return pika.BlockingConnection(parameters)


@pytest.fixture
def connection(leveret: Broker) -> Iterator[Any]:
    connection = connect(leveret, "worker")
    yield connection
    with suppress(exceptions.AMQPError):
        connection.close()


@pytest.fixture
def channel(connection: Any) -> Any:
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    return channel


# -- connections


def test_a_dropped_connection_ends_without_a_word(leveret: Broker, channel: Any) -> None:
    channel.basic_publish("", "q", b"hare")
    channel.basic_get("q")
    assert leveret.faults.drop_connections() == 1

    with pytest.raises((exceptions.StreamLostError, exceptions.ConnectionClosedByBroker)) as lost:
        channel.queue_declare("q")

    assert isinstance(lost.value, exceptions.StreamLostError)
    leveret.wait_for(lambda: leveret.queue("q").assert_requeued(1).assert_ready(1))


def test_a_closed_connection_is_told_why(leveret: Broker, channel: Any) -> None:
    leveret.faults.close_connections(reason="maintenance")

    with pytest.raises(exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("q")

    assert (closed.value.reply_code, closed.value.reply_text) == (
        320,
        "CONNECTION_FORCED - maintenance",
    )


def test_only_clients_that_are_meant_are_hit(leveret: Broker, channel: Any) -> None:
    other = connect(leveret, "dashboard")
    assert leveret.faults.drop_connections("work") == 1

    leveret.wait_for(lambda: len(leveret.connections) == 1)
    assert [one.client for one in leveret.connections] == ["dashboard"]
    other.close()


@pytest.mark.parametrize("number", [1, 3])
def test_a_connection_can_be_lost_at_its_nth_publish(
    leveret: Broker, channel: Any, number: int
) -> None:
    leveret.faults.drop_at_publish(number)
    channel.confirm_delivery()
    for _ in range(number - 1):
        channel.basic_publish("", "q", b"before")

    with pytest.raises(exceptions.AMQPConnectionError):
        channel.basic_publish("", "q", b"lost")

    leveret.wait_idle()
    leveret.queue("q").assert_bodies(*["before"] * (number - 1))


@pytest.mark.parametrize("name", ["drop_at_publish", "drop_before_confirm"])
def test_there_is_no_publish_before_the_first(leveret: Broker, name: str) -> None:
    with pytest.raises(ValueError, match="counted from 1, not from 0"):
        getattr(leveret.faults, name)(0)


def test_a_connection_can_be_lost_before_its_confirm(leveret: Broker, channel: Any) -> None:
    leveret.faults.drop_before_confirm()
    channel.confirm_delivery()

    with pytest.raises(exceptions.AMQPConnectionError):
        channel.basic_publish("", "q", b"x" * 300_000)

    leveret.queue("q").assert_published(1).assert_ready(1)
    assert not leveret.history.confirmed()


def test_a_stalled_connection_goes_on_when_it_is_healed(leveret: Broker, channel: Any) -> None:
    leveret.faults.stall()
    channel.basic_publish("", "q", b"late")
    leveret.wait_idle()
    leveret.queue("q").assert_ready(0)

    leveret.faults.heal()
    leveret.wait_for(lambda: leveret.queue("q").assert_ready(1))
    assert channel.queue_declare("q", passive=True).method.message_count == 1


class Newcomer(threading.Thread):
    """A client that connects, however long that takes."""

    def __init__(self, broker: Broker, name: str = "") -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._name = name
        self.is_there = False
        self.start()

    def run(self) -> None:
        connection = connect(self._broker, self._name)
        connection.channel()
        self.is_there = True
        connection.close()


def test_who_connects_while_all_is_stalled_waits_until_it_is_healed(leveret: Broker) -> None:
    assert leveret.faults.stall() == 0
    newcomer = Newcomer(leveret)
    leveret.wait_for(lambda: any(tap._stalled_in for tap in leveret.stage.plans.taps))
    leveret.clock.advance(5)
    assert not newcomer.is_there

    leveret.faults.heal()
    newcomer.join(5)
    assert newcomer.is_there


def test_who_connects_later_is_meant_by_name(leveret: Broker) -> None:
    assert leveret.faults.stall("bad") == 0
    good = Newcomer(leveret, "good")
    good.join(5)
    assert good.is_there
    bad = Newcomer(leveret, "bad one")
    leveret.wait_for(lambda: any(tap._is_stalled for tap in leveret.stage.plans.taps))
    another = Newcomer(leveret, "good too")
    another.join(5)
    assert (another.is_there, bad.is_there) == (True, False)

    leveret.faults.heal()
    bad.join(5)
    assert bad.is_there
    last = Newcomer(leveret, "bad too")
    last.join(5)
    assert last.is_there, "what was healed is over"


def test_who_connects_to_a_slow_broker_is_slow(leveret: Broker) -> None:
    assert leveret.faults.slow(2_000) == 0
    started_s = time.monotonic()
    with connect(leveret) as connection:
        assert time.monotonic() - started_s > 0.2
        connection.channel()
        leveret.faults.heal()
        assert not any(tap._bytes_per_s for tap in leveret.stage.plans.taps)


def test_a_virtual_host_stalls_its_own_clients_alone(leveret: Broker) -> None:
    with leveret.fresh_vhost() as other:
        other.faults.stall()
        mine = Newcomer(leveret)
        mine.join(5)
        assert mine.is_there
        theirs = Newcomer(other)
        leveret.wait_for(lambda: any(tap._is_stalled for tap in leveret.stage.plans.taps))
        leveret.faults.heal()
        theirs.join(5)
        assert theirs.is_there


def test_a_stalled_connection_is_given_up_by_its_heartbeats(leveret: Broker, channel: Any) -> None:
    leveret.faults.stall()
    leveret.clock.advance(240)
    assert leveret.connections == []


def test_a_slow_connection_takes_its_time(leveret: Broker, channel: Any) -> None:
    leveret.faults.slow(bytes_per_s=200_000)
    started_s = time.monotonic()
    channel.basic_publish("", "q", bytes(40_000))
    _, _, body = channel.basic_get("q", auto_ack=True)

    assert body == bytes(40_000)
    assert time.monotonic() - started_s > 0.2
    leveret.faults.heal()


# -- confirms


class Publishes:
    """A publisher that does not wait for its confirms."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self._broker = broker
        self._client = client

    async def publish(self, count: int) -> None:
        for _ in range(count):
            self._client.publish(1, "", "q", b"hare")
            await self._broker.wait_idle()

    async def answers(self) -> list[str]:
        """What has come before the answer to something else."""
        self._client.send(1, commands.Queue.Declare(queue="q", passive=True))
        heard: list[str] = []
        while True:
            frame = await self._client.read()
            if isinstance(frame, commands.Queue.DeclareOk):
                return heard

            heard.append(f"{type(frame).__name__.lower()} {frame.delivery_tag}")


@asynccontextmanager
async def publishes(broker: Broker) -> AsyncIterator[Publishes]:
    async with raw_client(broker.host, broker.port) as client:
        await client.open()
        await client.ask(1, commands.Queue.Declare(queue="q"))
        await client.ask(1, commands.Confirm.Select())
        yield Publishes(broker, client)


async def test_confirms_wait_until_they_are_let_go(leveret: Broker) -> None:
    async with publishes(leveret) as numbers:
        with leveret.faults.hold_confirms() as held:
            await numbers.publish(3)
            assert (held.count, await numbers.answers()) == (3, [])

        assert await numbers.answers() == ["ack 1", "ack 2", "ack 3"]
        await numbers.publish(1)
        assert await numbers.answers() == ["ack 4"]
        assert len(leveret.history.confirmed()) == 4


async def test_a_confirm_that_comes_too_late_is_none(leveret: Broker) -> None:
    held = leveret.faults.hold_confirms()
    async with publishes(leveret) as numbers:
        await numbers.publish(1)
        leveret.faults.drop_connections()
        await leveret.wait_for(lambda: not leveret.connections)

    held.release()
    assert (held.count, len(leveret.history.confirmed())) == (0, 0)


async def test_confirms_can_come_in_another_order_or_not_at_all(leveret: Broker) -> None:
    async with publishes(leveret) as numbers:
        held = leveret.faults.hold_confirms()
        await numbers.publish(3)
        held.release(is_reversed=True)
        assert await numbers.answers() == ["ack 3", "ack 2", "ack 1"]

        held = leveret.faults.hold_confirms()
        await numbers.publish(2)
        held.nack(1)
        assert await numbers.answers() == ["nack 4", "ack 5"]

        held = leveret.faults.hold_confirms()
        await numbers.publish(1)
        held.lose()
        await numbers.publish(1)
        assert await numbers.answers() == ["ack 7"]
        leveret.queue("q").assert_ready(7)


def test_confirms_can_be_nacks(leveret: Broker, channel: Any) -> None:
    channel.confirm_delivery()
    leveret.faults.nack_confirms(1)
    with pytest.raises(exceptions.NackError):
        channel.basic_publish("", "q", b"hare")

    channel.basic_publish("", "q", b"hare")
    assert len(leveret.history.refused()) == 1
    leveret.queue("q").assert_ready(2)


# -- the broker


def test_logins_are_refused_as_for_a_wrong_password(leveret: Broker) -> None:
    leveret.faults.refuse_logins(times=2)
    for _ in range(2):
        with pytest.raises(exceptions.ProbableAuthenticationError) as refused:
            connect(leveret)

        assert "(403) 'ACCESS_REFUSED - Login was refused using authentication mechanism" in str(
            refused.value
        )

    connect(leveret).close()


def test_logins_of_one_user_can_be_refused_until_they_are_accepted(leveret: Broker) -> None:
    leveret.faults.refuse_logins(user="somebody")
    connect(leveret).close()
    leveret.faults.refuse_logins(user="guest")
    with pytest.raises(exceptions.ProbableAuthenticationError):
        connect(leveret)

    leveret.faults.accept_logins()
    connect(leveret).close()


def test_an_alarm_blocks_who_publishes_until_it_is_over(leveret: Broker) -> None:
    connection = connect(leveret)
    channel = connection.channel()
    channel.queue_declare("q")
    reasons: list[str] = []
    connection.add_on_connection_blocked_callback(
        lambda _, frame: reasons.append(frame.method.reason)
    )
    leveret.faults.raise_alarm("disk")
    channel.basic_publish("", "q", b"hare")
    leveret.wait_for(lambda: leveret.connections[0].is_blocked)
    connection.process_data_events(0.5)
    assert reasons == ["low on disk"]
    leveret.queue("q").assert_ready(0)

    leveret.faults.clear_alarm("disk")
    leveret.wait_for(lambda: leveret.queue("q").assert_ready(1))
    connection.close()


def test_an_alarm_that_is_none_is_refused(leveret: Broker) -> None:
    with pytest.raises(ValueError, match="there is no alarm 'cpu'; there are memory and disk"):
        leveret.faults.raise_alarm("cpu")


# -- channels, consumers, queues


def test_a_channel_closes_as_for_a_mistake(leveret: Broker, channel: Any) -> None:
    assert leveret.faults.close_channels(text="unknown delivery tag 7") == 1
    with pytest.raises(exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("q")

    assert (closed.value.reply_code, closed.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
    )


def test_a_consumer_is_cancelled_and_keeps_what_it_has(
    leveret: Broker, connection: Any, channel: Any
) -> None:
    cancelled: list[object] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume("q", lambda *_: None)
    channel.basic_publish("", "q", b"hare")
    leveret.wait_for(lambda: leveret.queue("q").assert_unacked(1))

    assert leveret.faults.cancel_consumers("q", "another") == 0
    assert leveret.faults.cancel_consumers("q") == 1
    connection.process_data_events(0.5)

    assert cancelled == [tag]
    leveret.queue("q").assert_consumers(0).assert_unacked(1)


def test_a_queue_vanishes_under_its_users(leveret: Broker, channel: Any) -> None:
    returned: list[int] = []
    cancelled: list[object] = []
    channel.add_on_return_callback(lambda _, method, *__: returned.append(method.reply_code))
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("q", lambda *_: None)
    leveret.faults.delete_queue("q")
    channel.connection.process_data_events(0.2)
    assert len(cancelled) == 1

    channel.basic_publish("", "q", b"hare", mandatory=True)
    channel.connection.process_data_events(0.2)
    assert returned == [312]
    with pytest.raises(exceptions.ChannelClosedByBroker, match=r"404, .NOT_FOUND - no queue 'q'"):
        channel.queue_declare("q", passive=True)


def test_a_queue_that_is_not_there_cannot_vanish(leveret: Broker, channel: Any) -> None:
    with pytest.raises(LookupError, match="no queue 'no' in vhost '/'; there are: q"):
        leveret.faults.delete_queue("no")


# -- restarts


def fill(broker: Broker) -> None:
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("gone")
        channel.confirm_delivery()
        for mode in (1, 2):
            properties = pika.BasicProperties(delivery_mode=mode)
            channel.basic_publish("", "kept", f"mode {mode}".encode(), properties)


@pytest.mark.parametrize("is_crash", [False, True], ids=["stop", "crash"])
def test_a_durable_broker_comes_back_with_what_it_keeps(is_crash: bool) -> None:
    with Broker(durable=True) as broker:
        fill(broker)
        port = broker.port
        broker.faults.restart(is_crash=is_crash)

        assert (broker.port, broker.queues) == (port, ["kept"])
        broker.queue("kept").assert_bodies("mode 2")
        with connect(broker) as connection:
            connection.channel().basic_get("kept", auto_ack=True)

        assert broker.history.delivered().one().body == b"mode 2"
        broker.faults.restart(keep=False)
        assert broker.queues == []


def test_clients_hear_of_a_restart_but_not_of_a_crash(leveret: Broker, channel: Any) -> None:
    leveret.faults.restart()
    with pytest.raises(exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("q")

    assert closed.value.reply_code == 320
    with connect(leveret) as connection:
        other = connection.channel()
        other.queue_declare("q")
        leveret.faults.restart(is_crash=True)
        with pytest.raises(exceptions.StreamLostError):
            other.queue_declare("q")

    leveret.queue("q")
    assert leveret.queues == []
    assert [one.reason for one in leveret.history.find("note")] == [
        "the broker stops",
        "the broker is back",
        "the broker crashes",
        "the broker is back",
    ]


def test_a_broker_that_keeps_nothing_says_so(leveret: Broker) -> None:
    with pytest.raises(ValueError, match=r"make it with durable=True, or mark the test"):
        leveret.faults.restart(keep=True)


def test_healing_disarms_everything(leveret: Broker, channel: Any) -> None:
    leveret.faults.drop_at_publish(1)
    leveret.faults.nack_confirms(5)
    leveret.faults.hold_confirms()
    leveret.faults.raise_alarm()
    leveret.faults.refuse_logins()
    leveret.faults.heal()

    channel.confirm_delivery()
    channel.basic_publish("", "q", b"hare")
    connect(leveret).close()
