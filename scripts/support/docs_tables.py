"""Writes the tables of docs/ that the code already knows: states, methods, bounds.

Run ``python -m scripts.support.docs_tables`` in the project. With ``--check`` it writes nothing and
its exit status is 1 when a table is out of date. A table stands between two comments::

    <!-- generated: NAME -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.config import fields, storage_fields, topology_fields, user_fields
from broker.config.records import Record
from broker.protocol import states
from broker.wire.constants import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from broker.config.records import Key

__all__ = ["DOCUMENTS", "documented_constants", "main", "updated"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = ("docs/protocol.md", "docs/limits.md")

BLOCK: Final = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

LIMITS_MODULE: Final = "broker.limits"

BOUNDS_ELSEWHERE: Final = (
    ("broker.core.output", "OUTPUT_BACKLOG_BYTES_MAX"),
    ("broker.core.output", "OUTPUT_TURN_BYTES_MAX"),
    ("broker.core.reply_to", "REPLIES_WAITING_MAX"),
    ("broker.protocol.content", "PARTS_MAX"),
    ("broker.auth.patterns", "PATTERN_LENGTH_MAX"),
    ("broker.auth.patterns", "WAYS_MAX"),
    ("broker.auth.patterns", "STEPS_MAX"),
    ("broker.auth.patterns", "PROGRAM_MAX"),
    ("broker.auth.permissions", "VERDICTS_MAX"),
    ("broker.auth.logins", "REMEMBERED_MAX"),
    ("broker.auth.guard", "ENTRIES_MAX"),
    ("broker.net.verifying", "WAITING_PER_SOURCE_MAX"),
    ("broker.net.verifying", "WAITING_MAX"),
    ("broker.net.doorway", "ACCEPTED_PER_TURN_MAX"),
    ("broker.net.doorway", "REFUSED_PER_TURN_MAX"),
    ("broker.net.doorway", "REFUSAL_REST_S"),
    ("broker.net.turnstile", "BURST_S"),
    ("broker.management.sessions", "SESSIONS_MAX"),
    ("broker.management.sessions", "SESSIONS_PER_USER_MAX"),
    ("broker.management.threshold", "HEAD_S"),
    ("broker.management.threshold", "IDLE_S"),
    ("broker.management.pacing", "SHARE"),
    ("broker.management.pacing", "BURST_S"),
    ("broker.management.pacing", "DEBT_S"),
    ("broker.management.pacing", "WAITING_PER_USER_MAX"),
    ("broker.management.pacing", "WAITING_MAX"),
    ("broker.management.login", "BODY_BYTES_MAX"),
    ("broker.management.paging", "PAGE_SIZE_MAX"),
    ("broker.config.yaml_text", "TEXT_BYTES_MAX"),
    ("broker.config.tree", "DEPTH_MAX"),
    ("broker.config.tree", "NODES_MAX"),
    ("broker.config.tree", "PROBLEMS_MAX"),
    ("broker.logs", "VALUE_CHARACTERS_MAX"),
    ("broker.net.memory", "SAMPLE_INTERVAL_S"),
    ("broker.net.disk", "FREE_SAMPLE_INTERVAL_S"),
    ("broker.keeper", "RETRY_S"),
    ("broker.net.reception", "REFUSAL_LOG_INTERVAL_S"),
    ("broker.net.antechamber", "WAITING_MAX"),
    ("broker.net.antechamber", "HANDSHAKES_MAX"),
    ("broker.net.antechamber", "LINES_PER_INTERVAL_MAX"),
    ("broker.net.antechamber", "ACCEPT_REST_S"),
    ("broker.net.proxy_header", "LINE_BYTES_MAX"),
    ("broker.net.proxy_header", "HEADER_BYTES_MAX"),
    ("broker.net.keyring", "LOOK_INTERVAL_S"),
    ("broker.net.keyring", "TELL_INTERVAL_S"),
    ("broker.transport_security", "TLS_READ_BYTES_MAX"),
    ("broker.tls.profile", "FILE_BYTES_MAX"),
    ("broker.tls.profile", "EXPIRY_WARNING_S"),
    ("broker.tls.certificate", "NAMES_MAX"),
    ("broker.app", "STOP_WAIT_S"),
    ("broker.embedded", "STOP_WAIT_S"),
)
"""Bounds that stand in the one module that keeps to them: their effect is seen there alone."""


def documented_constants(module_name: str) -> dict[str, str]:
    """The constants of a module that have a docstring, with it, in the order of the source."""
    path = ROOT.joinpath(*module_name.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found: dict[str, str] = {}
    for statement, following in pairwise(body):
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue

        text = _text_of(following)
        if isinstance(target, ast.Name) and text is not None:
            found[target.id] = " ".join(text.split())

    return found


def _text_of(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None

    return None


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A docstring as Markdown: one backtick where reStructuredText has two."""
    return text.replace("``", "`")


# -- docs/protocol.md


def _state_rows(
    names: Mapping[int, str],
    transitions: Mapping[int, frozenset[int]],
    constants: Iterable[str],
) -> list[Sequence[str]]:
    texts = documented_constants(states.__name__)
    rows: list[Sequence[str]] = []
    for constant in constants:
        state = getattr(states, constant)
        onward = sorted(transitions[state])
        if onward == [state]:
            onward = []

        ways = ", ".join("itself" if other == state else names[other] for other in onward)
        rows.append((f"`{names[state]}`", _plain(texts[constant]), ways or "-"))

    return rows


def _constants_of(names: Mapping[int, str], *, is_channel: bool) -> list[str]:
    """The constants that stand for states, in their order; texts and tables are none."""
    found = [
        name
        for name, value in vars(states).items()
        if name in documented_constants(states.__name__)
        and isinstance(value, int)
        and name.startswith("CHANNEL_") == is_channel
    ]
    assert len(found) == len(names)
    return sorted(found, key=lambda name: int(getattr(states, name)))


def connection_states() -> str:
    names = states.STATE_NAMES
    constants = _constants_of(names, is_channel=False)
    rows = _state_rows(names, states.CONNECTION_TRANSITIONS, constants)
    return _table(("state", "what it means", "ways on"), rows)


def channel_states() -> str:
    names = states.CHANNEL_STATE_NAMES
    constants = _constants_of(names, is_channel=True)
    rows = _state_rows(names, states.CHANNEL_TRANSITIONS, constants)
    return _table(("state", "what it means", "ways on"), rows)


def methods_on_channel_0() -> str:
    rows: list[Sequence[str]] = []
    for state, allowed in states.CONNECTION_METHODS.items():
        methods = ", ".join(f"`{METHOD_NAMES[index]}`" for index in sorted(allowed))
        rows.append((f"`{states.STATE_NAMES[state]}`", methods))

    return _table(("state", "methods that have a place there"), rows)


# -- docs/limits.md


def _number(value: object) -> str:
    """A value as people read it: 131,072, 2.0."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def bounds() -> str:
    module = import_module(LIMITS_MODULE)
    rows = [
        (f"`{name}`", _number(getattr(module, name)), _plain(text))
        for name, text in documented_constants(LIMITS_MODULE).items()
    ]
    return _table(("bound", "value", "why"), rows)


def bounds_elsewhere() -> str:
    rows: list[Sequence[str]] = []
    for module_name, name in BOUNDS_ELSEWHERE:
        path = module_name.replace(".", "/") + ".py"
        value = _number(getattr(import_module(module_name), name))
        text = _plain(documented_constants(module_name)[name])
        rows.append((f"`{name}`", value, f"[{path}](../{path})", text))

    return _table(("bound", "value", "where", "why"), rows)


def configurable() -> str:
    rows: list[Sequence[str]] = []
    for path, key in _configurable_keys():
        rows.append((f"`{path}`", key.written or "no limit", key.doc))

    return _table(("key", "default", "what"), rows)


def _configurable_keys() -> list[tuple[str, Key[object]]]:
    found: list[tuple[str, Key[object]]] = [
        *_keys_of(fields.LIMITS, "limits"),
        (fields.HEARTBEAT.name, fields.HEARTBEAT),
        ("alarms.memory.limit", storage_fields.MEMORY_LIMIT),
        ("alarms.disk.free_limit", storage_fields.DISK_FREE_LIMIT),
        ("storage.segment_size", storage_fields.STORAGE_SEGMENT),
        ("listeners.amqp[].backlog", fields.LISTENER_BACKLOG),
        *_keys_of(user_fields.USER_LIMITS, "users[].limits"),
        *_keys_of(topology_fields.VHOST_LIMITS, "vhosts.NAME.limits"),
    ]
    return found


def _keys_of(key: Key[object], path: str) -> list[tuple[str, Key[object]]]:
    record = key.shape
    assert isinstance(record, Record)
    return [(f"{path}.{name}", inner) for name, inner in record.keys.items()]


# -- the files

TABLES: Final[dict[str, Callable[[], str]]] = {
    "connection-states": connection_states,
    "channel-states": channel_states,
    "methods-on-channel-0": methods_on_channel_0,
    "bounds": bounds,
    "bounds-elsewhere": bounds_elsewhere,
    "configurable": configurable,
}


def updated(text: str) -> str:
    """The text of a document with its tables as they are now.

    Raises:
        KeyError: it asks for a table that nobody makes.

    """
    return BLOCK.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[3]}", text)


def main(arguments: Sequence[str]) -> int:
    """Write the tables, or with ``--check`` see whether they are written."""
    is_stale = False
    for name in DOCUMENTS:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = updated(old)
        if old == new:
            continue

        is_stale = True
        if "--check" in arguments:
            sys.stderr.write(f"{name} is out of date: run python -m scripts.support.docs_tables\n")
        else:
            path.write_text(new, encoding="utf-8")

    return 1 if is_stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
