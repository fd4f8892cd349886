"""Logging in for a while, and out again (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from broker.management.auth import ANYBODY, ANYONE
from broker.management.call import JSON_TYPE, answer, done
from broker.management.errors import BadRequest, NotAuthorised
from broker.management.json_text import parse_object
from broker.management.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.auth import Caller
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES"]

BODY_BYTES_MAX: Final = 8_192
"""Of a login, which anybody may send: a name and a password."""


def _identity_of(caller: Caller) -> JSON:
    return {"name": caller.name, "tags": list(caller.user.tags), "is_internal_user": True}


async def whoami(call: Call) -> web.Response:
    return answer(
        {
            **_identity_of(call.caller),
            "login_session_timeout": int(call.doorkeeper.sessions.timeout_s // 60),
        }
    )


async def log_in(call: Call) -> web.Response:
    """Check a login that came as a form or as JSON, and begin a session."""
    name, password = await _login_in(call)
    try:
        caller = await call.doorkeeper.log_in(name, password, call.request)
    except NotAuthorised:
        raise NotAuthorised("Not_Authorized", "not_authorized") from None

    # The cookie is set on what goes out, and what goes out has the token in it.
    shell = answer({})
    token = call.doorkeeper.open_session(caller, call.request, shell)
    response = answer({"token": {"type": "bearer", "value": token}, "user": _identity_of(caller)})
    response.cookies.update(shell.cookies)
    return response


async def _login_in(call: Call) -> tuple[str, str]:
    raw = await call.raw_body(BODY_BYTES_MAX)
    if call.request.content_type == JSON_TYPE:
        fields = parse_object(raw)
        name, password = fields.get("username"), fields.get("password")
        if not isinstance(name, str) or not isinstance(password, str):
            raise BadRequest("a login has a username and a password")

        return name, password

    form = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=16)
    return form.get("username", [""])[0], form.get("password", [""])[0]


async def log_out(call: Call) -> web.Response:
    response = done()
    call.doorkeeper.close_session(call.request, response)
    return response


ROUTES: Final = (
    Route("GET", "/whoami", ANYBODY, whoami),
    Route("POST", "/login", ANYONE, log_in),
    Route("DELETE", "/login", ANYONE, log_out),
)
