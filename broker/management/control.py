"""What an operator sets while the broker runs: configuration, alarms, log (management layer).

None of this is RabbitMQ's: there it is for ``rabbitmqctl`` alone. What is set here holds until it
is set again or the broker ends; the configuration says how it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.config.schema import DescriptorAlarmConfig, DiskAlarmConfig, MemoryAlarmConfig
from broker.core.node import BY_HAND
from broker.errors import BrokerError
from broker.management.arguments import boolean_of, integer_of, object_of
from broker.management.auth import ADMINISTRATOR, MONITOR
from broker.management.call import answer, done
from broker.management.errors import BadRequest, HTTPProblem, NotThere
from broker.management.routes import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from broker.config.schema import AlarmsConfig
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.site import LogControl, ReloadReport

__all__ = ["ROUTES"]

# -- the configuration


def _report_row(report: ReloadReport) -> JSON:
    return {
        "applied": report.is_applied,
        "changes": [
            {"action": action, "key": key, "text": text} for action, key, text in report.changes
        ],
        "pruned": list(report.pruned),
    }


async def get_configuration(call: Call) -> web.Response:
    operator = call.site.around.operator
    return answer(
        {
            "config_files": list(call.site.around.config_files),
            "can_reload": operator.reload is not None,
        }
    )


async def reload_configuration(call: Call) -> web.Response:
    """Read the file again: 200 with the plan, or 400 with every line that is wrong in it."""
    body = await call.body()
    reload = call.site.around.operator.reload
    if reload is None:
        raise BadRequest("the broker was started without a configuration file", "no_configuration")

    is_dry = boolean_of(body, "dry_run")
    report = await reload(boolean_of(body, "prune"), is_dry)
    if report.problems:
        raise BadRequest(list(report.problems), "configuration_refused")

    return answer({"dry_run": is_dry, **_report_row(report)})


# -- alarms


def _state_row(call: Call) -> JSON:
    node = call.node
    machine = call.site.around.machine()
    operator = call.site.around.operator
    now = operator.alarms()
    configured = operator.configured_alarms()
    short = node.short_of()
    memory, disk, descriptors = now.memory, now.disk, now.descriptors
    return {
        "memory": {
            "in_effect": "memory" in short,
            "raised": BY_HAND["memory"] in node.alarms,
            "fraction": memory.limit_fraction,
            "bytes": memory.limit_bytes,
            "limit": machine.memory_limit_bytes,
            "used": machine.memory_bytes,
            "as_configured": memory == configured.memory,
        },
        "disk": {
            "in_effect": "disk" in short,
            "raised": BY_HAND["disk"] in node.alarms,
            "bytes": disk.free_bytes_min,
            "limit": machine.disk_limit_bytes,
            "free": machine.disk_free_bytes,
            "as_configured": disk == configured.disk,
        },
        "file_descriptors": {
            "in_effect": "descriptors" in node.quiet_alarms,
            "fraction": descriptors.limit_fraction,
            "limit": machine.descriptors_max,
            "used": machine.descriptors,
            "as_configured": descriptors == configured.descriptors,
        },
    }


async def get_alarms(call: Call) -> web.Response:
    return answer(_state_row(call))


async def get_alarm(call: Call) -> web.Response:
    return answer(_state_row(call)[_resource_of(call)])


async def put_alarm(call: Call) -> web.Response:
    """Give one alarm another limit, or raise it by hand."""
    resource = _resource_of(call)
    body = await call.body()
    if "raised" in body:
        if len(body) > 1 or resource not in BY_HAND:
            raise BadRequest("memory and disk can be raised, and by nothing but 'raised'")

        is_raised = boolean_of(body, "raised")
        node = call.node
        await call.site.change(lambda: node.set_alarm(BY_HAND[resource], is_raised))
        return done()

    _set_alarms(call, RESOURCES[resource](call, body))
    return done()


async def delete_alarm(call: Call) -> web.Response:
    """The limit is as configured again, and nothing is raised by hand."""
    resource = _resource_of(call)
    operator = call.site.around.operator
    field = FIELDS[resource]
    configured = getattr(operator.configured_alarms(), field)
    _set_alarms(call, operator.alarms()._replace(**{field: configured}))
    if resource in BY_HAND:
        node = call.node
        await call.site.change(lambda: node.set_alarm(BY_HAND[resource], False))

    return done()


def _set_alarms(call: Call, alarms: AlarmsConfig) -> None:
    call.site.around.operator.set_alarms(alarms)


def _resource_of(call: Call) -> str:
    name = call["resource"]
    if name not in RESOURCES:
        raise NotThere("not_found", "alarm_not_found")

    return name


def _limit_in(body: JSON, *forms: str) -> tuple[str, float | None]:
    """The one limit that a request names, and its form; None switches the alarm off."""
    named = [form for form in forms if form in body]
    if len(body) != 1 or len(named) != 1:
        raise BadRequest(f"one of these is needed, and nothing else: {', '.join(forms)}")

    form = named[0]
    if form == "off":
        if boolean_of(body, "off"):
            return form, None

        raise BadRequest("off can only be true: give a limit")

    if form == "bytes":
        size = integer_of(body, form)
        if not 0 <= size <= BYTES_MAX:
            raise BadRequest(f"bytes: between 0 and {BYTES_MAX}")

        return form, size

    share = body[form]
    highest = SHARES[form]
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= highest:
        raise BadRequest(f"{form}: a number between 0 and {highest:g}")

    return form, float(share)


def _memory_limit(call: Call, body: JSON) -> AlarmsConfig:
    form, value = _limit_in(body, "fraction", "bytes", "off")
    memory = MemoryAlarmConfig(limit_fraction=None)
    if value is not None:
        is_share = form == "fraction"
        memory = MemoryAlarmConfig(value if is_share else None, None if is_share else int(value))

    return call.site.around.operator.alarms()._replace(memory=memory)


def _disk_limit(call: Call, body: JSON) -> AlarmsConfig:
    form, value = _limit_in(body, "bytes", "memory_fraction", "off")
    if value is not None and form == "memory_fraction":
        # RabbitMQ: mem_relative, of the machine's memory.
        value *= call.site.around.memory_bytes()

    disk = DiskAlarmConfig(None if value is None else int(value))
    return call.site.around.operator.alarms()._replace(disk=disk)


def _descriptor_limit(call: Call, body: JSON) -> AlarmsConfig:
    _, value = _limit_in(body, "fraction", "off")
    return call.site.around.operator.alarms()._replace(descriptors=DescriptorAlarmConfig(value))


BYTES_MAX: Final = 2**60
SHARES: Final = {"fraction": 1.0, "memory_fraction": 1000.0}
RESOURCES: Final[dict[str, Callable[[Call, JSON], AlarmsConfig]]] = {
    "memory": _memory_limit,
    "disk": _disk_limit,
    "file_descriptors": _descriptor_limit,
}
FIELDS: Final = {"memory": "memory", "disk": "disk", "file_descriptors": "descriptors"}


# -- the log


def _log_of(call: Call) -> LogControl:
    log = call.site.around.operator.log
    if log is None:
        raise NotThere("not_found", "the log is not the broker's")

    return log


async def get_log(call: Call) -> web.Response:
    return answer(_log_row(_log_of(call)))


def _log_row(log: LogControl) -> JSON:
    settings = log.settings()
    return {
        "level": settings.level,
        "levels": dict(settings.levels),
        "format": settings.format,
        "file": settings.file.path,
    }


async def put_log(call: Call) -> web.Response:
    """Other levels: ``level`` for all, and ``levels`` for kinds of events."""
    log = _log_of(call)
    body = await call.body()
    settings = log.settings()
    level = body.get("level", settings.level)
    levels = object_of(body, "levels") if "levels" in body else dict(settings.levels)
    for one in (level, *levels.values()):
        if one not in log.known_levels:
            raise BadRequest(f"level {one!r}: one of {', '.join(log.known_levels)}")

    chosen = tuple(sorted((str(kind), str(one)) for kind, one in levels.items()))
    if len(chosen) > KINDS_MAX:
        raise BadRequest("levels: too many kinds of events")

    log.change(settings._replace(level=str(level), levels=chosen))
    return answer(_log_row(log))


async def reopen_log(call: Call) -> web.Response:
    """Open the file anew: somebody has moved it away."""
    try:
        _log_of(call).reopen()
    except BrokerError as problem:
        raise HTTPProblem(500, "internal_server_error", str(problem)) from None

    return done()


KINDS_MAX: Final = 100

ROUTES: Final = (
    Route("GET", "/config/reload", ADMINISTRATOR, get_configuration),
    Route("POST", "/config/reload", ADMINISTRATOR, reload_configuration),
    Route("GET", "/alarms", MONITOR, get_alarms),
    Route("GET", "/alarms/:resource", MONITOR, get_alarm),
    Route("PUT", "/alarms/:resource", ADMINISTRATOR, put_alarm),
    Route("DELETE", "/alarms/:resource", ADMINISTRATOR, delete_alarm),
    Route("GET", "/log", MONITOR, get_log),
    Route("PUT", "/log", ADMINISTRATOR, put_log),
    Route("POST", "/log/reopen", ADMINISTRATOR, reopen_log),
)
