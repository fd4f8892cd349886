"""Real sockets on the loopback interface; whatever port is free."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from broker.errors import StartError
from broker.net import listeners
from broker.net.listeners import open_sockets

if TYPE_CHECKING:
    from collections.abc import Iterator


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False

    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_all(opened: ExitStack, bind: str, port: int = 0) -> list[socket.socket]:
    sockets = open_sockets(bind, port, backlog=5)
    for item in sockets:
        opened.enter_context(item)

    return sockets


@needs_ipv6
def test_localhost_means_both_loopback_addresses_with_one_port(opened: ExitStack) -> None:
    names = [item.getsockname()[:2] for item in open_all(opened, "localhost")]
    assert [host for host, _ in names] == ["127.0.0.1", "::1"]
    assert names[0][1] == names[1][1] != 0


@needs_ipv6
@pytest.mark.parametrize("bind", ["*", ""])
def test_everywhere_means_both_families(opened: ExitStack, bind: str) -> None:
    sockets = open_all(opened, bind)
    assert [item.family for item in sockets] == [socket.AF_INET, socket.AF_INET6]
    assert all(ip_address(item.getsockname()[0]).is_unspecified for item in sockets)


@needs_ipv6
def test_the_unspecified_ipv6_address_alone_takes_ipv4_too(opened: ExitStack) -> None:
    [listening] = open_all(opened, "::")
    port = listening.getsockname()[1]
    opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))


def test_one_address_is_one_socket(opened: ExitStack) -> None:
    [listening] = open_all(opened, "127.0.0.1")
    assert listening.getsockname()[0] == "127.0.0.1"
    assert listening.getblocking() is False


def test_a_machine_without_ipv6_listens_on_ipv4(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = listeners._open_one

    def without_ipv6(target: listeners._Target, port: int, backlog: int) -> socket.socket:
        if target.family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "not available")

        return real(target, port, backlog)

    monkeypatch.setattr(listeners, "_open_one", without_ipv6)
    assert [item.family for item in open_all(opened, "localhost")] == [socket.AF_INET]


def test_a_machine_without_any_family_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_any(target: listeners._Target, port: int, backlog: int) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "not supported")

    monkeypatch.setattr(listeners, "_open_one", without_any)
    with pytest.raises(StartError, match="does not speak that address family"):
        open_sockets("localhost", 0, backlog=5)


def test_a_taken_port_is_one_clear_line(opened: ExitStack) -> None:
    [first] = open_all(opened, "127.0.0.1")
    port = first.getsockname()[1]
    with pytest.raises(StartError) as caught:
        open_sockets("127.0.0.1", port, backlog=5)

    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port}: the port is taken by another process"
    )


@needs_ipv6
def test_a_port_taken_on_one_family_leaves_nothing_open(opened: ExitStack) -> None:
    [first] = open_all(opened, "::1")
    port = first.getsockname()[1]
    with pytest.raises(StartError, match=rf"\[::1\]:{port}: the port is taken"):
        open_sockets("localhost", port, backlog=5)

    open_all(opened, "127.0.0.1", port)


def test_a_free_port_is_looked_for_again_when_one_family_has_it_taken(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = listeners._open_one
    faults = [OSError(errno.EADDRINUSE, "taken"), OSError(errno.EADDRINUSE, "taken")]

    def sometimes(target: listeners._Target, port: int, backlog: int) -> socket.socket:
        if port != 0 and faults:
            raise faults.pop()

        return real(target, port, backlog)

    monkeypatch.setattr(listeners, "_open_one", sometimes)
    assert open_all(opened, "localhost")
    assert not faults


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        pytest.param(
            "192.0.2.1",
            "cannot listen on 192.0.2.1:0: this machine has no such address",
            id="foreign-address",
        ),
        pytest.param(
            "no-such-host.invalid",
            "cannot listen on no-such-host.invalid:0: cannot resolve the name",
            id="unknown-name",
        ),
        pytest.param(
            "a" * 64 + ".invalid",
            ":0: cannot resolve the name (not a host name)",
            id="impossible-name",
        ),
    ],
)
def test_a_bad_bind_address_is_one_clear_line(bind: str, text: str) -> None:
    with pytest.raises(StartError) as caught:
        open_sockets(bind, 0, backlog=5)

    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
