"""The files of a data directory as they are at one moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from broker.errors import StoreError
from broker.store import view as module
from broker.store.directory import DataDirectory
from broker.store.frozen import FrozenDisk
from broker.store.records import FLAG_SYNCED, SEGMENT_MAGIC, batch_header, frame_record
from broker.store.records import segment_header as header
from broker.store.view import open_view

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SALT = b"saltsalt"


def batch(number: int) -> bytes:
    record = frame_record(b"\x63%d" % number)
    return batch_header(SALT, number, len(record), FLAG_SYNCED) + record + bytes(32)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of the one virtual host of a data directory, with two segments."""
    directory = DataDirectory(str(tmp_path))
    path = directory.make_vhost(1, "/")
    directory.close()
    for number in (1, 2):
        data = header(SEGMENT_MAGIC, number, SALT) + batch(number)
        (tmp_path / "vhosts" / "1" / f"{number:08d}.log").write_bytes(data)

    return tmp_path / "vhosts" / os.path.basename(path)


def test_what_goes_while_it_is_looked_at_can_still_be_read(tmp_path: Path, log: Path) -> None:
    whole = (log / "00000001.log").read_bytes()
    with open_view(str(tmp_path)) as view:
        (log / "00000001.log").unlink()
        assert view.logs[0].read("00000001.log") == whole


def test_what_is_written_behind_the_last_batch_is_not_seen(tmp_path: Path, log: Path) -> None:
    whole = (log / "00000002.log").read_bytes()
    with open_view(str(tmp_path)) as view:
        with (log / "00000002.log").open("ab") as file:
            file.write(batch(3))

        assert view.logs[0].read("00000002.log") == whole
        assert view.logs[0].size("00000002.log") == len(whole)


def test_files_that_come_and_go_meanwhile_are_looked_for_again(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment is made and another one removed between the listing and the opening."""
    real_open = module._open
    changes: list[Callable[[], object]] = [
        lambda: (log / "00000001.log").unlink(),
        lambda: (log / "00000003.log").write_bytes(header(SEGMENT_MAGIC, 3, SALT)),
    ]

    def open_slowly(path: str) -> int:
        if changes:
            changes.pop(0)()

        return real_open(path)

    monkeypatch.setattr(module, "_open", open_slowly)
    with open_view(str(tmp_path)) as view:
        assert view.logs[0].segments == [2, 3]


def test_directory_that_never_holds_still_is_given_up(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_list = module._list
    count = 10

    def list_another(path: str) -> object:
        nonlocal count
        count += 1
        (log / f"{count:08d}.log").touch()
        return real_list(path)

    monkeypatch.setattr(module, "_list", list_another)
    with pytest.raises(StoreError, match="change faster than they can be opened"):
        open_view(str(tmp_path))


def test_tail_that_was_read_in_the_middle_of_a_write_is_read_again(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a batch with a later one behind it: between two moments, not damage."""
    path = log / "00000002.log"
    whole = path.read_bytes() + batch(3) + batch(4)
    path.write_bytes(whole)
    half = whole[:-140] + bytes(20) + whole[-120:]
    real_read = module._read_at
    answers = [half]

    def read_early(descriptor: int, size: int, offset: int) -> bytes:
        return answers.pop() if answers else real_read(descriptor, size, offset)

    monkeypatch.setattr(module, "_read_at", read_early)
    with open_view(str(tmp_path)) as view:
        assert view.logs[0].read("00000002.log") == whole


def test_frozen_disk_takes_changes_to_itself(tmp_path: Path, log: Path) -> None:
    path = str(log / "00000002.log")
    whole = (log / "00000002.log").read_bytes()
    with open_view(str(tmp_path)) as view:
        disk = FrozenDisk(view.logs[0])
        file = disk.open(path)
        file.write_at(b"hare", 40)
        file.truncate(44)
        assert disk.open(path).read_at(100, 0) == whole[:40] + b"hare"
        made = disk.create(str(log / "new"))
        made.write_at(b"x", 3)
        disk.rename(str(log / "new"), str(log / "newer"))
        assert disk.list_directory(str(log)) == ["00000001.log", "00000002.log", "newer"]
        assert disk.open(str(log / "newer")).read_at(9, 0) == b"\0\0\0x"
        disk.unlink(path)
        with pytest.raises(FileNotFoundError):
            disk.open(path)

    assert (log / "00000002.log").read_bytes() == whole
    assert sorted(one.name for one in log.iterdir()) == ["00000001.log", "00000002.log", "name"]
