"""Health checks: 200 while all is well, 503 with the reason when not (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.management.auth import ANYBODY, ANYONE, VHOST
from broker.management.call import answer
from broker.management.certificates import expiring_rows
from broker.management.errors import BadRequest, NotThere
from broker.management.numbers import whole_number
from broker.management.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES"]

NEVER_CACHE: Final = {"expires": "0", "pragma": "no-cache"}
DAY_S: Final = 86_400
UNITS: Final = {
    "days": DAY_S,
    "weeks": 7 * DAY_S,
    "months": 30 * DAY_S,
    "years": 365 * DAY_S,
}
RESOURCES: Final = {"disk": "disk space"}
"""What alarms are called in RabbitMQ."""

ALIASES: Final = {
    "amqp091": "amqp",
    "amqp0-9-1": "amqp",
    "amqp0.9.1": "amqp",
    "amqp10": "amqp",
    "amqps": "amqp/ssl",
}


def _well(**facts: object) -> web.Response:
    return answer({"status": "ok", **facts})


def _ill(reason: str, **facts: object) -> web.Response:
    return answer({"status": "failed", "reason": reason, **facts}, 503)


async def check_alarms(call: Call) -> web.Response:
    node = call.node
    if not node.alarms:
        return _well()

    alarms: list[JSON] = [
        {"node": node.settings.node_name, "resource": RESOURCES.get(name, name)}
        for name in node.short_of()
    ]
    return _ill("There are alarms in effect in the cluster", alarms=alarms)


async def check_port(call: Call) -> web.Response:
    port = whole_number(call["port"])
    if port is None:
        raise BadRequest("Invalid port")

    ports = sorted({listener.port for listener in call.site.around.listeners()})
    if port in ports:
        return _well(port=port)

    return _ill("No active listener", missing=port, ports=ports)


async def check_protocols(call: Call) -> web.Response:
    wanted = [name.strip().lower() for name in call["protocols"].split(",")]
    known = sorted({listener.protocol for listener in call.site.around.listeners()})
    missing = [name for name in wanted if ALIASES.get(name, name) not in known]
    if not missing:
        return _well(protocols=known)

    return _ill("No active listener", missing=missing, protocols=known)


async def check_vhosts(call: Call) -> web.Response:
    """A virtual host that could not be opened has kept the broker from starting."""
    return _well()


async def check_certificates(call: Call) -> web.Response:
    """Whether a certificate of a listener expires within some time."""
    unit_s = UNITS.get(call["unit"])
    if unit_s is None:
        raise BadRequest(f"Time unit not recognised. Supported units: {', '.join(UNITS)}.")

    within = whole_number(call["within"])
    if within is None:
        raise BadRequest("Invalid expiration value.")

    expired = expiring_rows(call, within * unit_s)
    return _ill("Certificates expiring", expired=expired) if expired else _well()


async def check_quorum_critical(call: Call) -> web.Response:
    return _well(reason="single node cluster")


async def check_nothing(call: Call) -> web.Response:
    """What cannot be otherwise with one node."""
    return _well()


# -- for those who are not logged in


def _is_below_limit(call: Call) -> bool:
    limit = call.node.settings.connections_max
    return limit is None or len(call.node.connections) < limit


def _accepts(call: Call) -> bool:
    return any(listener.protocol.startswith("amqp") for listener in call.site.around.listeners())


async def check_in_service(call: Call) -> web.Response:
    return answer({"status": "ok"}, headers=NEVER_CACHE)


async def check_connection_limit(call: Call) -> web.Response:
    if _is_below_limit(call):
        return answer({"status": "ok"}, headers=NEVER_CACHE)

    return _ill(
        "the number of client connections has reached its limit",
        limit=call.node.settings.connections_max,
        connections=len(call.node.connections),
    )


async def check_ready(call: Call) -> web.Response:
    if not _accepts(call):
        return _ill("No active AMQP listener")

    return await check_connection_limit(call)


# -- what RabbitMQ has given up, and probes still ask for


async def test_aliveness(call: Call) -> web.Response:
    """The core answers, and the disk takes what is told to the log of the virtual host."""
    await call.site.change(_nothing, call.vhost)
    return _well()


def _nothing() -> None:
    """There is nothing to do but to wait for the disk."""


async def check_node(call: Call) -> web.Response:
    if call.parameters.get("node", call.node.settings.node_name) != call.node.settings.node_name:
        raise NotThere

    if call.node.alarms:
        return answer({"status": "failed", "reason": f"{call.node.alarm_reason()}"})

    return _well()


CHECKS: Final = "/health/checks"
LEADERS: Final = f"{CHECKS}/quorum-queues-without-elected-leaders"

ROUTES: Final = (
    Route("GET", f"{CHECKS}/alarms", ANYBODY, check_alarms),
    Route("GET", f"{CHECKS}/local-alarms", ANYBODY, check_alarms),
    Route("GET", f"{CHECKS}/port-listener/:port", ANYBODY, check_port),
    Route("GET", f"{CHECKS}/protocol-listener/:protocols", ANYBODY, check_protocols),
    Route("GET", f"{CHECKS}/virtual-hosts", ANYBODY, check_vhosts),
    Route("GET", f"{CHECKS}/certificate-expiration/:within/:unit", ANYBODY, check_certificates),
    Route("GET", f"{CHECKS}/node-is-quorum-critical", ANYBODY, check_quorum_critical),
    Route("GET", f"{CHECKS}/node-is-mirror-sync-critical", ANYBODY, check_quorum_critical),
    Route("GET", f"{LEADERS}/all-vhosts", ANYBODY, check_nothing),
    Route("GET", f"{LEADERS}/all-vhosts/pattern/:pattern", ANYBODY, check_nothing),
    Route("GET", f"{LEADERS}/vhost/:vhost", VHOST, check_nothing),
    Route("GET", f"{LEADERS}/vhost/:vhost/pattern/:pattern", VHOST, check_nothing),
    Route("GET", f"{CHECKS}/metadata-store/initialized", ANYBODY, check_nothing),
    Route("GET", f"{CHECKS}/metadata-store/initialized/with-data", ANYBODY, check_nothing),
    Route("GET", f"{CHECKS}/is-in-service", ANYONE, check_in_service),
    Route("GET", f"{CHECKS}/below-node-connection-limit", ANYONE, check_connection_limit),
    Route("GET", f"{CHECKS}/ready-to-serve-clients", ANYONE, check_ready),
    Route("GET", f"{CHECKS}/reached-target-cluster-size", ANYONE, check_in_service),
    Route("GET", "/aliveness-test/:vhost", VHOST, test_aliveness),
    Route("GET", "/healthchecks/node", ANYBODY, check_node),
    Route("GET", "/healthchecks/node/:node", ANYBODY, check_node),
)
