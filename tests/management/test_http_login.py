"""Logging in over HTTP: passwords, sessions, who is held back, and what other sites may do."""

from __future__ import annotations

import base64
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Final

import pytest

from tests.helpers.http_api import http_broker

if TYPE_CHECKING:
    from tests.helpers.http_api import Answer, HTTPClient

FORM: Final = {"content-type": "application/x-www-form-urlencoded"}
SLOW: Final = {"auth": {"password_hashing": "argon2id"}}
FRIEND: Final = "https://console.example.org"


async def log_in(client: HTTPClient, user: str = "guest", password: str = "guest") -> Answer:
    body = f"username={user}&password={password}"
    return await client.as_user(None).ask("POST", "/login", data=body.encode(), headers=FORM)


def token_of(answer: Answer) -> str:
    token = answer.facts["token"]
    assert isinstance(token, dict)
    assert token["type"] == "bearer"
    return str(token["value"])


async def asked(client: HTTPClient, path: str = "/whoami", **headers: str) -> int:
    answer = await client.as_user(None).ask("GET", path, headers=headers)
    return answer.status


async def test_a_login_gives_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    async with http_broker({"management": {"enabled": True}}) as client:
        answer = await log_in(client)
        cookie = SimpleCookie(answer.headers["set-cookie"])["leveret_session"]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert cookie["path"] == "/api"
        assert cookie["max-age"] == "28800"
        assert not cookie["secure"], "over TLS it is"
        assert cookie.value == token_of(answer)
        assert answer.facts["user"] == {
            "name": "guest",
            "tags": ["administrator"],
            "is_internal_user": True,
        }
        assert await asked(client, cookie=f"leveret_session={cookie.value}") == 200
        assert await asked(client, authorization=f"Bearer {cookie.value}") == 200


async def test_no_answer_has_the_password_in_it() -> None:
    async with http_broker() as client:
        answer = await log_in(client)
        encoded = base64.b64encode(b"guest:guest").decode()
        assert encoded not in f"{answer.value} {answer.headers}"


async def test_a_login_may_come_as_json() -> None:
    async with http_broker() as client:
        nobody = client.as_user(None)
        answer = await nobody.post("/login", {"username": "guest", "password": "guest"})
        assert answer.status == 200
        assert (await nobody.post("/login", {"username": "guest"})).status == 400
        wrong = await nobody.post("/login", {"username": "guest", "password": "wrong"})
        assert (wrong.status, wrong.facts["error"]) == (401, "not_authorized")


async def test_what_anybody_may_send_is_short() -> None:
    async with http_broker() as client:
        answer = await log_in(client, password="x" * 10_000)
        assert answer.status == 400
        assert answer.facts["reason"] == "payload size exceeded limit of 8192 bytes"


async def test_a_session_ends_with_the_logout() -> None:
    async with http_broker() as client:
        token = token_of(await log_in(client))
        nobody = client.as_user(None)
        cookie = {"cookie": f"leveret_session={token}"}
        out = await nobody.ask("DELETE", "/login", headers=cookie)
        assert out.status == 204
        assert 'leveret_session=""' in out.headers["set-cookie"]
        assert await asked(client, **cookie) == 401
        token = token_of(await log_in(client))
        await nobody.ask("DELETE", "/login", headers={"authorization": f"Bearer {token}"})
        assert await asked(client, authorization=f"Bearer {token}") == 401


@pytest.mark.parametrize("how", ["password", "user", "tags"])
async def test_a_session_ends_with_what_it_was_given_for(how: str) -> None:
    async with http_broker() as client:
        await client.put("/users/ann", {"password": "pw", "tags": "administrator"})
        token = token_of(await log_in(client, "ann", "pw"))
        bearer = f"Bearer {token}"
        assert await asked(client, "/users", authorization=bearer) == 200
        if how == "user":
            await client.delete("/users/ann")
        else:
            body = {"password": "new" if how == "password" else "pw", "tags": "management"}
            await client.put("/users/ann", body)

        assert await asked(client, "/users", authorization=bearer) == 401


async def test_who_has_no_tag_that_opens_the_api_has_no_session() -> None:
    async with http_broker() as client:
        await client.put("/users/app", {"password": "pw", "tags": ""})
        answer = await log_in(client, "app", "pw")
        assert (answer.status, answer.facts["error"]) == (401, "not_authorized")


# -- passwords are hashed slowly


async def test_new_passwords_are_hashed_with_argon2_and_let_in() -> None:
    async with http_broker(SLOW) as client:
        await client.put("/users/ann", {"password": "pw", "tags": "management"})
        row = (await client.get("/users/ann")).facts
        assert row["hashing_algorithm"] == "argon2id"
        assert str(row["password_hash"]).startswith("$argon2id$v=19$m=19456,t=2,p=1$")
        ann = client.as_user("ann", "pw")
        assert (await ann.get("/whoami")).status == 200
        assert client.node.logins.remembered_count == 1
        assert (await ann.get("/whoami")).status == 200
        assert (await client.as_user("ann", "wrong").get("/whoami")).status == 401
        await client.put("/users/ann", {"password": "new", "tags": "management"})
        assert (await ann.get("/whoami")).status == 401, "the old one is forgotten at once"


async def test_a_hash_goes_from_one_broker_to_another() -> None:
    async with http_broker(SLOW) as client, http_broker() as other:
        await client.put("/users/ann", {"password": "pw", "tags": "management"})
        row = (await client.get("/users/ann")).facts
        del row["hashing_algorithm"]
        await other.put("/users/ann", row)
        assert (await other.as_user("ann", "pw").get("/whoami")).status == 200
        made = (await client.ask("PUT", "/auth/hash_password", {"password": "pw2"})).facts
        await other.put("/users/bob", {"password_hash": made["ok"], "tags": "management"})
        assert (await other.as_user("bob", "pw2").get("/whoami")).status == 200


@pytest.mark.parametrize("name", ["sha256", "sha512"])
async def test_hashes_can_be_such_as_rabbitmq_takes(name: str) -> None:
    async with http_broker({"auth": {"password_hashing": name}}) as client:
        await client.put("/users/ann", {"password": "pw", "tags": "management"})
        row = (await client.get("/users/ann")).facts
        assert row["hashing_algorithm"] == f"rabbit_password_hashing_{name}"
        assert (await client.as_user("ann", "pw").get("/whoami")).status == 200


async def test_passwords_in_definitions_are_hashed_as_others_are() -> None:
    async with http_broker(SLOW) as client:
        users = [{"name": "ann", "password": "pw", "tags": "management"}]
        assert (await client.post("/definitions", {"users": users})).status == 204
        row = (await client.get("/users/ann")).facts
        assert row["hashing_algorithm"] == "argon2id"
        assert (await client.as_user("ann", "pw").get("/whoami")).status == 200
        users[0]["password_hash"] = "x"
        assert (await client.post("/definitions", {"users": users})).status == 400


# -- other sites


async def test_a_page_of_another_site_changes_nothing_with_a_login_of_the_browser() -> None:
    async with http_broker() as client:
        token = token_of(await log_in(client))
        evil = {"origin": "http://evil.example"}
        for headers in ({"cookie": f"leveret_session={token}"}, {}):
            who = client.as_user(None) if headers else client
            answer = await who.ask("DELETE", "/vhosts/%2F", headers={**headers, **evil})
            assert (answer.status, answer.facts["error"]) == (403, "forbidden")

        assert "/" in client.node.vhosts
        refused = await client.as_user(None).ask(
            "POST", "/login", data=b"username=guest&password=guest", headers={**FORM, **evil}
        )
        assert refused.status == 403, "nobody is logged in as somebody else unknowingly"


async def test_other_sites_read_nothing_unless_they_are_configured() -> None:
    async with http_broker() as client:
        answer = await client.ask("GET", "/whoami", headers={"origin": FRIEND})
        assert "access-control-allow-origin" not in answer.headers

    config = {"management": {"enabled": True, "cors_origins": [FRIEND]}}
    async with http_broker(config) as client:
        preflight = {"origin": FRIEND, "access-control-request-method": "PUT"}
        answer = await client.as_user(None).ask("OPTIONS", "/users/x", headers=preflight)
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == FRIEND
        assert "authorization" in answer.headers["access-control-allow-headers"]
        made = await client.ask("PUT", "/vhosts/new", headers={"origin": FRIEND})
        assert made.status == 201
        foreign = await client.ask("GET", "/whoami", headers={"origin": "http://evil.example"})
        assert "access-control-allow-origin" not in foreign.headers


# -- health checks


@pytest.mark.parametrize("is_open", [True, False])
async def test_health_checks_need_a_login_where_that_is_wanted(is_open: bool) -> None:
    config = {"management": {"enabled": True, "open_health_checks": is_open}}
    path = "/health/checks/is-in-service"
    async with http_broker(config) as client:
        assert await asked(client, path) == (200 if is_open else 401)
        assert (await client.get(path)).status == 200
        assert await asked(client, "/version") == 200


# -- what comes in


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/queues/%00",
        "/<script>alert(1)</script>",
        "/queues/%2F/..%2F..%2Fx",
    ],
)
async def test_paths_lead_nowhere_else_and_are_not_repeated(path: str) -> None:
    async with http_broker() as client:
        answer = await client.get(path)
        assert answer.status == 404
        assert "script" not in str(answer.value)
        assert "passwd" not in str(answer.value)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        pytest.param({"x-long": "x" * 9_000}, "", id="a-long-header"),
        pytest.param({f"x-{number}": "x" for number in range(200)}, "", id="many-headers"),
        pytest.param({}, "?name=" + "x" * 9_000, id="a-long-url"),
    ],
)
async def test_oversized_heads_are_refused(headers: dict[str, str], query: str) -> None:
    async with http_broker() as client:
        answer = await client.ask("GET", f"/queues{query}", headers=headers)
        assert answer.status == 400
        assert (await client.get("/whoami")).status == 200


async def test_a_body_that_unpacks_to_more_than_it_may_is_refused() -> None:
    """A few kilobytes of gzip may be hundreds of megabytes: what counts is what they become."""
    import gzip

    config = {"management": {"enabled": True, "max_body_size": "1MiB"}}
    async with http_broker(config) as client:
        bomb = gzip.compress(b" " * 50_000_000)
        assert len(bomb) < 100_000
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        answer = await client.ask("POST", "/definitions", data=bomb, headers=headers)
        assert answer.status == 400
        assert answer.facts["reason"] == "payload size exceeded limit of 1048576 bytes"


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(.*)*x", ".*.*.*.*=", "(((a+)+)+)+$"])
async def test_a_filter_that_could_run_away_does_not(pattern: str) -> None:
    async with http_broker() as client:
        await client.put(f"/queues/%2F/{'a' * 255}", {})
        answer = await client.get(
            f"/queues?page=1&use_regex=true&name={pattern}".replace("+", "%2B")
        )
        assert answer.status == 200


# -- failed logins


async def test_who_fails_too_often_is_refused_unheard() -> None:
    config = {"auth": {"failed_logins": {"per_user": 3, "per_source": None}}}
    async with http_broker(config) as client:
        await client.put("/users/ann", {"password": "pw", "tags": "management"})
        client.node.users.users["ann"].password_hash = client.node.users.users[
            "guest"
        ].password_hash
        for _ in range(3):
            assert (await client.as_user("ann", "wrong").get("/whoami")).status == 401

        assert (await client.as_user("ann", "guest").get("/whoami")).status == 401
        assert (await client.get("/whoami")).status == 200, "others come in"


# -- names


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        pytest.param([], "127.0.0.1", 200, id="address"),
        pytest.param([], "rabbitmq:15672", 200, id="one-word"),
        pytest.param([], "rebound.example.org", 421, id="somebody-elses-name"),
        pytest.param(["rebound.example.org"], "rebound.example.org:80", 200, id="named"),
        pytest.param(["*"], "rebound.example.org", 200, id="any"),
    ],
)
async def test_a_page_that_calls_this_machine_by_its_own_name_is_not_answered(
    hosts: list[str], host: str, status: int
) -> None:
    """DNS rebinding: the page knows the default password, and no browser stands in its way."""
    config = {"management": {"enabled": True, "hosts": hosts}}
    async with http_broker(config) as client:
        answer = await client.ask("GET", "/overview", headers={"host": host})
        assert answer.status == status
        own = f"http://{host}"
        changing = {"host": host, "origin": own}
        made = await client.ask("PUT", "/vhosts/new", headers=changing)
        assert made.status == (201 if status == 200 else 421)
        if status == 421:
            assert "management.hosts" in str(answer.facts["reason"])


async def test_the_machine_answers_to_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.http_api.socket.gethostname", lambda: "mq1.example.org")
    async with http_broker() as client:
        answer = await client.ask("GET", "/overview", headers={"host": "mq1.example.org:15672"})
        assert answer.status == 200
