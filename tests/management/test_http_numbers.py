"""Numbers in queries, paths and bodies that make no sense, held against what RabbitMQ 4.3 makes of
them; and those of our own routes, which refuse them."""

from __future__ import annotations

import pytest

from tests.helpers.http_api import HTTPClient, http_broker

HUGE = "9" * 30
PAGED = [
    "/queues",
    "/queues/%2F",
    "/queues/detailed",
    "/exchanges",
    "/exchanges/%2F",
    "/connections",
    "/channels",
    "/vhosts",
    "/users",
]
BAD_PAGES = [
    ("page=x", "Pagination parameters are invalid"),
    ("page=", "Pagination parameters are invalid"),
    ("page=1.5", "Pagination parameters are invalid"),
    ("page=1_0", "Pagination parameters are invalid"),
    ("page=%201", "Pagination parameters are invalid"),
    ("page=%D9%A1", "Pagination parameters are invalid"),
    ("page=1&page_size=x", "Pagination parameters are invalid"),
    ("page_size=x", "Pagination parameters are invalid"),
    ("page=0", "Invalid pagination parameters: page number 0, page size undefined"),
    ("page=-1", "Invalid pagination parameters: page number -1, page size undefined"),
    ("page=1&page_size=0", "Invalid pagination parameters: page number 1, page size 0"),
    ("page=1&page_size=-1", "Invalid pagination parameters: page number 1, page size -1"),
    ("page=1&page_size=501", "Invalid pagination parameters: page number 1, page size 501"),
    (
        f"page=1&page_size={HUGE}",
        f"Invalid pagination parameters: page number 1, page size {HUGE}",
    ),
]


async def fill(client: HTTPClient, count: int) -> None:
    await client.put("/queues/%2F/q", {})
    one = {"payload": "abc", "payload_encoding": "string"}
    answer = await client.post("/queues/%2F/q/messages", {"messages": [one] * count})
    assert answer.facts["published"] == count


@pytest.mark.parametrize("path", PAGED)
async def test_pages_that_make_no_sense_are_refused_by_every_list(path: str) -> None:
    async with http_broker() as client:
        found = [(await client.get(f"{path}?{query}")) for query, _ in BAD_PAGES]
        assert [(one.status, one.facts.get("reason")) for one in found] == [
            (400, reason) for _, reason in BAD_PAGES
        ]
        far = await client.get(f"{path}?page={HUGE}")
        assert (far.status, far.facts["error"]) == (400, "page_out_of_range")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("page=%2B1&page_size=2", ["a", "b"]),
        ("page=2&page_size=2", ["c"]),
        # RabbitMQ: it begins where the list ends.
        ("page=2&page_size=3", []),
        ("page=1&name=nothing", []),
        ("page_size=0", ["a", "b", "c"]),
        ("page_size=600", ["a", "b", "c"]),
    ],
)
async def test_pages_at_the_ends_of_a_list(query: str, names: list[str]) -> None:
    async with http_broker() as client:
        for name in ("a", "b", "c"):
            await client.put(f"/queues/%2F/{name}", {})

        answer = await client.get(f"/queues/%2F?columns=name&{query}")
        rows = answer.rows if "page=" not in query else answer.facts["items"]
        assert rows == [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("count", "taken"),
    [
        (0, 0),
        (2, 2),
        ("2", 2),
        ("+2", 2),
        (-1, 3),
        ("-1", 3),
        (10**30, 3),
        (1.0, 1),
        (1.9, 1),
        (1e300, 3),
    ],
)
async def test_counts_that_get_takes(count: object, taken: int) -> None:
    async with http_broker() as client:
        await fill(client, 3)
        body = {"count": count, "ackmode": "ack_requeue_true", "encoding": "auto"}
        answer = await client.post("/queues/%2F/q/get", body)
        assert (answer.status, len(answer.rows)) == (200, taken)


MODES = "ack_requeue_true, ack_requeue_false, reject_requeue_true, reject_requeue_false"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"count": "x"}, ["not_integer", "x"]),
        ({"count": " 2"}, ["not_integer", " 2"]),
        ({"count": "2.0"}, ["not_integer", "2.0"]),
        ({"count": "1_0"}, ["not_integer", "1_0"]),
        ({"count": "\u0662"}, ["not_integer", "\u0662"]),
        ({"count": True}, ["not_integer", True]),
        ({"count": None}, ["not_integer", None]),
        ({"count": []}, ["not_integer", []]),
        ({"ackmode": "x"}, f"Invalid ackmode value: x. Valid values are: {MODES}"),
        ({"ackmode": None}, f"Invalid ackmode value: null. Valid values are: {MODES}"),
        ({"ackmode": True}, f"Invalid ackmode value: true. Valid values are: {MODES}"),
        ({"ackmode": ["x"]}, f'Invalid ackmode value: ["x"]. Valid values are: {MODES}'),
        ({"encoding": "x"}, "Unsupported encoding. Please use auto or base64."),
        ({"encoding": None}, "Unsupported encoding. Please use auto or base64."),
        ({"encoding": []}, "Unsupported encoding. Please use auto or base64."),
        ({"truncate": "x"}, ["not_integer", "x"]),
        ({"truncate": True}, ["not_integer", True]),
        # RabbitMQ: 500.
        ({"truncate": -1}, "truncate should be a number, and at least 0"),
    ],
)
async def test_what_get_cannot_do_takes_nothing(changed: dict[str, object], reason: object) -> None:
    async with http_broker() as client:
        await fill(client, 1)
        body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto", **changed}
        answer = await client.post("/queues/%2F/q/get", body)
        assert (answer.status, answer.facts["reason"]) == (400, reason)
        row = (await client.get("/queues/%2F/q?columns=messages")).facts
        assert row == {"messages": 1}


@pytest.mark.parametrize("truncate", [(0, ""), (2, "ab"), ("2", "ab"), (1.5, "a"), (10**30, "abc")])
async def test_payloads_are_cut_by_get(truncate: tuple[object, str]) -> None:
    async with http_broker() as client:
        await fill(client, 1)
        body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        [row] = (await client.post("/queues/%2F/q/get", {**body, "truncate": truncate[0]})).rows
        assert row["payload"] == truncate[1]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"payload_encoding": "x"}, ["unsupported_encoding", "x"]),
        ({"payload_encoding": None}, ["unsupported_encoding", None]),
        ({"payload": 1}, "payload_not_string"),
        (
            {"routing_key": "k" * 256},
            f"routing key '{'k' * 32}...' has 256 bytes, it may have 255",
        ),
    ],
)
async def test_what_cannot_be_published_is_refused(
    changed: dict[str, object], reason: object
) -> None:
    async with http_broker() as client:
        body = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
        where = "/exchanges/%2F/amq.default/publish"
        answer = await client.post(where, {**body, **changed})
        assert (answer.status, answer.facts["reason"]) == (400, reason)


@pytest.mark.parametrize(
    "query", [f"{key}={value}" for key in ("offset", "truncate", "limit") for value in ("-1", "x")]
)
async def test_browsing_refuses_numbers_that_make_no_sense(query: str) -> None:
    async with http_broker() as client:
        await fill(client, 2)
        answer = await client.get(f"/queues/%2F/q/browse?{query}")
        key = query.partition("=")[0]
        least = int(key == "limit")
        reason = f"{key} should be a number, and at least {least}"
        assert (answer.status, answer.facts["reason"]) == (400, reason)


async def test_browsing_page_by_page_always_gets_on() -> None:
    """A limit of none at all began the next page where this one did."""
    async with http_broker() as client:
        await fill(client, 3)
        assert (await client.get("/queues/%2F/q/browse?limit=0")).status == 400
        offsets: list[object] = [0]
        while offsets[-1] is not None:
            where = f"/queues/%2F/q/browse?limit=1&offset={offsets[-1]}"
            offsets.append((await client.get(where)).facts["next_offset"])

        assert offsets == [0, 1, 2, None]
        far = await client.get("/queues/%2F/q/browse?limit=999999999999&offset=999999999999999999")
        assert (far.facts["items"], far.facts["next_offset"]) == ([], None)


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": 10**400},
        {"limit": "x"},
        {"rate": -1},
        {"rate": 10**400},
        {"rate": "x"},
        {"rate": True},
    ],
    ids=lambda body: str(body)[:20],
)
async def test_a_move_of_no_number_does_not_begin(body: dict[str, object]) -> None:
    async with http_broker() as client:
        await fill(client, 1)
        await client.put("/queues/%2F/r", {})
        answer = await client.post("/queues/%2F/q/move", {"destination": "r", **body})
        assert answer.status == 400
        assert (await client.get("/moves")).rows == []


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("max-connections", "3", 'max-connections should be a number, actually was <<"3">>'),
        ("max-channels", 1.5, "max-channels should be a number, actually was 1.5"),
        ("max-channels", True, "max-channels should be a number, actually was true"),
        ("nonsense", 3, 'Unrecognised terms [{<<"nonsense">>,3}] in user-limits'),
    ],
)
async def test_limits_of_users_that_cannot_be(limit: str, value: object, reason: str) -> None:
    async with http_broker() as client:
        where = f"/user-limits/guest/{limit}"
        answer = await client.put(where, {"value": value})
        assert (answer.status, answer.facts["reason"]) == (400, reason)
        assert (await client.delete(where)).status == 204
        for number in (-1, -5, 10**30):
            done = await client.put("/user-limits/guest/max-channels", {"value": number})
            assert done.status == 204

        assert (await client.get("/user-limits/guest")).rows[0]["value"] == {"max-channels": 10**30}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("certificate-expiration/-1/weeks", 200),
        ("certificate-expiration/99999999999999/years", 200),
        ("certificate-expiration/x/weeks", 400),
        ("certificate-expiration/\u0661/weeks", 400),
        ("port-listener/-1", 503),
        ("port-listener/99999999999", 503),
        ("port-listener/x", 400),
        ("port-listener/1_0", 400),
    ],
)
async def test_health_checks_of_odd_numbers(path: str, status: int) -> None:
    async with http_broker() as client:
        assert (await client.get(f"/health/checks/{path}")).status == status


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("lengths_age=x&lengths_incr=5", 200),
        ("lengths_age=60", 200),
        ("lengths_age=60&lengths_incr=5", 200),
        ("lengths_age=-1&lengths_incr=5", 400),
        ("lengths_age=60&lengths_incr=0", 400),
        ("lengths_age=60&lengths_incr=-5", 400),
        ("lengths_age=99999999999999&lengths_incr=1", 400),
    ],
)
async def test_ranges_of_histories(query: str, status: int) -> None:
    async with http_broker() as client:
        await client.put("/queues/%2F/q", {})
        assert (await client.get(f"/queues/%2F/q?{query}")).status == status
