"""The file with users, rights and virtual hosts: what is read is what was written, or an error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from broker.errors import StoreError
from broker.store.node_file import (
    NodeState,
    ParameterState,
    PermissionState,
    TopicPermissionState,
    UserState,
    VHostState,
    read_node_file,
    write_node_file,
)

if TYPE_CHECKING:
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy

from hypothesis import given
from hypothesis import strategies as st

ANN = UserState(
    "ann",
    "+pHuxkR9fCyrrwXjOD4BP4XbzO3l8LJr8YkThMgJ0yVHFRE+",
    "rabbit_password_hashing_sha256",
    ("administrator", 'with "quotes"'),
    5,
    None,
    (PermissionState("/", ".*", "^a", ""), PermissionState("other", "", "", "")),
    (TopicPermissionState("/", "amq.topic", "^{username}\\.", ".*"),),
)
NOBODY = UserState("\udcff\n", None, None, (), None, 0, (), ())
STATE = NodeState(8, (VHostState("/", 1), VHostState("ümläut", 7, 3, 0)), (ANN, NOBODY))


def names() -> SearchStrategy[str]:
    """All that names can be: bytes, with those that are no UTF-8 as lone surrogates."""
    return st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


LIMITS = st.none() | st.integers(0, 2**31)
USERS = st.builds(
    UserState,
    names(),
    st.none() | st.just("AAAA"),
    st.none() | st.just("rabbit_password_hashing_md5"),
    st.lists(names(), max_size=2).map(tuple),
    LIMITS,
    LIMITS,
    st.lists(st.builds(PermissionState, *[names()] * 4), max_size=2).map(tuple),
    st.lists(st.builds(TopicPermissionState, *[names()] * 4), max_size=2).map(tuple),
)
VHOSTS = st.builds(
    VHostState,
    names(),
    st.integers(1, 99),
    LIMITS,
    LIMITS,
    names(),
    st.lists(names(), max_size=2).map(tuple),
    st.sampled_from(["", "quorum"]),
    st.booleans(),
)
VALUES = st.integers() | st.booleans() | st.text(max_size=5) | st.lists(st.none(), max_size=2)
PARAMETERS = st.builds(ParameterState, names(), VALUES, names(), names())
STATES = st.builds(
    NodeState,
    st.just(100),
    st.lists(VHOSTS, max_size=3, unique_by=(lambda v: v.name, lambda v: v.number)).map(tuple),
    st.lists(USERS, max_size=3, unique_by=lambda user: user.name).map(tuple),
    st.lists(PARAMETERS, max_size=2, unique_by=lambda one: one.name).map(tuple),
)


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        read_node_file(str(path))

    text = str(caught.value)
    advice = " - restore it from a backup; without the file, the broker begins with the users of"
    assert text.startswith(f"{path} is damaged: ")
    assert text.endswith(f"{advice} its configuration")
    return text.removeprefix(f"{path} is damaged: ").partition(advice)[0]


@given(state=STATES)
def test_what_is_read_is_what_was_written(
    state: NodeState, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "node.json")
    write_node_file(path, state)
    assert read_node_file(path) == state


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert read_node_file(str(tmp_path / "node.json")) is None


def test_people_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    lines = path.read_text("ascii").splitlines()
    assert re.fullmatch(r'"checksum": "[0-9a-f]{8}",', lines[1])
    assert lines[2:6] == [
        '"version": 1,',
        '"next_vhost_number": 8,',
        '"vhosts": [',
        '{"name": "/", "number": 1, "connections_max": null, "queues_max": null},',
    ]
    assert len(lines) == 13


@pytest.mark.parametrize("value", [0x00, 0x20, 0x30, 0x5A, 0xFF], ids=hex)
def test_no_changed_byte_goes_unseen(value: int, tmp_path: Path) -> None:
    """It is refused, or what is read is the same."""
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    raw = path.read_bytes()
    for position in range(len(raw)):
        path.write_bytes(raw[:position] + bytes([value]) + raw[position + 1 :])
        try:
            state = read_node_file(str(path))
        except StoreError:
            continue

        assert state == STATE, position


def test_no_part_of_it_is_taken_for_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    raw = path.read_bytes()
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        refusal(path)


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    raw = path.read_bytes()
    place = raw.index(b'"connections_max"') - 2
    path.write_bytes(raw[:place] + b";" + raw[place + 1 :])
    assert refusal(path) == f"at byte {place}: expecting ',' delimiter"
    path.write_bytes(raw[:place] + b"\xff" + raw[place + 1 :])
    assert refusal(path) == f"at byte {place}: it is no text"
    path.write_bytes(raw.replace(b'"ann"', b'"eve"'))
    assert "its checksum is not that of what follows it" in refusal(path)


def test_changes_by_hand_need_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    text = re.sub(r'"checksum": .*\n', "", path.read_text()).replace('"ann"', '"eve"')
    path.write_text(text)
    state = read_node_file(str(path))
    assert state is not None
    assert [user.name for user in state.users] == ["eve", "\udcff\n"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param('"version": 1', '"version": 2', "version: it is 2, and this", id="version"),
        pytest.param('"version": 1,\n', "", "the whole: expected the keys next_", id="no-version"),
        pytest.param('"number": 7', '"number": "7"', "vhosts.1.number: expected a n", id="type"),
        pytest.param('"number": 7', '"number": 1', "vhosts: two have the same number", id="twice"),
        pytest.param('"number": 7', '"number": 8', "next_vhost_number: a virtual", id="next"),
        pytest.param('"name": "ann"', '"name": 5', "users.0.name: expected a text", id="name"),
        pytest.param('"tags": []', '"tags": null', "users.1.tags: expected a list", id="tags"),
        pytest.param('"tags": []', '"tags": [[]]', "users.1.tags.0: expected a text", id="tag"),
        pytest.param(
            '"write": "^a"', '"wrote": "^a"', "users.0.permissions.0: expected the keys", id="key"
        ),
    ],
)
def test_what_is_no_state_is_refused_with_its_key(
    old: str, new: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "node.json"
    write_node_file(str(path), STATE)
    text = re.sub(r'"checksum": .*\n', "", path.read_text())
    assert old in text
    path.write_text(text.replace(old, new))
    assert refusal(path).startswith(expected)


def test_deep_nesting_is_damage_too(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text("[" * 100_000)
    refusal(path)


def test_metadata_and_parameters_are_read_again(tmp_path: Path) -> None:
    vhost = VHostState("/", 1, None, None, "for people", ("a", "b"), "quorum", True)
    parameters = (
        ParameterState("cluster_name", "hares"),
        ParameterState("up", {"uri": ["amqp://"], "n": 1.5}, "/", "shovel"),
    )
    state = NodeState(2, (vhost,), (), parameters)
    path = str(tmp_path / "node.json")
    write_node_file(path, state)
    assert read_node_file(path) == state
