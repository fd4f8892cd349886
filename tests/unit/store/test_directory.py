"""The data directory: where it is, who has it, and what is refused in which words."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.errors import StoreError
from broker.store.directory import DataDirectory, default_data_directory
from broker.store.whole_file import read_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ELSEWHERE = "or give the broker another one with --data-dir or storage.data_dir"
HOLD = (
    "import sys; from broker.store.directory import DataDirectory;"
    "held = DataDirectory(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
)


@contextmanager
def other_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the data directory until it is killed or its input ends."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        DataDirectory(str(path))

    return str(caught.value)


# Where it is


@pytest.mark.parametrize(
    ("environ", "platform", "is_root", "expected"),
    [
        pytest.param({"HOME": "/root"}, "linux", True, "/var/lib/leveret", id="root"),
        pytest.param(
            {"HOME": "/home/ann"}, "linux", False, "/home/ann/.local/share/leveret", id="linux"
        ),
        pytest.param(
            {"HOME": "/home/ann", "XDG_DATA_HOME": "/data"},
            "linux",
            False,
            "/data/leveret",
            id="xdg",
        ),
        pytest.param(
            {"HOME": "/home/ann", "XDG_DATA_HOME": "data"},
            "linux",
            False,
            "/home/ann/.local/share/leveret",
            id="relative xdg",
        ),
        pytest.param(
            {"HOME": "/Users/ann"},
            "darwin",
            False,
            "/Users/ann/Library/Application Support/leveret",
            id="macos",
        ),
        pytest.param({"LOCALAPPDATA": "/local"}, "win32", False, "/local/leveret", id="windows"),
        pytest.param(
            {"HOME": "/root", "LEVERET_DATA_DIR": "/srv/x"}, "linux", True, "/srv/x", id="variable"
        ),
    ],
)
def test_the_usual_place_is_that_of_the_system(
    environ: dict[str, str], platform: str, is_root: bool, expected: str
) -> None:
    assert default_data_directory(environ, platform=platform, is_root=is_root) == expected


def test_without_a_home_the_user_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(StoreError, match="no home directory - give one with --data-dir"):
        default_data_directory({}, platform="linux", is_root=False)


# Making and finding it


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    directory = DataDirectory(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert sorted(os.listdir(path)) == ["format", "lock", "vhosts"]
    assert (path / "format").read_text() == "leveret 1\n"
    directory.close()
    DataDirectory(str(path)).close()


def test_a_file_system_of_its_own_is_no_stranger(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    DataDirectory(str(tmp_path)).close()


def test_what_a_first_start_left_half_done_is_finished(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "format.new").write_text("lev")
    DataDirectory(str(tmp_path)).close()
    assert (tmp_path / "format").read_text() == "leveret 1\n"


def test_a_directory_with_other_things_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    assert refusal(tmp_path) == (
        f"{tmp_path} is no data directory of Leveret: there is no file 'format' in it, but"
        " 'thesis.txt' - give an empty directory, or one that is not there yet"
    )
    assert sorted(os.listdir(tmp_path)) == ["lock", "thesis.txt"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "leveret 2\n",
            "data directory {path} has format 2, and this Leveret knows none above 1: run the newer"
            f" Leveret that wrote it, {ELSEWHERE}",
            id="newer",
        ),
        *(
            pytest.param(
                text,
                "{path}/format is damaged, or not of Leveret: it should say 'leveret 1'",
                id=repr(text),
            )
            for text in ("", "leveret\n", "leveret x\n", "rabbit 1\n", "\x00\x00")
        ),
    ],
)
def test_another_format_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    DataDirectory(str(tmp_path)).close()
    (tmp_path / "format").write_text(text)
    assert refusal(tmp_path) == expected.format(path=tmp_path)


# What the system refuses


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.touch()
    advice = f"remove the file that is in the way, {ELSEWHERE}"
    assert refusal(path) == f"cannot use the data directory {path}: file exists - {advice}"
    below = path / "below"
    assert refusal(below) == f"cannot use the data directory {below}: not a directory - {advice}"


@pytest.mark.skipif(os.name != "posix", reason="rights")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    DataDirectory(str(path)).close()
    path.chmod(0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)

    try:
        text = refusal(path)
    finally:
        if is_root:
            os.seteuid(0)

        path.chmod(0o700)

    assert text.startswith(f"cannot use the data directory {path}: permission denied")
    assert text.endswith(f" - give it to the user who runs the broker, {ELSEWHERE}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(errno.EROFS, "read-only file system - mount it for writing,", id="read-only"),
        pytest.param(errno.ENOSPC, "no space left on device - make room,", id="full"),
        pytest.param(errno.EIO, "input/output error - mend it,", id="broken"),
    ],
)
def test_a_disk_that_does_not_write_is_told(
    code: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    assert refusal(tmp_path) == f"cannot use the data directory {tmp_path}: {expected} {ELSEWHERE}"
    monkeypatch.undo()
    DataDirectory(str(tmp_path)).close()


# One broker at a time


def test_two_in_one_process_exclude_one_another(tmp_path: Path) -> None:
    first = DataDirectory(str(tmp_path))
    assert f"is in use by process {os.getpid()} (started 2" in refusal(tmp_path)
    first.close()
    first.close()
    DataDirectory(str(tmp_path)).close()


def test_another_process_is_named(tmp_path: Path) -> None:
    with other_process(tmp_path) as process:
        text = refusal(tmp_path)
        assert text.startswith(f"data directory {tmp_path} is in use by process {process.pid} (s")
        assert text.endswith("): stop it, or give this broker another one with --data-dir")


def test_without_its_text_the_lock_holds(tmp_path: Path) -> None:
    with other_process(tmp_path):
        (tmp_path / "lock").write_text("")
        assert f"data directory {tmp_path} is in use by another process: " in refusal(tmp_path)


def test_a_killed_process_leaves_it_free(tmp_path: Path) -> None:
    with other_process(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()

    directory = DataDirectory(str(tmp_path))
    assert (tmp_path / "lock").read_text().startswith(f"{os.getpid()} ")
    directory.close()


# Virtual hosts


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    opened = DataDirectory(str(tmp_path))
    yield opened
    opened.close()


def test_virtual_hosts_have_numbered_directories(directory: DataDirectory) -> None:
    names = {1: "/", 3: "..", 12: "a\nb\udcff"}
    for number, name in names.items():
        path = directory.make_vhost(number, name)
        assert path == directory.vhost_path(number) == f"{directory.path}/vhosts/{number}"
        assert directory.make_vhost(number, name) == path

    assert directory.vhosts() == names


def test_what_failed_can_be_tried_again(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError, match="no space left on device"):
        directory.make_vhost(1, "/")

    monkeypatch.undo()
    assert directory.vhosts() == {}
    directory.make_vhost(1, "/")
    assert directory.vhosts() == {1: "/"}


def test_a_number_belongs_to_one_virtual_host(directory: DataDirectory) -> None:
    directory.make_vhost(1, "/")
    with pytest.raises(StoreError, match="belongs to the virtual host '/', not to 'other'"):
        directory.make_vhost(1, "other")


def test_deleted_ones_are_gone(directory: DataDirectory) -> None:
    path = directory.make_vhost(1, "/")
    with open(f"{path}/00000001.log", "wb"):
        pass

    directory.remove_vhost(1)
    directory.remove_vhost(1)
    assert os.listdir(f"{directory.path}/vhosts") == []


def test_what_was_being_made_or_deleted_is_cleaned_up(tmp_path: Path) -> None:
    first = DataDirectory(str(tmp_path))
    first.make_vhost(1, "/")
    first.close()
    for name in ("2.new", "3.deleted"):
        (tmp_path / "vhosts" / name / "deeper").mkdir(parents=True)

    second = DataDirectory(str(tmp_path))
    assert os.listdir(tmp_path / "vhosts") == ["1"]
    assert second.vhosts() == {1: "/"}
    second.close()


def test_a_log_that_is_nobodys_is_refused(directory: DataDirectory) -> None:
    os.unlink(f"{directory.make_vhost(1, '/')}/name")
    with pytest.raises(StoreError, match=r"vhosts/1/name is missing, so nobody knows whose log"):
        directory.vhosts()


# Files that are replaced


def test_a_file_is_replaced_whole_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert read_file(str(path)) is None
    for content in (b"first", b"second, and longer"):
        replace_file(str(path), content)
        assert read_file(str(path)) == content

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_file_that_cannot_be_replaced_stays(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "file")
    replace_file(path, b"first")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"second")

    monkeypatch.undo()
    assert read_file(path) == b"first"
    replace_file(path, b"third")
    assert read_file(path) == b"third"
