"""The reference at the end of the page about the toolkit has every public name, and no other."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final

import pytest

import broker.client
from broker.client import (
    Client,
    ClientEvent,
    DeadLetters,
    Envelope,
    Loaded,
    Options,
    QueueSpec,
    QueueStats,
    Retry,
    Sent,
    ServerStats,
    ToolkitError,
)
from broker.client.sync import SyncClient
from tests.tidy.source import PROJECT

PAGE: Final = (PROJECT / "docs" / "toolkit.md").read_text(encoding="utf-8")
REFERENCE: Final = PAGE.partition("\n## Reference\n")[2]
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in REFERENCE.splitlines()
    if line.startswith("| `")
]
QUOTED: Final = re.compile(r"`([\w.]+)`")
NOT_FOR_USERS: Final = {"core"}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")} - NOT_FOR_USERS


def names_of(row: list[str]) -> list[str]:
    return QUOTED.findall(row[0])


def test_it_has_every_public_name_once() -> None:
    named = [name for row in ROWS for name in names_of(row)]
    methods = {f"client.{name}" for name in public(Client)}

    assert len(named) == len(set(named))
    assert set(named) == set(broker.client.__all__) | methods


@pytest.mark.parametrize(
    "kind",
    [ClientEvent, Envelope, Options, QueueStats, Retry, Sent, ServerStats],
    ids=lambda one: one.__name__,
)
def test_it_has_every_field(kind: Any) -> None:
    [row] = [row for row in ROWS if kind.__name__ in names_of(row)]
    assert {one.name for one in fields(kind)} <= set(QUOTED.findall(row[1]))


def test_it_has_what_else_there_is_to_call() -> None:
    [letters] = [row for row in ROWS if "client.dead" in names_of(row)]
    [loaded] = [row for row in ROWS if "Loaded" in names_of(row)]

    assert public(DeadLetters) <= set(QUOTED.findall(letters[1]))
    assert set(Loaded._fields) <= set(QUOTED.findall(loaded[1]))


def test_a_table_of_the_page_has_every_field_of_a_spec() -> None:
    table = PAGE.partition("| of a queue |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {one.name for one in fields(QueueSpec)} == set(QUOTED.findall(" ".join(cells)))


def test_errors_are_what_it_says_they_are() -> None:
    for row in ROWS:
        for name in QUOTED.findall(row[2]):
            found = getattr(broker.client, name, None)
            is_error = isinstance(found, type) and issubclass(found, ToolkitError)
            assert is_error or name.islower(), (row[0], name)


def test_it_says_what_the_client_without_await_has_not() -> None:
    text = REFERENCE.partition("| name |")[0]
    missing = public(Client) - public(SyncClient)
    assert {name for name in missing if f"`{name}`" in text} == missing
