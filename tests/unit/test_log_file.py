"""A log in a file: rotation, reopening, levels of their own for some kinds of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.config.schema import LogConfig, LogFileConfig
from broker.core.settings import NodeSettings
from broker.errors import StartError
from broker.log_file import LogFile
from broker.logs import Log
from tests.helpers.session import World

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_has_grown_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    file = LogFile(str(path), 10, 3)
    for number in range(5):
        file.write(f"line {number}\n")
        file.flush()

    file.close()
    assert path.read_text() == "line 4\n"
    assert (tmp_path / "a.log.1").read_text() == "line 3\n"
    assert (tmp_path / "a.log.2").read_text() == "line 2\n"
    assert not (tmp_path / "a.log.3").exists()


def test_with_one_file_the_old_lines_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    file = LogFile(str(path), 10, 1)
    file.write("first line\n")
    file.write("second\n")
    file.close()
    assert path.read_text() == "second\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.log"]


def test_a_file_that_is_there_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("12345678\n")
    file = LogFile(str(path), 10, 2)
    file.write("more\n")
    file.close()
    assert path.read_text() == "more\n"
    assert (tmp_path / "a.log.1").read_text() == "12345678\n"


def test_a_file_that_somebody_moved_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    file = LogFile(str(path), 1_000, 2)
    file.write("before\n")
    file.flush()
    path.rename(tmp_path / "moved")
    file.reopen()
    file.write("after\n")
    file.close()
    assert (tmp_path / "moved").read_text() == "before\n"
    assert path.read_text() == "after\n"


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="is a directory"):
        LogFile(str(tmp_path), 10, 1)


def test_where_rotation_fails_the_lines_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    file = LogFile(str(path), 5, 2)

    def fail(*_args: object) -> None:
        raise OSError

    monkeypatch.setattr("os.replace", fail)
    file.write("12345\n")
    file.write("67890\n")
    file.close()
    assert path.read_text() == "12345\n67890\n"


def config_of(path: Path) -> LogConfig:
    return LogConfig(file=LogFileConfig(path=str(path)))


def test_kinds_of_events_may_have_levels_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = Log.from_config(
        config_of(path)._replace(levels=(("connection", "error"), ("queue", "debug")))
    )
    log("info", "connection.opened", {})
    log("error", "connection.bug", {})
    log("debug", "queue.declared", {})
    log("debug", "other.thing", {})
    log("info", "other.thing", {})
    log.close()
    events = [line.split()[2] for line in path.read_text().splitlines()]
    assert events == ["connection.bug", "queue.declared", "other.thing"]


def test_everything_about_a_log_can_change_while_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.log"
    log = Log.from_config(LogConfig())
    log("info", "one", {})
    log.configure(config_of(path)._replace(format="json"))
    log("info", "two", {})
    log.configure(LogConfig(level="error"))
    log("info", "three", {})
    log("error", "four", {})
    shown = capsys.readouterr().err
    assert [line.split()[2] for line in shown.splitlines()] == ["one", "four"]
    assert '"event": "two"' in path.read_text()


def test_a_file_that_cannot_be_had_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = Log.from_config(config_of(path))
    with pytest.raises(StartError):
        log.configure(config_of(tmp_path)._replace(level="error"))

    log("info", "still", {})
    log.close()
    assert " still" in path.read_text()


def test_lines_reach_the_log_exchange() -> None:
    world = World(NodeSettings(has_log_exchange=True))
    client = world.open(1)
    client.ask(1, "queue.declare", queue="q")
    client.ask(1, "queue.bind", queue="q", exchange="amq.rabbitmq.log", routing_key="warning")
    world.node.tell_of_line("info", "not bound")
    world.node.tell_of_line("warning", "a line \udcff")
    world.wait(0)
    client.send(1, "basic.get", queue="q", no_ack=True)
    [got] = client.heard()
    assert got.body == b"a line \\udcff"
    assert got.arguments["routing_key"] == "warning"
    assert got.arguments["message_count"] == 0


def test_without_being_asked_for_there_is_no_log_exchange() -> None:
    world = World()
    assert "amq.rabbitmq.log" not in world.vhost.exchanges
    world.node.tell_of_line("info", "nobody hears it")


def test_lines_are_not_gathered_without_end() -> None:
    world = World(NodeSettings(has_log_exchange=True))
    client = world.open(1)
    client.ask(1, "queue.declare", queue="q")
    client.ask(1, "queue.bind", queue="q", exchange="amq.rabbitmq.log", routing_key="#")
    for _ in range(5_000):
        world.node.tell_of_line("info", "line")

    world.wait(0)
    assert world.vhost.queues["q"].ready_count == 1_000
