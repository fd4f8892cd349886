"""The file with users, rights and virtual hosts (store layer).

JSON, since it is small and people look into it when something went wrong: one user or virtual host
a line. Passwords are in it as hashes only. A checksum tells damage that is good JSON still; who
changes the file by hand removes that line.

Invariant: what is read is what was written, or a StoreError says where it is not.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from broker.errors import StoreError
from broker.store.whole_file import read_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = [
    "NodeState",
    "ParameterState",
    "PermissionState",
    "TopicPermissionState",
    "UserState",
    "VHostState",
    "parse_node_file",
    "read_node_file",
    "write_node_file",
]

VERSION: Final = 1
NOTHING_ADDED: Final[dict[str, object]] = {}
VHOST_ADDITIONS: Final[dict[str, object]] = {
    "description": "",
    "tags": [],
    "default_queue_type": "",
    "is_protected": False,
}
"""What virtual hosts did not have when the format was young."""


class PermissionState(NamedTuple):
    """What a user may do in a virtual host (rule PM-02)."""

    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionState(NamedTuple):
    """Which keys a user may use with a topic exchange (rule PM-20)."""

    vhost: str
    exchange: str
    write: str
    read: str


class UserState(NamedTuple):
    """One user (rule PM-01)."""

    name: str
    password_hash: str | None
    """Base64 of salt and digest (rule C-25); None where nobody can log in."""

    hashing_algorithm: str | None
    tags: tuple[str, ...]
    connections_max: int | None
    channels_max: int | None
    permissions: tuple[PermissionState, ...]
    topic_permissions: tuple[TopicPermissionState, ...]


class VHostState(NamedTuple):
    """One virtual host; what is in it stands in its log."""

    name: str
    number: int
    """Names the directory with its log; never used again when it is deleted."""

    connections_max: int | None = None
    queues_max: int | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    is_protected: bool = False


class ParameterState(NamedTuple):
    """A parameter that a program keeps here (rule DE-05)."""

    name: str
    value: object
    vhost: str = ""
    """Empty, as the component, for one of the node."""

    component: str = ""


class NodeState(NamedTuple):
    """All that a node keeps outside the logs."""

    next_vhost_number: int = 1
    vhosts: tuple[VHostState, ...] = ()
    users: tuple[UserState, ...] = ()
    parameters: tuple[ParameterState, ...] = ()


# -- writing


def write_node_file(path: str, state: NodeState) -> None:
    """Replace the file, on the disk when this returns.

    Raises:
        OSError: it could not be done; the old file is still there.

    """
    replace_file(path, _render(state))


def _render(state: NodeState) -> bytes:
    # ASCII alone: names may hold bytes that are no UTF-8, as lone surrogates.
    body = (
        f'"version": {VERSION},\n'
        f'"next_vhost_number": {state.next_vhost_number},\n'
        f'"vhosts": [{_render_list(map(_plain_vhost, state.vhosts))}],\n'
        f'"users": [{_render_list(map(_plain_user, state.users))}]{_render_parameters(state)}\n'
        "}\n"
    ).encode("ascii")
    return b'{\n"checksum": "%08x",\n%s' % (zlib.crc32(body), body)


def _render_list(items: Iterable[dict[str, object]]) -> str:
    lines = ",\n".join(map(json.dumps, items))
    return f"\n{lines}\n" if lines else ""


def _render_parameters(state: NodeState) -> str:
    if not state.parameters:
        return ""

    return f',\n"parameters": [{_render_list(one._asdict() for one in state.parameters)}]'


def _plain_vhost(vhost: VHostState) -> dict[str, object]:
    """What is not said of a virtual host need not be written."""
    plain = vhost._asdict()
    for key, absent in VHOST_ADDITIONS.items():
        if not plain[key]:
            assert not absent
            del plain[key]

    return plain


def _plain_user(user: UserState) -> dict[str, object]:
    return {
        **user._asdict(),
        "permissions": [entry._asdict() for entry in user.permissions],
        "topic_permissions": [entry._asdict() for entry in user.topic_permissions],
    }


# -- reading

_HEAD: Final = re.compile(rb'\{\s*"checksum": "([0-9a-f]{8})",\n')
_T = TypeVar("_T")


def read_node_file(path: str) -> NodeState | None:
    """Read the file; None when there is none.

    Raises:
        StoreError: it is damaged, or cannot be read.

    """
    try:
        raw = read_file(path)
    except OSError as fault:
        raise StoreError(f"cannot read {path}: {(fault.strerror or str(fault)).lower()}") from None

    return None if raw is None else parse_node_file(path, raw)


def parse_node_file(path: str, raw: bytes) -> NodeState:
    """Make out what the file says.

    Raises:
        StoreError: it is damaged.

    """
    head = _HEAD.match(raw)
    try:
        data = json.loads(raw)
        if head is not None and zlib.crc32(raw[head.end() :]) != int(head[1], 16):
            raise _Damage(
                "its checksum is not that of what follows it; if you changed the file by hand,"
                " remove the line with the checksum"
            )

        return _read_state(data, has_checksum=head is not None)
    except UnicodeDecodeError as fault:
        raise _refused(path, f"at byte {fault.start}: it is no text") from None
    except json.JSONDecodeError as fault:
        # The text is ASCII, so characters are bytes.
        raise _refused(path, f"at byte {fault.pos}: {fault.msg.lower()}") from None
    except (_Damage, RecursionError) as fault:
        raise _refused(path, str(fault)) from None


class _Damage(Exception):
    """What stands there is not what is written there."""


def _refused(path: str, why: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {why} - restore it from a backup; without the file, the broker begins"
        " with the users of its configuration"
    )


def _read_state(data: object, *, has_checksum: bool) -> NodeState:
    known = {"version", *NodeState._fields} | ({"checksum"} if has_checksum else set())
    entries = _entries(data, known, "", {"parameters": []})
    version = _number(entries, "version", "")
    if version != VERSION:
        raise _Damage(f"version: it is {version}, and this Leveret knows {VERSION} only")

    state = NodeState(
        next_vhost_number=_number(entries, "next_vhost_number", ""),
        vhosts=_list(entries, "vhosts", "", _read_vhost),
        users=_list(entries, "users", "", _read_user),
        parameters=_list(entries, "parameters", "", _read_parameter),
    )
    _require_distinct([vhost.name for vhost in state.vhosts], "vhosts", "name")
    _require_distinct([vhost.number for vhost in state.vhosts], "vhosts", "number")
    _require_distinct([user.name for user in state.users], "users", "name")
    if any(not 0 < vhost.number < state.next_vhost_number for vhost in state.vhosts):
        raise _Damage("next_vhost_number: a virtual host has a number that is not below it")

    return state


def _read_vhost(data: object, at: str) -> VHostState:
    entries = _entries(data, set(VHostState._fields), at, VHOST_ADDITIONS)
    return VHostState(
        name=_text(entries, "name", at),
        number=_number(entries, "number", at),
        connections_max=_limit(entries, "connections_max", at),
        queues_max=_limit(entries, "queues_max", at),
        description=_text(entries, "description", at),
        tags=_list(entries, "tags", at, _read_text),
        default_queue_type=_text(entries, "default_queue_type", at),
        is_protected=entries["is_protected"] is True,
    )


def _read_parameter(data: object, at: str) -> ParameterState:
    entries = _entries(data, set(ParameterState._fields), at)
    return ParameterState(
        name=_text(entries, "name", at),
        value=entries["value"],
        vhost=_text(entries, "vhost", at),
        component=_text(entries, "component", at),
    )


def _read_user(data: object, at: str) -> UserState:
    entries = _entries(data, set(UserState._fields), at)
    return UserState(
        name=_text(entries, "name", at),
        password_hash=_text_or_none(entries, "password_hash", at),
        hashing_algorithm=_text_or_none(entries, "hashing_algorithm", at),
        tags=_list(entries, "tags", at, _read_text),
        connections_max=_limit(entries, "connections_max", at),
        channels_max=_limit(entries, "channels_max", at),
        permissions=_list(entries, "permissions", at, _read_permission),
        topic_permissions=_list(entries, "topic_permissions", at, _read_topic_permission),
    )


def _read_permission(data: object, at: str) -> PermissionState:
    entries = _entries(data, set(PermissionState._fields), at)
    return PermissionState(*(_text(entries, key, at) for key in PermissionState._fields))


def _read_topic_permission(data: object, at: str) -> TopicPermissionState:
    entries = _entries(data, set(TopicPermissionState._fields), at)
    return TopicPermissionState(*(_text(entries, key, at) for key in TopicPermissionState._fields))


def _entries(
    data: object, keys: set[str], at: str, additions: Mapping[str, object] = NOTHING_ADDED
) -> dict[str, object]:
    """A mapping with these keys; of the additions, files of earlier versions have none."""
    if not isinstance(data, dict) or set(data) | set(additions) != keys:
        raise _Damage(f"{at or 'the whole'}: expected the keys {', '.join(sorted(keys))}")

    return {**additions, **data}


def _text(entries: dict[str, object], key: str, at: str) -> str:
    return _read_text(entries[key], f"{at}.{key}")


def _text_or_none(entries: dict[str, object], key: str, at: str) -> str | None:
    return None if entries[key] is None else _text(entries, key, at)


def _read_text(value: object, at: str) -> str:
    if not isinstance(value, str):
        raise _Damage(f"{at}: expected a text")

    return value


def _number(entries: dict[str, object], key: str, at: str) -> int:
    value = entries[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Damage(f"{at}.{key}: expected a number".removeprefix("."))

    return value


def _limit(entries: dict[str, object], key: str, at: str) -> int | None:
    return None if entries[key] is None else _number(entries, key, at)


def _list(
    entries: dict[str, object], key: str, at: str, read: Callable[[object, str], _T]
) -> tuple[_T, ...]:
    where = f"{at}.{key}".removeprefix(".")
    items = entries[key]
    if not isinstance(items, list):
        raise _Damage(f"{where}: expected a list")

    return tuple(read(item, f"{where}.{index}") for index, item in enumerate(items))


def _require_distinct(values: Sequence[object], where: str, what: str) -> None:
    if len(set(values)) < len(values):
        raise _Damage(f"{where}: two have the same {what}")
