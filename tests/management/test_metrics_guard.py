"""Who may ask for metrics: by a login where one is wanted, and no page under a name of its own."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp
import pytest

from broker.embedded import Broker

LOGIN = {"authentication": True}
USERS = [
    {"name": "admin", "password": "secret", "tags": ["administrator"]},
    {"name": "looker", "password": "secret", "tags": ["monitoring"]},
    {"name": "manager", "password": "secret", "tags": ["management"]},
]


def config(**prometheus: object) -> dict[str, Any]:
    return {
        "auth": {"failed_logins": {"delay": "0s"}},
        "users": USERS,
        "metrics": {"prometheus": {"enabled": True, **prometheus}},
    }


async def asked(broker: Broker, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    url = f"{broker.metrics_url}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


def basic(user: str, password: str = "secret") -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


async def test_where_a_login_is_wanted_monitors_and_administrators_have_one() -> None:
    async with Broker(config(**LOGIN), log_level="error") as broker:
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed", "/", "/else"):
            assert (await asked(broker, path))[0] == 401

        for user in ("admin", "looker"):
            status, text = await asked(broker, authorization=basic(user))
            assert status == 200
            assert "rabbitmq_connections 0\n" in text

        assert (await asked(broker, authorization=basic("manager")))[0] == 401
        assert (await asked(broker, authorization=basic("looker", "wrong")))[0] == 401


async def test_programs_are_told_how_to_log_in() -> None:
    async with Broker(config(**LOGIN), log_level="error") as broker:
        url = f"{broker.metrics_url}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:15692", 200), ("evil.example", 421), ("broker.example.org", 200)],
)
async def test_a_page_cannot_read_them_under_a_name_of_its_own(host: str, status: int) -> None:
    named = {**config(), "management": {"hosts": ["broker.example.org"]}}
    async with Broker(named, log_level="error") as broker:
        assert (await asked(broker, host=host))[0] == status
