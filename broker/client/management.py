"""Toolkit: what a broker's HTTP API tells, and AMQP does not.

Invariant: it only asks; everything that changes something goes over AMQP.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from broker.client.checks import check_kind
from broker.client.errors import AccessRefused, InvalidValue, QueueNotFound, Unavailable
from broker.client.message import ServerStats

if TYPE_CHECKING:
    from broker.client.options import Options

__all__ = ["Management", "check_management_url"]

T = TypeVar("T")

TOTALS: Final = {
    "published": "publish",
    "delivered": "deliver_get",
    "redelivered": "redeliver",
    "acked": "ack",
}


def check_management_url(value: object) -> None:
    """Refuse what is no URL of an HTTP API."""
    check_kind("management_url", value, str, "'http://localhost:15672'")
    try:
        parts = urlsplit(str(value))
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False

    if not is_right:
        raise InvalidValue("management_url is to be like http://user:password@host:15672")


class Management:
    """Asks the HTTP API, if one was told where it is."""

    def __init__(self, options: Options, vhost: str, account: tuple[str, str]) -> None:
        self._url = options.management_url
        self._timeout = options.timeout
        self._vhost = vhost
        self._account = account

    @property
    def is_there(self) -> bool:
        """Whether one was told where it is."""
        return self._url is not None

    async def queue_names(self) -> list[str]:
        """Return the names of the virtual host's queues, in order."""
        rows = await self._get(f"queues/{quote(self._vhost, safe='')}", list[dict[str, Any]])
        return sorted(str(row["name"]) for row in rows)

    async def queue_totals(self, name: str) -> dict[str, int]:
        """Return what happened in a queue so far, and what is being handled there."""
        path = f"queues/{quote(self._vhost, safe='')}/{quote(name, safe='')}"
        row = await self._get(path, dict[str, Any])
        happened = row.get("message_stats") or {}
        found = {ours: int(happened.get(theirs, 0)) for ours, theirs in TOTALS.items()}
        return {"in_flight": int(row.get("messages_unacknowledged", 0)), **found}

    async def server(self) -> ServerStats:
        """Return what the broker is and has."""
        row = await self._get("overview", dict[str, Any])
        objects, totals = row.get("object_totals") or {}, row.get("queue_totals") or {}
        return ServerStats(
            product=str(row.get("product_name") or row.get("management_version") or ""),
            version=str(row.get("product_version") or row.get("rabbitmq_version") or ""),
            queues=int(objects.get("queues", 0)),
            connections=int(objects.get("connections", 0)),
            channels=int(objects.get("channels", 0)),
            consumers=int(objects.get("consumers", 0)),
            ready=int(totals.get("messages_ready", 0)),
            in_flight=int(totals.get("messages_unacknowledged", 0)),
        )

    async def _get(self, path: str, kind: type[T]) -> T:
        if self._url is None:
            raise InvalidValue("say where the HTTP API is, in Options(management_url=...)")

        found = await asyncio.to_thread(self._fetch, self._url, path)
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError as problem:
            raise Unavailable(f"what answers to {path} is no HTTP API: {problem}") from problem

    def _fetch(self, url: str, path: str) -> Any:
        parts = urlsplit(url)
        user, password = self._account
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")

        netloc = parts.netloc.rpartition("@")[2]
        root = parts.path.rstrip("/").removesuffix("/api")
        target = urlunsplit(parts._replace(netloc=netloc, path=f"{root}/api/{path}"))
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        request = urllib.request.Request(target, headers={"Authorization": f"Basic {token}"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as problem:
            with problem:
                _raise_for(problem, path)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            # ValueError: an answer that is no JSON, or not UTF-8.
            raise Unavailable(f"no HTTP API at {netloc}: {problem}") from problem


def _raise_for(problem: urllib.error.HTTPError, path: str) -> None:
    if problem.code in (401, 403):
        raise AccessRefused(f"the HTTP API does not show {path} to this user") from problem

    if problem.code == 404:
        raise QueueNotFound(f"the HTTP API knows no {unquote(path)}") from problem

    raise Unavailable(f"the HTTP API answers {problem.code} to {path}") from problem
