"""Whatever is done to a configuration file, it loads or says why, and no secret gets out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.loader import config_from_dict, load_config
from broker.config.problems import ConfigProblems

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "S3CR3TS3CR3T"
FILE = f"""version: 1
auth:
  anonymous_password: {SECRET}
users:
- name: bob
  password: {SECRET}
  tags: [a, b]
- {{name: eve, password: {SECRET}, tags: [c]}}
- name: ann
  password: "{SECRET}"
- name: joe
  password_hash: {SECRET}
vhosts:
  /:
    queues: {{a: {{durable: true}}}}
    bindings: [{{source: amq.topic, destination: a, routing_key: '#'}}]
"""

edits = st.lists(
    st.tuples(
        st.integers(0, len(FILE) - 1),
        st.integers(0, 1),
        st.sampled_from(["", *":,{}[]#&*!|>'\"%@`-? \n\t\\$~<^\0é"]),
    ),
    min_size=1,
    max_size=3,
)

words = st.text(max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.binary(max_size=2)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def mapping(*keys: str, values: st.SearchStrategy[object] = plain) -> st.SearchStrategy[object]:
    """A mapping with some of the keys, and values that may be right or not."""
    return plain | st.dictionaries(st.sampled_from(keys) | words, values, max_size=3)


configurations = st.fixed_dictionaries(
    {},
    optional={
        "users": st.lists(mapping("name", "password", "limits"), max_size=2) | plain,
        "vhosts": mapping("/", values=mapping("queues", "bindings", "policies", "permissions")),
        "listeners": mapping("amqp", values=st.lists(mapping("port", "bind"), max_size=2)),
        "limits": mapping("frame_max", "connections", "handshake_timeout"),
        "alarms": mapping("memory", values=mapping("limit")),
        "heartbeat": plain,
    },
)


def texts_of(path: Path) -> str:
    try:
        config = load_config(str(path), environ={})
    except ConfigProblems as problems:
        return str(problems)

    if any("S3CR3T" in user.name for user in config.users):
        # The slip made it a part of a name, and names are shown: the file gives no way to tell.
        return ""

    return f"{config!r}\n{config.warnings}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "f.yaml"


@given(edits=edits)
def test_no_slip_of_the_pen_shows_a_secret(path: Path, edits: list[tuple[int, int, str]]) -> None:
    text = FILE
    for place, removed, added in edits:
        text = text[:place] + added + text[place + removed :]

    path.write_text(text)
    assert "S3CR3T" not in texts_of(path)


@given(raw=st.binary(max_size=200))
def test_arbitrary_bytes_are_a_configuration_or_a_problem(path: Path, raw: bytes) -> None:
    path.write_bytes(b"version: 1\n" + raw)
    texts_of(path)


@given(data=configurations)
def test_arbitrary_values_are_a_configuration_or_a_problem(data: dict[str, object]) -> None:
    with suppress(ConfigProblems):
        config_from_dict(data)
