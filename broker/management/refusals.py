"""What a peer hears whom aiohttp refuses before the API does (management layer).

aiohttp quotes what was sent in its answers, and in a traceback on standard error: a login in a line
that lacks its colon would be in both. So its refusals are made anew, and are errors like others.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestHandler

from broker.management.call import refusal
from broker.management.errors import HTTPProblem, NotThere
from broker.management.hardening import security_headers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["QUIET", "expect_little", "reticent"]

QUIET: Final = logging.getLogger("leveret.http")
"""For what aiohttp has to say: faults of ours are told by the API itself."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

REASONS: Final = {
    400: HTTPProblem(400, "bad_request", "this is no HTTP request"),
    404: NotThere(),
    500: HTTPProblem(500, "internal_server_error", "the request could not be answered"),
}
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def _refusal(status: int, request: web.BaseRequest) -> web.Response:
    problem = REASONS.get(status)
    if problem is None:
        error = HTTPStatus(status).phrase.lower().replace(" ", "_")
        problem = HTTPProblem(status, error, "the request was refused")

    response = refusal(problem)
    response.headers.update(security_headers(is_secure=request.secure))
    return response


async def expect_little(request: web.Request) -> None:
    """Let a client that asks whether it may send the body go on; RabbitMQ heeds no other wish."""
    wish = request.headers.get("expect", "")
    if request.version == HttpVersion11 and wish.lower() == "100-continue":
        await request.writer.write(CONTINUE)
        # aiohttp: the answer itself has not begun.
        request.writer.output_size = 0


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
        # It tells those who debug, closes the connection, and knows whether it is too late.
        super().handle_error(request, status, exc, message)
        response = _refusal(status, request)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPException) and not resp.prepared:
            # The API raises none: aiohttp has found no way to it.
            made = _refusal(resp.status, request)
            if "allow" in resp.headers:
                made.headers["allow"] = resp.headers["allow"]

            resp = made

        return await super().finish_response(request, resp, start_time)


def reticent(make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.BaseProtocol]:
    """A protocol factory of aiohttp's whose refusals quote nothing.

    aiohttp lets nobody name the class, but what it makes is of no other shape.
    """

    def make_reticent() -> asyncio.BaseProtocol:
        protocol = make()
        protocol.__class__ = _Reticent
        return protocol

    return make_reticent
