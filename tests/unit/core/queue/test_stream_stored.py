"""A stream with a log: what is read when, what is in memory, what is left (rules ST, DU)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker.core.queue.stream import StreamQueue
from broker.core.queue.stream_filter import mark_of
from broker.wire.tables import Field
from tests.helpers.clock import VirtualClock
from tests.helpers.core import CoreClient, CoreWorld, arguments_of, plain_headers
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.stored import StoredCoreWorld

FIRST = {"x-stream-offset": "first"}
BOTH = pytest.mark.parametrize("cleanly", [True, False], ids=["cleanly", "killed"])


class Broker:
    """A broker that is started again and again in one directory, with a stream ``s``."""

    def __init__(self) -> None:
        self.disk = FakeDisk(Random(1))
        self.elapsed_s = 0.0
        self.start_s = 100.0
        self.start()

    def start(self) -> None:
        clock = VirtualClock(self.start_s, self.elapsed_s)
        self.world = StoredCoreWorld(self.disk, "log", segment_bytes=4_096, clock=clock)
        self.client = self.world.client()

    def restart(self, *, cleanly: bool, after_s: float = 0.0, start_s: float = 5.0) -> None:
        world = self.world
        assert world.failures == []
        self.elapsed_s = world.clock.wall() - VirtualClock.WALL_START_S + after_s
        self.start_s = start_s
        if cleanly:
            world.stop()
        else:
            world.write()
            self.disk = self.disk.crashed()

        self.start()

    def declare(self, **arguments: Any) -> StreamQueue:
        self.client.declare("s", durable=True, x_queue_type="stream", **arguments)
        self.world.write()
        return self.stream

    @property
    def stream(self) -> StreamQueue:
        queue = self.world.queue("s")
        assert isinstance(queue, StreamQueue)
        return queue

    def fill(self, count: int, size: int = 10, value: str | None = None) -> None:
        """Publish so many messages, whose bodies begin with their offsets."""
        headers = {} if value is None else {"x-stream-filter-value": value}
        for _ in range(count):
            body = b"%d." % int(self.stream.log.next_offset)
            self.client.publish("s", body.ljust(size, b"x"), headers=headers)

        self.world.write()

    def read(self, offset: object = "first", prefetch: int = 1_000, **filters: Any) -> list[int]:
        """The offsets that a new consumer gets at once; the bodies have to be theirs."""
        client = self.world.client()
        arguments = arguments_of(filters)
        arguments["x-stream-offset"] = (
            offset if isinstance(offset, Field) else arguments_of({"at": offset})["at"]
        )
        client.consume(self.stream, "reader", prefetch=prefetch, arguments=arguments)
        found = offsets_of(client)
        client.cancel("reader")
        return found

    def live_counts(self) -> int:
        return sum(int(one.live) for one in self.world.log.segments.values())


def offsets_of(client: CoreClient) -> list[int]:
    found = []
    for heard in client.heard():
        assert heard.name == "basic.deliver"
        assert heard.arguments["redelivered"] is False
        offset = plain_headers(heard.properties)["x-stream-offset"]
        assert heard.body.startswith(b"%d." % offset)
        found.append(offset)

    return found


@pytest.fixture
def broker() -> Broker:
    return Broker()


# -- when it is read and confirmed


def test_nobody_reads_what_is_not_safe_and_nobody_is_told_that_it_is() -> None:
    """Rules ST-09, CF-06: else a crash could give its offset to another message."""
    world = StoredCoreWorld(FakeDisk(Random(1)), "log", is_prompt=False)
    client = world.client()
    queue = client.declare("s", durable=True, x_queue_type="stream")
    world.write()
    client.consume(queue, "r", prefetch=10, arguments=arguments_of(FIRST))
    client.confirm_select()
    client.publish("s", b"0.")
    assert client.heard() == []
    world.write()
    assert sorted(heard.name for heard in client.heard()) == ["basic.ack", "basic.deliver"]


def test_what_was_not_written_leaves_no_gap() -> None:
    disk = FakeDisk(Random(1))
    world = StoredCoreWorld(disk, "log", is_prompt=False)
    client = world.client()
    client.declare("s", durable=True, x_queue_type="stream")
    client.publish("s", b"0.")
    world.write()
    client.publish("s", b"lost")
    world = StoredCoreWorld(disk.crashed(), "log")
    queue = world.queue("s")
    assert isinstance(queue, StreamQueue)
    assert queue.log.next_offset == 1


def test_a_reader_gets_what_goes_over_the_limit_before_it_is_dropped() -> None:
    """Rule ST-07: what came together is safe together, and only then may some of it go."""
    world = StoredCoreWorld(FakeDisk(Random(1)), "log", is_prompt=False)
    client = world.client()
    queue = client.declare(
        "s",
        durable=True,
        x_queue_type="stream",
        x_max_length_bytes=0,
        x_stream_max_segment_size_bytes=0,
    )
    assert isinstance(queue, StreamQueue)
    client.consume(queue, "r", prefetch=10, arguments=arguments_of(FIRST))
    for number in range(5):
        client.publish("s", b"%d." % number)

    assert queue.ready_count == 5
    world.write()
    assert offsets_of(client) == [0, 1, 2, 3, 4]
    assert (queue.ready_count, queue.log.first_offset) == (1, 4)


def test_a_message_of_a_stream_and_of_a_queue_is_written_once(broker: Broker) -> None:
    """Section DU: one record, with a row for each."""
    stream = broker.declare()
    other = broker.client.declare("other", durable=True)
    for name in ("s", "other"):
        broker.world.vhost.exchanges["amq.fanout"].add_binding(broker.world.queue(name), "", {})

    broker.world.vhost.topology_changed()
    broker.world.write()
    before = sum(int(one.size) for one in broker.world.log.segments.values())
    broker.client.publish("", bytes(3_000), exchange="amq.fanout", delivery_mode=2)
    broker.world.write()
    assert sum(int(one.size) for one in broker.world.log.segments.values()) < before + 3_500
    assert (stream.ready_count, other.ready_count, broker.live_counts()) == (1, 1, 2)


# -- what a restart leaves


@BOTH
def test_offsets_bodies_and_counts_are_what_they_were(broker: Broker, cleanly: bool) -> None:
    """Section DU, rule ST-05: whatever the delivery mode."""
    broker.declare()
    broker.fill(50, size=200)
    for _ in range(3):
        size = int(broker.stream.ready_bytes)
        expected = list(range(int(broker.stream.log.next_offset)))
        broker.restart(cleanly=cleanly)
        assert broker.read() == expected
        assert broker.stream.ready_count == len(expected)
        assert broker.stream.ready_bytes == size
        broker.fill(1)


@BOTH
def test_places_are_what_they_were(broker: Broker, cleanly: bool) -> None:
    """Rule ST-04."""
    broker.declare()
    broker.fill(3)
    broker.world.wait(60)
    since = int(broker.world.clock.wall())
    broker.fill(2)
    broker.world.wait(60)
    broker.restart(cleanly=cleanly, after_s=60, start_s=1_000_000.0)
    assert broker.read("last") == [4]
    assert broker.read("next") == []
    assert broker.read(3) == [3, 4]
    assert broker.read(Field("T", since)) == [3, 4]
    assert broker.read(Field("T", since + 1)) == []
    assert broker.read("121s") == [3, 4]
    assert broker.read("119s") == []
    assert broker.read("200s") == [0, 1, 2, 3, 4]


@BOTH
def test_an_offset_is_never_given_twice(broker: Broker, cleanly: bool) -> None:
    """Whatever retention leaves: here the last entry alone (rule ST-07)."""
    broker.declare(x_max_length_bytes=0, x_stream_max_segment_size_bytes=0)
    for next_offset in (5, 10, 15):
        broker.fill(5)
        broker.restart(cleanly=cleanly)
        assert broker.stream.log.next_offset == next_offset
        assert broker.read() == [next_offset - 1]


def test_a_stream_that_has_nothing_goes_on_counting_too(broker: Broker) -> None:
    """Nothing but the offset that it begins with is in the checkpoint."""
    broker.declare()
    broker.fill(3)
    broker.stream.log.clear()
    broker.restart(cleanly=True)
    broker.fill(1)
    assert broker.read() == [3]


@BOTH
def test_segments_are_what_they_were_whatever_the_limits_were(
    broker: Broker, cleanly: bool
) -> None:
    """Rule ST-07: retention drops at the same offsets before and after."""

    def bases() -> list[int]:
        return [int(one.base) for one in broker.stream.log._segments.kept()]

    stream = broker.declare()
    stream.log.limit(bytes_max=None, age_ms_max=None, segment_bytes_max=1_000)
    broker.fill(20, size=200)
    stream.log.limit(bytes_max=None, age_ms_max=None, segment_bytes_max=3_000)
    broker.fill(20, size=200)
    expected = bases()
    assert len(expected) > 5
    broker.restart(cleanly=cleanly)
    assert bases() == expected
    broker.fill(1)
    assert bases() == expected, "the last segment takes more"


@BOTH
def test_age_goes_on_while_the_broker_is_down(broker: Broker, cleanly: bool) -> None:
    """Rule ST-07: timers are armed again."""
    broker.declare(x_max_age="100s")
    for _ in range(5):
        broker.fill(1)
        broker.world.wait(20)

    broker.restart(cleanly=cleanly, after_s=25)
    assert broker.stream.log.first_offset == 2
    broker.world.wait(20)
    assert broker.stream.log.first_offset == 3
    broker.restart(cleanly=cleanly)
    broker.world.wait(10**6)
    assert broker.read() == [4], "the last one stays"


@BOTH
def test_a_clock_that_was_set_back_leaves_the_times_in_order(broker: Broker, cleanly: bool) -> None:
    broker.declare()
    for _ in range(3):
        broker.fill(1)
        broker.world.wait(100)

    broker.restart(cleanly=cleanly, after_s=-250)
    broker.fill(1)
    broker.world.wait(10)
    broker.fill(1)
    assert broker.read("15s") == [1, 2, 3, 4], "as late as may be"
    assert broker.read("9s") == [4]
    broker.restart(cleanly=cleanly)
    assert broker.read("15s") == [1, 2, 3, 4]
    assert broker.read("9s") == [4]


@BOTH
def test_filters_find_what_they_found(broker: Broker, cleanly: bool) -> None:
    """Rule ST-08: from records and from checkpoints."""
    broker.declare(x_stream_max_segment_size_bytes=1_000)
    broker.fill(3)
    for value in "abcab":
        broker.fill(1, value=value)

    broker.fill(2)
    for _ in range(2):
        broker.restart(cleanly=cleanly)
        assert broker.read(x_stream_filter="a") == [3, 6]
        assert broker.read(x_stream_filter=["b", "c"]) == [4, 5, 7]
        assert broker.read(x_stream_filter="z") == []
        unfiltered = broker.read(x_stream_filter="c", x_stream_match_unfiltered=True)
        assert unfiltered == [0, 1, 2, 5, 8, 9]


def test_another_value_with_the_same_mark_is_not_let_through(broker: Broker) -> None:
    """Rule ST-08."""
    wanted = "0"
    other = next(str(at) for at in range(1, 10**6) if mark_of(str(at)) == mark_of(wanted))
    broker.declare()
    for value in (other, wanted, other):
        broker.fill(1, value=value)

    assert broker.read(x_stream_filter=wanted) == [1]
    broker.restart(cleanly=False)
    assert broker.read(x_stream_filter=wanted) == [1]


def test_dead_letters_in_a_stream_outlive_the_broker(broker: Broker) -> None:
    """Section DU: with their histories."""
    broker.declare()
    broker.client.declare(
        "q",
        durable=True,
        x_message_ttl=0,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="s",
    )
    broker.client.publish("q", b"0.")
    broker.world.write()
    broker.restart(cleanly=False)
    client = broker.world.client()
    client.consume(broker.stream, "r", prefetch=5, arguments=arguments_of(FIRST))
    (heard,) = client.heard()
    assert plain_headers(heard.properties)["x-first-death-reason"] == "expired"


# -- memory


def test_only_the_newest_entries_are_in_memory(broker: Broker) -> None:
    log = broker.declare(x_stream_max_segment_size_bytes=2_000).log
    log.hot_entries_max = 7
    broker.fill(100)
    assert log.hot_offset == 93
    assert sum(len(one.entries) for one in log._segments.kept()) == 7
    log.hot_bytes_max = 0
    broker.fill(1)
    assert log.hot_offset == 101
    assert broker.read() == list(range(101))


def test_what_is_not_safe_stays_in_memory() -> None:
    world = StoredCoreWorld(FakeDisk(Random(1)), "log", is_prompt=False)
    client = world.client()
    queue = client.declare("s", durable=True, x_queue_type="stream")
    assert isinstance(queue, StreamQueue)
    queue.log.hot_entries_max = 2
    for _ in range(10):
        client.publish("s", b"x")

    queue.log.written()
    assert queue.log.hot_offset == 0
    world.write()
    assert queue.log.hot_offset == 8


def test_readers_share_what_is_read_back_and_little_of_it_is_kept(broker: Broker) -> None:
    broker.declare()
    broker.fill(2_000, size=100)
    broker.restart(cleanly=True)
    stream = broker.stream
    cells = stream.log._cells
    assert cells is not None
    cells.bytes_max = 100_000
    clients = [broker.world.client() for _ in range(5)]
    for place, client in enumerate(clients):
        arguments = arguments_of({"x-stream-offset": place * 400})
        client.consume(stream, "r", prefetch=7, arguments=arguments)

    largest = 0
    got: list[list[int]] = [[] for _ in clients]
    for _ in range(300):
        for place, client in enumerate(clients):
            found = offsets_of(client)
            got[place] += found
            client.ack(*[int(one.delivery_tag) for one in client.deliveries.outstanding()])

        largest = max(largest, int(cells.size_bytes))

    assert [found[0] for found in got] == [0, 400, 800, 1_200, 1_600]
    assert all(found == list(range(found[0], 2_000)) for found in got)
    assert 0 < largest < 200_000
    assert cells.size_bytes == 0, "nobody is behind any more"


def test_a_record_that_cannot_be_read_stops_the_broker(broker: Broker) -> None:
    """Section DU: nobody is given something else."""
    broker.declare()
    broker.fill(10)
    broker.restart(cleanly=True)
    path, content = next(
        (path, content) for path, content in broker.disk.contents().items() if b"3." in content
    )
    broker.disk.put(path, content.replace(b"3.", b"4."))
    client = broker.world.client()
    options = arguments_of(FIRST)
    with pytest.raises(Exception, match="damaged"):
        client.consume(broker.stream, "r", prefetch=100, arguments=options)

    assert len(broker.world.failures) == 1


# -- space


def interleave(broker: Broker, count: int) -> None:
    """Entries between messages that go again, in many segments of the log."""
    other = broker.world.vhost.queues.get("other") or broker.client.declare("other", durable=True)
    for _ in range(count):
        broker.fill(1)
        for _ in range(3):
            broker.client.publish("other", bytes(900), delivery_mode=2)

        broker.world.write()

    other.purge()
    broker.world.write()


def tidy(broker: Broker) -> None:
    broker.world.checkpoint()
    broker.world.wait(1)
    broker.world.write()
    broker.world.wait(1)


@BOTH
def test_entries_among_what_has_gone_are_moved_together(broker: Broker, cleanly: bool) -> None:
    """A segment of the log is not kept for a few entries, time and again."""
    broker.declare(x_stream_max_segment_size_bytes=500)
    for times in range(1, 4):
        interleave(broker, 20)
        before = len(broker.world.log.segments)
        tidy(broker)
        assert len(broker.world.log.segments) < before / 2
        assert broker.live_counts() == 20 * times
        assert broker.read() == list(range(20 * times))

    broker.restart(cleanly=cleanly)
    assert broker.read() == list(range(60))
    assert broker.live_counts() == 60
    tidy(broker)
    broker.restart(cleanly=False)
    assert broker.read() == list(range(60))


def test_entries_that_were_moved_are_moved_again(broker: Broker) -> None:
    broker.declare(x_stream_max_segment_size_bytes=500)
    interleave(broker, 20)
    broker.world.checkpoint()
    for _ in range(3):
        broker.world.journal.books.look_after()
        for _ in range(40):
            # In the same batch as the entries that move.
            broker.client.publish("other", bytes(900), delivery_mode=2)

        broker.world.write()
        broker.world.queue("other").purge()
        broker.world.checkpoint()

    tidy(broker)
    sizes = [int(one.size) for one in broker.world.log.segments.values()]
    assert sum(sizes) < 10_000
    assert broker.live_counts() == 20
    broker.restart(cleanly=False)
    assert broker.read() == list(range(20))


def test_entries_that_go_while_they_are_moved_stay_gone(broker: Broker) -> None:
    broker.declare(x_stream_max_segment_size_bytes=0)
    interleave(broker, 20)
    broker.world.checkpoint()
    broker.world.journal.books.look_after()
    broker.world.set_policy({"max-length-bytes": 500})
    broker.world.write()
    kept = broker.read()
    assert 0 < len(kept) < 10
    assert broker.live_counts() == len(kept)
    broker.restart(cleanly=False)
    assert broker.read() == kept
    assert broker.live_counts() == len(kept)


def test_a_deleted_stream_gives_its_space_back(broker: Broker) -> None:
    stream = broker.declare()
    broker.fill(200, size=500)
    broker.client.publish("s", b"pending")
    broker.world.vhost.remove_queue(stream)
    broker.world.write()
    assert broker.live_counts() == 0
    tidy(broker)
    assert len(broker.world.log.segments) <= 1
    stream = broker.declare()
    broker.fill(1)
    broker.restart(cleanly=False)
    assert broker.read() == [0], "another stream, which begins anew"


def test_retention_gives_space_back(broker: Broker) -> None:
    """Rule ST-07."""
    broker.declare(x_max_length_bytes=5_000, x_stream_max_segment_size_bytes=1_000)
    broker.fill(500, size=500)
    tidy(broker)
    assert broker.live_counts() == broker.stream.ready_count < 12
    assert len(broker.world.log.segments) <= 4


def test_without_a_log_all_of_it_is_in_memory() -> None:
    client = CoreWorld().client()
    queue = client.declare("s", durable=True, x_queue_type="stream")
    assert isinstance(queue, StreamQueue)
    for _ in range(5_000):
        client.publish("s", b"x")

    assert sum(len(one.entries) for one in queue.log._segments.kept()) == 5_000
