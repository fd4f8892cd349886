"""Stopping, starting, and waiting for it (cli layer)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_SOFTWARE, EXIT_TIMEOUT, EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.health import is_ready
from broker.cli.ctl.printing import Done
from broker.cli.ctl.transport import Credentials
from broker.cli.ctl.verb import Option, Run, Verb, path

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

NODES: Final = "Nodes"
OPERATIONS: Final = "Operations"
LOOK_S: Final = 0.1
"""Between two looks at something that is waited for."""

STARTUP_S: Final = 300.0
STOP_S: Final = 60.0
PID_FILE_S: Final = 10.0
PID_MAX: Final = 2**31 - 1
STOPPED: Final = "stopped"


def _wait(run: Run, is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """Look again and again.

    Raises:
        CtlError: the time is over.

    """
    given = run.options.get("timeout_s")
    if isinstance(given, int | float) and given > 0:
        seconds = given

    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            raise CtlError(f"{what} within {seconds:g} s", EXIT_TIMEOUT)

        time.sleep(LOOK_S)


def _do(run: Run, action: str) -> None:
    run.demand("POST", path("lifecycle", action), {})


def stop_app(run: Run) -> Result:
    _do(run, "stop_app")
    return Done()


def start_app(run: Run) -> Result:
    _do(run, "start_app")
    return Done()


def suspend_listeners(run: Run) -> Result:
    _do(run, "suspend_listeners")
    return Done()


def resume_listeners(run: Run) -> Result:
    _do(run, "resume_listeners")
    return Done()


def stop(run: Run) -> Result:
    """The process ends; on this machine that is waited for."""
    facts = run.get("/lifecycle")
    pid = facts["pid"]
    assert isinstance(pid, int)
    is_here = run.client.place.is_local
    _do(run, "stop")
    run.client.close()

    def is_gone() -> bool:
        return not (_is_alive(pid) if is_here else _answers(run))

    _wait(run, is_gone, STOP_S, f"the broker (process {pid}) did not stop")
    return Done()


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return False

    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True

    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended, and nobody has asked how."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _answers(run: Run) -> bool:
    try:
        run.client.ask("GET", "/version")
    except CtlError:
        return False

    return True


# -- waiting


def _is_up(run: Run) -> bool:
    try:
        return is_ready(run)
    except CtlError as fault:
        if fault.status not in (EXIT_UNAVAILABLE, EXIT_TIMEOUT):
            raise

        return False


def await_startup(run: Run) -> Result:
    _wait(run, lambda: _is_up(run), STARTUP_S, "the broker did not start")
    return Done()


def await_online_nodes(run: Run) -> Result:
    if run["count"] != "1":
        raise CtlError("there is one node, and no cluster: wait for 1", EXIT_UNAVAILABLE)

    return await_startup(run)


def wait(run: Run) -> Result:
    """As units of systemd and start scripts do: first the file, then the process, then clients."""
    file = run["pidfile"]
    if run.options.get("pid") is not None:
        return _wait_for_process(run, run.number("pid"))

    if not file:
        raise CtlError("a pid file is needed, or --pid <pid>", EXIT_UNAVAILABLE)

    run.printer.say(f"Waiting for pid file '{file}' to appear")
    _wait(run, lambda: _pid_in(file) is not None, PID_FILE_S, f"no pid file {file} came to be")
    pid = _pid_in(file)
    assert pid is not None
    run.printer.say(f"pid is {pid}")
    return _wait_for_process(run, pid)


def _pid_in(file: str) -> int | None:
    try:
        with open(file, encoding="ascii") as lines:
            pid = int(lines.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None

    return pid if 0 < pid <= PID_MAX else None


def _wait_for_process(run: Run, pid: int) -> Result:
    if not _is_alive(pid):
        raise CtlError(f"there is no process {pid}: the broker has not started", EXIT_UNAVAILABLE)

    run.printer.say(f"Waiting for applications 'leveret' to start on node {run.node_given or pid}")

    def is_up() -> bool:
        if not _is_alive(pid):
            raise CtlError(f"process {pid} has ended: see its log", EXIT_UNAVAILABLE)

        return _is_up(run)

    _wait(run, is_up, STARTUP_S, "the broker did not start")
    return Done()


# -- back to the beginning


def reset(run: Run) -> Result:
    """Virtual hosts, users, parameters: as on the first day without a configuration."""
    if run.get("/lifecycle")["state"] != STOPPED:
        raise CtlError(
            "the application is running: stop it first, with 'leveret ctl stop_app'",
            EXIT_SOFTWARE,
        )

    return force_reset(run)


def _refuse_protected(run: Run) -> None:
    """Nothing is deleted where something may not be."""
    from broker.core.protection import PROTECTED

    for row in run.rows("/vhosts?columns=name,protected_from_deletion"):
        if row["protected_from_deletion"]:
            raise CtlError(
                f"vhost '{row['name']}' is protected from deletion: end that first, with"
                " 'leveret ctl disable_vhost_deletion_protection'",
                EXIT_SOFTWARE,
            )

    for row in run.rows("/users?columns=name,tags"):
        tags = row["tags"]
        if isinstance(tags, list) and PROTECTED in tags:
            raise CtlError(
                f"user '{row['name']}' is protected from changes: end that first, with"
                " 'leveret ctl set_user_tags' and the other tags",
                EXIT_SOFTWARE,
            )


def force_reset(run: Run) -> Result:
    _refuse_protected(run)
    guest = Credentials("guest", "guest")
    facts: dict[str, object] = {"password": guest.password, "tags": ["administrator"]}
    run.demand("PUT", path("users", guest.user), facts)
    for row in run.rows("/vhosts?columns=name"):
        run.demand("DELETE", path("vhosts", str(row["name"])))

    run.demand("PUT", path("vhosts", "/"), {"description": "Default virtual host"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    run.demand("PUT", path("permissions", "/", guest.user), everything)
    for row in run.rows("/global-parameters"):
        run.demand("DELETE", path("global-parameters", str(row["name"])))

    # Last of all: it may be the one who asks.
    for row in run.rows("/users?columns=name"):
        if row["name"] != guest.user:
            run.demand("DELETE", path("users", str(row["name"])))

    return Done()


VERBS: Final = (
    Verb(
        "await_online_nodes",
        "Cluster",
        "Waits until the one node that there is can be connected to.",
        "<count>",
        await_online_nodes,
        "Will wait for at least {count} nodes to join the cluster.",
    ),
    Verb(
        "await_startup",
        NODES,
        "Waits until clients can connect, up to --timeout seconds (300).",
        "",
        await_startup,
    ),
    Verb(
        "force_reset",
        NODES,
        "As reset, whether the application is stopped or not.",
        "",
        force_reset,
        "Forcefully resetting node {node} ...",
    ),
    Verb(
        "reset",
        NODES,
        "Deletes all virtual hosts, users and parameters, and begins with / and guest.",
        "",
        reset,
        "Resetting node {node} ...",
    ),
    Verb(
        "resume_listeners",
        OPERATIONS,
        "Lets clients connect again.",
        "",
        resume_listeners,
        "Will resume client connection listeners on node {node}. The node will now accept client"
        " connections",
    ),
    Verb(
        "shutdown",
        NODES,
        "Stops the broker, and waits until its process has ended.",
        "",
        stop,
        "Shutting down the broker on node {node} ...",
    ),
    Verb(
        "start_app",
        NODES,
        "Lets clients connect again after stop_app.",
        "",
        start_app,
        "Starting node {node} ...",
    ),
    Verb(
        "stop",
        NODES,
        "Stops the broker, and waits until its process has ended.",
        "[pidfile]",
        stop,
        "Stopping and halting node {node} ...",
        (Option("--idempotent", text="accepted, for scripts"),),
    ),
    Verb(
        "stop_app",
        NODES,
        "Closes all connections and listeners for AMQP; the process and its HTTP API go on.",
        "",
        stop_app,
        "Stopping rabbit application on node {node} ...",
    ),
    Verb(
        "suspend_listeners",
        OPERATIONS,
        "Lets no more clients connect; those that are connected stay.",
        "",
        suspend_listeners,
        "Will suspend client connection listeners on node {node}. The node will no longer accept"
        " client connections!",
    ),
    Verb(
        "wait",
        NODES,
        "Waits for a pid file, and until clients can connect.",
        "[pidfile]",
        wait,
        "",
        (Option("--pid", "<pid>", "the process itself", (1, PID_MAX)),),
    ),
)
