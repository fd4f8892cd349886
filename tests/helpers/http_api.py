"""A broker with its HTTP API, and a client that speaks to it."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import yarl

from broker.embedded import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from broker.core.node import Node

__all__ = ["Answer", "HTTPClient", "http_broker"]


class Answer(NamedTuple):
    """What came back; the value of a body that is empty is None."""

    status: int
    value: object
    headers: Mapping[str, str]

    @property
    def rows(self) -> list[dict[str, object]]:
        """The value, which is a list of objects."""
        assert isinstance(self.value, list), self
        return self.value

    @property
    def facts(self) -> dict[str, object]:
        """The value, which is an object."""
        assert isinstance(self.value, dict), self
        return self.value


class HTTPClient:
    """Makes requests as somebody.

    Args:
        broker: whom to ask.
        session: makes them.
        user: who asks; None for nobody.
        password: of that user.

    """

    def __init__(
        self,
        broker: Broker,
        session: aiohttp.ClientSession,
        user: str | None = "guest",
        password: str = "guest",
    ) -> None:
        self.broker = broker
        self._session = session
        self._headers: dict[str, str] = {}
        if user is not None:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["authorization"] = f"Basic {token}"

    @property
    def node(self) -> Node:
        return self.broker.node

    def as_user(self, user: str | None, password: str = "secret") -> HTTPClient:
        """The same as somebody else."""
        return HTTPClient(self.broker, self._session, user, password)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        data: object = None,
    ) -> Answer:
        """One request; the path begins behind ``/api``."""
        url = f"{self.broker.management_url}/api{path}"
        sent = {**self._headers, **(headers or {})}
        # The path is quoted already.
        async with self._session.request(
            method, _raw(url), headers=sent, allow_redirects=False, json=body, data=data
        ) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json" and raw
            value = await response.json() if is_json else None
            return Answer(response.status, value, response.headers)

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def put(self, path: str, body: object = None) -> Answer:
        return await self.ask("PUT", path, body)

    async def post(self, path: str, body: object = None) -> Answer:
        return await self.ask("POST", path, body)

    async def delete(self, path: str) -> Answer:
        return await self.ask("DELETE", path)


def _raw(url: str) -> yarl.URL:
    return yarl.URL(url, encoded=True)


@asynccontextmanager
async def http_broker(config: Mapping[str, object] | None = None) -> AsyncIterator[HTTPClient]:
    """A broker that ends with the block, and its administrator's client.

    Passwords are hashed quickly, where the configuration says nothing of it.
    """
    quick = {"management": {"enabled": True}, "auth": {"password_hashing": "sha256"}}
    wanted = {**quick, **(config or {})}
    async with Broker(wanted) as broker, aiohttp.ClientSession() as session:
        yield HTTPClient(broker, session)
