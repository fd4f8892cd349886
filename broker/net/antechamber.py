"""Where those wait of whom too little is known: proxies that have to say for whom they come, and
clients that shake hands (TLS). Layer: net.

Invariant: a socket is here for a bounded time, and a bounded number of them is; who would be one
too many takes the place of whoever waits longest, since handshakes that mean it take milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.limits import LINGER_S
from broker.net.addresses import format_address, plain_address
from broker.net.proxy_header import ProxyHeaderError, SilenceError, read_proxy_header
from broker.protocol.strangers import TLS_HANDSHAKE, describe_stranger
from broker.tls.alerts import ALERTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.net.proxy_header import Proxied

    Log = Callable[[str, str, dict[str, object]], None]
    Factory = Callable[[Proxied | None], asyncio.BaseProtocol]
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

__all__ = ["HANDSHAKES_MAX", "WAITING_MAX", "Antechamber", "Entrance", "Terms", "networks_of"]

WAITING_MAX: Final = 1_000
"""Sockets that wait at a time, over all listeners. A handshake takes some milliseconds: a thousand
at a time are more than one processor brings to an end in a second."""

HANDSHAKES_MAX: Final = 200
"""Of those, handshakes that have begun: each has some 100 KiB of buffers from its first octet on,
and 300 in a program that the broker is a part of."""

LINES_PER_INTERVAL_MAX: Final = 20
"""Lines in the log about those who were refused, in each interval."""

LINE_INTERVAL_S: Final = 10.0

ACCEPT_REST_S: Final = 1.0
"""How long nobody is accepted when the system has no file descriptor left."""

FIRST_OCTETS: Final = 8
UNREAD_BYTES_MAX: Final = 65_536

HTTP_TEXT: Final = b"This port speaks HTTPS: write https://\n"
HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(HTTP_TEXT), HTTP_TEXT)
)

REASONS: Final = {
    "UNSUPPORTED_PROTOCOL": "the client speaks no version of TLS that is allowed here",
    "VERSION_TOO_LOW": "the client speaks no version of TLS that is allowed here",
    "WRONG_VERSION_NUMBER": "the client speaks no TLS",
    "HTTP_REQUEST": "an HTTP request on a port with TLS",
    "NO_SHARED_CIPHER": "the client has no cipher that is allowed here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate",
}
ALERT: Final = "_ALERT_"
GONE: Final = "the client went away before it was known"
GONE_IN_HANDSHAKE: Final = (
    "the client went away in the TLS handshake: it may not trust the certificate"
)


class Terms(NamedTuple):
    """What a listener wants to know before it lets somebody in.

    Attributes:
        tls: what TLS connections are made with, by its name; empty for plain ones.
        context: makes TLS connections of today; None for plain ones.
        proxies: where proxies are that send a header.
        is_http: whoever speaks HTTP without TLS is told so.

    """

    tls: str = ""
    context: Callable[[], ssl.SSLContext] | None = None
    proxies: tuple[Network, ...] = ()
    is_http: bool = False

    @property
    def is_tls(self) -> bool:
        """Whether connections are TLS ones."""
        return self.context is not None


def networks_of(texts: tuple[str, ...] | None) -> tuple[Network, ...]:
    """The networks that a configuration names."""
    return tuple(map(ipaddress.ip_network, texts or ()))


class Antechamber:
    """Everybody who waits, at whatever listener.

    Args:
        loop: of the broker.
        log: told of who is refused, and why.
        timeout_s: how long one may wait.
        waiting_max: how many may.
        handshakes_max: how many of those may shake hands.

    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        *,
        timeout_s: float,
        waiting_max: int = WAITING_MAX,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        self.loop = loop
        self.timeout_s = timeout_s
        self._log = log
        self._waiting_max = waiting_max
        self._handshakes_max = handshakes_max
        self._waiting: dict[asyncio.Task[None], str] = {}
        self._shaking: dict[asyncio.Task[None], str] = {}
        self._lines = 0
        self._unwritten = 0
        self._lines_since = -LINE_INTERVAL_S

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, guest: _Guest) -> None:
        """Let somebody wait."""
        self._make_room(self._waiting, self._waiting_max)
        task = self.loop.create_task(guest.enter(), name="antechamber")
        self._waiting[task] = guest.peer
        task.add_done_callback(self._end)

    def begin_handshake(self, peer: str) -> None:
        """Who waits in this task is about to shake hands."""
        task = asyncio.current_task(self.loop)
        assert task is not None
        self._make_room(self._shaking, self._handshakes_max)
        self._shaking[task] = peer

    def _make_room(self, tasks: dict[asyncio.Task[None], str], maximum: int) -> None:
        """Send away whoever has been there longest, if nobody more may be."""
        if len(tasks) >= maximum:
            oldest, peer = next(iter(tasks.items()))
            del tasks[oldest]
            oldest.cancel()
            self.tell(peer, f"more than {maximum} wait, and this one does longest")

    def _end(self, task: asyncio.Task[None]) -> None:
        self._waiting.pop(task, None)
        self._shaking.pop(task, None)
        if not task.cancelled():
            fault = task.exception()
            if fault is not None:
                raise fault

    def stop(self) -> None:
        """Send everybody away."""
        for task in tuple(self._waiting):
            task.cancel()

    def tell(self, peer: str, reason: str, *, level: str = "warning") -> None:
        """Write a line about somebody who was refused, unless there are too many of them."""
        now_s = self.loop.time()
        if now_s - self._lines_since >= LINE_INTERVAL_S:
            self._lines_since = now_s
            self._lines = 0

        self._lines += 1
        if self._lines > LINES_PER_INTERVAL_MAX:
            self._unwritten += 1
            return

        fields: dict[str, object] = {"peer": peer, "reason": reason}
        if self._unwritten:
            fields["also_refused"] = self._unwritten
            self._unwritten = 0

        self._log(level, "connection.refused", fields)


class Entrance:
    """Accepts at one listener whoever has to wait.

    Args:
        antechamber: where.
        listening: closed with this.
        terms: what is to be known.
        factory: makes what a connection goes on with.
        may_enter: whether who has that address, and is a proxy or not, may wait.

    """

    def __init__(
        self,
        antechamber: Antechamber,
        listening: socket.socket,
        terms: Terms,
        factory: Factory,
        may_enter: Callable[[str, bool], bool],
    ) -> None:
        self._antechamber = antechamber
        self._loop = antechamber.loop
        self._listening = listening
        self._terms = terms
        self._factory = factory
        self._may_enter = may_enter
        self._rest: asyncio.TimerHandle | None = None
        self._acceptor: asyncio.Task[None] | None = None
        self._watch()

    def _watch(self) -> None:
        self._rest = None
        try:
            # One each time: whoever has something to read has a turn between.
            self._loop.add_reader(self._listening, self._accept)
        except NotImplementedError:  # Windows: nothing can be waited for but by accepting it
            self._acceptor = self._loop.create_task(self._keep_accepting())

    def close(self) -> None:
        """Accept nobody any more; whoever waits goes on."""
        if self._rest is not None:
            self._rest.cancel()
        elif self._acceptor is not None:
            self._acceptor.cancel()
        else:
            self._loop.remove_reader(self._listening)

        self._listening.close()

    def _accept(self) -> None:
        try:
            accepted, address = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:
            self._loop.remove_reader(self._listening)
            self._rest = self._loop.call_later(ACCEPT_REST_S, self._watch)
            self._antechamber.tell("", f"cannot accept: {problem.strerror}", level="error")
            return

        self._welcome(accepted, address)

    async def _keep_accepting(self) -> None:
        while True:
            self._welcome(*await self._loop.sock_accept(self._listening))

    def _welcome(self, accepted: socket.socket, address: tuple[object, ...]) -> None:
        accepted.setblocking(False)
        guest = _Guest(self._antechamber, accepted, address, self._terms, self._factory)
        if self._may_enter(guest.host, guest.is_proxy):
            self._antechamber.begin(guest)
        else:
            accepted.close()


class _Guest:
    """One accepted socket, until it is a connection or closed."""

    def __init__(
        self,
        antechamber: Antechamber,
        accepted: socket.socket,
        address: tuple[object, ...],
        terms: Terms,
        factory: Factory,
    ) -> None:
        self._antechamber = antechamber
        self._loop = antechamber.loop
        self._socket = accepted
        self._terms = terms
        self._factory = factory
        self.host = plain_address(str(address[0]))
        self.peer = format_address(self.host, int(str(address[1])))
        self.is_proxy = self._is_in(terms.proxies)
        # From then on the socket is the transport's to close.
        self._is_handed_over = False

    async def enter(self) -> None:
        """Find out what the terms ask for, and hand the socket over; or close it."""
        timeout_s = self._antechamber.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._find_out()
        except SilenceError:
            pass
        except ProxyHeaderError as problem:
            self._tell(str(problem))
        except _NotTLSError as problem:
            self._tell(f"{problem} on a port with TLS")
        except (TimeoutError, ConnectionAbortedError):
            wanted = "no TLS handshake within" if self._terms.is_tls else "no PROXY header within"
            self._tell(f"{wanted} {timeout_s:g} s")
        except ssl.SSLError as problem:
            self._tell(_reason_of(problem))
        except OSError:
            self._tell(GONE_IN_HANDSHAKE if self._terms.is_tls else GONE, level="info")
        finally:
            if not self._is_handed_over:
                self._socket.close()

    def _tell(self, reason: str, *, level: str = "warning") -> None:
        self._antechamber.tell(self.peer, reason, level=level)

    async def _find_out(self) -> None:
        with contextlib.suppress(OSError):  # asyncio does so itself only for some sockets
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        proxied: Proxied | None = None
        if self.is_proxy:
            proxied = await read_proxy_header(partial(self._loop.sock_recv, self._socket))
            if proxied is not None and proxied.host:
                self.peer = f"{format_address(proxied.host, proxied.port)} by {self.peer}"

        factory = partial(self._factory, proxied)
        if self._terms.context is None:
            self._is_handed_over = True
            await self._loop.connect_accepted_socket(factory, self._socket)
            return

        await self._look_for_handshake()
        self._antechamber.begin_handshake(self.peer)
        self._is_handed_over = True
        ALERTED.set(self._send_alert)
        await self._loop.connect_accepted_socket(
            factory,
            self._socket,
            ssl=self._terms.context(),
            ssl_handshake_timeout=self._antechamber.timeout_s,
            ssl_shutdown_timeout=LINGER_S,
        )

    def _send_alert(self, alert: bytes) -> None:
        """As much as goes at once; nobody waits for a client that is refused."""
        with contextlib.suppress(OSError):
            self._socket.send(alert)

    def _is_in(self, networks: tuple[Network, ...]) -> bool:
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False

        return any(address in network for network in networks)

    async def _look_for_handshake(self) -> None:
        """Wait for the first octet: memory for TLS is had by those alone who say something.

        Raises:
            _NotTLSError: it begins like something else.
            SilenceError: the client has gone.

        """
        try:
            await self._wait_readable()
        except NotImplementedError:  # Windows
            return

        first = self._socket.recv(FIRST_OCTETS, socket.MSG_PEEK)
        if not first:
            raise SilenceError("nothing was sent")

        if first[0] != TLS_HANDSHAKE:
            stranger = describe_stranger(first)
            self._answer_plainly(HTTP_ANSWER if self._terms.is_http and "HTTP" in stranger else b"")
            raise _NotTLSError(stranger)

    async def _wait_readable(self) -> None:
        readable: asyncio.Future[None] = self._loop.create_future()

        def finish() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(self._socket, finish)
        try:
            await readable
        finally:
            self._loop.remove_reader(self._socket)

    def _answer_plainly(self, answer: bytes) -> None:
        """Tell a browser or a tool what is wrong; as much as goes at once."""
        with contextlib.suppress(OSError):
            self._socket.recv(UNREAD_BYTES_MAX)  # what is unread would turn the end into a reset
            self._socket.send(answer)
            self._socket.shutdown(socket.SHUT_WR)


class _NotTLSError(Exception):
    """Something else than TLS came."""


def _reason_of(problem: ssl.SSLError) -> str:
    """What a person can do something about."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {problem.verify_message}"

    reason = problem.reason or ""
    known = REASONS.get(reason)
    if known is not None:
        return known

    _, alert, name = reason.partition(ALERT)
    if alert:
        return f"the client broke the handshake off: {name.lower().replace('_', ' ')}"

    return f"the TLS handshake failed: {reason.lower().replace('_', ' ') or problem}"
