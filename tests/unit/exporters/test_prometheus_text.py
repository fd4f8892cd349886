"""What Prometheus is told has RabbitMQ's names, labels and bounds, to the letter."""

from __future__ import annotations

import re
from typing import Final

import pytest

from broker.exporters.families import FAMILIES
from broker.exporters.prometheus import render_detailed, render_node, render_per_object
from broker.metrics.snapshot import (
    DatagramReading,
    DiskReading,
    MachineReading,
    Rows,
    Snapshot,
    read_node,
    read_rows,
)
from broker.metrics.unacked_bytes import UnackedBytes
from tests.helpers.session import World, publish

MACHINE: Final = MachineReading(1, 2, 3, 4, 5, 6)

OVERVIEW_DASHBOARD: Final = frozenset(
    """
rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked rabbitmq_global_publishers
rabbitmq_global_consumers rabbitmq_connections rabbitmq_channels rabbitmq_queues
rabbitmq_erlang_uptime_seconds rabbitmq_resident_memory_limit_bytes
rabbitmq_process_resident_memory_bytes rabbitmq_disk_space_available_bytes
rabbitmq_disk_space_available_limit_bytes rabbitmq_process_max_fds rabbitmq_process_open_fds
rabbitmq_global_messages_received_total rabbitmq_global_messages_received_confirm_total
rabbitmq_global_messages_routed_total rabbitmq_global_messages_confirmed_total
rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total
rabbitmq_global_messages_delivered_total rabbitmq_global_messages_delivered_consume_auto_ack_total
rabbitmq_global_messages_delivered_consume_manual_ack_total
rabbitmq_global_messages_delivered_get_auto_ack_total
rabbitmq_global_messages_delivered_get_manual_ack_total rabbitmq_global_messages_get_empty_total
rabbitmq_global_messages_redelivered_total rabbitmq_global_messages_acknowledged_total
rabbitmq_connections_opened_total rabbitmq_connections_closed_total rabbitmq_channels_opened_total
rabbitmq_channels_closed_total rabbitmq_queues_declared_total rabbitmq_queues_created_total
rabbitmq_queues_deleted_total rabbitmq_message_size_bytes_bucket rabbitmq_message_size_bytes_sum
rabbitmq_message_size_bytes_count rabbitmq_identity_info rabbitmq_build_info
""".split()  # noqa: SIM905 - a list of forty lines says no more
)
"""Every metric that RabbitMQ's Overview dashboard asks for."""

LINE: Final = re.compile(r'([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+\})? (\S+)\Z')


def series(text: bytes) -> dict[str, float]:
    """Every series of a text, by name and labels; the text must be well formed."""
    found: dict[str, float] = {}
    types: dict[str, str] = {}
    for line in text.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} twice"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = LINE.match(line)
            assert match is not None, line
            family = re.sub("_(bucket|sum|count)$", "", match[1])
            assert match[1] in types or types.get(family) == "histogram", line
            assert types.get(match[1]) != "counter" or match[1].endswith("_total")
            key = match[1] + (match[2] or "")
            assert key not in found, f"{key} twice"
            found[key] = float(match[3])

    return found


@pytest.fixture
def world() -> World:
    world = World()
    client = world.open(1)
    client.ask(1, "queue.declare", queue='a"b\\c')
    client.ask(1, "confirm.select")
    client.feed(publish(1, 'a"b\\c', bytes(50)) + publish(1, "nowhere", bytes(5_000)))
    client.send(1, "basic.get", queue='a"b\\c', no_ack=True)
    client.send(1, "basic.get", queue='a"b\\c')
    return world


def taken(world: World) -> Snapshot:
    return read_node(world.node, MACHINE, DiskReading())


def rows_of(world: World, vhost_names: frozenset[str] | None = None) -> Rows:
    unacked = UnackedBytes(world.node)
    assert list(unacked.steps(0)) == []
    return read_rows(world.node, unacked, vhost_names)


def test_the_overview_dashboard_finds_everything(world: World) -> None:
    names = {key.partition("{")[0] for key in series(render_node(taken(world)))}
    assert OVERVIEW_DASHBOARD - names == set()


def test_everything_is_there_before_anything_has_happened() -> None:
    names = {key.partition("{")[0] for key in series(render_node(taken(World())))}
    assert OVERVIEW_DASHBOARD - names == set()


def test_counts_are_told_with_the_labels_that_panels_join_on(world: World) -> None:
    found = series(render_node(taken(world)))
    protocol = '{protocol="amqp091"}'
    assert found["rabbitmq_global_messages_received_total" + protocol] == 2
    assert found["rabbitmq_global_messages_received_confirm_total" + protocol] == 2
    assert found["rabbitmq_global_messages_confirmed_total" + protocol] == 2
    assert found["rabbitmq_global_messages_routed_total" + protocol] == 1
    assert found["rabbitmq_global_messages_unroutable_dropped_total" + protocol] == 1
    assert found['leveret_messages_received_total{persistent="true"}'] == 0
    assert found['leveret_messages_received_total{persistent="false"}'] == 2
    kind = '{protocol="amqp091",queue_type="rabbit_classic_queue"}'
    assert found["rabbitmq_global_messages_delivered_get_auto_ack_total" + kind] == 1
    assert found["rabbitmq_global_messages_delivered_total" + kind] == 1
    assert found["rabbitmq_global_messages_get_empty_total" + kind] == 1
    identity = next(key for key in found if key.startswith("rabbitmq_identity_info"))
    assert 'rabbitmq_node="leveret@localhost"' in identity
    assert 'rabbitmq_endpoint="aggregated"' in identity


def test_bounds_of_sizes_are_written_as_panels_ask_for_them(world: World) -> None:
    found = series(render_node(taken(world)))
    buckets = {
        key.partition('le="')[2].partition('"')[0]: value
        for key, value in found.items()
        if key.startswith("rabbitmq_message_size_bytes_bucket")
    }
    assert buckets == {
        "100.0": 1,
        "1000.0": 1,
        "10000.0": 2,
        "100000.0": 2,
        "1e+06": 2,
        "1e+07": 2,
        "5e+07": 2,
        "1e+08": 2,
        "+Inf": 2,
    }
    assert found['rabbitmq_message_size_bytes_sum{protocol="amqp091"}'] == 5_050


def test_what_is_unknown_of_the_machine_is_left_out(world: World) -> None:
    snapshot = taken(world)._replace(machine=MachineReading(memory_bytes=7))
    found = series(render_node(snapshot))
    assert found["rabbitmq_process_resident_memory_bytes"] == 7
    assert "rabbitmq_process_max_fds" not in found


def test_sizes_of_bodies_are_told_of_what_is_ready_and_of_what_is_unacked() -> None:
    world = World()
    client = world.open(1)
    client.ask(1, "queue.declare", queue="q")
    client.feed(publish(1, "q", bytes(50)) + publish(1, "q", bytes(7)))
    client.send(1, "basic.get", queue="q")
    labels = '{vhost="/",queue="q"}'
    found = series(render_per_object(taken(world), rows_of(world)))
    assert found["rabbitmq_queue_messages_unacked_bytes" + labels] == 50
    assert found["rabbitmq_queue_messages_ready_bytes" + labels] == 7
    assert found["rabbitmq_queue_messages_bytes" + labels] == 57
    whole = series(render_node(taken(world)._replace(unacked_bytes=50)))
    assert whole["rabbitmq_queue_messages_unacked_bytes"] == 50
    assert whole["rabbitmq_queue_messages_ready_bytes"] == 7
    assert whole["rabbitmq_queue_messages_bytes"] == 57


def test_names_are_escaped(world: World) -> None:
    found = series(render_per_object(taken(world), rows_of(world)))
    assert found[r'rabbitmq_queue_messages{vhost="/",queue="a\"b\\c"}'] == 0


def test_names_that_are_not_utf_8_do_no_harm(world: World) -> None:
    rows = rows_of(world)
    named = rows._replace(queues=[row._replace(name="\udcff\n") for row in rows.queues])
    found = series(render_per_object(taken(world), named))
    assert r'rabbitmq_queue_messages{vhost="/",queue="?\n"}' in found


def test_per_object_tells_each_thing_apart_and_the_rest_as_before(world: World) -> None:
    rows = rows_of(world)
    whole = series(render_node(taken(world)))
    found = series(render_per_object(taken(world), rows))
    assert "rabbitmq_queue_messages" in whole
    assert "rabbitmq_queue_messages" not in found
    assert found["rabbitmq_connections"] == 1
    channel = '{vhost="/",channel="127.0.0.1:40000 -> 127.0.0.1:5672 (1)"}'
    assert found["rabbitmq_channel_messages_published_total" + channel] == 2
    assert found["rabbitmq_channel_get_empty_total" + channel] == 1


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_family_can_be_asked_for_alone(world: World, family: str) -> None:
    found = series(render_detailed(taken(world), rows_of(world), frozenset({family})))
    told = [key for key in found if not key.startswith(("rabbitmq_identity", "rabbitmq_build"))]
    assert told
    prefixes = ("rabbitmq_detailed_", "rabbitmq_cluster_", "leveret_")
    assert all(key.startswith(prefixes) for key in told)


def test_a_part_is_not_told_twice_when_the_whole_is_asked_for(world: World) -> None:
    wanted = frozenset({"queue_metrics", "queue_consumer_count"})
    found = series(render_detailed(taken(world), rows_of(world), wanted))
    assert sum(key.startswith("rabbitmq_detailed_queue_consumers") for key in found) == 1


def test_only_the_virtual_hosts_that_are_wanted_are_read(world: World) -> None:
    world.node.add_vhost("other")
    rows = rows_of(world, frozenset({"other"}))
    assert [row.name for row in rows.vhosts] == ["other"]
    assert (rows.queues, rows.connections, rows.channels) == ([], [], [])


def test_alarms_are_told(world: World) -> None:
    world.node.set_alarm("memory", True)
    world.node.set_alarm("descriptors", True, is_quiet=True)
    found = series(render_node(taken(world)))
    assert found["rabbitmq_alarms_memory_used_watermark"] == 1
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == 0
    assert found["rabbitmq_alarms_file_descriptor_limit"] == 1
    assert found["leveret_consumer_timeout_seconds"] == 1800


def test_syncs_and_datagrams_have_names_of_our_own(world: World) -> None:
    disk = DiskReading(sync_count=3, sync_s=0.5, sync_classes=(2, 1), sync_bounds_s=(0.01,))
    reading = DatagramReading("127.0.0.1:5140", 5, 3, (("rate", 2), ("size", 0)))
    found = series(render_node(taken(world)._replace(disk=disk, datagrams=(reading,))))
    assert found['leveret_log_sync_seconds_bucket{le="0.01"}'] == 2
    assert found['leveret_log_sync_seconds_bucket{le="+Inf"}'] == 3
    assert found["rabbitmq_io_sync_ops_total"] == 3
    key = 'leveret_datagrams_dropped_total{listener="127.0.0.1:5140",reason="rate"}'
    assert found[key] == 2
