"""Policies and parameters (cli layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_UNAVAILABLE, CtlError
from broker.cli.ctl.printing import Done, Rows
from broker.cli.ctl.terms import compact_json
from broker.cli.ctl.verb import Option, Run, Verb, json_argument, path
from broker.cli.numbers import COUNT_MAX

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

POLICIES: Final = "Policies"
PARAMETERS: Final = "Parameters"
ABSENT: Final = CtlError("Parameter does not exist", EXIT_UNAVAILABLE)
COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
APPLY_TO: Final = "<queues | classic_queues | quorum_queues | streams | exchanges | all>"


def _set_policy(kind: str, run: Run) -> Result:
    body = {
        "pattern": run["pattern"],
        "definition": json_argument(run["definition"]),
        "priority": run.number("priority"),
        "apply-to": run.text("apply_to"),
    }
    run.demand("PUT", path(kind, run.vhost, run["name"]), body)
    return Done()


def _clear_policy(kind: str, run: Run) -> Result:
    run.check_vhost()
    run.demand("DELETE", path(kind, run.vhost, run["name"]), missing=ABSENT)
    return Done()


def _list_policies(kind: str, run: Run) -> Result:
    rows = run.rows(path(kind, run.vhost))
    found = (
        [compact_json(row[name]) if name == "definition" else row[name] for name in COLUMNS]
        for row in rows
    )
    return Rows(COLUMNS, found, is_blank_shown=True)


def _policy_verbs(kind: str, name: str, setting: str, about: str, others: str) -> tuple[Verb, ...]:
    """The three verbs that there are for policies and for operator policies alike."""
    apply_to = "<queues>" if kind == "operator-policies" else APPLY_TO
    options = (
        Option(
            "--priority",
            "<priority>",
            "the highest that matches counts",
            (-COUNT_MAX, COUNT_MAX),
            default=0,
        ),
        Option(
            "--apply-to",
            apply_to,
            "what it is about",
            default="queues" if kind == "operator-policies" else "all",
        ),
    )
    return (
        Verb(
            f"clear_{name}",
            POLICIES,
            f"Clears (removes) {about}.",
            "<name>",
            partial(_clear_policy, kind),
            f'Clearing {name.replace("_", " ")} "{{name}}" on vhost "{{vhost}}" ...',
            has_vhost=True,
        ),
        Verb(
            f"list_{name.removesuffix('policy')}policies",
            POLICIES,
            f"Lists all {others} in a virtual host.",
            "",
            partial(_list_policies, kind),
            f'Listing {others} for vhost "{{vhost}}" ...',
            has_vhost=True,
        ),
        Verb(
            f"set_{name}",
            POLICIES,
            f"Sets or updates {about}.",
            "<name> <pattern> <definition>",
            partial(_set_policy, kind),
            f'Setting {setting} "{{name}}" for pattern "{{pattern}}" to "{{definition}}" with'
            ' priority "{priority}" for vhost "{vhost}" ...',
            options,
            has_vhost=True,
        ),
    )


# -- parameters


def set_parameter(run: Run) -> Result:
    value = json_argument(run["value"])
    where = path("parameters", run["component_name"], run.vhost, run["name"])
    run.demand("PUT", where, {"value": value})
    return Done()


def clear_parameter(run: Run) -> Result:
    run.check_vhost()
    where = path("parameters", run["component_name"], run.vhost, run["name"])
    run.demand("DELETE", where, missing=ABSENT)
    return Done()


def list_parameters(run: Run) -> Result:
    run.check_vhost()
    rows = [row for row in run.rows("/parameters") if row["vhost"] == run.vhost]
    found = ((row["component"], row["name"], compact_json(row["value"])) for row in rows)
    return Rows(("component", "name", "value"), found, is_blank_shown=True)


def set_global_parameter(run: Run) -> Result:
    value = json_argument(run["value"])
    run.demand("PUT", path("global-parameters", run["name"]), {"value": value})
    return Done()


def clear_global_parameter(run: Run) -> Result:
    run.demand("DELETE", path("global-parameters", run["name"]), missing=ABSENT)
    return Done()


def list_global_parameters(run: Run) -> Result:
    rows = run.rows("/global-parameters")
    found = ((row["name"], compact_json(row["value"])) for row in rows)
    return Rows(("name", "value"), found, is_blank_shown=True)


VERBS: Final = (
    *_policy_verbs("policies", "policy", "policy", "a policy", "policies"),
    *_policy_verbs(
        "operator-policies",
        "operator_policy",
        "operator policy override",
        "an operator policy, which limits what policies say",
        "operator policy overrides",
    ),
    Verb(
        "clear_global_parameter",
        PARAMETERS,
        "Clears a global runtime parameter.",
        "<name>",
        clear_global_parameter,
        'Clearing global runtime parameter "{name}" ...',
    ),
    Verb(
        "clear_parameter",
        PARAMETERS,
        "Clears a runtime parameter.",
        "<component_name> <name>",
        clear_parameter,
        'Clearing runtime parameter "{name}" for component "{component_name}" on vhost "{vhost}"'
        " ...",
        has_vhost=True,
    ),
    Verb(
        "list_global_parameters",
        PARAMETERS,
        "Lists global runtime parameters.",
        "",
        list_global_parameters,
        "Listing global runtime parameters ...",
    ),
    Verb(
        "list_parameters",
        PARAMETERS,
        "Lists runtime parameters for a virtual host.",
        "",
        list_parameters,
        'Listing runtime parameters for vhost "{vhost}" ...',
        has_vhost=True,
    ),
    Verb(
        "set_global_parameter",
        PARAMETERS,
        "Sets a global runtime parameter.",
        "<name> <value>",
        set_global_parameter,
        'Setting global runtime parameter "{name}" to "{value}" ...',
    ),
    Verb(
        "set_parameter",
        PARAMETERS,
        "Sets a runtime parameter.",
        "<component_name> <name> <value>",
        set_parameter,
        'Setting runtime parameter "{name}" for component "{component_name}" to "{value}" in vhost'
        ' "{vhost}" ...',
        has_vhost=True,
    ),
)
