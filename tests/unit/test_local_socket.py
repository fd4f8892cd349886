"""The socket in the data directory: for its owner alone, and never in the way."""

from __future__ import annotations

import os
import socket
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from broker.local_socket import SOCKET_NAME, connect_to, listen_at, remove, socket_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")


def test_it_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    path = socket_in(str(tmp_path))
    old = os.umask(0)
    try:
        listen_at(path).close()
    finally:
        os.umask(old)

    assert os.path.basename(path) == SOCKET_NAME
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_ISSOCK(os.stat(path).st_mode)


@pytest.mark.parametrize("has_long_path", [False, True], ids=["short", "long"])
def test_who_listens_can_be_connected_to(tmp_path: Path, has_long_path: bool) -> None:
    if has_long_path and not sys.platform.startswith("linux"):
        pytest.skip("only Linux has a short name for a long path")

    directory = tmp_path / ("d" * 200 if has_long_path else "d")
    directory.mkdir()
    path = socket_in(str(directory))
    with listen_at(path), connect_to(path, 1.0) as connection:
        assert connection.gettimeout() == 1.0


def test_a_socket_that_a_killed_broker_left_is_replaced(tmp_path: Path) -> None:
    path = socket_in(str(tmp_path))
    listen_at(path).close()
    with pytest.raises(ConnectionRefusedError):
        connect_to(path, 1.0)

    with listen_at(path), connect_to(path, 1.0):
        pass


def test_removing_it_twice_is_harmless(tmp_path: Path) -> None:
    path = socket_in(str(tmp_path))
    listen_at(path).close()
    remove(path)
    remove(path)
    assert not os.path.exists(path)


def test_what_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        listen_at(socket_in(str(tmp_path / "nowhere")))
