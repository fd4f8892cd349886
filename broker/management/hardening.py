"""What browsers are told, and what is not taken from them (management layer).

A page of another site can make a browser send requests here, with a cookie or a login that the
browser has by itself. So what changes something is refused where a browser says that it comes from
another site; programs say nothing of the kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

__all__ = [
    "SECURITY_HEADERS",
    "cors_headers",
    "is_from_elsewhere",
    "loggable_path",
    "own_place",
    "preflight_headers",
    "security_headers",
]

SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # Which library of which version answers is nobody's business.
    "server": "Leveret",
}
"""For answers that are data: there is nothing in them to be run, framed or guessed at."""

TRANSPORT_SECURITY: Final = "max-age=31536000; includeSubDomains"

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""What changes nothing."""

CORS_MAX_AGE_S: Final = 1_800
CORS_METHODS: Final = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
CORS_HEADERS: Final = "authorization, content-type, x-reason, x-vhost"

HIDDEN: Final = "***"
HIDES_WHAT_FOLLOWS: Final = "hash_password"
"""What follows it in a path is a password."""

SECRET_KEYS: Final = frozenset({"password", "passwd", "pass", "token", "secret"})

_PARTS: Final = re.compile(r"([&;?])")


def security_headers(*, is_secure: bool) -> dict[str, str]:
    """Headers of every answer.

    Args:
        is_secure: whether it goes out through TLS.

    """
    if not is_secure:
        return SECURITY_HEADERS

    return {**SECURITY_HEADERS, "strict-transport-security": TRANSPORT_SECURITY}


def is_from_elsewhere(request: web.BaseRequest, host: str, origins: tuple[str, ...]) -> bool:
    """Whether a browser says that another site wants to change something.

    Args:
        request: as it came.
        host: that it is for.
        origins: sites that may.

    """
    if request.method in SAFE_METHODS:
        return False

    origin = request.headers.get("origin")
    if origin is not None:
        return not _is_own(origin, host) and origin not in origins

    # Browsers that leave out the one say the other; programs say neither.
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_own(origin: str, host: str) -> bool:
    """Whether it is the site that was asked: a page of ours."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def cors_headers(headers: Mapping[str, str], origins: tuple[str, ...]) -> dict[str, str]:
    """What lets a page of another site read an answer; nothing where it may not."""
    origin = headers.get("origin")
    if origin is None or not origins:
        return {}

    if origin in origins:
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-credentials": "true",
            "cross-origin-resource-policy": "cross-origin",
        }

    # With no login that the browser has by itself.
    return {"access-control-allow-origin": "*"} if "*" in origins else {}


def preflight_headers(headers: Mapping[str, str], origins: tuple[str, ...]) -> dict[str, str]:
    """What a browser is told that asks whether a page of another site may ask."""
    allowed = cors_headers(headers, origins)
    if not allowed or "access-control-request-method" not in headers:
        return {}

    return {
        "access-control-allow-methods": CORS_METHODS,
        "access-control-allow-headers": CORS_HEADERS,
        "access-control-max-age": str(CORS_MAX_AGE_S),
    }


def loggable_path(path: str) -> str:
    """A path and its query, without what could be a password in them, however it is written."""
    where, mark, query = path.partition("?")
    if "@" in where and "//" in where:
        # A whole URL, or what looks like one: a login may stand before the host.
        before, _, behind = where.partition("//")
        where = f"{before}//{HIDDEN}@{behind.rpartition('@')[2]}"

    segments = where.split("/")
    for place, segment in enumerate(segments):
        if unquote(segment) == HIDES_WHAT_FOLLOWS and any(segments[place + 1 :]):
            segments[place + 1 :] = [HIDDEN]
            break

    parts = [_hidden(part) for part in _PARTS.split(query)]
    return f"{'/'.join(segments)}{mark}{''.join(parts)}"


def _hidden(part: str) -> str:
    key, equals, _ = part.partition("=")
    return f"{key}={HIDDEN}" if equals and unquote(key).lower() in SECRET_KEYS else part


def own_place(target: str) -> str:
    """Where a form wants to be sent on to, if that is a page of this site; empty otherwise."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""

    is_own = not parts.scheme and not parts.netloc and "\\" not in target
    # Browsers take more than one slash for the begin of a host, whatever this library makes of it.
    is_own = is_own and not target.startswith("//")
    return target if is_own and target.isprintable() else ""
