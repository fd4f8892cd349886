"""What is set while the broker runs: alarms, log, configuration (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.cli.ctl.faults import EXIT_CONFIG, EXIT_UNAVAILABLE, CtlError, WrongUsage
from broker.cli.ctl.printing import Done, Facts, Rows, Value
from broker.cli.ctl.sizes import fraction_of, size_of
from broker.cli.ctl.verb import Option, Run, Verb

if TYPE_CHECKING:
    from broker.cli.ctl.printing import Result

__all__ = ["VERBS"]

GROUP: Final = "Configuration and Environment"
FLAGS: Final = "Feature flags"
LEVELS: Final = {"critical": "error", "none": "error"}
"""RabbitMQ's levels that are not known here."""

KNOWN_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")
RESOURCES: Final = ("memory", "disk")
BAD_REQUEST: Final = 400
OK: Final = 200


def _check_count(run: Run, keyword: str, first: str, second: str) -> None:
    """Demand a second word behind a keyword, and nowhere else."""
    is_wanted = run[first] == keyword
    if is_wanted != run.has(second):
        raise WrongUsage("not enough arguments." if is_wanted else "too many arguments.")


def _memory_limit(run: Run) -> dict[str, object]:
    _check_count(run, "absolute", "fraction", "value")
    if run.has("value"):
        return {"bytes": size_of(run["value"])}

    return {"fraction": fraction_of(run["fraction"], 1.0)}


def set_vm_memory_high_watermark(run: Run) -> Result:
    run.demand("PUT", "/alarms/memory", _memory_limit(run))
    return Done()


def _memory_banner(run: Run) -> str:
    if run["fraction"] == "absolute":
        return f"Setting memory threshold on {run.node} to {run['value']} bytes ..."

    return f"Setting memory threshold on {run.node} to {run['fraction']} ..."


def _disk_limit(run: Run) -> dict[str, object]:
    _check_count(run, "mem_relative", "disk_limit", "fraction")
    if run.has("fraction"):
        return {"memory_fraction": fraction_of(run["fraction"])}

    return {"bytes": size_of(run["disk_limit"])}


def set_disk_free_limit(run: Run) -> Result:
    run.demand("PUT", "/alarms/disk", _disk_limit(run))
    return Done()


def _disk_banner(run: Run) -> str:
    if run["disk_limit"] == "mem_relative":
        return f"Setting disk free limit on {run.node} to {run['fraction']} times the total RAM ..."

    return f"Setting disk free limit on {run.node} to {run['disk_limit']} bytes ..."


def _resource(run: Run) -> str:
    if run["resource"] not in RESOURCES:
        raise WrongUsage(f"there is no alarm '{run['resource']}': memory or disk")

    return f"/alarms/{run['resource']}"


def raise_alarm(run: Run) -> Result:
    run.demand("PUT", _resource(run), {"raised": True})
    return Done()


def clear_alarm(run: Run) -> Result:
    run.demand("PUT", _resource(run), {"raised": False})
    return Done()


# -- the log


def _log_level(run: Run) -> str:
    level = run["log_level"]
    if level not in KNOWN_LEVELS:
        raise CtlError(
            f"level {level} is not supported. Try one of {', '.join(KNOWN_LEVELS)}",
            EXIT_UNAVAILABLE,
        )

    return LEVELS.get(level, level)


def set_log_level(run: Run) -> Result:
    run.demand("PUT", "/log", {"level": _log_level(run)})
    return Done()


def rotate_logs(run: Run) -> Result:
    """The file is opened anew: whoever rotates it has given it another name."""
    run.demand("POST", "/log/reopen", {})
    return Done()


# -- the configuration


def reload(run: Run) -> Result:
    body = {"dry_run": run.flag("dry_run"), "prune": run.flag("prune")}
    answer = run.client.ask("POST", "/config/reload", body)
    value = answer.value
    facts: dict[str, object] = value if isinstance(value, dict) else {}
    if answer.status == BAD_REQUEST:
        raise _refused(facts)

    if answer.status != OK:
        raise CtlError(answer.reason)

    return Facts(facts, _plan_text(facts, is_dry=run.flag("dry_run")))


def _refused(facts: dict[str, object]) -> CtlError:
    reason = facts.get("reason")
    if isinstance(reason, list):
        lines = "\n".join(map(str, reason))
        return CtlError(f"the configuration is refused, nothing is changed:\n{lines}", EXIT_CONFIG)

    return CtlError(f"{reason}", EXIT_CONFIG)


def _plan_text(facts: dict[str, object], *, is_dry: bool) -> str:
    changes = facts.get("changes")
    lines = []
    for change in changes if isinstance(changes, list) else []:
        assert isinstance(change, dict)
        text = f" ({change['text']})" if change["text"] else ""
        lines.append(f"{change['action']}: {change['key']}{text}")

    pruned = facts.get("pruned")
    lines += [f"pruned: {key}" for key in pruned] if isinstance(pruned, list) else []
    if is_dry:
        lines.append("nothing is changed: --dry-run")
    elif facts.get("applied") is True:
        lines.append("the configuration is in force")

    return "\n".join(lines)


# -- the rest


def set_cluster_name(run: Run) -> Result:
    run.demand("PUT", "/cluster-name", {"name": run["name"]})
    return Done()


def list_feature_flags(run: Run) -> Result:
    """What RabbitMQ has flags for is there, and cannot be switched off."""
    columns = run.wanted_columns
    return Rows(columns, (), is_blank_shown=True)


def list_deprecated_features(run: Run) -> Result:
    """Nothing is deprecated."""
    return Rows(run.wanted_columns, (), is_blank_shown=True)


def do_nothing(run: Run) -> Result:
    return Done()


def force_gc(run: Run) -> Result:
    return Value("Python's collector runs by itself")


VERBS: Final = (
    Verb(
        "clear_alarm",
        GROUP,
        "Takes back what raise_alarm did.",
        "<resource>",
        clear_alarm,
        "Clearing the {resource} alarm ...",
        check=_resource,
    ),
    Verb(
        "enable_feature_flag",
        FLAGS,
        "Does nothing: there are no feature flags.",
        "<feature_flag>",
        do_nothing,
        "Enabling feature flag {feature_flag} ...",
    ),
    Verb(
        "force_gc",
        "Operations",
        "Does nothing: Python's garbage collector runs by itself.",
        "",
        force_gc,
    ),
    Verb(
        "list_feature_flags",
        FLAGS,
        "Lists feature flags: there are none.",
        "[column] ...",
        list_feature_flags,
        "Listing feature flags ...",
        columns=("name", "state", "stability", "provided_by", "desc", "doc_url"),
        shown=("name", "state"),
    ),
    Verb(
        "check_if_any_deprecated_features_are_used",
        FLAGS,
        "Does nothing: no feature is deprecated.",
        "",
        do_nothing,
        "Checking if any deprecated features are used ...",
    ),
    Verb(
        "list_deprecated_features",
        FLAGS,
        "Lists deprecated features: there are none.",
        "[column] ...",
        list_deprecated_features,
        "Listing deprecated features ...",
        options=(Option("--used", text="only those in use"),),
        columns=("name", "deprecation_phase", "provided_by", "desc", "doc_url", "state"),
        shown=("name", "deprecation_phase", "state"),
    ),
    Verb(
        "reset_stats_db",
        "Operations",
        "Does nothing: statistics are of now.",
        "",
        do_nothing,
        "Resetting statistics of node {node} ...",
        options=(Option("--all", text="of all nodes"),),
    ),
    Verb(
        "raise_alarm",
        GROUP,
        "Holds publishers back as when memory or disk space run short, to see what they do.",
        "<resource>",
        raise_alarm,
        "Raising the {resource} alarm ...",
        check=_resource,
    ),
    Verb(
        "reload",
        GROUP,
        "Reads the configuration file again, and takes it on as a whole or not at all.",
        "",
        reload,
        "Reading the configuration of node {node} again ...",
        (
            Option("--dry-run", text="only tell what would change"),
            Option("--prune", text="remove what the file no longer names, with all that is in it"),
        ),
    ),
    Verb(
        "rotate_logs", GROUP, "Opens the log file anew.", "", rotate_logs, "Reopening the log ..."
    ),
    Verb(
        "set_cluster_name",
        GROUP,
        "Sets the cluster name.",
        "<name>",
        set_cluster_name,
        "Setting cluster name to {name} ...",
    ),
    Verb(
        "set_disk_free_limit",
        GROUP,
        "Sets how much space there must be: a size, or 'mem_relative' and a factor.",
        "<disk_limit> [fraction]",
        set_disk_free_limit,
        _disk_banner,
        check=_disk_limit,
    ),
    Verb(
        "set_log_level",
        GROUP,
        "Sets the log level in the running node.",
        "<log_level>",
        set_log_level,
        'Setting log level to "{log_level}" ...',
        check=_log_level,
    ),
    Verb(
        "set_vm_memory_high_watermark",
        GROUP,
        "Sets how much memory may be in use: a fraction, or 'absolute' and a size.",
        "<fraction> [value]",
        set_vm_memory_high_watermark,
        _memory_banner,
        check=_memory_limit,
    ),
)
