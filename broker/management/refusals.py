"""What a peer hears whose bytes are no HTTP request (management layer).

aiohttp quotes them in its answer, and in a traceback on standard error: a login in a line that
lacks its colon would be in both.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from broker.management.hardening import security_headers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["QUIET", "reticent"]

QUIET: Final = logging.getLogger("leveret.http")
"""For what aiohttp has to say: faults of ours are told by the API itself."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

TEXTS: Final = {400: "400: this is no HTTP request", 500: "500: the request could not be answered"}


class _Reticent(RequestHandler):
    """Says what is wrong, and nothing of what was sent."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        if isinstance(response, web.Response):
            response.text = TEXTS.get(status, f"{status}: the request was refused") + "\n"
            response.content_type = "text/plain"

        for name, value in security_headers(is_secure=request.secure).items():
            response.headers[name] = value

        response.headers["server"] = "leveret"
        return response


def reticent(make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.BaseProtocol]:
    """A protocol factory of aiohttp's whose refusals quote nothing.

    aiohttp lets nobody name the class, but what it makes is of no other shape.
    """

    def make_reticent() -> asyncio.BaseProtocol:
        protocol = make()
        protocol.__class__ = _Reticent
        return protocol

    return make_reticent
