"""``leveret serve`` as a process of its own: signals, exit statuses, logs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEVERET = (sys.executable, "-m", "broker")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

Record = dict[str, Any]


@pytest.fixture(autouse=True)
def own_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all brokers of a test, and not the one of whoever runs the tests."""
    monkeypatch.setenv("LEVERET_DATA_DIR", str(tmp_path / "data"))


class Server:
    """A running broker and what it has logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self._stderr: IO[str] = process.stderr
        self.records: list[Record] = []

    def wait_for(self, event: str) -> Record:
        """Read the log up to an event."""
        for line in self._stderr:
            self.records.append(json.loads(line))
            if self.records[-1]["event"] == event:
                return self.records[-1]

        raise AssertionError(f"no {event} in {self.records}")

    def stop(self, *signals: int) -> int:
        """Send signals; the exit status."""
        for number in signals:
            self.process.send_signal(number)

        self.records += map(json.loads, self._stderr)
        return self.process.wait(timeout=10)

    @property
    def port(self) -> int:
        started = next(one for one in self.records if "listening" in one)
        return int(started["listening"].split()[0].rpartition(":")[2])

    def connect(self, **settings: Any) -> Any:
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, **settings)
        return pika.BlockingConnection(parameters)


@contextmanager
def serving(*arguments: str) -> Iterator[Server]:
    command = [*LEVERET, "serve", "--log-format", "json", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        server = Server(process)
        try:
            server.wait_for("server.started")
            yield server
        finally:
            process.kill()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LEVERET, *arguments], capture_output=True, text=True, timeout=15)


def wait_for_end(connection: Any) -> None:
    while True:
        connection.process_data_events(time_limit=5)


def test_the_first_line_says_what_runs_where() -> None:
    with serving("--host", "127.0.0.1", "--port", "0") as server:
        started = server.records[0]
        assert started["level"] == "info"
        assert started["build"] in {"compiled", "plain"}
        assert started["listening"] == f"127.0.0.1:{server.port}"
        assert started["pid"] == server.process.pid
        assert started["data_dir"] == os.environ["LEVERET_DATA_DIR"]
        assert started["sync"] == "group"


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
    ids=["SIGTERM", "SIGINT", "SIGHUP without a file"],
)
def test_a_signal_stops_it_with_0(number: int) -> None:
    with serving("--port", "0") as server:
        assert server.stop(number) == 0
        assert [record["event"] for record in server.records][-2:] == [
            "server.stopping",
            "server.stopped",
        ]


def test_a_hangup_has_the_file_read_again_and_the_log_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    text = "version: 1\nlisteners: {amqp: [{bind: 127.0.0.1, port: 0}]}\n"
    path.write_text(text)
    with serving(str(path)) as server:
        path.write_text(text + "heartbeat: 5s\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("config.reloaded")
        changed = next(one for one in server.records if one["event"] == "config.changed")
        assert (changed["key"], changed["what"]) == ("heartbeat", "60 -> 5")
        path.write_text(text + "hartbeat: 6s\n")
        server.process.send_signal(signal.SIGHUP)
        refused = server.wait_for("config.refused")
        assert "did you mean 'heartbeat'?" in refused["problem"]
        assert server.connect().close() is None
        assert server.stop(signal.SIGTERM) == 0


def test_clients_are_told_of_the_stop() -> None:
    """Rule C-78."""
    with serving("--port", "0") as server:
        connection = server.connect()
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            wait_for_end(connection)

        assert caught.value.reply_code == 320
        assert server.stop() == 0


def test_a_second_signal_does_not_wait_for_deaf_clients() -> None:
    with serving("--port", "0") as server:
        connection = server.connect()
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("server.stopping")
        assert server.stop(signal.SIGTERM) == 0
        with pytest.raises(pika.exceptions.AMQPError):
            wait_for_end(connection)


def test_a_taken_port_is_one_line_and_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--host", "127.0.0.1", "--port", str(port))

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"leveret: cannot listen on 127.0.0.1:{port}: the port is taken by another process\n"
    )


def test_a_bad_bind_address_is_one_line_and_1() -> None:
    result = run("serve", "--host", "192.0.2.1", "--port", "0")
    assert result.returncode == 1
    assert result.stderr == (
        "leveret: cannot listen on 192.0.2.1:0: this machine has no such address\n"
    )


@pytest.mark.parametrize("command", ["serve", "check"])
def test_bad_configurations_are_told_whole_with_78(command: str, tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("version: 1\nheartbeet: 10s\nlimits: {frame_max: much}\n")
    arguments = ["serve", str(path)] if command == "serve" else ["config", "check", str(path)]
    result = run(*arguments)
    assert result.returncode == 78
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{path}:2:1: ")
    assert lines[1].startswith(f"{path}:3:")
    assert "Traceback" not in result.stderr


def test_what_only_the_core_refuses_points_into_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "version: 1\n"
        "vhosts:\n"
        '  "/":\n'
        "    queues:\n"
        "      ok: {}\n"
        "      bad: {arguments: {x-max-length: -1}}\n"
    )
    result = run("config", "check", str(path))
    assert result.returncode == 78
    assert result.stderr.startswith(f"{path}:6:")


def test_a_missing_file_is_78(tmp_path: Path) -> None:
    result = run("serve", str(tmp_path / "nothing.yaml"))
    assert result.returncode == 78
    assert "nothing.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_good_file_is_all_right_and_served(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("version: 1\nlisteners: {amqp: [{bind: 127.0.0.1, port: 0}]}\n")
    checked = run("config", "check", str(path))
    assert (checked.returncode, checked.stdout) == (0, f"{path}: all right\n")
    with serving(str(path)) as server:
        assert server.records[0]["config"] == str(path)
        assert server.connect().close() is None


def test_ping_answers_for_a_health_check() -> None:
    with serving("--port", "0") as server:
        result = run("ping", "--port", str(server.port))
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("Leveret ")
        server.stop(signal.SIGTERM)
        events = [record["event"] for record in server.records if record["level"] != "debug"]
        assert not [event for event in events if "connection" in str(event)], "ping is quiet"


def test_users_and_virtual_hosts_survive_an_end_of_any_kind(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "version: 1\n"
        "users: [{name: ann, password: secret, tags: [administrator]}]\n"
        "vhosts: {/: {}, other: {}}\n"
    )
    with serving(str(path), "--port", "0") as server:
        server.process.kill()

    with serving("--port", "0") as server:
        credentials = pika.PlainCredentials("ann", "secret")
        assert server.connect(credentials=credentials).close() is None
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            server.connect()

        assert server.stop(signal.SIGTERM) == 0

    assert sorted(os.listdir(tmp_path / "data" / "vhosts")) == ["1", "2"]


def test_a_data_directory_in_use_is_one_line_and_1(tmp_path: Path) -> None:
    with serving("--port", "0", "--data-dir", str(tmp_path / "x")) as server:
        result = run("serve", "--port", "0", "--data-dir", str(tmp_path / "x"))
        assert (result.returncode, result.stdout) == (1, "")
        started = (
            f"leveret: data directory {tmp_path}/x is in use by process {server.process.pid} ("
        )
        assert result.stderr.startswith(started)
        assert len(result.stderr.splitlines()) == 1


def test_a_failed_start_leaves_the_data_directory_to_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("serve", "--host", "127.0.0.1", "--port", str(port)).returncode == 1

    with serving("--port", "0") as server:
        assert server.stop(signal.SIGTERM) == 0


def test_in_memory_only_nothing_is_touched() -> None:
    with serving("--port", "0", "--memory-only") as server:
        assert server.records[0]["sync"] == "memory only"
        assert server.records[0].get("data_dir") is None
        assert server.stop(signal.SIGTERM) == 0

    assert not os.path.exists(os.environ["LEVERET_DATA_DIR"])


def test_checking_a_configuration_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text("version: 1\n")
    assert run("config", "check", str(path)).returncode == 0
    assert not os.path.exists(os.environ["LEVERET_DATA_DIR"])
