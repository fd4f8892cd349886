"""Imports run one way: cli -> app -> net -> metrics -> protocol -> core -> auth -> wire -> base."""

from __future__ import annotations

import ast
from typing import Final

import pytest

from tests.tidy.source import Source, package_sources

BASE: Final = {"broker", "errors", "limits", "clock"}
WIRE: Final = BASE | {"wire"}
SETTINGS: Final = {"config.schema", "config.problems", "config.datagram_templates"}
BELOW_CORE: Final = WIRE | SETTINGS | {"auth", "store.api", "store.records"}
BELOW_RIM: Final = BELOW_CORE | {"core", "protocol", "metrics"}
STATE: Final = {"node_state", "keeper", "vhost_logs", "watches", "upkeep", "machine"}
RIM: Final = {
    "net",
    "management",
    "exporters",
    "store",
    "config",
    "tls",
    "logs",
    "topology",
    "build",
} | STATE
COMPOSITION: Final = BELOW_RIM | RIM | {"local_socket"}
TOOLKIT: Final = {"broker", "client", "queues", "tasks"}

MAY_IMPORT: Final[dict[str, set[str]]] = {
    "broker": set(),
    "errors": BASE,
    "limits": BASE,
    "clock": BASE,
    "build": BASE,
    "local_socket": BASE,
    "wire": BASE,
    "config.problems": BASE,
    "config.datagram_templates": BASE,
    "config.schema": WIRE | {"config.problems"},
    "auth": WIRE | SETTINGS,
    "tls": BASE | SETTINGS,
    "metrics": BELOW_CORE | {"core", "protocol"},
    "store.records": BASE,
    "store.api": WIRE | SETTINGS | {"store.records"},
    "store": WIRE | SETTINGS | {"store.api", "store.records"},
    "core": BELOW_CORE,
    "protocol": BELOW_CORE | {"core"},
    "net": BELOW_RIM | {"tls"},
    "management": BELOW_RIM,
    "exporters": BELOW_RIM,
    "config": WIRE | SETTINGS | {"auth", "tls"},
    "log_file": BASE,
    "logs": BASE | SETTINGS | {"log_file"},
    "topology": BELOW_RIM | {"config"},
    "node_state": BELOW_RIM | {"config", "store"},
    "keeper": BELOW_RIM | {"store", "node_state"},
    "vhost_logs": BELOW_RIM | {"net", "store"},
    "watches": BELOW_RIM | {"net"},
    "machine": BELOW_RIM | {"net", "store", "watches"},
    "upkeep": BELOW_RIM | {"config", "store", "node_state", "keeper", "local_socket"},
    "transport_security": BELOW_RIM | {"net", "tls"},
    "http_api": COMPOSITION | {"reload", "transport_security"},
    "http_door": COMPOSITION | {"http_api"},
    "telemetry": COMPOSITION | {"transport_security"},
    "reload_plan": BELOW_RIM | {"config"},
    "reload": COMPOSITION | {"reload_plan"},
    "app": COMPOSITION | {"http_door", "telemetry", "reload", "transport_security"},
    "embedded": COMPOSITION | {"app", "reload"},
    "cli": COMPOSITION | {"app", "embedded", "client", "tasks"},
    "__main__": {"broker", "cli"},
    "testing": COMPOSITION | {"app", "embedded"},
    "client": TOOLKIT,
    "queues": TOOLKIT,
    "tasks": TOOLKIT,
}
"""Unit -> the other units it may import. A unit is what stands right below ``broker``."""

SPLIT_PACKAGES: Final = SETTINGS | {"store.api", "store.records"}
"""Modules with a layer of their own, lower than that of the package around them."""

PURE_UNITS: Final = {"wire", "core", "protocol", "metrics", "auth", "store.api", "store.records"}
"""The broker without sockets: a function of bytes and time. What it lacks is passed in."""

IMPURE_MODULES: Final = {
    "asyncio",
    "concurrent",
    "logging",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "structlog",
    "subprocess",
    "threading",
    "time",
    "uuid",
    "yaml",
}


def unit_of(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts:
        return "broker"

    nested = ".".join(parts[:2])
    return nested if nested in SPLIT_PACKAGES else parts[0]


def imported_units(source: Source) -> list[tuple[str, int]]:
    """Return the units that a module imports, with the line.

    ``from broker import x`` imports the package and, when there is one, the unit x. Of a package
    that is split, only the part that is imported counts: the package itself is empty.
    """
    empty = {name.split(".")[0] for name in SPLIT_PACKAGES}
    found = []
    for name, line in source.imports():
        unit = unit_of(name)
        is_package_of_parts = unit in empty and name == f"broker.{unit}"
        if name.split(".")[0] == "broker" and unit in MAY_IMPORT and not is_package_of_parts:
            found.append((unit, line))

    return found


@pytest.mark.parametrize("source", package_sources(), ids=lambda source: source.path)
def test_imports_only_from_layers_below(source: Source) -> None:
    unit = unit_of(source.module)
    assert unit in MAY_IMPORT, f"give {unit} a place in MAY_IMPORT"

    allowed = MAY_IMPORT[unit] | {unit}
    wrong = [
        f"{source.path}:{line}: {unit} may not import {imported}"
        for imported, line in imported_units(source)
        if imported not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", package_sources(), ids=lambda source: source.path)
def test_pure_layers_import_nothing_that_touches_the_world(source: Source) -> None:
    if unit_of(source.module) not in PURE_UNITS:
        return

    wrong = [
        f"{source.path}:{line}: {name} does not belong below the rim"
        for name, line in source.imports()
        if name.split(".")[0] in IMPURE_MODULES
    ]
    wrong += [
        f"{source.path}:{node.lineno}: async does not belong below the rim"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.AsyncFunctionDef)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("library", "home"),
    [
        pytest.param(
            "pamqp",
            # The toolkit speaks through aio-pika, whose methods and properties are pamqp's.
            {"broker/wire/codec.py", "broker/client/", "broker/tasks/"},
            id="pamqp-only-in-the-codec-and-the-toolkit",
        ),
        pytest.param(
            "aiormq", {"broker/client/", "broker/tasks/"}, id="aiormq-only-in-the-toolkit"
        ),
        pytest.param("yaml", {"broker/config/"}, id="yaml-only-in-config"),
        pytest.param("structlog", {"broker/logs.py"}, id="structlog-only-in-logs"),
        pytest.param("click", {"broker/cli/"}, id="click-only-in-the-cli"),
        pytest.param(
            "aio_pika",
            {"broker/client/", "broker/queues/", "broker/tasks/"},
            id="aio-pika-only-in-the-toolkit",
        ),
    ],
)
def test_library_is_imported_in_one_place(library: str, home: set[str]) -> None:
    wrong = [
        f"{source.path}:{line}: {name}"
        for source in package_sources()
        for name, line in source.imports()
        if name.split(".")[0] == library and not source.path.startswith(tuple(home))
    ]
    assert not wrong, "\n".join(wrong)


def test_rules_can_fail() -> None:
    """The rules above see relative imports, nested imports and modules imported from a package."""
    text = "def f():\n    from ..net import transport\n    from broker import app\n"
    source = Source("broker/core/queue/x.py", text, ast.parse(text))
    deeper = Source("broker/core/x.py", text, ast.parse(text))

    assert ("net", 2) not in imported_units(source)  # broker.core.net: not a layer
    assert ("net", 2) in imported_units(deeper)
    assert ("app", 3) in imported_units(source)
