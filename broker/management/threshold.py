"""Who stands at the door of the API, and for how long (management layer).

A request comes byte by byte, and HTTP says nothing of how long that may take. So each connection
has a time by which something has to happen: the head of a request is there, then its body, then the
next request begins. Whoever lets it pass is cut off, and so is whoever has been idle for longest
where there are too many.

Invariant: no connection is without such a time but while a request that is there is worked on.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

from broker.management.hardening import security_headers

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware

__all__ = ["FIRST_OF_CONNECTION", "HEAD_S", "IDLE_S", "Threshold"]

FIRST_OF_CONNECTION: Final = ContextVar("FIRST_OF_CONNECTION", default=False)
"""Whether the connection of the request that is worked on had none before."""

HEAD_S: Final = 10.0
"""How long the first line and the headers of a request may take."""

IDLE_S: Final = 60.0
"""How long a connection is kept for the next request; and a client that reads no answer, too."""

SWEEP_S: Final = 1.0
"""How often it is looked for whose time is over."""


class Threshold:
    """The connections of one server.

    Args:
        connections_max: at a time.
        request_timeout_s: how long a request may take to arrive.

    """

    def __init__(self, connections_max: int = 1_000, request_timeout_s: float = 60.0) -> None:
        self._connections_max = connections_max
        self._request_timeout_s = request_timeout_s
        # Who has been idle for longest stands first.
        self._visits: dict[_Visit, None] = {}
        self._by_transport: dict[asyncio.BaseTransport, _Visit] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def guarded(self, make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.Protocol]:
        """A protocol factory whose connections stand under this."""

        def make_visit() -> asyncio.Protocol:
            return _Visit(self, cast("asyncio.Protocol", make()))

        return make_visit

    @property
    def middleware(self) -> Middleware:
        """Tells of requests that begin and end, and gives all answers the headers of safety."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            visit = self._by_transport.get(request.transport) if request.transport else None
            if visit is not None:
                self._began(visit, request)

            try:
                response = await handler(request)
            except web.HTTPException as answer:
                _make_safe(answer, request)
                raise
            finally:
                if visit is not None:
                    self._ended(visit)

            _make_safe(response, request)
            return response

        return guard

    def stop(self) -> None:
        """Forget the timer."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._visits)

    # -- what happens to one

    def enter(self, visit: _Visit, transport: asyncio.BaseTransport) -> bool:
        """Somebody comes; False where there is no room."""
        if len(self._visits) >= self._connections_max and not self._make_room():
            return False

        self._visits[visit] = None
        self._by_transport[transport] = visit
        self._expect(visit, HEAD_S)
        return True

    def leave(self, visit: _Visit, transport: asyncio.BaseTransport) -> None:
        self._visits.pop(visit, None)
        self._by_transport.pop(transport, None)

    def hears(self, visit: _Visit) -> None:
        """The first bytes of a request."""
        visit.is_idle = False
        self._expect(visit, HEAD_S)

    def _began(self, visit: _Visit, request: web.BaseRequest) -> None:
        FIRST_OF_CONNECTION.set(not visit.has_asked)
        visit.has_asked = True
        visit.is_idle = False
        visit.request = request
        self._expect(visit, self._request_timeout_s)

    def _ended(self, visit: _Visit) -> None:
        visit.request = None
        visit.is_idle = True
        if visit in self._visits:
            self._expect(visit, IDLE_S)

    def _expect(self, visit: _Visit, within_s: float) -> None:
        loop = asyncio.get_running_loop()
        visit.due_s = loop.time() + within_s
        # Last in the order of those who wait.
        del self._visits[visit]
        self._visits[visit] = None
        if self._sweeping is None:
            self._sweeping = loop.call_later(SWEEP_S, self.sweep)

    def _make_room(self) -> bool:
        for visit in self._visits:
            if visit.request is None:
                visit.abort()
                self._visits.pop(visit, None)
                return True

        return False

    def sweep(self) -> None:
        """Cut off everybody whose time is over."""
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_S, self.sweep) if self._visits else None
        now_s = loop.time()
        for visit in [one for one in self._visits if one.due_s <= now_s]:
            request = visit.request
            # Who has sent all of it waits for us.
            if request is None or not request.content.is_eof():
                visit.abort()
                self._visits.pop(visit, None)


class _Visit(asyncio.Protocol):
    """One connection, in front of the protocol that serves it.

    Attributes:
        due_s: by when something has to happen.
        is_idle: whether the last request is answered and no other has begun.
        has_asked: whether there was a request.
        request: the one that is worked on.

    """

    def __init__(self, threshold: Threshold, inner: asyncio.Protocol) -> None:
        self._threshold = threshold
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._is_in = False
        self.due_s = 0.0
        self.is_idle = False
        self.has_asked = False
        self.request: web.BaseRequest | None = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._is_in = self._threshold.enter(self, transport)
        if self._is_in:
            self._inner.connection_made(transport)
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_in:
            if self.is_idle:
                self._threshold.hears(self)

            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._is_in else None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_in and self._transport is not None:
            self._threshold.leave(self, self._transport)
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._is_in:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_in:
            self._inner.resume_writing()


def _make_safe(response: web.StreamResponse, request: web.BaseRequest) -> None:
    if not response.prepared:
        for name, value in security_headers(is_secure=request.secure).items():
            response.headers.setdefault(name, value)
