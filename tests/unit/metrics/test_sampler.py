"""Totals never fall, rates are of the last interval, whatever comes and goes."""

from __future__ import annotations

import pytest

from broker.metrics.sampler import Sampler
from tests.helpers.session import Session, World, method, publish

Counts = dict[str, int]


class Scene:
    """A client, and what the sampler says."""

    def __init__(self) -> None:
        self.world = World()
        self.sampler = Sampler(self.world.node)
        self.client = self.world.open(1, 2)

    def sample(self, seconds: float = 5.0) -> None:
        self.world.wait(seconds)
        self.sampler.sample(self.world.clock.monotonic())

    def node(self) -> Counts:
        """What is not zero, of the messages of the node."""
        self.sample()
        counts = self.sampler.counters(None)
        return {key: counts[key] for key in counts if counts[key] and "_oct" not in key}


def declared(scene: Scene, name: str = "q", **arguments: object) -> Session:
    client = scene.client
    client.ask(1, "queue.declare", queue=name, **arguments)
    return client


def test_everything_that_happens_to_messages_is_counted_where_it_happens() -> None:
    scene = Scene()
    client = declared(scene)
    client.send(1, "confirm.select")
    client.feed(publish(1, "q") * 5)
    client.feed(publish(1, "nowhere") + publish(1, "nowhere", mandatory=True))
    client.send(2, "basic.get", queue="q")
    client.send(2, "basic.ack", delivery_tag=1)
    client.send(2, "basic.get", queue="q", no_ack=True)
    client.send(2, "basic.consume", queue="q", consumer_tag="c")
    client.send(2, "basic.nack", delivery_tag=3, requeue=True)
    client.send(2, "basic.cancel", consumer_tag="c")
    client.send(2, "basic.ack", delivery_tag=0, multiple=True)
    client.send(2, "basic.get", queue="q")
    client.send(2, "basic.consume", queue="q", consumer_tag="d", no_ack=True)
    client.feed(publish(1, "q"))

    counters = scene.sampler.counters
    channels = scene.client.connection.channels
    assert {key: count for key, count in counters(channels[1]).items() if count} == {
        "publish": 8,
        "confirm": 8,
        "return_unroutable": 1,
        "drop_unroutable": 1,
    }
    taken = {
        "deliver": 4,
        "deliver_no_ack": 1,
        "get": 1,
        "get_no_ack": 1,
        "get_empty": 1,
        "ack": 4,
        "redeliver": 1,
        "deliver_get": 7,
    }
    assert {key: count for key, count in counters(channels[2]).items() if count} == taken
    queue = counters(scene.world.vhost.queues["q"])
    assert {key: count for key, count in queue.items() if count} == {"publish": 6, **taken}
    exchange = counters(scene.world.vhost.exchanges[""])
    assert exchange == {"publish_in": 8, "publish_out": 6}
    scene.sample()
    vhost = counters(scene.world.vhost)
    assert {key: count for key, count in vhost.items() if count and "_oct" not in key} == {
        "publish": 8,
        "confirm": 8,
        "return_unroutable": 1,
        "drop_unroutable": 1,
        **taken,
    }


def test_totals_stay_when_what_was_counted_on_is_gone() -> None:
    scene = Scene()
    client = declared(scene)
    client.feed(publish(1, "q") * 3)
    client.send(2, "basic.consume", queue="q", consumer_tag="c", no_ack=True)
    before = scene.node()
    client.send(1, "channel.close")
    client.send(2, "queue.delete", queue="q")
    client.lose()
    after = scene.node()

    for key in ("publish", "deliver_no_ack", "deliver_get"):
        assert after[key] == before[key] == 3

    assert after["connection_closed"] == after["connection_created"] == 1
    assert after["channel_closed"] == after["channel_created"] == 2
    assert after["queue_deleted"] == after["queue_created"] == after["queue_declared"] == 1


def test_a_virtual_host_takes_its_counts_to_the_node_when_it_is_deleted() -> None:
    scene = Scene()
    declared(scene).feed(publish(1, "q") * 2)
    before = scene.node()
    scene.world.node.delete_vhost("/")
    scene.world.settle()
    assert scene.node()["publish"] == before["publish"] == 2


def test_an_acknowledgement_that_waits_for_its_commit_is_none_yet() -> None:
    scene = Scene()
    client = declared(scene)
    client.send(1, "tx.select")
    client.send(1, "basic.consume", queue="q", consumer_tag="c")
    client.feed(publish(2, "q"))
    client.send(1, "basic.ack", delivery_tag=1)
    channel = client.connection.channels[1]
    assert scene.sampler.counters(channel)["ack"] == 0
    assert scene.sampler.counters(channel)["deliver"] == 1
    client.send(1, "tx.commit")
    assert scene.sampler.counters(channel)["ack"] == 1
    assert scene.sampler.counters(channel)["deliver"] == 1


def test_a_rate_is_of_the_last_interval() -> None:
    scene = Scene()
    client = declared(scene)
    queue = scene.world.vhost.queues["q"]
    scene.sample()
    assert scene.sampler.rate(queue, "publish") == 0.0
    client.feed(publish(1, "q") * 10)
    assert scene.sampler.rate(queue, "publish") == 0.0
    scene.sample()
    for subject in (queue, scene.world.vhost, None):
        assert scene.sampler.rate(subject, "publish") == 2.0
        assert scene.sampler.rate(subject, "messages_ready") == 2.0

    client.send(1, "queue.purge", queue="q")
    scene.sample(2.0)
    assert scene.sampler.rate(queue, "messages") == -5.0
    scene.sample()
    assert scene.sampler.rate(queue, "publish") == 0.0


def test_what_is_gone_has_no_rate_and_no_history() -> None:
    scene = Scene()
    vhost = scene.world.node.add_vhost("v")
    scene.sample()
    scene.sample()
    assert scene.sampler.samples(vhost, 60, 5)["publish"]
    scene.world.node.delete_vhost("v")
    scene.sample()
    assert scene.sampler.samples(vhost, 60, 5)["publish"] == []
    assert scene.sampler.rate(vhost, "publish") == 0.0


def test_a_history_has_a_sample_for_each_step_newest_first() -> None:
    scene = Scene()
    client = declared(scene)
    for _ in range(20):
        client.feed(publish(1, "q"))
        scene.sample()

    samples = scene.sampler.samples(None, 60, 10)["publish"]
    assert [one.totals[0] for one in samples] == [20, 18, 16, 14, 12, 10, 8]
    times = [one.at_s for one in samples]
    assert times == sorted(times, reverse=True)


def test_a_history_is_bounded() -> None:
    scene = Scene()
    for _ in range(1_000):
        scene.sample()

    fine = scene.sampler.samples(None, 1e9, 5)["publish"]
    coarse = scene.sampler.samples(None, 1e9, 60)["publish"]
    assert (len(fine), len(coarse)) == (122, 62)


def test_the_bytes_of_connections_are_counted() -> None:
    scene = Scene()
    connection = scene.client.connection
    scene.sample()
    earlier = scene.sampler.counters(connection)
    data = method(1, "basic.qos", prefetch_count=1)
    scene.client.feed(data)
    answer = scene.client.take_bytes()
    later = scene.sampler.counters(connection)
    assert later["recv_oct"] - earlier["recv_oct"] == len(data)
    assert later["send_oct"] - earlier["send_oct"] == len(answer)
    scene.sample()
    assert scene.sampler.rate(connection, "recv_oct") == round(len(data) / 5, 3)
    assert scene.sampler.counters(None)["recv_oct"] == later["recv_oct"]
    scene.client.lose()
    scene.sample()
    assert scene.sampler.counters(None)["recv_oct"] == later["recv_oct"]


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        pytest.param([100], [1, 0, 0], id="a bound belongs to its class"),
        pytest.param([101, 1_000], [0, 2, 0], id="from one bound to the next"),
        pytest.param([5, 5, 5, 2_000, 5, 5], [5, 0, 1], id="runs of the same size"),
        pytest.param([0, 9_999], [1, 0, 1], id="an empty body"),
    ],
)
def test_bodies_are_counted_by_size(sizes: list[int], counts: list[int]) -> None:
    scene = Scene()
    client = declared(scene)
    for size in sizes:
        client.feed(publish(1, "q", bytes(size)))

    scene.sample()
    tally = scene.world.vhost.tally.sizes
    assert tally.counts[:3] == counts
    assert tally.total_bytes == sum(sizes)


def test_persistent_messages_are_counted_apart() -> None:
    scene = Scene()
    client = declared(scene)
    persistent = b"\x10\x00\x02"
    unique = b"\x10\x80\x02\x01m"
    for properties, count in ((persistent, 3), (b"\0\0", 2), (unique, 1)):
        client.feed(publish(1, "q", b"x", properties) * count)

    client.feed(publish(1, "q", bytes(200_000), persistent))
    scene.sample()
    tally = scene.world.vhost.tally
    assert (tally.persistent, sum(tally.sizes.counts)) == (5, 7)


def test_bodies_in_several_frames_count_as_one() -> None:
    scene = Scene()
    client = declared(scene)
    client.feed(publish(1, "q", bytes(50)) + publish(1, "q", bytes(200_000)))
    client.feed(publish(1, "q", bytes(50)))
    scene.sample()
    tally = scene.world.vhost.tally.sizes
    assert tally.counts[:5] == [2, 0, 0, 0, 1]
    assert tally.total_bytes == 200_100


def test_dead_letters_are_counted_by_reason() -> None:
    scene = Scene()
    client = declared(scene, "q", arguments={"x-max-length": 1})
    client.feed(publish(1, "q") * 3)
    client.send(1, "basic.get", queue="q")
    client.send(1, "basic.reject", delivery_tag=1)
    assert scene.world.vhost.tally.dead_letters == {
        ("classic", "maxlen", "disabled"): 2,
        ("classic", "rejected", "disabled"): 1,
    }
