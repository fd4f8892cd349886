"""Streams over a restart as clients see it, in good order or not (sections ST, DU)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.store.disk import SystemDisk
from tests.helpers.core import plain_headers, raw_properties
from tests.helpers.session import Heard, Session, publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRANSIENT = raw_properties(delivery_mode=1)
BOTH = pytest.mark.parametrize("cleanly", [True, False], ids=["cleanly", "killed"])


def lives(directory: Path, *, cleanly: bool) -> Iterator[StoredWorld]:
    """One broker after the other with the same log; each has its stream ``s``."""
    while True:
        world = StoredWorld(SystemDisk(), str(directory))
        yield world
        assert world.bugs == []
        assert world.failures == []
        if cleanly:
            world.stop()
        else:
            world.abandon()


def declare(session: Session, **arguments: object) -> None:
    given = {"x-queue-type": "stream", **arguments}
    assert session.ask(1, "queue.declare", queue="s", durable=True, arguments=given).name == (
        "queue.declare-ok"
    )


def consume(session: Session, offset: object, tag: str = "c") -> list[tuple[bytes, object]]:
    """Bodies and offsets of what comes at once."""
    session.send(1, "basic.qos", prefetch_count=100)
    arguments = {"x-stream-offset": offset}
    session.send(1, "basic.consume", queue="s", consumer_tag=tag, arguments=arguments)
    return told(session.heard())


def told(heard: list[Heard]) -> list[tuple[bytes, object]]:
    deliveries = [one for one in heard if one.name == "basic.deliver"]
    assert not any(one.arguments["redelivered"] for one in deliveries)
    assert all(one.arguments["routing_key"] == "s" for one in deliveries)
    return [(one.body, plain_headers(one.properties)["x-stream-offset"]) for one in deliveries]


@BOTH
def test_what_was_read_and_what_was_not_is_there_again(tmp_path: Path, cleanly: bool) -> None:
    """Rules ST-05, ST-06: transient messages too, not redelivered, with the offsets they had."""
    worlds = lives(tmp_path, cleanly=cleanly)
    session = next(worlds).open(1)
    declare(session)
    for number in range(3):
        session.feed(publish(1, "s", b"%d" % number, TRANSIENT))

    assert consume(session, "first") == [(b"0", 0), (b"1", 1), (b"2", 2)]
    session.send(1, "basic.ack", delivery_tag=2, multiple=True)
    for count in (3, 4):
        session = next(worlds).open(1)
        expected = [(b"%d" % number, number) for number in range(count)]
        assert consume(session, "first") == expected
        assert consume(session, count - 1, "last") == expected[-1:]
        assert consume(session, "next", "new") == []
        session.feed(publish(1, "s", b"%d" % count))
        assert told(session.heard()) == [(b"%d" % count, count)] * 3


@BOTH
def test_the_same_declaration_finds_it(tmp_path: Path, cleanly: bool) -> None:
    """Rules Q-06, Q-10, ST-09."""
    worlds = lives(tmp_path, cleanly=cleanly)
    session = next(worlds).open(1)
    declare(session, **{"x-max-age": "1h"})
    session.feed(publish(1, "s", b"x") * 5)
    session = next(worlds).open(1)
    given = {"x-queue-type": "stream", "x-max-age": "1h"}
    heard = session.ask(1, "queue.declare", queue="s", durable=True, arguments=given)
    assert heard.arguments["message_count"] == 5
    session.send(1, "queue.declare", queue="s", durable=True, arguments={"x-queue-type": "stream"})
    assert session.names()[-1] == "channel.close"


@BOTH
def test_a_transaction_is_there_as_a_whole(tmp_path: Path, cleanly: bool) -> None:
    """Rule TX-05."""
    worlds = lives(tmp_path, cleanly=cleanly)
    session = next(worlds).open(1)
    declare(session)
    session.send(1, "tx.select")
    session.feed(publish(1, "s", b"a") + publish(1, "s", b"b"))
    session.send(1, "tx.commit")
    session.feed(publish(1, "s", b"not committed"))
    assert session.names() == ["tx.select-ok", "tx.commit-ok"]
    assert consume(next(worlds).open(1), "first") == [(b"a", 0), (b"b", 1)]


def test_confirms_come_when_it_is_safe(tmp_path: Path) -> None:
    """Rule CF-06, for a stream alone and for one among others."""
    world = StoredWorld(SystemDisk(), str(tmp_path), is_prompt=False)
    session = world.open(1)
    session.send(1, "confirm.select")
    for name in ("s", "t"):
        arguments = {"x-queue-type": "stream"}
        session.send(1, "queue.declare", queue=name, durable=True, arguments=arguments)
        session.send(1, "queue.bind", queue=name, exchange="amq.fanout")

    world.write()
    session.names()
    session.feed(publish(1, "s", b"0"))
    session.feed(publish(1, "", b"1", exchange="amq.fanout"))
    assert session.heard() == []
    world.write()
    confirmed = [one for one in session.heard() if one.name == "basic.ack"]
    assert [one.arguments["delivery_tag"] for one in confirmed] == [1, 2]
    world.abandon()
    again = StoredWorld(SystemDisk(), str(tmp_path))
    assert [int(again.vhost.queues[name].ready_count) for name in "st"] == [2, 1]


@BOTH
def test_it_is_deleted_for_good(tmp_path: Path, cleanly: bool) -> None:
    worlds = lives(tmp_path, cleanly=cleanly)
    session = next(worlds).open(1)
    declare(session)
    session.feed(publish(1, "s", b"x"))
    assert session.ask(1, "queue.delete", queue="s").name == "queue.delete-ok"
    session = next(worlds).open(1)
    declare(session)
    session.feed(publish(1, "s", b"new"))
    assert consume(session, "first") == [(b"new", 0)]
