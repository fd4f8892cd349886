"""How large unacked messages are is known when somebody asks, and costs little time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.browsing import UNACKED_COUNT
from broker.metrics.unacked_bytes import UnackedBytes
from tests.helpers.session import Session, World, publish

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue


class Scene:
    """A client with two channels, and what is known of its queues."""

    def __init__(self) -> None:
        self.world = World()
        self.unacked = UnackedBytes(self.world.node)
        self.client: Session = self.world.open(1, 2)
        self.now_s = 0.0

    def declare(self, name: str, **arguments: object) -> None:
        self.client.ask(1, "queue.declare", queue=name, **arguments)

    def queue(self, name: str) -> Queue:
        return self.world.node.vhosts["/"].queues[name]

    def steps(self) -> int:
        """How many turns it takes until all is known."""
        return 1 + len(list(self.unacked.steps(self.now_s)))

    def known(self, name: str = "q") -> int:
        self.now_s += 1
        self.steps()
        return self.unacked.of(self.queue(name))


def test_what_was_delivered_counts_until_it_is_settled() -> None:
    scene = Scene()
    client = scene.client
    scene.declare("q")
    scene.declare("other")
    client.feed(publish(1, "q", bytes(10)) + publish(1, "q", bytes(200)))
    client.feed(publish(1, "other", bytes(3)) + publish(1, "q", bytes(4_000)))
    assert scene.known() == 0
    client.send(1, "basic.get", queue="q")
    client.send(2, "basic.consume", queue="q", consumer_tag="c")
    client.send(2, "basic.get", queue="other")
    assert (scene.known(), scene.known("other"), scene.unacked.total) == (4_210, 3, 4_213)
    client.send(1, "basic.ack", delivery_tag=1)
    assert scene.known() == 4_200
    client.send(2, "basic.ack", delivery_tag=0, multiple=True)
    assert (scene.known(), scene.known("other"), scene.unacked.total) == (0, 0, 0)


def test_what_a_transaction_has_acked_counts_until_it_is_committed() -> None:
    scene = Scene()
    client = scene.client
    scene.declare("q")
    client.ask(2, "tx.select")
    client.feed(publish(1, "q", bytes(10)))
    client.send(2, "basic.get", queue="q")
    client.send(2, "basic.ack", delivery_tag=1)
    assert scene.known() == 10
    client.send(2, "tx.commit")
    assert scene.known() == 0


def test_queues_that_are_gone_or_have_nothing_any_more_have_no_bytes() -> None:
    scene = Scene()
    client = scene.client
    scene.declare("q")
    client.feed(publish(1, "q", bytes(10)))
    client.send(2, "basic.get", queue="q")
    assert scene.known() == 10
    client.send(2, "basic.ack", delivery_tag=1)
    # Nobody has added up anew.
    assert scene.unacked.of(scene.queue("q")) == 0
    client.send(1, "queue.delete", queue="q")
    client.heard()
    scene.declare("q")
    assert scene.known() == 0


def test_very_many_take_several_turns_and_are_not_looked_at_for_each_who_asks() -> None:
    scene = Scene()
    client = scene.client
    scene.declare("q")
    count = 5 * UNACKED_COUNT
    client.feed(publish(1, "q", bytes(2)) * count)
    client.send(2, "basic.consume", queue="q", consumer_tag="c")
    assert scene.queue("q").unacked_count == count
    turns = scene.steps()
    assert turns > 5
    assert scene.unacked.of(scene.queue("q")) == 2 * count
    client.send(2, "basic.ack", delivery_tag=count // 2, multiple=True)
    # It is young enough for who asks at once, and not a second later.
    scene.now_s += 0.04
    assert scene.steps() == 1
    assert scene.unacked.of(scene.queue("q")) == 2 * count
    assert scene.known() == count


def test_who_asks_while_it_is_added_up_goes_on_with_it() -> None:
    scene = Scene()
    client = scene.client
    scene.declare("q")
    count = 3 * UNACKED_COUNT
    client.feed(publish(1, "q", b"x") * count)
    client.send(2, "basic.consume", queue="q", consumer_tag="c")
    next(scene.unacked.steps(0.0))
    # What is settled or comes in between two turns does no harm.
    client.send(2, "basic.ack", delivery_tag=100, multiple=True)
    client.send(2, "basic.ack", delivery_tag=count)
    client.feed(publish(1, "q", b"y"))
    scene.steps()
    assert count - 101 <= scene.unacked.of(scene.queue("q")) <= count + 1
