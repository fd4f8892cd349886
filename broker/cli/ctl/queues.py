"""Queues: delete, purge (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_UNAVAILABLE, EXIT_USAGE, CtlError
from broker.cli.ctl.printing import Done, Value
from broker.cli.ctl.verb import Option, Run, Verb, path

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS", "no_queue"]

GROUP: Final = "Queues"
SUCCESS: Final = range(200, 300)


def no_queue(run: Run, name: str, status: int = EXIT_UNAVAILABLE) -> CtlError:
    """The error for a queue that is not there."""
    if run.is_vhost_missing:
        return run.no_vhost()

    return CtlError(f"Queue not found: no queue '{name}' in vhost '{run.vhost}'", status)


def purge_queue(run: Run) -> Result:
    name = run["queue"]
    where = path("queues", run.vhost, name)
    if run.client.ask("GET", f"{where}?columns=name").status not in SUCCESS:
        raise no_queue(run, name)

    run.demand("DELETE", f"{where}/contents")
    return Done()


def delete_queue(run: Run) -> Result:
    name = run["queue"]
    where = path("queues", run.vhost, name)
    answer = run.client.ask("GET", f"{where}?columns=messages_ready,messages,consumers")
    row = answer.value
    if answer.status not in SUCCESS or not isinstance(row, dict):
        raise no_queue(run, name, EXIT_USAGE)

    if run.flag("if_empty") and row["messages"]:
        raise CtlError("Queue is not empty", EXIT_USAGE)

    if run.flag("if_unused") and row["consumers"]:
        raise CtlError("Queue is in use", EXIT_USAGE)

    conditions = [
        f"{option.replace('_', '-')}=true"
        for option in ("if_empty", "if_unused")
        if run.flag(option)
    ]
    run.demand("DELETE", f"{where}?{'&'.join(conditions)}" if conditions else where)
    return Value(f"Queue was successfully deleted with {row['messages_ready']} ready messages")


def _delete_banner(run: Run) -> str:
    conditions = [
        text
        for option, text in (
            ("if_empty", "if queue is empty "),
            ("if_unused", "if queue is unused "),
        )
        if run.flag(option)
    ]
    return f"Deleting queue '{run['queue']}' on vhost '{run.vhost}' {'and '.join(conditions)}..."


VERBS: Final = (
    Verb(
        "delete_queue",
        GROUP,
        "Deletes a queue.",
        "<queue>",
        delete_queue,
        _delete_banner,
        (
            Option("--if-empty", "", "only if it has no messages"),
            Option("--if-unused", "", "only if it has no consumers"),
        ),
        has_vhost=True,
    ),
    Verb(
        "purge_queue",
        GROUP,
        "Purges a queue (removes all ready messages in it).",
        "<queue>",
        purge_queue,
        "Purging queue '{queue}' in vhost '{vhost}' ...",
        has_vhost=True,
    ),
)
