"""What users may do (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_NO_USER, EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.printing import Done, Rows
from broker.cli.ctl.users import no_user
from broker.cli.ctl.verb import Run, Verb, path

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

GROUP: Final = "Access Control"
NOT_FOUND: Final = 404
RIGHTS: Final = ("configure", "write", "read")


def _check_user(run: Run, status: int = EXIT_NO_USER) -> None:
    name = run["username"]
    run.demand("GET", path("users", name), missing=no_user(name, status))


def _check_both(run: Run) -> None:
    if run.is_vhost_missing:
        raise CtlError(f"Virtual host {run.vhost} does not exist", EXIT_UNAVAILABLE)

    _check_user(run)


def _rights(run: Run) -> dict[str, object]:
    return {"configure": run["conf"], "write": run["write"], "read": run["read"]}


def set_permissions(run: Run) -> Result:
    _check_both(run)
    run.demand("PUT", path("permissions", run.vhost, run["username"]), _rights(run))
    return Done()


def set_permissions_globally(run: Run) -> Result:
    _check_user(run)
    for vhost in run.rows("/vhosts?columns=name"):
        where = path("permissions", str(vhost["name"]), run["username"])
        run.demand("PUT", where, _rights(run))

    return Done()


def clear_permissions(run: Run) -> Result:
    _check_both(run)
    _delete(run, path("permissions", run.vhost, run["username"]))
    return Done()


def _delete(run: Run, where: str) -> None:
    """Delete what may be gone already."""
    if run.client.ask("GET", where).status != NOT_FOUND:
        run.demand("DELETE", where)


def _columns_of(rows: list[dict[str, object]], *columns: str) -> Rows:
    found = ([row[column] for column in columns] for row in rows)
    return Rows(columns, found, is_blank_shown=True)


def list_permissions(run: Run) -> Result:
    rows = run.rows(path("vhosts", run.vhost, "permissions"))
    return _columns_of(rows, "user", *RIGHTS)


def list_user_permissions(run: Run) -> Result:
    _check_user(run, EXIT_UNAVAILABLE)
    rows = run.rows(path("users", run["username"], "permissions"))
    return _columns_of(rows, "vhost", *RIGHTS)


# -- keys of topic exchanges


def set_topic_permissions(run: Run) -> Result:
    _check_both(run)
    body = {"exchange": run["exchange"], "write": run["write"], "read": run["read"]}
    run.demand("PUT", path("topic-permissions", run.vhost, run["username"]), body)
    return Done()


def clear_topic_permissions(run: Run) -> Result:
    _check_both(run)
    where = path("topic-permissions", run.vhost, run["username"])
    _delete(run, where + path(run["exchange"]) if run.has("exchange") else where)
    return Done()


def list_topic_permissions(run: Run) -> Result:
    rows = run.rows(path("vhosts", run.vhost, "topic-permissions"))
    return _columns_of(rows, "user", "exchange", "write", "read")


def list_user_topic_permissions(run: Run) -> Result:
    """RabbitMQ: this one list has no header."""
    _check_user(run, EXIT_UNAVAILABLE)
    rows = run.rows(path("users", run["username"], "topic-permissions"))
    return _columns_of(rows, "vhost", "exchange", "write", "read")._replace(has_header=False)


def _clear_topic_banner(run: Run) -> str:
    about = f'for user "{run["username"]}" in vhost "{run.vhost}" ...'
    if run.has("exchange"):
        return f'Clearing topic permissions on "{run["exchange"]}" {about}'

    return f"Clearing topic permissions {about}"


VERBS: Final = (
    Verb(
        "clear_permissions",
        GROUP,
        "Revokes user permissions for a vhost.",
        "<username>",
        clear_permissions,
        'Clearing permissions for user "{username}" in vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "clear_topic_permissions",
        GROUP,
        "Clears user topic permissions for a vhost or exchange.",
        "<username> [exchange]",
        clear_topic_permissions,
        _clear_topic_banner,
        has_vhost=True,
    ),
    Verb(
        "list_permissions",
        GROUP,
        "Lists user permissions in a virtual host.",
        "",
        list_permissions,
        'Listing permissions for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "list_topic_permissions",
        GROUP,
        "Lists topic permissions in a virtual host.",
        "",
        list_topic_permissions,
        'Listing topic permissions for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "list_user_permissions",
        GROUP,
        "Lists permissions of a user across all virtual hosts.",
        "<username>",
        list_user_permissions,
        'Listing permissions for user "{username}" ...',
    ),
    Verb(
        "list_user_topic_permissions",
        GROUP,
        "Lists user topic permissions.",
        "<username>",
        list_user_topic_permissions,
        'Listing topic permissions for user "{username}" ...',
    ),
    Verb(
        "set_permissions",
        GROUP,
        "Sets user permissions for a vhost: three patterns for the names of what there is.",
        "<username> <conf> <write> <read>",
        set_permissions,
        'Setting permissions for user "{username}" in vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "set_permissions_globally",
        GROUP,
        "Sets user permissions for all virtual hosts.",
        "<username> <conf> <write> <read>",
        set_permissions_globally,
        'Setting permissions for user "{username}" in all virtual hosts ...',
    ),
    Verb(
        "set_topic_permissions",
        GROUP,
        "Sets user topic permissions for an exchange: two patterns for routing keys.",
        "<username> <exchange> <write> <read>",
        set_topic_permissions,
        'Setting topic permissions on "{exchange}" for user "{username}" in vhost "{vhost}" ...',
        has_vhost=True,
    ),
)
