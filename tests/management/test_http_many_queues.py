"""What requests cost beside very many queues, counted in work and not in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.queue_commands import QueueRequest, declare_queue
from broker.management import queue_rows, site
from broker.management.paging import ROWS_PER_TURN
from tests.helpers.http_api import http_broker

if TYPE_CHECKING:
    from broker.core.queue.queue import Queue
    from broker.management.json_text import JSON
    from broker.management.site import Site
    from tests.helpers.http_api import HTTPClient

MANY = site.QUEUES_AT_A_GLANCE + 200


def declare(client: HTTPClient, count: int = MANY) -> None:
    vhost = client.node.vhosts["/"]
    actor = client.node.own_actor(vhost)
    for number in range(count):
        declare_queue(vhost, actor, QueueRequest(f"q{number:05}", False, False, False, {}))


@pytest.fixture
def rows_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues of which a row was made."""
    made: list[str] = []
    identity_of = queue_rows.identity_of

    def noted(of: Site, queue: Queue) -> JSON:
        made.append(queue.name)
        return identity_of(of, queue)

    monkeypatch.setattr(queue_rows, "identity_of", noted)
    return made


@pytest.mark.parametrize(
    "query",
    [
        "page=1&page_size=10",
        "page=3&page_size=10&sort=messages&sort_reverse=true",
        "page=1&page_size=10&sort=message_stats.publish_details.rate",
        "page=1&page_size=10&use_regex=true&name=%5Eq000",
    ],
)
async def test_a_page_makes_the_rows_that_are_on_it(query: str, rows_made: list[str]) -> None:
    async with http_broker() as client:
        declare(client)
        answer = await client.get(f"/queues?{query}")
        items = answer.facts["items"]
        assert isinstance(items, list)
        assert len(items) == len(rows_made) == 10


async def test_a_long_list_leaves_the_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    async with http_broker() as client:
        declare(client)
        loop = client.broker._running.pump.loop

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        loop.call_soon(turn)
        assert len((await client.get("/queues")).rows) == MANY
        assert turns >= MANY // ROWS_PER_TURN


async def test_a_page_follows_what_comes_and_goes() -> None:
    async with http_broker() as client:
        declare(client, 5)
        pages = []
        for verb, name in (("GET", "q00001"), ("DELETE", "q00001"), ("PUT", "q00001a")):
            await client.ask(verb, f"/queues/%2F/{name}", {} if verb == "PUT" else None)
            items = (await client.get("/queues?page=1&page_size=3")).facts["items"]
            assert isinstance(items, list)
            pages.append([row["name"] for row in items])

        assert pages == [
            ["q00000", "q00001", "q00002"],
            ["q00000", "q00002", "q00003"],
            ["q00000", "q00001a", "q00002"],
        ]


async def test_sums_over_few_queues_are_of_now_and_over_very_many_of_the_last_second() -> None:
    body = {"properties": {}, "routing_key": "q00000", "payload": "", "payload_encoding": "string"}
    path = "/overview?columns=queue_totals.messages"
    for count, second in ((3, 2), (MANY, 1)):
        async with http_broker() as client:
            declare(client, count)
            seen = []
            for _ in range(2):
                await client.post("/exchanges/%2F/amq.default/publish", body)
                totals = (await client.get(path)).facts["queue_totals"]
                assert isinstance(totals, dict)
                seen.append(totals["messages"])

            assert seen == [1, second]
            client.broker.node.deadlines.now_ms += 2_000
            totals = (await client.get(path)).facts["queue_totals"]
            assert totals == {"messages": 2}
