"""Totals never fall, rates are of the last interval, whatever comes and goes."""

from __future__ import annotations

import pytest

from broker.metrics.history import TRIM_ROWS, History, Level
from broker.metrics.sampler import HISTORIES_MAX, SLICE, Sampler
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


def samples_of(scene: Scene, subject: object, key: str, age_s: int, every_s: int) -> list[int]:
    found = scene.sampler.samples(subject, age_s * 1000, every_s * 1000)
    assert found is not None
    place = scene.sampler.keys_of(subject).index(key)
    return [one.totals[place] for one in found]


def test_what_is_gone_has_no_rate_and_no_history() -> None:
    scene = Scene()
    vhost = scene.world.node.add_vhost("v")
    scene.sample()
    scene.sample()
    assert scene.sampler.samples(vhost, 60_000, 5_000)
    scene.world.node.delete_vhost("v")
    scene.sample()
    assert scene.sampler.samples(vhost, 60_000, 5_000) is None
    assert scene.sampler.rate(vhost, "publish") == 0.0


def test_a_history_has_a_sample_for_each_step_newest_first() -> None:
    scene = Scene()
    client = declared(scene)
    queue = scene.world.vhost.queues["q"]
    exchange = scene.world.vhost.exchanges[""]
    channel = client.connection.channels[1]
    scene.sample()
    for _ in range(20):
        client.feed(publish(1, "q"))
        scene.sample()

    if scene.world.node.deadlines.wall_ms % 10_000 >= 5_000:
        client.feed(publish(1, "q"))
        scene.sample()

    count = queue.publish_count
    wanted = list(range(count, count - 13, -2))
    for subject in (None, scene.world.vhost, queue, channel):
        assert samples_of(scene, subject, "publish", 60, 10) == wanted

    assert samples_of(scene, exchange, "publish_in", 60, 10) == wanted
    scene.sample(30)
    assert samples_of(scene, queue, "messages", 60, 10)[:5] == [count] * 4 + [count - 2]
    found = scene.sampler.samples(queue, 60_000, 20_000)
    late = scene.sampler.samples(queue, 60_000, 20_000, is_late=True)
    assert found
    assert late
    assert [one.at_ms - found[-1].at_ms for one in found] == [60_000, 40_000, 20_000, 0]
    assert all(one.at_ms % 20_000 == 0 for one in found)
    assert found[0].at_ms <= scene.world.node.deadlines.wall_ms <= late[0].at_ms


def test_before_it_was_there_there_was_nothing() -> None:
    scene = Scene()
    scene.sample()
    scene.sample(100)
    declared(scene).feed(publish(1, "q") * 3)
    scene.sample()
    queue = scene.world.vhost.queues["q"]
    assert samples_of(scene, queue, "messages", 60, 5)[:3] in ([3, 0, 0], [0, 0, 0])


def test_what_never_moved_since_the_start_was_always_so() -> None:
    scene = Scene()
    declared(scene).feed(publish(1, "q") * 3)
    scene.sample()
    scene.sample(100)
    queue = scene.world.vhost.queues["q"]
    assert samples_of(scene, queue, "messages", 60, 20) == [3, 3, 3, 3]


def test_histories_are_bounded_and_what_stands_still_makes_place_for_what_moves() -> None:
    scene = Scene()
    client = scene.client
    names = [f"q{number}" for number in range(HISTORIES_MAX + 50)]
    for name in names:
        client.ask(1, "queue.declare", queue=name)

    scene.sample()
    queues = scene.world.vhost.queues
    for name in names:
        client.feed(publish(1, name))

    scene.sample()
    scene.sample()
    assert len(scene.sampler._histories) == HISTORIES_MAX
    late = queues[names[-1]]
    assert scene.sampler.samples(late, 60_000, 5_000) is None, "it moved, and nobody knows how"
    scene.sample(120)
    assert samples_of(scene, late, "messages", 60, 20) == [1] * 4
    client.feed(publish(1, names[-1]))
    scene.sample()
    assert samples_of(scene, late, "messages", 10, 5) == [2, 1, 1]
    assert len(scene.sampler._histories) == HISTORIES_MAX
    assert scene.sampler.samples(None, 60_000, 5_000), "the node has its place for ever"


def test_a_long_history_is_coarse_and_bounded() -> None:
    history = History(1, (Level(5_000, 12), Level(60_000, 10)))
    start = 1_800_000_000_000
    for step in range(10_000):
        history.add(start + step * 5_000, (step,))

    now = start + 9_999 * 5_000
    fine = history.samples(60_000, 5_000, now)
    assert [one.totals[0] for one in fine] == list(range(9_999, 9_986, -1))
    coarse = history.samples(600_000, 60_000, now)
    assert len(coarse) == 11
    assert all(abs(one.totals[0] - (one.at_ms - start) // 5_000) <= 12 for one in coarse)
    assert len(history.samples(10**9, 60_000, now)) <= 10 + TRIM_ROWS, "not what it never kept"
    history.add(start, (5,))
    assert [one.totals[0] for one in history.samples(0, 5_000, start)] == [5], "the clock went back"


def test_a_queue_and_a_channel_are_idle_since_they_moved_last() -> None:
    scene = Scene()
    client = declared(scene)
    queue, channel = scene.world.vhost.queues["q"], client.connection.channels[1]
    idle = scene.sampler.idle_since_ms
    assert idle(queue) is None, "not sampled yet"
    scene.sample()
    first = scene.world.node.deadlines.wall_ms
    assert idle(queue) == idle(channel) == first
    client.feed(publish(1, "q"))
    assert idle(queue) is idle(channel) is None, "seen before it is sampled"
    scene.sample()
    moved = scene.world.node.deadlines.wall_ms
    assert idle(queue) is None
    scene.sample()
    assert idle(queue) == idle(channel) == moved


def test_a_sample_taken_in_steps_counts_what_goes_between_them_once() -> None:
    scene = Scene()
    client = scene.client
    last = f"q{SLICE * 2 - 1}"
    for number in range(SLICE * 2):
        client.ask(1, "queue.declare", queue=f"q{number}")
        client.feed(publish(1, f"q{number}"))

    client.send(2, "basic.consume", queue="q0", no_ack=True)
    client.send(2, "basic.consume", queue=last, no_ack=True)
    scene.sample()
    assert scene.sampler.counters(None)["deliver_no_ack"] == 2
    scene.world.wait(5)
    steps = scene.sampler.steps(scene.world.clock.monotonic())
    next(steps)
    client.send(1, "queue.delete", queue=last)
    next(steps)
    client.send(1, "queue.delete", queue="q0")
    assert list(steps) == []
    assert scene.sampler.counters(None)["deliver_no_ack"] == 2
    scene.sample()
    assert scene.sampler.counters(None)["deliver_no_ack"] == 2


def test_a_sample_in_steps_ends_when_a_later_one_is_there() -> None:
    scene = Scene()
    client = declared(scene)
    queue = scene.world.vhost.queues["q"]
    scene.sample()
    steps = scene.sampler.steps(scene.world.clock.monotonic())
    next(steps)
    client.feed(publish(1, "q") * 5)
    scene.sample()
    assert list(steps) == []
    assert scene.sampler.rate(queue, "publish") == 1.0


def test_bytes_of_a_virtual_host_stay_when_its_connections_are_gone() -> None:
    scene = Scene()
    scene.sample()
    before = scene.sampler.counters(scene.world.vhost)
    assert before["recv_oct"] > 0
    scene.client.lose()
    scene.sample()
    assert scene.sampler.counters(scene.world.vhost)["recv_oct"] == before["recv_oct"]


def test_others_add_what_is_sampled_too() -> None:
    scene = Scene()
    count = [0]
    scene.sampler.add("thing", ("a", "b"), lambda: (count[0], 7))
    for _ in range(4):
        count[0] += 10
        scene.sample()

    assert scene.sampler.rate("thing", "a") == 2.0
    assert samples_of(scene, "thing", "a", 10, 5) == [40, 30, 20]
    assert samples_of(scene, "thing", "b", 10, 5) == [7, 7, 7]


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


def test_dead_letters_that_have_no_place_yet_are_messages_and_not_ready() -> None:
    scene = Scene()
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "nowhere",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    client = declared(scene, durable=True, arguments=arguments)
    client.feed(publish(1, "q") * 3)
    for tag in (1, 2):
        client.send(2, "basic.get", queue="q")
        client.send(2, "basic.reject", delivery_tag=tag, requeue=False)

    client.send(2, "basic.get", queue="q")
    queue = scene.world.node.vhosts["/"].queues["q"]
    depths = ("messages", "messages_ready", "messages_unacknowledged")
    assert [scene.sampler.counters(queue)[key] for key in depths] == [3, 0, 1]
    assert [scene.node()[key] for key in ("messages", "messages_unacknowledged")] == [3, 1]
