"""Whom a request is for, and what it asks for (management layer; RFC 9112, section 3.2).

Proxies write a whole URL where others write a path. Then the host that counts is the one in it,
and whatever the header says is not looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.management.errors import BadRequest

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Target", "target_of"]

_WHOLE: Final = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


class Target(NamedTuple):
    """What stands in the first line of a request.

    Attributes:
        host: that it is for, with its port if that is said; empty where nothing is.
        path: and its query, as they came.

    """

    host: str
    path: str


def target_of(request: web.BaseRequest) -> Target:
    """Take the first line apart.

    Raises:
        BadRequest: a URL in it has a login, or no host.

    """
    match = _WHOLE.fullmatch(request.raw_path)
    if match is None:
        return Target(request.headers.get("host", ""), request.raw_path)

    host, path = match.groups()
    if not host or "@" in host:
        raise BadRequest("the URL of the request names no host, or more than that")

    return Target(host, path if path.startswith("/") else f"/{path}")
