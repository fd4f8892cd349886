"""``leveret store``: what it says, and the status it ends with."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from broker.cli.main import main
from broker.cli.tables import age_text, size_text, table_lines
from tests.helpers.directories import DirectoryWorld, fill

if TYPE_CHECKING:
    from pathlib import Path


class Terminal:
    """Runs the command and keeps what it said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def run(self, *arguments: str, stdin: str = "") -> int | str | None:
        raw = io.BytesIO(stdin.encode())
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
        self._monkeypatch.setattr(sys, "argv", ["leveret", "store", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()

        self.out, self.err = self._capsys.readouterr()
        return caught.value.code


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    world = DirectoryWorld(path)
    fill(world, 4)
    world.stop()
    return path


def damage(data: Path) -> None:
    [path] = (data / "vhosts" / "1").glob("*.checkpoint")
    raw = bytearray(path.read_bytes())
    raw[80] ^= 1
    path.write_bytes(raw)


def test_check_of_a_sound_directory_ends_with_0(terminal: Terminal, data: Path) -> None:
    assert terminal.run("check", str(data)) == 0
    assert terminal.out.splitlines()[-1] == "sound"


def test_check_of_a_damaged_directory_ends_with_1(terminal: Terminal, data: Path) -> None:
    damage(data)
    assert terminal.run("check", str(data)) == 1
    assert ".checkpoint at offset 32: " in terminal.out
    assert terminal.out.splitlines()[-1] == "DAMAGED: see `leveret store repair`"


def test_check_for_machines_tells_the_same(terminal: Terminal, data: Path) -> None:
    assert terminal.run("check", str(data), "--format", "json") == 0
    told = json.loads(terminal.out)
    assert told["is_sound"]
    assert told["logs"][0]["contents"]["queues"] == 7
    damage(data)
    assert terminal.run("check", str(data), "--format", "json") == 1
    assert json.loads(terminal.out)["findings"][0]["offset"] == 32


def test_stats_show_queues_and_segments(terminal: Terminal, data: Path) -> None:
    assert terminal.run("stats", str(data)) == 0
    assert "quorum  quorum" in terminal.out
    assert terminal.run("stats", str(data), "--format", "json") == 0
    [log] = json.loads(terminal.out)["logs"]
    assert {"dead_share", "segments", "queues", "checkpoint_age_s"} <= log.keys()


def test_repair_tells_what_it_did(terminal: Terminal, data: Path) -> None:
    assert terminal.run("repair", str(data)) == 0
    assert terminal.out == f"{data} is sound: there is nothing to mend\n"
    damage(data)
    assert terminal.run("repair", str(data)) == 0
    assert f"all is kept as it was in {data}.broken-" in terminal.out
    assert terminal.out.splitlines()[-1] == "sound"
    assert terminal.run("check", str(data)) == 0


def test_repair_without_a_backup_leaves_nothing_beside(terminal: Terminal, data: Path) -> None:
    damage(data)
    assert terminal.run("repair", "--no-backup", str(data)) == 0
    assert list(data.parent.iterdir()) == [data]


def test_snapshot_is_checked(terminal: Terminal, tmp_path: Path, data: Path) -> None:
    copy = str(tmp_path / "copy")
    assert terminal.run("snapshot", copy, "--from", str(data)) == 0
    assert terminal.out.splitlines()[-1] == "sound"
    assert terminal.run("snapshot", copy, "--from", str(data)) == 1
    assert "is there and not empty" in terminal.err


def test_export_goes_into_an_import(terminal: Terminal, tmp_path: Path, data: Path) -> None:
    assert terminal.run("export", str(data)) == 0
    lines = terminal.out
    copy = str(tmp_path / "copy")
    assert terminal.run("import", copy, stdin=lines) == 0
    assert "queue: 7" in terminal.out
    assert "guest/guest may log in" in terminal.out
    assert terminal.run("export", copy, "--vhost", "/") == 0
    assert terminal.out == lines


def test_import_that_fails_says_where_to_go_on(terminal: Terminal, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert terminal.run("import", copy, stdin='{"vhost": {"name": "/"}}\n{"queue": 1}\n') == 1
    assert "`tail -n +2`" in terminal.err
    assert "leveret: line 2: queue: expected an object" in terminal.err


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB")],
)
def test_sizes_have_the_unit_that_fits(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("age_s", "text"), [(5, "5 s"), (90, "1.5 min"), (7200, "2.0 h"), (86_400, "1.0 d")]
)
def test_ages_have_the_unit_that_fits(age_s: float, text: str) -> None:
    assert age_text(age_s) == text


def test_tables_have_numbers_to_the_right() -> None:
    assert list(table_lines(["name", "no"], [["a", "5"], ["bcd", "10"]])) == [
        "name  no",
        "a      5",
        "bcd   10",
    ]
    assert list(table_lines(["name"], [])) == []
