"""The command line without a broker: what it says and the status it ends with."""

from __future__ import annotations

import re
import socket
import sys
from typing import TYPE_CHECKING

import click
import pytest

from broker.cli import main as module
from broker.cli.main import COMMANDS, cli, main
from broker.cli.serve import storage_overrides
from broker.config.loader import load_config
from broker.config.problems import ConfigProblems, Problem
from broker.config.schema import StorageConfig
from broker.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["leveret", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()

    return caught.value.code


def test_the_version_says_which_build_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--version") == 0
    line = capsys.readouterr().out
    assert re.fullmatch(r"leveret \d+\.\d+\.\d+\S* \((compiled|plain), \w+ 3\.\d+\.\S+\)\n", line)


def test_help_lists_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "-h") == 0
    output = capsys.readouterr().out
    assert all(re.search(rf"^  {name}  +\w", output, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["serve", "--port", "70000"],
        ["serve", "--data-dir", "x", "--memory-only"],
        ["ping", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert "Usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "status", "text"),
    [
        pytest.param(
            ConfigProblems([Problem("a.yaml", 3, 5, "users", "is no list")]),
            78,
            "a.yaml:3:5: users: is no list\n",
            id="configuration",
        ),
        pytest.param(
            StartError("the port is taken"), 1, "leveret: the port is taken\n", id="start"
        ),
    ],
)
def test_errors_on_purpose_are_told_without_traceback(
    problem: Exception,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def fail() -> None:
        raise problem

    monkeypatch.setattr(module.LazyGroup, "get_command", lambda *_: fail)
    assert run(monkeypatch, "fail") == status
    assert capsys.readouterr().err == text


def test_ping_of_nothing_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert run(monkeypatch, "ping", "--port", str(port)) == 1
    assert capsys.readouterr().err.startswith(f"leveret: cannot connect to 127.0.0.1:{port}")


def test_the_group_knows_its_commands() -> None:
    context = click.Context(cli)
    assert cli.get_command(context, "nonsense") is None
    assert {cli.get_command(context, name) is not None for name in COMMANDS} == {True}


@pytest.mark.parametrize(
    ("data_dir", "memory_only", "expected"),
    [
        pytest.param(None, False, StorageConfig(data_dir="/from/the/file"), id="neither"),
        pytest.param("/x", False, StorageConfig(data_dir="/x"), id="--data-dir"),
        pytest.param(None, True, StorageConfig(memory_only=True), id="--memory-only"),
    ],
)
def test_where_to_store_replaces_what_the_file_says(
    data_dir: str | None, memory_only: bool, expected: StorageConfig, tmp_path: Path
) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("version: 1\nstorage: {data_dir: /from/the/file}\n")
    overrides = storage_overrides(data_dir, is_memory_only=memory_only)
    assert load_config(str(path), overrides).storage == expected
