"""Sockets that accept. Layer: net.

Invariant: either every address that was asked for accepts, or none does and the error says which
one does not and why, in one line.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StartError
from broker.net.addresses import format_address
from broker.net.doorway import Doorway

if TYPE_CHECKING:
    import asyncio

    from broker.net.antechamber import Antechamber, Entrance, Terms
    from broker.net.reception import Reception

__all__ = ["Address", "Listeners", "open_sockets"]

PORT_ATTEMPTS_MAX: Final = 10
"""Tries to find one free port that is free on every address of a listener."""

LOOPBACK: Final = "localhost"
EVERYWHERE: Final = ("", "*")

NO_SUCH_ADDRESS: Final = frozenset(
    {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EINVAL}
)
"""What a machine without IPv6 (or without IPv4) answers."""

REASONS: Final = {
    errno.EADDRINUSE: "the port is taken by another process",
    errno.EACCES: "not permitted (ports below 1024 need a privilege)",
    errno.EPERM: "not permitted",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EAFNOSUPPORT: "this machine does not speak that address family",
}


class Address(NamedTuple):
    """An address that accepts connections."""

    host: str
    port: int
    tls: str = ""
    """What it makes TLS connections with, by its name in the configuration; empty for nothing."""

    @property
    def is_tls(self) -> bool:
        """Whether clients speak TLS there."""
        return bool(self.tls)

    def __str__(self) -> str:
        return format_address(self.host, self.port) + ("/tls" if self.is_tls else "")


class _Target(NamedTuple):
    family: socket.AddressFamily
    host: str
    is_dual_stack: bool = False


class Listeners:
    """Every accepting socket of one broker.

    Args:
        reception: lets clients in.
        antechamber: where those wait first of whom a listener wants to know more.

    """

    def __init__(self, reception: Reception, antechamber: Antechamber | None = None) -> None:
        self._reception = reception
        self._antechamber = antechamber
        self._servers: list[asyncio.Server | Doorway | Entrance] = []
        self._opened: list[tuple[str, int, int, Terms | None]] = []
        self.addresses: list[Address] = []

    async def open(self, bind: str, port: int, backlog: int, terms: Terms | None = None) -> None:
        """Accept on one more listener.

        Args:
            bind: its name, or an address.
            port: 0 takes any free one.
            backlog: connections that the system keeps waiting.
            terms: what is to be known of a client first.

        Raises:
            StartError: the address cannot be had. What was opened before stays open: call close.

        """
        sockets = open_sockets(bind, port, backlog)
        loop = self._reception.pump.loop
        for position, listening in enumerate(sockets):
            host, actual_port = listening.getsockname()[:2]
            try:
                server = await self._serve(loop, listening, backlog, terms)
            except BaseException:
                for left in sockets[position:]:
                    left.close()

                raise

            self._servers.append(server)
            tls = "" if terms is None else terms.tls
            self.addresses.append(Address(host, actual_port, tls))

        self._opened.append((bind, self.addresses[-1].port, backlog, terms))

    async def _serve(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        backlog: int,
        terms: Terms | None,
    ) -> asyncio.Server | Doorway | Entrance:
        reception = self._reception
        antechamber = self._antechamber
        if terms is None:
            try:
                return Doorway(loop, listening, reception.make_transport, reception.may_enter)
            except NotImplementedError:  # Windows: a listening socket cannot be watched
                return await loop.create_server(
                    reception.make_transport, sock=listening, backlog=backlog
                )

        # Imported where it is needed: most brokers start without.
        from broker.net.antechamber import Entrance

        assert antechamber is not None
        name = ":".join(map(str, listening.getsockname()[:2]))

        def may_enter(host: str, is_proxy: bool) -> bool:
            # Of a proxy's clients nothing is known yet: the reception asks when it is.
            has_room = reception.has_room(host, len(antechamber))
            return has_room and (is_proxy or reception.may_enter(host, name))

        return Entrance(antechamber, listening, terms, reception.make_transport, may_enter)

    async def reopen(self) -> None:
        """Accept where it was accepted before :meth:`close`, port by port.

        Raises:
            StartError: an address cannot be had any more; nothing is open then, and it may be tried
                again.

        """
        opened, addresses = self._opened, self.addresses
        self._opened, self.addresses = [], []
        try:
            for bind, port, backlog, terms in opened:
                await self.open(bind, port, backlog, terms)
        except BaseException:
            self.close()
            self._opened, self.addresses = opened, addresses
            raise

    def close(self) -> None:
        """Stop accepting. Connections that are open stay open."""
        for server in self._servers:
            server.close()

        self._servers.clear()


def open_sockets(bind: str, port: int, backlog: int) -> list[socket.socket]:
    """Bind and listen on every address that a bind name means, all with the same port.

    ``localhost`` means 127.0.0.1 and ::1, ``*`` or nothing means every address of both families,
    and whichever family the machine lacks is left out. ``::`` alone takes IPv4 too where the system
    can do that. Any other name means all that it resolves to.

    Raises:
        StartError: an address cannot be had; no socket is left open.

    """
    targets, are_optional = _resolve(bind, port)
    for attempt in range(PORT_ATTEMPTS_MAX):
        try:
            return _open_all(targets, port, backlog, are_optional=are_optional)
        except _PortTaken as problem:
            # Port 0: the first address got a port that another one does not have free.
            if port != 0 or attempt == PORT_ATTEMPTS_MAX - 1:
                raise StartError(str(problem)) from None

    raise AssertionError("the loop above returns or raises")


class _PortTaken(StartError):
    pass


def _resolve(bind: str, port: int) -> tuple[list[_Target], bool]:
    if bind == LOOPBACK:
        return [_Target(socket.AF_INET, "127.0.0.1"), _Target(socket.AF_INET6, "::1")], True

    if bind in EVERYWHERE:
        return [_Target(socket.AF_INET, "0.0.0.0"), _Target(socket.AF_INET6, "::")], True  # noqa: S104

    try:
        found = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not a host name"
        raise StartError(
            f"cannot listen on {format_address(bind, port)}: cannot resolve the name ({reason})"
        ) from None

    targets = [
        _Target(family, str(address[0]), is_dual_stack=bind == "::")
        for family, _, _, _, address in found
        if family in (socket.AF_INET, socket.AF_INET6)
    ]
    return list(dict.fromkeys(targets)), False


def _open_all(
    targets: list[_Target], port: int, backlog: int, *, are_optional: bool
) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: list[StartError] = []
    with ExitStack() as undo:
        for target in targets:
            try:
                listening = _open_one(target, port, backlog)
            except OSError as problem:
                error = _explain(target, port, problem)
                if not are_optional or problem.errno not in NO_SUCH_ADDRESS:
                    raise error from None

                missing.append(error)
                continue

            undo.callback(listening.close)
            sockets.append(listening)
            port = int(listening.getsockname()[1])

        if not sockets:
            raise missing[0]

        undo.pop_all()

    return sockets


def _open_one(target: _Target, port: int, backlog: int) -> socket.socket:
    # The sockets it accepts are of its protocol; asyncio sets TCP_NODELAY only where that is TCP.
    listening = socket.socket(target.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix" and sys.platform != "cygwin":
            # A port whose old connections are in TIME_WAIT may be taken again at once.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        if target.family == socket.AF_INET6:
            with suppress(OSError):
                is_only_ipv6 = int(not target.is_dual_stack)
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, is_only_ipv6)

        listening.setblocking(False)
        listening.bind((target.host, port))
        # With SO_REUSEADDR two sockets may be bound to one port; only listening tells.
        listening.listen(backlog)
    except BaseException:
        listening.close()
        raise

    return listening


def _explain(target: _Target, port: int, problem: OSError) -> StartError:
    reason = REASONS.get(problem.errno or 0, problem.strerror or str(problem))
    text = f"cannot listen on {format_address(target.host, port)}: {reason}"
    return _PortTaken(text) if problem.errno == errno.EADDRINUSE else StartError(text)
