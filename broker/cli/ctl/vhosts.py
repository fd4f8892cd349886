"""Virtual hosts (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.printing import Done, Facts, Rows, Value
from broker.cli.ctl.terms import Atoms, compact_json
from broker.cli.ctl.verb import Option, Run, Verb, json_argument, path

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

GROUP: Final = "Virtual hosts"
OK: Final = 200
COLUMNS: Final = (
    "cluster_state",
    "default_queue_type",
    "description",
    "metadata",
    "name",
    "protected_from_deletion",
    "tags",
    "tracing",
)
QUEUE_TYPES: Final = ("classic", "quorum", "stream")
METADATA: Final = (
    Option("--description", "<description>", "what it is for"),
    Option("--tags", "<tags>", "words, joined by commas"),
    Option(
        "--default-queue-type",
        "<type>",
        "what queues are without x-queue-type",
        choices=QUEUE_TYPES,
    ),
)
ABSENT: Final = CtlError("Parameter does not exist", EXIT_UNAVAILABLE)


def _metadata(run: Run) -> dict[str, object]:
    facts: dict[str, object] = {}
    for key in ("description", "tags", "default_queue_type"):
        value = run.text(key)
        if value is not None:
            facts[key] = value

    return facts


def add_vhost(run: Run) -> Result:
    """One that is there stays as it is, as in RabbitMQ."""
    where = path("vhosts", run["vhost_name"])
    if run.client.ask("GET", where).status != OK:
        run.demand("PUT", where, _metadata(run))

    return Done()


def delete_vhost(run: Run) -> Result:
    run.demand("DELETE", path("vhosts", run["vhost_name"]), missing=_no_vhost(run))
    return Done()


def _no_vhost(run: Run) -> CtlError:
    run.vhost = run["vhost_name"]
    return run.no_vhost()


def _change(run: Run, name: str, **changes: object) -> None:
    """Change some of what is said of a virtual host; the rest stays."""
    run.vhost = name
    value = run.demand("GET", path("vhosts", name), missing=run.no_vhost())
    assert isinstance(value, dict)
    kept = ("description", "tags", "default_queue_type", "protected_from_deletion")
    run.demand("PUT", path("vhosts", name), {**{key: value[key] for key in kept}, **changes})


def update_vhost_metadata(run: Run) -> Result:
    _change(run, run["vhost_name"], **_metadata(run))
    return Done()


def set_vhost_tags(run: Run) -> Result:
    _change(run, run["vhost_name"], tags=run.more)
    return Done()


def protect(run: Run) -> Result:
    _change(run, run["vhost_name"], protected_from_deletion=True)
    return Done()


def unprotect(run: Run) -> Result:
    _change(run, run["vhost_name"], protected_from_deletion=False)
    return Done()


def list_vhosts(run: Run) -> Result:
    columns = run.wanted_columns
    rows = run.rows("/vhosts")
    return Rows(columns, ([_column(row, name) for name in columns] for row in rows))


def _column(row: dict[str, object], name: str) -> object:
    value = row.get(name)
    return Atoms(map(str, value)) if name == "tags" and isinstance(value, list) else value


def restart_vhost(run: Run) -> Result:
    """One that could not be opened has kept the broker from starting."""
    run.check_vhost()
    return Value(f"Successfully restarted vhost '{run.vhost}' on node '{run.node}'")


def trace_on(run: Run) -> Result:
    _change(run, run.vhost, tracing=True)
    return Value(f"Trace enabled for vhost {run.vhost}")


def trace_off(run: Run) -> Result:
    _change(run, run.vhost, tracing=False)
    return Value(f"Trace disabled for vhost {run.vhost}")


# -- limits


def set_vhost_limits(run: Run) -> Result:
    limits = json_argument(run["definition"])
    run.demand("PUT", path("parameters", "vhost-limits", run.vhost, "limits"), {"value": limits})
    return Done()


def clear_vhost_limits(run: Run) -> Result:
    run.check_vhost()
    run.demand("DELETE", path("parameters", "vhost-limits", run.vhost, "limits"), missing=ABSENT)
    return Done()


def list_vhost_limits(run: Run) -> Result:
    if run.flag("global"):
        found = run.rows("/vhost-limits")
        rows = ((one["vhost"], compact_json(one["value"])) for one in found)
        return Rows(("vhost", "limits"), rows, is_blank_shown=True)

    run.check_vhost()
    rows_here = run.rows(path("vhost-limits", run.vhost))
    text = compact_json(rows_here[0]["value"]) if rows_here else ""
    return Facts({"node": run.node, "result": "ok", "value": text or "[]"}, text)


def _limits_banner(run: Run) -> str:
    if run.flag("global"):
        return "Listing limits for all vhosts ..."

    return f'Listing limits for vhost "{run.vhost}" ...'


VERBS: Final = (
    Verb(
        "add_vhost",
        GROUP,
        "Creates a virtual host.",
        "<vhost_name>",
        add_vhost,
        'Adding vhost "{vhost_name}" ...',
        METADATA,
    ),
    Verb(
        "clear_vhost_limits",
        GROUP,
        "Clears virtual host limits.",
        "",
        clear_vhost_limits,
        'Clearing vhost "{vhost}" limits ...',
        has_vhost=True,
    ),
    Verb(
        "delete_vhost",
        GROUP,
        "Deletes a virtual host with all that is in it.",
        "<vhost_name>",
        delete_vhost,
        'Deleting vhost "{vhost_name}" ...',
    ),
    Verb(
        "disable_vhost_deletion_protection",
        GROUP,
        "Lets a virtual host be deleted again.",
        "<vhost_name>",
        unprotect,
        'Removing deletion protection from vhost "{vhost_name}" ...',
    ),
    Verb(
        "enable_vhost_deletion_protection",
        GROUP,
        "Keeps a virtual host from being deleted.",
        "<vhost_name>",
        protect,
        'Protecting vhost "{vhost_name}" from deletion ...',
    ),
    Verb(
        "list_vhost_limits",
        GROUP,
        "Displays configured virtual host limits.",
        "",
        list_vhost_limits,
        _limits_banner,
        (Option("--global", text="those of all virtual hosts"),),
        has_vhost=True,
    ),
    Verb(
        "list_vhosts",
        "Access Control",
        "Lists virtual hosts.",
        "[column] ...",
        list_vhosts,
        "Listing vhosts ...",
        columns=COLUMNS,
        shown=("name",),
    ),
    Verb(
        "restart_vhost",
        GROUP,
        "Does nothing: a virtual host that runs here has not failed.",
        "",
        restart_vhost,
        "Trying to restart vhost '{vhost}' on node '{node}' ...",
        has_vhost=True,
    ),
    Verb(
        "set_vhost_limits",
        GROUP,
        "Sets virtual host limits, as a JSON object of max-connections and max-queues.",
        "<definition>",
        set_vhost_limits,
        'Setting vhost limits to "{definition}" for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "set_vhost_tags",
        GROUP,
        "Sets virtual host tags.",
        "<vhost_name> [tag] ...",
        set_vhost_tags,
        'Setting tags for vhost "{vhost_name}" to [{more}] ...',
    ),
    Verb(
        "trace_off",
        GROUP,
        "Stops copying messages to amq.rabbitmq.trace.",
        "",
        trace_off,
        'Stopping tracing for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "trace_on",
        GROUP,
        "Copies each message that is published or delivered to amq.rabbitmq.trace.",
        "",
        trace_on,
        'Starting tracing for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "update_vhost_metadata",
        GROUP,
        "Changes what is said of a virtual host.",
        "<vhost_name>",
        update_vhost_metadata,
        'Updating metadata for vhost "{vhost_name}" ...',
        METADATA,
    ),
)
