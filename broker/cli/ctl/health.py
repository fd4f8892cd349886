"""Health checks: zero while all is well (cli layer)."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.node import alarm_names, listeners_of
from broker.cli.ctl.printing import Value
from broker.cli.ctl.transport import HTTPPlace
from broker.cli.ctl.verb import Option, Run, Verb, path
from broker.cli.numbers import COUNT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "is_ready"]

GROUP: Final = "Monitoring, observability and health checks"
OK: Final = 200
UNITS: Final = ("days", "weeks", "months", "years")
CONNECT_S: Final = 5.0
CHECKS: Final = "/health/checks"


def is_ready(run: Run) -> bool:
    """Whether clients can connect."""
    return run.client.ask("GET", f"{CHECKS}/ready-to-serve-clients").status == OK


def check_running(run: Run) -> Result:
    if not is_ready(run):
        raise CtlError(
            f"RabbitMQ on node {run.node} is not running: start it with 'leveret ctl start_app'",
            EXIT_UNAVAILABLE,
        )

    return Value(f"RabbitMQ on node {run.node} is fully booted and running")


def is_running(run: Run) -> Result:
    """RabbitMQ: it tells, and ends with zero in any case."""
    if is_ready(run):
        return Value(f"RabbitMQ on node {run.node} is fully booted and running")

    return Value(f"RabbitMQ on node {run.node} is not running or has not fully booted yet")


def is_booting(run: Run) -> Result:
    """Who can be asked has booted."""
    return Value(f"RabbitMQ on node {run.node} is fully booted (check with is_running)")


def check_alarms(run: Run) -> Result:
    names = alarm_names(run)
    if names:
        raise CtlError(
            f"Node {run.node} reported alarms: {', '.join(names)} - publishers are held back",
            EXIT_UNAVAILABLE,
        )

    return Value(f"Node {run.node} reported no alarms, local or clusterwide")


def check_port_listener(run: Run) -> Result:
    port = run["port"]
    if not port.isdecimal():
        raise CtlError(f"'{port}' is no port", EXIT_UNAVAILABLE)

    ports = sorted({str(row["port"]) for row in listeners_of(run.get("/overview"))}, key=int)
    if port not in ports:
        raise CtlError(
            f"No listener for port {port} is active on node {run.node}. Found listeners that use"
            f" the following ports: {', '.join(ports)}",
            EXIT_UNAVAILABLE,
        )

    return Value(f"A listener for port {port} is running on node {run.node}.")


def check_protocol_listener(run: Run) -> Result:
    protocol = run["protocol"]
    where = CHECKS + path("protocol-listener", protocol)
    answer = run.client.ask("GET", where)
    if answer.status != OK:
        value = answer.value
        known = value.get("protocols") if isinstance(value, dict) else None
        names = ", ".join(map(str, known)) if isinstance(known, list) else "none"
        raise CtlError(
            f"No listener for protocol {protocol} is active on node {run.node}. Found listeners for"
            f" the following protocols: {names}",
            EXIT_UNAVAILABLE,
        )

    return Value(f"A listener for protocol {protocol} is running on node {run.node}.")


def check_port_connectivity(run: Run) -> Result:
    """From here: another machine may see it otherwise."""
    place = run.client.place
    elsewhere = place.host if isinstance(place, HTTPPlace) else "localhost"
    rows = listeners_of(run.get("/overview"))
    for row in rows:
        interface = str(row["interface"]).strip("[]")
        host = elsewhere if interface == "::" else interface
        port = row["port"]
        assert isinstance(port, int)
        run.printer.say(f"Will connect to {host}:{port}")
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise CtlError(f"cannot connect to {host}:{port}: {reason.lower()}") from None

    ports = ", ".join(dict.fromkeys(str(row["port"]) for row in rows))
    return Value(f"Successfully connected to ports {ports} on node {run.node}")


def _by_api(where: str, text: str) -> Callable[[Run], Result]:
    """A check that the broker makes itself."""

    def check(run: Run) -> Result:
        answer = run.client.ask("GET", f"{CHECKS}{where}")
        if answer.status != OK:
            raise CtlError(answer.reason, EXIT_UNAVAILABLE)

        return Value(text.format(node=run.node))

    return check


def check_certificate_expiration(run: Run) -> Result:
    within, unit = run.number("within"), run.text("unit") or ""
    where = f"{CHECKS}/certificate-expiration/{within}/{unit}"
    answer = run.client.ask("GET", where)
    if answer.status != OK:
        raise CtlError(answer.reason, EXIT_UNAVAILABLE)

    return Value(f"No certificates are expiring within {within} {unit}.")


def node_health_check(run: Run) -> Result:
    check_running(run)
    check_alarms(run)
    return Value("Health check passed")


VERBS: Final = (
    Verb(
        "check_alarms",
        GROUP,
        "Fails when an alarm is in effect.",
        "",
        check_alarms,
        "Asking node {node} to report any local resource alarms ...",
    ),
    Verb(
        "check_certificate_expiration",
        GROUP,
        "Fails when a certificate expires soon.",
        "",
        check_certificate_expiration,
        "Checking certificate expiration for all certificates on node {node} ...",
        (
            Option("--unit", "<unit>", "of the time", choices=UNITS, default="weeks"),
            Option("--within", "<number>", "how soon", (0, COUNT_MAX), default=4),
        ),
    ),
    Verb(
        "check_if_node_is_quorum_critical",
        GROUP,
        "Does not apply to a single node.",
        "",
        _by_api(
            "/node-is-quorum-critical",
            "Node {node} seems to be the only one in a single node cluster, the check does not"
            " apply",
        ),
        "Checking if node {node} is critical for quorum of any queues/streams ...",
    ),
    Verb(
        "check_local_alarms",
        GROUP,
        "Fails when an alarm is in effect.",
        "",
        check_alarms,
        "Asking node {node} to report any local resource alarms ...",
    ),
    Verb(
        "check_port_connectivity",
        GROUP,
        "Connects to every port that the node listens on.",
        "",
        check_port_connectivity,
        "Testing TCP connections to all active listeners on node {node} ...",
    ),
    Verb(
        "check_port_listener",
        GROUP,
        "Fails when nothing listens on a port.",
        "<port>",
        check_port_listener,
        "Asking node {node} if there's an active listener on port {port} ...",
    ),
    Verb(
        "check_protocol_listener",
        GROUP,
        "Fails when nothing listens for a protocol: amqp, amqp/ssl, http, https.",
        "<protocol>",
        check_protocol_listener,
        "Asking node {node} if there's an active listener for protocol {protocol} ...",
    ),
    Verb(
        "check_running",
        GROUP,
        "Fails when clients cannot connect.",
        "",
        check_running,
        "Checking if RabbitMQ is running on node {node} ...",
    ),
    Verb(
        "check_virtual_hosts",
        GROUP,
        "Fails when a virtual host does not run.",
        "",
        _by_api("/virtual-hosts", "Node {node} reported all vhosts as running"),
        "Checking if all vhosts are running on node {node} ...",
    ),
    Verb(
        "is_booting",
        GROUP,
        "Tells whether the node is booting.",
        "",
        is_booting,
        "Asking node {node} for its boot status ...",
    ),
    Verb(
        "is_running",
        GROUP,
        "Tells whether clients can connect.",
        "",
        is_running,
        "Asking node {node} for its status ...",
    ),
    Verb(
        "node_health_check",
        GROUP,
        "Checks that clients can connect, and that no alarm is in effect.",
        "",
        node_health_check,
        "Checking health of node {node} ...",
    ),
)
