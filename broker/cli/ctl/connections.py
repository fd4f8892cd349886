"""Closing connections (cli layer)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import CtlError
from broker.cli.ctl.listings import pid_of_connection
from broker.cli.ctl.printing import Done, Value
from broker.cli.ctl.verb import Option, Run, Verb, path
from broker.cli.numbers import COUNT_MAX

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

GROUP: Final = "Operations"
NOT_FOUND: Final = 404
COLUMNS: Final = "columns=name,node,vhost,user"
DELAY_MS_MAX: Final = 86_400_000


def close_connection(run: Run) -> Result:
    """By what `list_connections pid` tells, or by name."""
    wanted = run["connectionpid"]
    for row in run.rows(f"/connections?{COLUMNS}"):
        if wanted in (row["name"], pid_of_connection(row)):
            _close(run, row)
            return Done()

    raise CtlError(
        f"there is no connection {wanted}: `list_connections pid name` tells which there are"
    )


def _close(run: Run, row: dict[str, object]) -> bool:
    """Close one; whether it was still there."""
    headers = {"x-reason": _header(run["explanation"])}
    where = path("connections", str(row["name"]))
    return run.client.ask("DELETE", where, headers=headers).status != NOT_FOUND


def _header(text: str) -> bytes:
    """A text as a header can carry it: one line, in UTF-8."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return line.encode("utf-8")


def close_all_connections(run: Run) -> Result:
    rows = run.rows(f"/connections?{COLUMNS}")
    if not run.flag("global"):
        run.check_vhost()
        rows = [row for row in rows if row["vhost"] == run.vhost]

    if run.number("limit"):
        rows = rows[: run.number("limit")]

    delay_s = run.number("per_connection_delay") / 1000
    closed = 0
    for row in rows:
        if closed and delay_s:
            time.sleep(delay_s)

        closed += _close(run, row)

    return Value(f"Closed {closed} connections")


def close_all_user_connections(run: Run) -> Result:
    for row in run.rows(f"/connections?{COLUMNS}"):
        if row["user"] == run["username"]:
            _close(run, row)

    return Done()


def _all_banner(run: Run) -> str:
    if run.flag("global"):
        return f"Closing all connections, reason: {run['explanation']}..."

    return f"Closing all connections in vhost {run.vhost}, reason: {run['explanation']}..."


VERBS: Final = (
    Verb(
        "close_all_connections",
        GROUP,
        "Closes all connections of a vhost, or of the node.",
        "<explanation>",
        close_all_connections,
        _all_banner,
        (
            Option("--global", text="those of all virtual hosts"),
            Option(
                "--per-connection-delay",
                "<milliseconds>",
                "to wait between two",
                (0, DELAY_MS_MAX),
            ),
            Option("--limit", "<number>", "no more than so many; 0 is all", (0, COUNT_MAX)),
        ),
        has_vhost=True,
    ),
    Verb(
        "close_all_user_connections",
        GROUP,
        "Closes all connections of the specified user.",
        "<username> <explanation>",
        close_all_user_connections,
        "Closing connections of user {username}, reason: {explanation}...",
    ),
    Verb(
        "close_connection",
        GROUP,
        "Closes the connection with a pid or a name, as list_connections tells them.",
        "<connectionpid> <explanation>",
        close_connection,
        "Closing connection {connectionpid}, reason: {explanation}...",
    ),
)
