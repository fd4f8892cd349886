"""A stream is a list that everybody reads for themselves.

The model has the entries, and for each consumer its place, its filter and how many deliveries it
may still get. After every step each consumer whose client reads must have got exactly what follows
from that. Segments of one message make what is kept predictable: the newest that fit into the
limit, and the one that came last.

The second machine does the same with a log, and the broker stops and starts in between: consumers
are gone then, and everything else is as it was (section DU).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from broker.core.message import Address, build_content
from broker.core.queue.stream import StreamQueue
from broker.wire.tables import Arguments, Field
from tests.helpers.clock import VirtualClock
from tests.helpers.core import CoreWorld, arguments_of, plain_headers, raw_properties
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.stored import StoredCoreWorld

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue

CLIENTS = 2
CONSUMERS_MAX = 5
ENTRY_BYTES = 64
"""What an entry counts for beside its content and address."""

VALUES = st.sampled_from([None, "a", "b", ""])
FILTERS = st.sampled_from([None, None, ["a"], ["a", "b"], [""], ["z"]])
LIMITS = st.sampled_from([None, 0, 500, 2_000])
PLACES = st.one_of(st.sampled_from(["first", "last", "next", "ago", "since"]), st.integers(-2, 30))


class Entry(NamedTuple):
    """One message of the model."""

    offset: int
    value: str
    size: int
    time_ms: int
    body: bytes


class Reader:
    """One consumer of the model; ``got`` is what it has been given since the last look."""

    def __init__(self, client: int, position: int, wanted: list[str] | None, credit: int) -> None:
        self.client = client
        self.position = position
        self.wanted = wanted
        self.credit = credit
        self.got: list[Entry] = []


class StreamMachine(RuleBasedStateMachine):
    """``unacked`` holds, by client, whose each unacked delivery tag is; None of a consumer gone."""

    def __init__(self) -> None:
        super().__init__()
        self.world = self.first_world()
        self.clients = [self.world.client() for _ in range(CLIENTS)]
        self.is_paused = [False] * CLIENTS
        self.entries: list[Entry] = []
        self.readers: dict[str, Reader] = {}
        self.unacked: list[dict[int, str]] = [{} for _ in range(CLIENTS)]
        self.next_offset = 0
        self.consumer_count = 0
        self.limit: int | None = None
        self.policy_limit: int | None = None
        self.queue: Queue

    def first_world(self) -> CoreWorld:
        return CoreWorld()

    def publish_safely(self, value: str, data: bytes, properties: dict[str, Any]) -> None:
        """Publish, until it can be read."""
        self.clients[0].publish(value, data, **properties)

    @initialize(limit=LIMITS, is_policy=st.booleans())
    def declare(self, limit: int | None, is_policy: bool) -> None:
        self.limit = limit
        arguments: dict[str, Any] = {"x_stream_max_segment_size_bytes": 0}
        if limit is not None and is_policy:
            self.world.set_policy({"max-length-bytes": limit})
            self.policy_limit = limit
        elif limit is not None:
            arguments["x_max_length_bytes"] = limit

        self.queue = self.clients[0].declare("s", durable=True, x_queue_type="stream", **arguments)

    # -- the model

    def _drop(self, *, room_for_next: bool) -> None:
        """What is beyond the limit goes, but for the last one where none follows."""
        limit = self.limit
        if limit is None:
            return

        entries = self.entries
        while entries and (room_for_next or len(entries) > 1):
            if sum(entry.size for entry in entries) <= limit:
                break

            entries.pop(0)

    def _serve(self) -> None:
        for reader in self.readers.values():
            if self.is_paused[reader.client]:
                continue

            for entry in self.entries:
                if reader.credit == 0:
                    break

                if entry.offset < reader.position:
                    continue

                reader.position = entry.offset + 1
                if reader.wanted is None or entry.value in reader.wanted:
                    reader.credit -= 1
                    reader.got.append(entry)

    def _start(self, place: str | int, ago_ms: int) -> tuple[Field, int]:
        """The argument for a place, and the offset that it means now."""
        first = self.entries[0].offset if self.entries else self.next_offset
        now_ms = int(self.world.node.deadlines.now_ms)
        if isinstance(place, int):
            return Field("l", place), max(place, first)

        if place == "first":
            return Field("S", place), first

        if place == "next":
            return Field("S", place), self.next_offset

        if place == "last":
            return Field("S", place), max(self.next_offset - 1, first)

        if place == "ago":
            since_ms = now_ms - ago_ms
            field = Field("S", f"{ago_ms // 1000}s")
        else:
            wall_s = (self.world.node.deadlines.wall_ms - ago_ms) // 1000
            since_ms = wall_s * 1000 - int(self.world.node.deadlines.wall_offset_ms)
            field = Field("T", wall_s)

        found = [entry.offset for entry in self.entries if entry.time_ms >= since_ms]
        return field, found[0] if found else self.next_offset

    # -- what happens

    @rule(value=VALUES, size=st.sampled_from([0, 10, 400]), times=st.integers(1, 3))
    def publish(self, value: str | None, size: int, times: int) -> None:
        properties: dict[str, Any] = {}
        if value is not None:
            properties["headers"] = {"x-stream-filter-value": value}

        now_ms = int(self.world.node.deadlines.now_ms)
        for _ in range(times):
            body = str(self.next_offset).encode().ljust(size)
            content = build_content(raw_properties(**properties), body)
            whole = len(content) + int(Address("", "s").tail_size) + ENTRY_BYTES
            self.publish_safely("s", body, properties)
            self._drop(room_for_next=True)
            self.entries.append(Entry(self.next_offset, value or "", whole, now_ms, body))
            self.next_offset += 1
            self._serve()

    @precondition(lambda self: len(self.readers) < CONSUMERS_MAX)
    @rule(
        client=st.integers(0, CLIENTS - 1),
        place=PLACES,
        ago_s=st.integers(1, 6),
        wanted=FILTERS,
        match_unfiltered=st.booleans(),
        prefetch=st.integers(1, 4),
    )
    def consume(
        self,
        client: int,
        place: str | int,
        ago_s: int,
        wanted: list[str] | None,
        match_unfiltered: bool,
        prefetch: int,
    ) -> None:
        field, position = self._start(place, ago_s * 1000)
        arguments: Arguments = {"x-stream-offset": field}
        if wanted is not None:
            arguments.update(arguments_of({"x-stream-filter": wanted}))

        if match_unfiltered:
            arguments["x-stream-match-unfiltered"] = Field("t", True)
            wanted = None if wanted is None else [*wanted, ""]

        self.consumer_count += 1
        tag = f"c{self.consumer_count}"
        self.readers[tag] = Reader(client, position, wanted, prefetch)
        self.clients[client].consume(self.queue, tag, prefetch=prefetch, arguments=arguments)
        self._serve()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.readers)))
        self.check_deliveries()
        reader = self.readers.pop(tag)
        self.clients[reader.client].cancel(tag)

    @precondition(lambda self: any(self.unacked))
    @rule(data=st.data(), how=st.sampled_from(["ack", "requeue", "reject"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        client = data.draw(st.sampled_from([at for at in range(CLIENTS) if self.unacked[at]]))
        tags = st.sets(st.sampled_from(sorted(self.unacked[client])), min_size=1)
        chosen = sorted(data.draw(tags))
        getattr(self.clients[client], how)(*chosen)
        for delivery_tag in chosen:
            reader = self.readers.get(self.unacked[client].pop(delivery_tag))
            if reader is not None:
                reader.credit += 1

        self._serve()

    @rule(client=st.integers(0, CLIENTS - 1))
    def pause_or_resume(self, client: int) -> None:
        """The client stops reading, or reads again."""
        self.is_paused[client] = not self.is_paused[client]
        output = self.clients[client].output
        if self.is_paused[client]:
            output.pause()
        else:
            output.resume()
            self.world.settle()

        self._serve()

    @rule(limit=st.sampled_from([0, 300, 1_000, 10**9]))
    def change_limit(self, limit: int) -> None:
        self.world.set_policy({"max-length-bytes": limit})
        if limit != self.policy_limit:
            # The same policy again is no change: what is beyond it by one message stays.
            self.policy_limit = self.limit = limit
            self._drop(room_for_next=False)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.world.move(seconds * 1000)

    # -- what has to hold

    @invariant()
    def check(self) -> None:
        if self.consumer_count or self.entries:
            queue = self.queue
            assert isinstance(queue, StreamQueue)
            self.check_deliveries()
            self.check_counts(queue)
            self.check_who_waits(queue)

    def check_deliveries(self) -> None:
        for place, client in enumerate(self.clients):
            for heard in client.heard():
                tag = heard.arguments["consumer_tag"]
                delivery_tag = heard.arguments["delivery_tag"]
                assert isinstance(tag, str)
                assert isinstance(delivery_tag, int)
                assert not heard.arguments["redelivered"]
                self.unacked[place][delivery_tag] = tag
                expected = self.readers[tag].got
                assert expected, f"{tag} got more than it should have"
                entry = expected.pop(0)
                assert plain_headers(heard.properties)["x-stream-offset"] == entry.offset
                assert heard.body == entry.body

        assert not any(reader.got for reader in self.readers.values()), "something did not come"

    def check_counts(self, queue: StreamQueue) -> None:
        first = self.entries[0].offset if self.entries else self.next_offset
        assert (queue.log.first_offset, queue.log.next_offset) == (first, self.next_offset)
        assert queue.ready_count == len(self.entries)
        assert queue.unacked_count == sum(len(tags) for tags in self.unacked)

    def check_who_waits(self, queue: StreamQueue) -> None:
        """Nobody stands in a turn, and only who can read waits for what comes."""
        assert not queue._turn
        for offset, consumers in queue._waiting.items():
            assert consumers
            assert offset >= self.next_offset
            for consumer in consumers:
                assert consumer.position == offset
                assert consumer.credit > 0


class StoredStreamMachine(StreamMachine):
    """Of the stream's entries only the newest few stay in memory."""

    def __init__(self) -> None:
        self.disk = FakeDisk(Random(1))
        self.stored: StoredCoreWorld
        super().__init__()

    def first_world(self) -> CoreWorld:
        self.stored = self.next_world(VirtualClock())
        return self.stored

    def next_world(self, clock: VirtualClock) -> StoredCoreWorld:
        return StoredCoreWorld(self.disk, "log", segment_bytes=2_048, clock=clock)

    @initialize(limit=LIMITS, is_policy=st.booleans())
    def declare(self, limit: int | None, is_policy: bool) -> None:
        self.clients[0].declare("other", durable=True)
        super().declare(limit, is_policy)
        self.keep_little()

    def keep_little(self) -> None:
        queue = self.queue
        assert isinstance(queue, StreamQueue)
        queue.log.hot_entries_max = 2
        cells = queue.log._cells
        assert cells is not None
        cells.bytes_max = 600

    def publish_safely(self, value: str, data: bytes, properties: dict[str, Any]) -> None:
        super().publish_safely(value, data, properties)
        self.stored.write()

    @rule(
        is_clean=st.booleans(),
        start_s=st.sampled_from([0.5, 1_000.0, 10_000_000.0]),
        down_s=st.integers(0, 10),
    )
    def restart(self, is_clean: bool, start_s: float, down_s: int) -> None:
        """Consumers are gone; the clock begins anew, somewhere."""
        old = self.stored
        before_ms = int(old.node.deadlines.wall_offset_ms)
        elapsed_s = old.clock.wall() - VirtualClock.WALL_START_S + down_s
        old.write()
        if is_clean:
            old.stop()
        else:
            self.disk = self.disk.crashed()

        self.stored = self.next_world(VirtualClock(start_s, elapsed_s))
        self.world = self.stored
        self.clients = [self.world.client() for _ in range(CLIENTS)]
        self.is_paused = [False] * CLIENTS
        self.readers.clear()
        self.unacked = [{} for _ in range(CLIENTS)]
        self.queue = self.world.queue("s")
        self.keep_little()
        shift_ms = before_ms - int(self.world.node.deadlines.wall_offset_ms)
        self.entries = [one._replace(time_ms=one.time_ms + shift_ms) for one in self.entries]
        self._drop(room_for_next=False)
        self.stored.write()

    @rule()
    def checkpoint(self) -> None:
        self.stored.checkpoint()

    @rule(value=VALUES, times=st.integers(1, 3))
    def compact(self, value: str | None, times: int) -> None:
        """What comes between the entries goes, so that these are moved together."""
        for _ in range(times):
            self.publish(value, 0, 1)
            for _ in range(2):
                self.clients[0].publish("other", bytes(1_000), delivery_mode=2)
                self.stored.write()

        self.world.queue("other").purge()
        self.stored.write()
        self.stored.checkpoint()
        self.stored.wait(0.5)
        self.stored.write()

    @invariant()
    def check_log(self) -> None:
        """Segments of the log know how much of them is of use, and nothing has failed."""
        live = 0 if not self.consumer_count and not self.entries else len(self.entries)
        assert sum(int(one.live) for one in self.stored.log.segments.values()) == live
        assert self.stored.failures == []


TestStreams = StreamMachine.TestCase
TestStreams.settings = settings(stateful_step_count=30, report_multiple_bugs=False)

TestStoredStreams = StoredStreamMachine.TestCase
TestStoredStreams.settings = settings(
    stateful_step_count=30, report_multiple_bugs=False, max_examples=40, deadline=None
)
