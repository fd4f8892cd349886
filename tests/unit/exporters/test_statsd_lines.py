"""StatsD is told differences of counters and values of gauges, in packets of bounded size."""

from __future__ import annotations

from broker.config.schema import StatsDConfig
from broker.exporters.statsd import StatsDLines, packets_of
from broker.metrics.snapshot import DiskReading, MachineReading, Rows, read_node, read_rows
from broker.metrics.unacked_bytes import UnackedBytes
from tests.helpers.session import Session, World, publish


class Scene:
    def __init__(self, config: StatsDConfig) -> None:
        self.world = World()
        self.client: Session = self.world.open(1)
        self.client.ask(1, "queue.declare", queue="a b|c")
        self._lines = StatsDLines(config)

    def _rows(self) -> Rows:
        return read_rows(self.world.node, UnackedBytes(self.world.node))

    def lines(self, *, has_rows: bool = False) -> list[str]:
        snapshot = read_node(self.world.node, MachineReading(memory_bytes=9), DiskReading())
        return self._lines.lines(snapshot, self._rows() if has_rows else None)


def test_counters_are_differences_and_gauges_are_values() -> None:
    scene = Scene(StatsDConfig(prefix="lev"))
    scene.client.feed(publish(1, "a b|c") * 3)
    first = scene.lines()
    assert "lev.global_messages_received:3|c" in first
    assert "lev.queue_messages_ready:3|g" in first
    assert "lev.process_resident_memory_bytes:9|g" in first
    scene.client.feed(publish(1, "a b|c"))
    second = scene.lines()
    assert "lev.global_messages_received:1|c" in second
    assert "lev.queue_messages_ready:4|g" in second
    assert not [line for line in scene.lines() if line.startswith("lev.global_messages_received:")]


def test_without_tags_names_hold_what_is_safe_in_them() -> None:
    scene = Scene(StatsDConfig(prefix=""))
    scene.client.feed(publish(1, "a b|c"))
    assert "queue_messages._.a_b_c:1|g" in scene.lines(has_rows=True)


def test_with_tags_names_are_tags() -> None:
    config = StatsDConfig(format="dogstatsd", tags_written=("env:prod",))
    scene = Scene(config)
    scene.client.feed(publish(1, "a b|c"))
    scene.client.send(1, "basic.get", queue="a b|c", no_ack=True)
    lines = scene.lines(has_rows=True)
    assert "leveret.queue_messages:0|g|#env:prod,vhost:/,queue:a_b_c" in lines
    name = "leveret.global_messages_delivered_get_auto_ack"
    assert f"{name}:1|c|#env:prod,queue_type:rabbit_classic_queue" in lines
    assert "leveret.connections:1|g|#env:prod" in lines


def test_lines_go_into_packets_that_a_frame_carries() -> None:
    lines = [f"name{number}:{number}|c" for number in range(1_000)]
    packets = list(packets_of(lines))
    assert all(len(packet) <= 1432 for packet in packets)
    assert b"\n".join(packets).decode().split("\n") == lines
    assert list(packets_of([])) == []
