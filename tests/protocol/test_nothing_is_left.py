"""A connection that is gone is freed at once: the garbage collector of a server comes seldom."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from broker.core.queue.queue import Queue
from broker.limits import FAN_OUT_WIDE
from tests.helpers.session import Session, World, method, publish, text_property

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ALIAS = "amq.rabbitmq.reply-to"
REPLY_TO_BIT = 9


def consumes(session: Session) -> None:
    session.send(1, "basic.consume", queue="q", consumer_tag="x")
    session.feed(publish(2, "q"))


def consumes_what_it_has_not_settled_when_its_queue_is_deleted(session: Session) -> None:
    consumes(session)
    session.send(2, "queue.delete", queue="q")


def cancels(session: Session) -> None:
    consumes(session)
    session.send(1, "basic.cancel", consumer_tag="x")


def gets(session: Session) -> None:
    session.feed(publish(1, "q"))
    session.send(1, "basic.get", queue="q")


def waits_for_confirms(session: Session) -> None:
    session.send(1, "confirm.select")
    session.feed(publish(1, "q") + publish(1, "nowhere"))


def does_not_commit(session: Session) -> None:
    session.send(1, "tx.select")
    session.feed(publish(1, "q"))
    session.send(1, "basic.get", queue="q")


def asks_for_replies(session: Session) -> None:
    session.send(1, "basic.consume", queue=ALIAS, no_ack=True)
    session.feed(publish(1, "q", b"ping", text_property(REPLY_TO_BIT, ALIAS)))


def has_a_queue_of_its_own(session: Session) -> None:
    session.send(1, "queue.declare", queue="own", exclusive=True)
    session.send(1, "basic.consume", queue="own")


def closes_a_channel(session: Session) -> None:
    consumes(session)
    session.send(1, "channel.close")


def is_refused(session: Session) -> None:
    session.send(1, "queue.declare", queue="missing", passive=True)


def breaks_off_within_a_frame(session: Session) -> None:
    session.feed(publish(1, "q", b"x" * 5_000)[:-2_000])


def goes_politely(session: Session) -> None:
    consumes(session)
    session.feed(method(0, "connection.close"))


WAYS = [
    consumes,
    consumes_what_it_has_not_settled_when_its_queue_is_deleted,
    cancels,
    gets,
    waits_for_confirms,
    does_not_commit,
    asks_for_replies,
    has_a_queue_of_its_own,
    closes_a_channel,
    is_refused,
    breaks_off_within_a_frame,
    goes_politely,
]


@pytest.fixture
def collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def of_the_protocol() -> Counter[str]:
    """What there is of the broker's objects, by name."""
    names = (type(one) for one in gc.get_objects())
    homes = ("broker.core.consumer", "broker.core.publishing", "broker.protocol", "broker.wire")
    return Counter(one.__qualname__ for one in names if str(one.__module__).startswith(homes))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("collector")
def test_nothing_of_a_lost_connection_is_left(way: Callable[[Session], None]) -> None:
    world = World()
    keeper = world.open(1)
    keeper.ask(1, "queue.declare", queue="q")
    # Whatever is made at first use is made now.
    first = world.open(1, 2)
    way(first)
    first.lose()
    del first
    keeper.ask(1, "queue.declare", queue="q")
    keeper.ask(1, "queue.purge", queue="q")
    gc.collect()
    before = of_the_protocol()
    session = world.open(1, 2)
    way(session)
    assert of_the_protocol() != before

    session.lose()
    del session
    keeper.ask(1, "queue.declare", queue="q")
    keeper.ask(1, "queue.purge", queue="q")
    assert of_the_protocol() - before == Counter()


@pytest.mark.usefixtures("collector")
def test_queues_that_many_wide_routes_led_to_are_not_kept() -> None:
    """Neither are they remembered by each route as long as its channel is open."""
    world = World()
    session = world.open(1)
    width = FAN_OUT_WIDE + 1
    session.ask(1, "exchange.declare", exchange="wide", type="fanout")
    for number in range(width):
        session.ask(1, "queue.declare", queue=f"q{number}", arguments={"x-max-length": 0})
        session.ask(1, "queue.bind", queue=f"q{number}", exchange="wide", routing_key="")

    session.feed(b"".join(publish(1, f"{key}", exchange="wide") for key in range(20)))
    for number in range(width):
        session.ask(1, "queue.delete", queue=f"q{number}")

    queues = [one for one in gc.get_objects() if type(one) is Queue]
    assert not [one for one in queues if one.vhost is world.vhost]
