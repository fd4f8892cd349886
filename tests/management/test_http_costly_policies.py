"""A policy with a costly pattern, where there are many names made for it, holds nobody up: names
are searched ahead, a little at a time, on every way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.auth.patterns import knowing_pattern
from broker.config.loader import load_config
from broker.management import searching
from tests.helpers.http_api import HTTPClient, http_broker

if TYPE_CHECKING:
    from pathlib import Path

COSTLY: Final = "(a|a)*b"
POLICY: Final = {"pattern": COSTLY, "definition": {"max-length": 5}, "apply-to": "queues"}
OPERATOR: Final = {**POLICY, "priority": 0}
NAMES: Final = ["a" * 200 + str(number) for number in range(3)]
TOO_LONG: Final = "the pattern takes too long on names that there are"


TRIES_MAX: Final = len(NAMES) + 20
"""Exchanges that are always there have names too."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may search one name; what is known is known."""
    monkeypatch.setattr(searching, "SEARCH_TURN_S", 0.0)
    monkeypatch.setattr(searching, "SEARCH_S", 0.0)
    knowing_pattern.cache_clear()


async def fill(client: HTTPClient) -> None:
    for name in NAMES:
        await client.put(f"/queues/%2F/{name}", {})

    await client.put("/queues/%2F/aab", {})


WAYS: Final = [
    pytest.param("PUT", "/policies/%2F/p", POLICY, id="policy"),
    pytest.param("PUT", "/operator-policies/%2F/p", OPERATOR, id="operator-policy"),
    pytest.param("PUT", "/parameters/operator_policy/%2F/p", {"value": OPERATOR}, id="parameter"),
    pytest.param(
        "POST", "/definitions", {"policies": [{"vhost": "/", "name": "p", **POLICY}]}, id="import"
    ),
    pytest.param(
        "POST",
        "/definitions/%2F",
        {"parameters": [{"component": "operator_policy", "name": "p", "value": OPERATOR}]},
        id="import-of-a-parameter",
    ),
]


@pytest.mark.parametrize(("method", "path", "body"), WAYS)
async def test_what_takes_too_long_is_not_set_and_gets_further_each_time(
    method: str, path: str, body: object
) -> None:
    async with http_broker() as client:
        await fill(client)
        tries = 0
        while (answer := await client.ask(method, path, body)).status == 400 and tries < TRIES_MAX:
            tries += 1
            assert TOO_LONG in str(answer.facts["reason"])
            assert client.node.vhosts["/"].policies.policies == []
            assert client.node.vhosts["/"].policies.operator_policies == []

        assert answer.status in (201, 204)
        assert tries >= len(NAMES)
        lengths = [queue.settings.length_max for queue in client.node.vhosts["/"].queues.values()]
        assert lengths == [None, None, None, 5]


async def test_queues_that_come_with_the_policy_are_searched_ahead_too() -> None:
    async with http_broker() as client:
        queues = [{"vhost": "/", "name": name} for name in NAMES]
        document = {"policies": [{"vhost": "/", "name": "p", **POLICY}], "queues": queues}
        tries = 0
        while (answer := await client.post("/definitions", document)).status == 400:
            tries += 1
            assert tries < TRIES_MAX
            assert f"policies[0]: {TOO_LONG}" in str(answer.facts["reason"])

        assert answer.status == 204
        exchanges = len(client.node.vhosts["/"].exchanges)
        assert tries == len(NAMES) + exchanges


async def test_other_patterns_are_not_searched_ahead() -> None:
    async with http_broker() as client:
        await fill(client)
        body = {**POLICY, "pattern": "^a+"}
        assert (await client.put("/policies/%2F/p", body)).status == 201


async def test_what_is_known_of_a_policy_is_not_searched_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with http_broker() as client:
        await fill(client)
        for _ in range(TRIES_MAX):
            await client.put("/policies/%2F/p", POLICY)

        def search(_name: str) -> bool:
            raise AssertionError("it was searched for already")

        machine = knowing_pattern(COSTLY)._machine
        monkeypatch.setattr(type(machine), "finds", lambda _self, name: search(name))
        other = {"pattern": "^b", "definition": {"max-length": 1}, "priority": 9}
        assert (await client.put("/policies/%2F/other", other)).status == 201
        assert len((await client.get("/queues/%2F")).rows) == 4
        assert (await client.delete("/policies/%2F/p")).status == 204


async def test_a_configuration_that_is_read_again_is_searched_ahead(tmp_path: Path) -> None:
    path = tmp_path / "leveret.yaml"
    path.write_text("version: 1\nstorage: {memory_only: true}\nvhosts: {/: {}}\n")
    async with http_broker() as client:
        await fill(client)
        app = client.broker._running
        config = load_config(str(path))
        app.make_reloadable(config, lambda *_: None, lambda: load_config(str(path)))
        assert app.reloader is not None
        policy = f"{{p: {{pattern: '{COSTLY}', definition: {{max-length: 5}}}}}}"
        path.write_text(
            f"version: 1\nstorage: {{memory_only: true}}\nvhosts: {{/: {{policies: {policy}}}}}\n"
        )
        tries = 0
        while not (outcome := await app.reloader.reload()).is_applied and tries < TRIES_MAX:
            tries += 1
            assert outcome.problems == (f"vhosts./.policies.p: {TOO_LONG}",)

        assert outcome.is_applied
        assert tries >= len(NAMES)
        assert client.node.vhosts["/"].queues["aab"].settings.length_max == 5
