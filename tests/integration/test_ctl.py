"""ctl against a broker with clients: lists, closing, messages, alarms, lifecycle, configuration."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from broker.embedded import Broker
from broker.local_socket import socket_in
from broker.upkeep.repair import repair_directory
from tests.helpers.ctl import Ctl
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")


class House:
    """A broker that keeps things, its ctl, and a client."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.ctl = Ctl("--data-dir", str(directory))

    def connect(self) -> Any:
        return pika.BlockingConnection(pika.URLParameters(self.broker.url))

    def rows(self, line: str) -> list[dict[str, Any]]:
        found = json.loads(self.ctl.does(f"{line} --formatter json"))
        assert isinstance(found, list)
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("ctl")
    config = {"storage": {"data_dir": str(directory)}, "management": {"enabled": True}}
    with Broker.in_thread(config, log_level="error") as broker:
        yield House(broker, directory)


@pytest.fixture
def house(running: House) -> Iterator[House]:
    """Empty at the beginning."""
    for row in running.rows("list_queues name"):
        running.ctl.does(f"delete_queue '{row['name']}'")

    yield running
    running.ctl.does("start_app")


@pytest.fixture
def client(house: House) -> Iterator[Any]:
    connection = house.connect()
    yield connection
    with contextlib.suppress(pika.exceptions.AMQPError):
        connection.close()


def publish(channel: Any, queue: str, count: int, **properties: Any) -> None:
    channel.queue_declare(queue, durable=True)
    for number in range(count):
        body = f"message {number}".encode()
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


# -- lists


def test_lists_show_what_clients_have(house: House, client: Any) -> None:
    channel = client.channel()
    arguments = {"x-max-length": 100, "x-dead-letter-exchange": "dlx"}
    channel.queue_declare("orders", durable=True, arguments=arguments)
    channel.queue_bind("orders", "amq.topic", "a.#", {"y": 1})
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="tag")
    channel.confirm_delivery()

    assert house.ctl.does(
        "list_queues name arguments messages consumers type state"
    ).splitlines() == [
        "name\targuments\tmessages\tconsumers\ttype\tstate",
        'orders\t[{"x-max-length",100},{"x-dead-letter-exchange","dlx"}]\t0\t1\tclassic\trunning',
    ]
    assert house.ctl.does("list_bindings -s").splitlines() == [
        "\texchange\torders\tqueue\torders\t[]",
        'amq.topic\texchange\torders\tqueue\ta.#\t[{"y",1}]',
    ]
    port = client._impl._transport._sock.getsockname()[1]
    assert house.ctl.does("list_connections -s user peer_host peer_port state").split("\t") == [
        "guest",
        "127.0.0.1",
        str(port),
        "running\n",
    ]
    [connection] = house.rows("list_connections pid name client_properties protocol ssl")
    assert connection["protocol"] == [0, 9, 1]
    assert connection["ssl"] is False
    assert ["product", "longstr", "Pika Python Client Library"] in connection["client_properties"]
    [found] = house.rows(
        "list_channels pid connection number confirm prefetch_count consumer_count"
    )
    assert found["connection"] == connection["pid"]
    assert (found["number"], found["confirm"], found["prefetch_count"]) == (1, True, 7)
    [consumer] = house.rows("list_consumers")
    assert consumer["channel_pid"] == found["pid"]
    assert consumer == {
        "queue_name": "orders",
        "channel_pid": found["pid"],
        "consumer_tag": "tag",
        "ack_required": True,
        "prefetch_count": 7,
        "active": True,
        "arguments": [],
    }


def test_every_column_of_every_list_can_be_shown(house: House, client: Any) -> None:
    from broker.cli.ctl.table import VERBS

    channel = client.channel()
    publish(channel, "orders", 2)
    channel.queue_declare("mine", exclusive=True)
    channel.basic_consume("mine", lambda *_: None)
    house.ctl.does("""set_policy --apply-to queues few ^orders '{"max-length": 10}'""")
    for name in (
        "list_queues",
        "list_exchanges",
        "list_bindings",
        "list_connections",
        "list_channels",
        "list_consumers",
        "list_vhosts",
    ):
        columns = VERBS[name].columns
        rows = house.rows(f"{name} {' '.join(columns)}")
        assert rows
        assert all(list(row) == list(columns) for row in rows)

    queues = {row["name"]: row for row in house.rows("list_queues name policy owner_pid messages")}
    [connection] = house.rows("list_connections pid")
    assert queues["orders"] == {"name": "orders", "policy": "few", "owner_pid": "", "messages": 2}
    assert queues["mine"]["owner_pid"] == connection["pid"]
    house.ctl.does("clear_policy few")


def test_names_of_any_kind_come_through(house: House, client: Any) -> None:
    name = 'a b\t"ü"/%\U0001f407'
    client.channel().queue_declare(name, durable=True)
    assert house.rows("list_queues name") == [{"name": name}]
    cells = list(csv.reader(io.StringIO(house.ctl.does("list_queues name --formatter csv"))))
    # Control characters are shown and not written, but for JSON, which writes them so anyway.
    assert cells == [["name"], [name.replace("\t", "\\t")]]
    assert house.ctl("-q", "purge_queue", name).status == 0
    assert house.ctl("-q", "delete_queue", name).status == 0
    assert house.rows("list_queues name") == []


def test_a_virtual_host_that_is_not_there_is_65_and_not_an_empty_list(house: House) -> None:
    for verb in ("list_queues", "list_exchanges", "list_bindings", "list_consumers"):
        outcome = house.ctl.line(f"-q {verb} -p nowhere")
        assert outcome == (65, "", "Error: Virtual host 'nowhere' does not exist\n")


# -- closing


def wait_for_end(connection: Any) -> None:
    while True:
        connection.process_data_events(time_limit=5)


def reason_of_end(connection: Any) -> str:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        wait_for_end(connection)

    assert caught.value.reply_code == 320
    return str(caught.value.reply_text)


@pytest.mark.parametrize("column", ["pid", "name"])
def test_a_connection_is_closed_by_what_the_list_tells(
    house: House, client: Any, column: str
) -> None:
    found = house.ctl.does(f"list_connections -s {column}").rstrip("\n")
    assert house.ctl("-q", "close_connection", found, "go away,\nplease \u270b").status == 0
    assert "go away, please \u270b" in reason_of_end(client)
    assert house.rows("list_connections") == []
    outcome = house.ctl("-q", "close_connection", found, "again")
    assert outcome.status == 69
    assert outcome.err.startswith(f"Error: there is no connection {found}")


def test_all_connections_are_closed_or_some(house: House) -> None:
    connections = [house.connect() for _ in range(3)]
    assert house.ctl.does("close_all_connections --limit 1 enough") == "Closed 1 connections\n"
    assert house.ctl.does("close_all_connections 'house rules'") == "Closed 2 connections\n"
    assert house.ctl.does("close_all_connections --global nobody") == "Closed 0 connections\n"
    texts = sorted(reason_of_end(connection) for connection in connections)
    assert sum("house rules" in text for text in texts) == 2


def test_the_connections_of_a_user_are_closed(house: House, client: Any) -> None:
    house.ctl.does("close_all_user_connections somebody else")
    assert client.is_open
    assert len(house.rows("list_connections")) == 1
    house.ctl.does("close_all_user_connections guest bye")
    assert "bye" in reason_of_end(client)


# -- queues and messages


def test_a_queue_is_deleted_on_conditions(house: House, client: Any) -> None:
    channel = client.channel()
    publish(channel, "orders", 3)
    outcome = house.ctl.line("-q delete_queue --if-empty orders")
    assert outcome == (64, "", "Error: Queue is not empty\n")
    tag = channel.basic_consume("orders", lambda *_: None)
    outcome = house.ctl.line("-q delete_queue --if-unused orders")
    assert outcome == (64, "", "Error: Queue is in use\n")
    channel.basic_cancel(tag)
    channel.basic_recover(requeue=True)
    assert house.ctl.does("list_queues -s messages_ready") == "3\n"
    deleted = "Queue was successfully deleted with 3 ready messages\n"
    assert house.ctl.does("delete_queue --if-unused orders") == deleted


def test_browsing_leaves_a_queue_as_it_is(house: House, client: Any) -> None:
    publish(client.channel(), "orders", 3, headers={"tenant": 42})
    publish(client.channel(), "orders", 1)
    assert house.ctl.does("browse orders --limit 2 --offset 1").splitlines() == [
        "offset\tstate\texchange\trouting_key\tpayload_bytes\tpayload",
        "1\tready\t\torders\t9\tmessage 1",
        "2\tready\t\torders\t9\tmessage 2",
    ]
    assert (
        house.ctl.does("browse -s orders payload --header tenant=42 --truncate 3").split()
        == ["mes"] * 3
    )
    [row] = house.rows("browse orders offset properties redelivered --limit 1")
    assert row == {"offset": 0, "properties": {"headers": {"tenant": 42}}, "redelivered": False}
    assert house.ctl.does("list_queues -s messages_ready") == "4\n"


def test_messages_move_with_a_filter_and_come_back(house: House, client: Any) -> None:
    channel = client.channel()
    publish(channel, "orders", 2, headers={"tenant": "a"})
    publish(channel, "orders", 3, headers={"tenant": "b"})
    channel.queue_declare("other", durable=True)
    moved = "Moved 3 messages, 2 were not meant\n"
    assert house.ctl.does("move orders other --header tenant=b") == moved
    assert house.ctl.does("list_queues -s name messages").splitlines() == ["orders\t2", "other\t3"]
    moved = "Moved 1 messages\n"
    assert (
        house.ctl.does("move other --exchange amq.default --routing-key orders --limit 1") == moved
    )
    rows = house.rows("list_moves source destination state total moved")
    assert rows[-2] == {
        "source": "orders",
        "destination": "other",
        "state": "done",
        "total": 5,
        "moved": 3,
    }
    outcome = house.ctl.line("-q cancel_move 999999")
    assert outcome == (69, "", "Error: there is no move 999999: see list_moves\n")


def test_who_interrupts_a_move_ends_it(
    house: House, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatience:
        @staticmethod
        def sleep(_seconds: float) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("broker.cli.ctl.messages.time", Impatience)
    channel = client.channel()
    publish(channel, "orders", 50)
    channel.queue_declare("other", durable=True)
    assert house.ctl.line("-q move orders other --rate 1").status == 1
    row = house.rows("list_moves destination state moved")[-1]
    assert (row["destination"], row["state"]) == ("other", "cancelled")
    assert row["moved"] < 50


def test_dead_letters_are_redriven(house: House, client: Any) -> None:
    channel = client.channel()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=arguments)
    channel.queue_declare("dead", durable=True)
    channel.basic_publish("", "work", b"x")
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    while channel.queue_declare("dead", passive=True).method.message_count == 0:
        pass

    assert house.ctl.does("redrive dead") == "Moved 1 messages\n"
    assert house.ctl.does("list_queues -s name messages").splitlines() == ["dead\t0", "work\t1"]


def test_messages_are_exported_and_imported(house: House, client: Any, tmp_path: Path) -> None:
    channel = client.channel()
    publish(channel, "orders", 600, headers={"n": 1}, delivery_mode=2, content_type="text/plain")
    channel.basic_publish("", "orders", b"\xff\0")
    path = tmp_path / "orders.jsonl"
    assert house.ctl.does(f"export_messages orders {path}") == "Exported 601 messages\n"
    lines = path.read_text().splitlines()
    assert len(lines) == 601
    assert json.loads(lines[0])["message"]["properties"]["headers"] == {"n": 1}
    assert house.ctl.does("export_messages orders --limit 1").splitlines() == lines[:1]

    house.ctl.does("purge_queue orders")
    assert house.ctl.does(f"import_messages {path}") == "Imported 601 messages\n"
    method, properties, body = channel.basic_get("orders")
    assert (body, properties.headers, properties.delivery_mode) == (b"message 0", {"n": 1}, 2)
    channel.basic_nack(method.delivery_tag)
    channel.queue_declare("copy", durable=True)
    imported = house.ctl.does("import_messages --queue copy", "\n".join(lines[-1:]))
    assert imported == "Imported 1 messages\n"
    assert channel.basic_get("copy", auto_ack=True)[2] == b"\xff\0"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("nonsense", "it is no JSON"),
        ("[]", 'it is no {"message": {...}}'),
        ('{"message":{"body":"x"}}', "it names no queue: say which with --queue"),
        (
            '{"message":{"queue":"gone","body":"x"}}',
            "Queue not found: no queue 'gone' in vhost '/'",
        ),
        ('{"message":{"queue":"orders","body_base64":"?"}}', "body_base64 is no base64"),
        (
            '{"message":{"queue":"orders","body":"","properties":{"priority":"x"}}}',
            "not_int: priority",
        ),
    ],
)
def test_a_line_that_cannot_be_imported_is_named(
    house: House, client: Any, line: str, text: str
) -> None:
    publish(client.channel(), "orders", 0)
    good = '{"message":{"queue":"orders","body":"x"}}'
    outcome = house.ctl.line("import_messages", f"{good}\n{line}\n")
    assert (outcome.status, outcome.out) == (65, "")
    assert outcome.err == (
        f"Error: line 2: {text} - the lines before it are in, go on with `tail -n +2`\n"
    )
    assert house.ctl.does("list_queues -s messages") == "1\n"


# -- definitions


def test_definitions_go_out_and_come_in(house: House, client: Any, tmp_path: Path) -> None:
    publish(client.channel(), "orders", 0)
    path = tmp_path / "definitions.json"
    assert house.ctl.does(f"export_definitions {path}") == ""
    document = json.loads(path.read_text())
    assert [queue["name"] for queue in document["queues"]] == ["orders"]
    assert json.loads(house.ctl.does("export_definitions -")) == document
    assert "users" not in json.loads(house.ctl.does("export_definitions --only-vhost / -"))

    house.ctl.does("delete_queue orders")
    assert house.ctl.does(f"import_definitions {path}") == ""
    assert house.ctl.does("list_queues -s name") == "orders\n"
    assert house.ctl.does("import_definitions --format json", path.read_bytes()) == ""
    outcome = house.ctl.line("-q import_definitions", "{")
    assert outcome == (65, "", "Error: failed_to_parse_json\n")
    messages = '{"message":{"queue":"orders","body":"x"}}\n'
    for count in (1, 2):
        outcome = house.ctl.line("-q import_definitions", messages * count)
        assert (outcome.status, "import_messages takes it" in outcome.err) == (65, True)


def test_an_export_tells_whom_rabbitmq_would_not_let_in(house: House, tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    names = [f"slow-{number}" for number in range(7)]
    for name in names:
        house.ctl.does(f"add_user {name} secret")

    outcome = house.ctl.line(f"export_definitions {path}")
    assert outcome.status == 0
    assert outcome.err.startswith(
        f"Warning: RabbitMQ would import {', '.join(names[:5])} and 2 more without a password: "
    )
    assert house.ctl.does(f"export_definitions {path}") == "", "and -q says nothing"
    for name in names:
        house.ctl.does(f"delete_user {name}")

    assert house.ctl.line(f"export_definitions {path}").err == ""
    assert house.ctl.line("import_definitions --formatter erlang").status == 65


# -- users


def test_a_password_comes_from_standard_input_or_as_a_hash(house: House) -> None:
    house.ctl.does("add_user reader", "secret\n")
    assert house.ctl.does("authenticate_user reader", "secret\n") == "Success\n"
    hashed = house.ctl.does("hash_password", "other\n").strip()
    house.ctl("-q", "add_user", "--pre-hashed-password", "second", hashed)
    assert house.ctl.does("authenticate_user second other") == "Success\n"
    assert house.ctl.line("-q authenticate_user second wrong").status == 65
    house.ctl.does("set_user_tags second administrator")
    assert house.ctl.does("authenticate_user second other") == "Success\n"
    outcome = house.ctl.line("-q change_password second", "\n")
    assert outcome.status == 65
    assert outcome.err.startswith("Error: a blank password can never log in")
    for name in ("reader", "second"):
        house.ctl.does(f"delete_user {name}")


def test_over_http_ctl_is_who_it_says(house: House) -> None:
    house.ctl.does("add_user watcher secret")
    house.ctl.does("set_user_tags watcher monitoring")
    url = house.broker.management_url
    by_http = Ctl("--url", url, "--user", "watcher", "--password", "secret")
    assert by_http.does("ping") == "Ping succeeded\n"
    outcome = by_http.line("-q list_users")
    assert outcome.status == 69
    assert outcome.err == (
        f"Error: {url} refuses user 'watcher' (Not administrator user): give another with --user"
        " and --password\n"
    )
    wrong = Ctl("--url", url, environ={"LEVERET_CTL_PASSWORD": "wrong"}).line("-q status")
    assert (wrong.status, "refuses user 'guest' (" in wrong.err) == (69, True)
    assert "guest" in Ctl("--url", url).does("list_users")
    house.ctl.does("delete_user watcher")


def test_over_the_socket_ctl_may_be_somebody_too(house: House) -> None:
    directory = str(house.directory)
    somebody = Ctl("--data-dir", directory, "--user", "guest", "--password", "wrong")
    assert somebody.line("-q list_users").status == 69


# -- how it is, and what is set


def test_status_tells_what_there_is(house: House, client: Any) -> None:
    facts = json.loads(house.ctl.does("status --formatter json"))
    assert facts["pid"] == os.getpid()
    assert facts["data_directory"] == str(house.directory)
    assert facts["totals"] == {"connection_count": 1, "queue_count": 0, "virtual_host_count": 1}
    assert facts["listeners"][0]["port"] == house.broker.port
    text = house.ctl.does("status")
    assert f"OS PID: {os.getpid()}\n" in text
    assert f"Interface: 127.0.0.1, port: {house.broker.port}, protocol: amqp" in text
    assert f"Product: {facts['product_name']} {facts['product_version']}\n" in text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ping", "Ping succeeded"),
        ("cluster_status", "Cluster name: "),
        ("server_version", "."),
        ("memory_breakdown", " gb (100.0%)"),
        ("listeners", "purpose: AMQP 0-9-1"),
        ("alarms", "reported no alarms"),
        ("check_alarms", "reported no alarms"),
        ("check_local_alarms", "reported no alarms"),
        ("check_running", "is fully booted and running"),
        ("check_virtual_hosts", "reported all vhosts as running"),
        ("check_protocol_listener amqp", "A listener for protocol amqp is running"),
        ("check_port_connectivity", "Successfully connected to ports"),
        ("check_certificate_expiration", "No certificates are expiring within 4 weeks"),
        ("check_if_node_is_quorum_critical", "the check does not apply"),
        ("is_running", "is fully booted and running"),
        ("is_booting", "is fully booted"),
        ("node_health_check", "Health check passed"),
        ("environment", "alarms.memory.in_effect: false"),
        ("list_node_auth_attempt_stats", "protocol\tauth_attempts"),
        ("list_feature_flags", ""),
        ("list_deprecated_features --used", ""),
        ("check_if_any_deprecated_features_are_used", ""),
        ("reset_stats_db --all", ""),
        ("list_unresponsive_queues", ""),
        ("report", "Listing queues for vhost / ..."),
        ("enable_feature_flag all", ""),
        ("force_gc", ""),
        ("rotate_logs", ""),
        ("set_cluster_name house", ""),
        ("await_startup", ""),
        ("await_online_nodes 1", ""),
        ("restart_vhost", "Successfully restarted vhost '/'"),
        ("set_log_level error", ""),
        ("has_reached_target_cluster_size", "Target cluster size has been reached on node"),
        ("check_if_metadata_store_is_initialized_with_data", "has completed its initialization"),
        ("check_if_new_quorum_queue_replicas_have_finished_initial_sync", "reported no queues"),
        ("check_for_quorum_queues_without_an_elected_leader '^q'", "no quorum queues without"),
        ("check_for_quorum_queues_without_an_elected_leader --across-all-vhosts x", "no quorum"),
        ("reconcile_vhosts", ""),
        ("remove_classic_queue_mirroring_from_policies", ""),
        ("list_channel_interceptors", ""),
        ("rebalance all", ""),
        ("erlang_version", "Python"),
        ("log_location", ""),
        ("certificates", ""),
    ],
)
def test_all_is_well(house: House, line: str, text: str) -> None:
    assert text in house.ctl.does(line)


def test_a_port_that_nothing_listens_on_is_69(house: House) -> None:
    port = house.broker.port
    assert "is running on node" in house.ctl.does(f"check_port_listener {port}")
    outcome = house.ctl.line("-q check_port_listener 1")
    assert outcome.status == 69
    assert outcome.err.startswith("Error: No listener for port 1 is active on node leveret@")
    assert str(port) in outcome.err.partition(" ports: ")[2].rstrip("\n").split(", ")
    assert house.ctl.line("-q check_protocol_listener mqtt").status == 69


def test_alarms_are_raised_by_limits_and_by_hand(house: House) -> None:
    for line, resource in (
        ("set_vm_memory_high_watermark 0.000000001", "memory"),
        ("set_vm_memory_high_watermark absolute 1k", "memory"),
        ("set_disk_free_limit 100TB", "disk"),
        ("set_disk_free_limit mem_relative 1000", "disk"),
        ("raise_alarm memory", "memory"),
        ("raise_alarm disk", "disk"),
    ):
        house.ctl.does(line)
        outcome = house.ctl.line("-q check_alarms")
        assert outcome.status == 69
        assert f"reported alarms: {resource} - publishers are held back" in outcome.err
        facts = json.loads(house.ctl.does("alarms --formatter json"))
        assert facts["alarms"] == [resource]
        house.ctl.does("set_vm_memory_high_watermark 0.9")
        house.ctl.does("set_disk_free_limit 1MB")
        house.ctl.does("clear_alarm memory")
        house.ctl.does("clear_alarm disk")
        assert "reported no alarms" in house.ctl.does("check_alarms")


def test_free_disk_space_is_watched_or_not(house: House) -> None:
    def limit() -> object:
        facts = json.loads(house.ctl.does("environment --formatter json"))
        return facts["alarms"]["disk"]["limit"]

    house.ctl.does("set_disk_free_limit 100TB")
    assert house.ctl.line("check_alarms").status == 69
    house.ctl.does("deactivate_free_disk_space_monitoring")
    assert "reported no alarms" in house.ctl.does("check_alarms")
    assert limit() is None
    house.ctl.does("activate_free_disk_space_monitoring")
    assert limit() == 50_000_000


def test_a_message_is_looked_at_by_its_position(house: House, client: Any) -> None:
    publish(client.channel(), "q", 2)
    assert "payload: message 1\n" in house.ctl.does("peek q 2")
    assert json.loads(house.ctl.does("peek q 1 --formatter json"))["payload"] == "message 0"
    assert house.ctl.line("peek q 3").status == 65
    assert house.ctl.line("peek q zero").status == 64
    assert house.ctl.line("peek nowhere 1").status == 69
    assert client.channel().queue_declare("q", passive=True).method.message_count == 2


def test_the_replica_of_a_quorum_queue_is_told(house: House, client: Any) -> None:
    client.channel().queue_declare("qq", durable=True, arguments={"x-queue-type": "quorum"})
    [row] = house.rows("quorum_status qq")
    assert row["Raft State"] == "leader"
    assert house.ctl.line("quorum_status nowhere").status == 69


def test_ctl_changes_no_protected_user_but_may_end_the_protection(house: House) -> None:
    house.ctl.does("add_user root secret")
    house.ctl.does("set_permissions root a b c")
    house.ctl.does("set_user_tags root administrator protected")
    for line in (
        "change_password root other",
        "clear_password root",
        "delete_user root",
        "set_permissions root x y z",
        "clear_permissions root",
        "set_user_limits root '{\"max-connections\":0}'",
        "set_user_tags root monitoring protected",
        "set_user_tags root monitoring",
        "set_user_tags root",
    ):
        outcome = house.ctl.line(f"-q {line}")
        assert outcome == (69, "", "Error: user 'root' is protected from changes\n"), line

    outcome = house.ctl.line("-q force_reset")
    assert (outcome.status, "user 'root' is protected" in outcome.err) == (70, True)
    house.ctl.does("set_user_tags root administrator")
    house.ctl.does("enable_vhost_deletion_protection /")
    outcome = house.ctl.line("-q force_reset")
    assert (outcome.status, "vhost '/' is protected" in outcome.err) == (70, True)
    house.ctl.does("disable_vhost_deletion_protection /")
    house.ctl.does("force_reset")
    assert house.ctl.does("list_users -s") == "guest\t[administrator]\n"


def test_virtual_hosts_are_described_and_protected(house: House) -> None:
    house.ctl.does("add_vhost --description shop --tags a,b --default-queue-type quorum shop")
    columns = "name description tags default_queue_type protected_from_deletion tracing"
    wanted = "shop\tshop\t[a, b]\tquorum\t{}\t{}"
    assert wanted.format("false", "false") in house.ctl.does(f"list_vhosts {columns}")
    house.ctl.does("enable_vhost_deletion_protection shop")
    assert house.ctl.does("trace_on -p shop") == "Trace enabled for vhost shop\n"
    assert wanted.format("true", "true") in house.ctl.does(f"list_vhosts {columns}")
    outcome = house.ctl.line("-q delete_vhost shop")
    assert (outcome.status, "protected from deletion" in outcome.err) == (69, True)
    house.ctl.does("disable_vhost_deletion_protection shop")
    house.ctl.does("update_vhost_metadata shop --description 'a shop'")
    house.ctl.does("set_vhost_tags shop c")
    assert "shop\ta shop\t[c]\tquorum\tfalse\ttrue" in house.ctl.does(f"list_vhosts {columns}")
    house.ctl.does("set_permissions_globally guest a b c")
    assert house.rows("list_permissions -p shop")[0]["configure"] == "a"
    house.ctl.does("set_permissions_globally guest '.*' '.*' '.*'")
    house.ctl.does("delete_vhost shop")


# -- the lifecycle


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that block cannot answer the close: do not wait long for them."""
    monkeypatch.setattr("broker.net.gate.CLOSE_WAIT_S", 0.05)


@pytest.mark.usefixtures("_hasty")
def test_the_application_stops_and_starts_and_the_process_goes_on(
    house: House, client: Any
) -> None:
    publish(client.channel(), "orders", 3, delivery_mode=2)
    house.ctl.does("stop_app")
    assert "shutdown" in reason_of_end(client)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        house.connect()

    assert "Application: stopped\n" in house.ctl.does("status")
    assert house.ctl.line("-q check_running").status == 69
    assert house.ctl.line("-q await_startup -t 0.01").status == 75
    assert house.ctl.does("list_queues -s messages") == "3\n"
    house.ctl.does("stop_app")
    house.ctl.does("resume_listeners")
    assert house.ctl.line("-q check_running").status == 69

    house.ctl.does("start_app")
    house.ctl.does("await_startup")
    house.connect().close()
    assert "Application: running\n" in house.ctl.does("status")


def test_listeners_are_suspended_and_those_who_are_in_stay(house: House, client: Any) -> None:
    house.ctl.does("suspend_listeners")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        house.connect()

    client.channel().queue_declare("orders", durable=True)
    house.ctl.does("resume_listeners")
    house.connect().close()


def test_a_port_that_was_taken_meanwhile_is_told(house: House) -> None:
    house.ctl.does("stop_app")
    with socket.create_server(("127.0.0.1", house.broker.port)):
        outcome = house.ctl.line("-q start_app")
        assert outcome.status == 69
        assert "the port is taken by another process" in outcome.err

    house.ctl.does("start_app")
    house.connect().close()


def test_an_embedded_broker_is_not_stopped_from_outside(house: House) -> None:
    outcome = house.ctl.line("-q stop")
    assert outcome == (
        69,
        "",
        "Error: the broker is part of a program, which stops it\n",
    )


@pytest.mark.usefixtures("_hasty")
def test_a_reset_leaves_what_there_is_on_the_first_day(house: House, client: Any) -> None:
    client.channel().queue_declare("orders", durable=True)
    house.ctl.does("add_vhost shop")
    house.ctl.does("add_user somebody secret")
    house.ctl.does("set_global_parameter g 1")
    outcome = house.ctl.line("-q reset")
    assert outcome.status == 70
    assert "stop it first" in outcome.err
    house.ctl.does("stop_app")
    house.ctl.does("reset")
    house.ctl.does("start_app")
    assert house.ctl.does("list_vhosts -s") == "/\n"
    assert house.ctl.does("list_users -s") == "guest\t[administrator]\n"
    assert house.ctl.does("list_queues -s") == ""
    assert house.ctl.does("list_global_parameters -s") == "\n"
    house.connect().close()


# -- the configuration

FILE = """\
version: 1
users:
  - {name: guest, password: guest, tags: [administrator]}
vhosts:
  /: {permissions: {guest: {configure: '.*', write: '.*', read: '.*'}}, queues: QUEUES}
"""


def test_a_reload_shows_the_plan_and_takes_it_on_or_not(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    path = tmp_path / "leveret.yaml"
    text = FILE.replace("QUEUES", "{one: {}, two: {}}")
    path.write_text(f"{text}storage: {{data_dir: {directory}}}\n")
    with Broker.in_thread(str(path), log_level="error"):
        ctl = Ctl("--data-dir", str(directory))
        changed = text.replace("{one: {}, two: {}}", "{two: {}, three: {}}")
        path.write_text(f"{changed}storage: {{data_dir: {directory}}}\n")
        dry = ctl.does("reload --dry-run").splitlines()
        assert "add: vhosts./.queues.three" in "\n".join(dry)
        assert dry[-1] == "nothing is changed: --dry-run"
        assert ctl.does("list_queues -s name").split() == ["one", "two"]
        assert ctl.does("reload").splitlines()[-1] == "the configuration is in force"
        assert ctl.does("list_queues -s name").split() == ["one", "three", "two"]

        path.write_text(f"{text}nonsense: 1\n")
        outcome = ctl.line("-q reload")
        assert outcome.status == 78
        assert f"Error: the configuration is refused, nothing is changed:\n{path}:" in outcome.err


def test_without_a_file_there_is_nothing_to_reload(house: House) -> None:
    outcome = house.ctl.line("-q reload")
    assert outcome.status == 78
    assert outcome.err == "Error: the broker was started without a configuration file\n"


# -- the socket


def test_the_socket_is_there_as_long_as_the_broker_is(tmp_path: Path) -> None:
    """Also where there is no HTTP API, and over the remains of a broker that was killed."""
    path = socket_in(str(tmp_path))
    for _ in range(2):
        with Broker.in_thread(
            {"storage": {"data_dir": str(tmp_path)}}, log_level="error"
        ) as broker:
            assert broker.management_url == ""
            assert Ctl("--data-dir", str(tmp_path)).does("ping") == "Ping succeeded\n"

        assert not os.path.exists(path)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)

    os.unlink(path)


def test_a_repair_does_without_the_socket_of_a_broker_that_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with Broker.in_thread({"storage": {"data_dir": str(directory)}}, log_level="error"):
        pass

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(socket_in(str(directory)))

    (directory / "node.json").write_text("{")
    assert repair_directory(str(directory)).after.is_sound


def test_a_broker_that_keeps_nothing_has_no_socket_and_http() -> None:
    with Broker.in_thread({"management": {"enabled": True}}, log_level="error") as broker:
        assert Ctl("--url", broker.management_url).does("list_users -s") == (
            "guest\t[administrator]\n"
        )
