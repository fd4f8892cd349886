"""Who may ask for what: every route of the API, for every kind of user, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from broker.management.app import ROUTER
from tests.helpers.authorisation import ADMIN, HIDDEN, LETTERS, MONITOR, REFUSALS
from tests.helpers.http_api import http_broker

if TYPE_CHECKING:
    from broker.management.routes import Route
    from tests.helpers.http_api import HTTPClient

TABLE: Final = """
N    GET /version
N    POST /login
N    DELETE /login
N    GET /health/checks/is-in-service
N    GET /health/checks/below-node-connection-limit
N    GET /health/checks/ready-to-serve-clients
N    GET /health/checks/reached-target-cluster-size
A    GET /overview
A    GET /whoami
A    GET /cluster-name
A    GET /extensions
A    GET /feature-flags
A    GET /deprecated-features
A    GET /deprecated-features/used
A    GET /stream/connections
A    GET /stream/publishers
A    GET /stream/consumers
A    GET /vhosts
A    GET /vhost-limits
A    GET /user-limits/:user
A    GET /exchanges
A    GET /queues
A    GET /queues/detailed
A    GET /users/:user/queues
A    GET /bindings
A    GET /connections
A    GET /connections/:connection
A    DELETE /connections/:connection
A    GET /connections/:connection/channels
A    GET /connections/:connection/sessions
A    GET /connections/username/:user
A    DELETE /connections/username/:user
A    GET /channels
A    GET /channels/:channel
A    GET /consumers
A    GET /policies
A    GET /operator-policies
A    GET /moves
A    GET /moves/:move
A    DELETE /moves/:move
A    GET /health/checks/alarms
A    GET /health/checks/local-alarms
A    GET /health/checks/port-listener/:port
A    GET /health/checks/protocol-listener/:protocols
A    GET /health/checks/virtual-hosts
A    GET /health/checks/certificate-expiration/:within/:unit
A    GET /health/checks/node-is-quorum-critical
A    GET /health/checks/node-is-mirror-sync-critical
A    GET /health/checks/quorum-queues-without-elected-leaders/all-vhosts
A    GET /health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/:pattern
A    GET /health/checks/metadata-store/initialized
A    GET /health/checks/metadata-store/initialized/with-data
A    GET /healthchecks/node
A    GET /healthchecks/node/:node
V    GET /health/checks/quorum-queues-without-elected-leaders/vhost/:vhost
V    GET /health/checks/quorum-queues-without-elected-leaders/vhost/:vhost/pattern/:pattern
V    GET /aliveness-test/:vhost
V    GET /vhosts/:vhost/connections
V    GET /vhosts/:vhost/channels
V    GET /consumers/:vhost
V    GET /exchanges/:vhost
V    GET /exchanges/:vhost/:exchange
V    PUT /exchanges/:vhost/:exchange
V    DELETE /exchanges/:vhost/:exchange
V    POST /exchanges/:vhost/:exchange/publish
V    GET /exchanges/:vhost/:exchange/bindings/source
V    GET /exchanges/:vhost/:exchange/bindings/destination
V    GET /queues/:vhost
V    GET /queues/:vhost/:queue
V    PUT /queues/:vhost/:queue
V    DELETE /queues/:vhost/:queue
V    GET /queues/:vhost/:queue/bindings
V    DELETE /queues/:vhost/:queue/contents
V    POST /queues/:vhost/:queue/get
V    POST /queues/:vhost/:queue/messages
V    POST /queues/:vhost/:queue/actions
V    GET /queues/:vhost/:queue/browse
V    POST /queues/:vhost/:queue/move
V    POST /queues/:vhost/:queue/redrive
V    GET /queues/quorum/:vhost/:queue/status
V    GET /bindings/:vhost
V    GET /bindings/:vhost/e/:source/:kind/:target
V    POST /bindings/:vhost/e/:source/:kind/:target
V    GET /bindings/:vhost/e/:source/:kind/:target/:properties
V    DELETE /bindings/:vhost/e/:source/:kind/:target/:properties
V    GET /policies/:vhost
V    GET /policies/:vhost/:policy
V    GET /operator-policies/:vhost
V    GET /operator-policies/:vhost/:policy
VV   GET /vhost-limits/:vhost
P    PUT /policies/:vhost/:policy
P    DELETE /policies/:vhost/:policy
P    GET /parameters/:component/:vhost
P    GET /parameters/:component/:vhost/:parameter
P    PUT /parameters/:component/:vhost/:parameter
P    DELETE /parameters/:component/:vhost/:parameter
G    GET /parameters
G    GET /parameters/:component
G    GET /global-parameters
G    GET /global-parameters/:parameter
G    PUT /global-parameters/:parameter
G    DELETE /global-parameters/:parameter
M    GET /certificates
M    GET /nodes
M    GET /nodes/:node
M    GET /nodes/:node/memory
M    GET /nodes/:node/memory/relative
M    GET /nodes/:node/memory/ets
M    GET /nodes/:node/memory/ets/:filter
M    GET /auth/attempts/:node
M    GET /auth/attempts/:node/source
M    GET /shovels
M    GET /shovels/:name
M    GET /federation-links
M    GET /federation-links/:name
M    GET /traces
M    GET /trace-files
M    GET /alarms
M    GET /alarms/:resource
M    GET /log
M    GET /lifecycle
ADM  PUT /cluster-name
ADM  PUT /feature-flags/:flag/enable
ADM  POST /rebalance/queues
ADM  DELETE /reset
ADM  DELETE /reset/:node
ADM  GET /config/reload
ADM  POST /config/reload
ADM  PUT /alarms/:resource
ADM  DELETE /alarms/:resource
ADM  PUT /log
ADM  POST /log/reopen
ADM  POST /lifecycle/:action
ADM  GET /definitions
ADM  POST /definitions
ADM  GET /definitions/:place
ADM  POST /definitions/:place
ADM  GET /all-configuration
ADM  POST /all-configuration
ADM  GET /vhosts/:vhost
ADM  PUT /vhosts/:vhost
ADM  DELETE /vhosts/:vhost
ADM  POST /vhosts/:vhost/deletion/protection
ADM  DELETE /vhosts/:vhost/deletion/protection
ADM  POST /vhosts/:vhost/start/:node
ADM  GET /vhosts/:vhost/permissions
ADM  GET /vhosts/:vhost/topic-permissions
ADM  PUT /vhost-limits/:name/:limit
ADM  DELETE /vhost-limits/:name/:limit
ADM  GET /users
ADM  GET /users/without-permissions
ADM  POST /users/bulk-delete
ADM  GET /users/:user
ADM  PUT /users/:user
ADM  DELETE /users/:user
ADM  GET /users/:user/permissions
ADM  GET /users/:user/topic-permissions
ADM  GET /permissions
ADM  GET /permissions/:place/:user
ADM  PUT /permissions/:place/:user
ADM  DELETE /permissions/:place/:user
ADM  GET /topic-permissions
ADM  GET /topic-permissions/:place/:user
ADM  PUT /topic-permissions/:place/:user
ADM  DELETE /topic-permissions/:place/:user
ADM  GET /topic-permissions/:place/:user/:exchange
ADM  DELETE /topic-permissions/:place/:user/:exchange
ADM  GET /user-limits
ADM  PUT /user-limits/:user/:limit
ADM  DELETE /user-limits/:user/:limit
ADM  GET /auth/hash_password/:password
ADM  PUT /auth/hash_password
ADM  PUT /operator-policies/:vhost/:policy
ADM  DELETE /operator-policies/:vhost/:policy
"""

RIGHTS: Final = {"configure": "", "write": "", "read": ""}


def test_every_route_is_for_whom_the_table_says() -> None:
    wanted = sorted(" ".join(line.split()) for line in TABLE.strip().splitlines())
    found = sorted(f"{LETTERS[one.access]} {one.method} {one.path}" for one in ROUTER.routes)
    assert found == wanted


async def prepare(client: HTTPClient) -> None:
    for who in REFUSALS:
        tag = who.partition("-")[0]
        tags = "" if tag in ("untagged", "nobody") else tag
        await client.put(f"/users/{who}", {"password": "secret", "tags": tags})
        if who.endswith("-in"):
            await client.put(f"/permissions/%2F/{who}", RIGHTS)


def path_of(route: Route) -> str:
    """A path of the route on which nothing is there but the virtual host."""
    segments = []
    for segment in route.path.split("/"):
        known = {":vhost": "%2F", ":place": "%2F", ":kind": "q", ":name": "nothing"}
        segments.append(known.get(segment, "nothing" if segment.startswith(":") else segment))

    return "/".join(segments)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("who", REFUSALS)
async def test_routes_let_in_whom_they_should(who: str) -> None:
    refusals = REFUSALS[who]
    wrong = []
    async with http_broker() as admin:
        await prepare(admin)
        client = admin.as_user(None if who == "nobody" else who)
        for route in sorted(
            ROUTER.routes, key=lambda one: (one.path == "/vhosts/:vhost", one.path)
        ):
            if route.path == "/vhosts/:vhost" and who == "administrator":
                continue

            answer = await client.ask(route.method, path_of(route))
            letter = LETTERS[route.access]
            told = answer.value.get("reason") if isinstance(answer.value, dict) else ""
            if letter in refusals:
                status = 404 if refusals[letter] == HIDDEN else 401
                if (answer.status, told) != (status, refusals[letter]):
                    wrong.append((route.method, route.path, answer.status, told))
            elif answer.status == 500 or told in (ADMIN, MONITOR, "Not management user"):
                wrong.append((route.method, route.path, answer.status, told))

    assert not wrong


@pytest.mark.parametrize(
    ("header", "status", "told"),
    [
        pytest.param(None, 401, None, id="nothing"),
        pytest.param("Bearer abc", 401, None, id="another-scheme"),
        pytest.param("Basic !!!", 401, None, id="no-base64"),
        pytest.param("Basic Z3Vlc3Q6d3Jvbmc=", 401, "not_authorized", id="wrong-password"),
        pytest.param("Basic bm9ib2R5Ong=", 401, "not_authorized", id="no-such-user"),
    ],
)
async def test_who_says_not_who_they_are_is_asked_for_it(
    header: str | None, status: int, told: str | None
) -> None:
    async with http_broker() as client:
        headers = {} if header is None else {"authorization": header}
        answer = await client.as_user(None).ask("GET", "/overview", headers=headers)
        assert answer.status == status
        if told is None:
            assert answer.value is None
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="RabbitMQ Management"'
        else:
            assert answer.facts["error"] == told


async def test_tags_open_the_api_and_rights_hold_besides() -> None:
    """Whoever may manage may not declare what their rights in AMQP do not cover."""
    async with http_broker() as admin:
        await prepare(admin)
        await admin.put("/permissions/%2F/administrator", {**RIGHTS, "configure": "^mine"})
        client = admin.as_user("administrator")
        assert (await client.put("/queues/%2F/mine", {})).status == 201
        refused = await client.put("/queues/%2F/yours", {})
        assert refused.status == 401
        assert refused.facts == {"error": "not_authorised", "reason": "Access refused."}


async def test_lists_show_what_the_caller_may_see() -> None:
    async with http_broker() as admin:
        await prepare(admin)
        await admin.put("/vhosts/other")
        for vhost in ("%2F", "other"):
            await admin.put(f"/queues/{vhost}/q", {})

        seen = {}
        for who in ("administrator", "management", "management-in", "monitoring"):
            rows = (await admin.as_user(who).get("/queues?columns=vhost")).rows
            seen[who] = [row["vhost"] for row in rows]

        assert seen == {
            "administrator": ["/", "other"],
            "management": [],
            "management-in": ["/"],
            "monitoring": [],
        }
