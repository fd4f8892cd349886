"""What is exported, imported elsewhere and exported again is the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from broker.errors import StoreError
from broker.upkeep.check import check_directory
from broker.upkeep.export import export_lines
from broker.upkeep.importing import Imported, ImportFault, import_lines
from broker.upkeep.offline import OpenDirectory
from tests.helpers.directories import DirectoryWorld, add_people, exported, fill

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def imported(path: Path, lines: Iterable[str]) -> Imported:
    with OpenDirectory(str(path)) as directory:
        return import_lines(directory, [line.encode("ascii") + b"\n" for line in lines])


def of_kind(lines: Iterable[str], kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines]
    return [one[kind] for one in found if kind in one]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A directory with one thing of each kind in it."""
    path = tmp_path / "data"
    world = DirectoryWorld(path)
    client = fill(world)
    add_people(world)
    quorum = world.queue("quorum")
    client.get(quorum)
    client.requeue(1)
    client.get(quorum)
    client.requeue(2)
    client.get(world.queue("plain"))
    client.requeue(3)
    world.stop()
    return path


def test_round_trip_changes_nothing(tmp_path: Path, filled: Path) -> None:
    lines = exported(filled)
    imported(tmp_path / "copy", lines)
    assert exported(tmp_path / "copy") == lines
    assert check_directory(str(tmp_path / "copy")).is_sound


def test_export_changes_nothing(filled: Path) -> None:
    before = {one: one.stat() for one in filled.rglob("*")}
    assert exported(filled) == exported(filled)
    after = {one: one.stat() for one in filled.rglob("*")}
    assert {one: stat.st_mtime_ns for one, stat in before.items()} == {
        one: stat.st_mtime_ns for one, stat in after.items()
    }


def test_everything_is_told(filled: Path) -> None:
    lines = exported(filled)
    assert [one["name"] for one in of_kind(lines, "vhost")] == ["/", "other"]
    assert [one["name"] for one in of_kind(lines, "user")] == ["bob"]
    assert of_kind(lines, "permission") == [
        {"user": "bob", "vhost": "other", "configure": "^b", "write": ".*", "read": ""}
    ]
    assert [one["name"] for one in of_kind(lines, "policy")] == ["long", "p"]
    assert {one["name"] for one in of_kind(lines, "exchange")} == {"graves", "topics", "later"}
    counts: dict[str, int] = {}
    for message in of_kind(lines, "message"):
        holder = message.get("queue") or message["delayed_by"]
        counts[holder] = counts.get(holder, 0) + 1

    assert counts == {
        "plain": 40,
        "quorum": 40,
        "ranked": 40,
        "stream": 40,
        "mortal": 40,
        "graves": 37,
        "full": 3,
        "later": 40,
    }


def test_arguments_keep_their_types(filled: Path) -> None:
    [binding] = [
        one for one in of_kind(exported(filled), "binding") if one["destination"] == "quorum"
    ]
    assert binding["arguments"] == {"number": {"$type": "I", "value": 7}, "text": "x"}


def test_what_a_message_has_been_through_is_told(filled: Path) -> None:
    messages = of_kind(exported(filled), "message")
    returned = [one for one in messages if one["delivery_count"]]
    assert [(one["queue"], one["delivery_count"]) for one in returned] == [("quorum", 2)]
    plain = [one for one in messages if one.get("queue") == "plain"]
    assert [one["redelivered"] for one in plain] == [True] + [False] * 39
    grave = next(one for one in messages if one.get("queue") == "graves")
    assert grave["deaths"]["first"]["reason"] == "maxlen"
    assert all(one["deadline_ms"] for one in messages if one.get("queue") == "mortal")


def test_definitions_can_be_had_alone(filled: Path) -> None:
    lines = list(export_lines(str(filled), has_messages=False))
    assert not of_kind(lines, "message")
    assert of_kind(lines, "queue")


def test_one_virtual_host_is_told_without_people(filled: Path) -> None:
    lines = list(export_lines(str(filled), only_vhost="other"))
    assert [next(iter(json.loads(line))) for line in lines] == ["vhost", "policy"]


def test_virtual_host_that_is_not_there_is_refused(filled: Path) -> None:
    with pytest.raises(StoreError, match="there is no virtual host 'nowhere'"):
        list(export_lines(str(filled), only_vhost="nowhere"))


def test_directory_in_use_is_not_exported(tmp_path: Path) -> None:
    world = DirectoryWorld(tmp_path)
    with pytest.raises(StoreError, match=r"is in use by process .* snapshot"):
        exported(tmp_path)

    world.abandon()


def test_definitions_can_be_imported_twice(tmp_path: Path, filled: Path) -> None:
    lines = list(export_lines(str(filled), has_messages=False))
    imported(tmp_path / "copy", lines)
    imported(tmp_path / "copy", lines)
    assert exported(tmp_path / "copy") == lines


def test_stream_keeps_its_offsets_and_times(tmp_path: Path, filled: Path) -> None:
    lines = [line for line in exported(filled) if not line.startswith('{"message"')]
    messages = [one for one in of_kind(exported(filled), "message") if "offset" in one]
    for message in messages:
        message["offset"] += 1_000
        message["came_ms"] -= 50_000

    lines += [json.dumps({"message": one}) for one in messages]
    imported(tmp_path / "copy", lines)
    again = [one for one in of_kind(exported(tmp_path / "copy"), "message") if "offset" in one]
    assert [one["offset"] for one in again] == list(range(1_000, 1_040))
    assert [one["came_ms"] for one in again] == [one["came_ms"] for one in messages]


def test_queue_is_of_the_type_that_its_line_says(tmp_path: Path) -> None:
    vhost = '{"vhost": {"name": "/", "metadata": {"default_queue_type": "quorum"}}}'
    queue = '{"queue": {"vhost": "/", "name": "q", "type": "classic", "arguments": {}}}'
    imported(tmp_path, [vhost, queue])
    lines = exported(tmp_path)
    assert [one["type"] for one in of_kind(lines, "queue")] == ["classic"]
    [told] = of_kind(lines, "vhost")
    assert told["metadata"] == {"default_queue_type": "quorum"}


QUEUE = '{"queue": {"vhost": "/", "name": "q", "arguments": {}}}'
VHOST = '{"vhost": {"name": "/"}}'


def test_message_can_be_written_by_hand(tmp_path: Path) -> None:
    message = {
        "vhost": "/",
        "queue": "q",
        "exchange": "",
        "routing_key": "q",
        "properties": {"delivery_mode": 2, "headers": {"n": 5}, "message_id": "m"},
        "body": "hare",
    }
    taken = imported(tmp_path, [VHOST, QUEUE, json.dumps({"message": message})])
    assert taken.counts == {"vhost": 1, "queue": 1, "message": 1}
    assert taken.has_default_user
    [told] = of_kind(exported(tmp_path), "message")
    assert told["properties"] == message["properties"]
    assert told["body_base64"] == "aGFyZQ=="


@pytest.mark.parametrize(
    ("line", "why"),
    [
        pytest.param("{", "Expecting property name", id="no-json"),
        pytest.param("[]", "expected an object with one key", id="no-object"),
        pytest.param('{"hare": {}}', "'hare' is nothing that can be imported", id="unknown-kind"),
        pytest.param('{"queue": []}', "queue: expected an object", id="no-fields"),
        pytest.param('{"queue": {"vhost": "/"}}', "queue.name is missing", id="no-name"),
        pytest.param('{"queue": {"vhost": "x", "name": "q"}}', "no vhost 'x'", id="no-such-vhost"),
        pytest.param(
            '{"queue": {"vhost": "/", "name": "q", "colour": 1}}',
            "queue: there is no field 'colour'",
            id="unknown-field",
        ),
        pytest.param(
            '{"queue": {"vhost": "/", "name": "r", "arguments": {"x-max-length": -1}}}',
            "invalid arg 'x-max-length'",
            id="bad-argument",
        ),
        pytest.param(
            '{"queue": {"vhost": "/", "name": "r",'
            ' "arguments": {"a": {"$type": "B", "value": 300}}}}',
            "queue.arguments.a: 300 does not fit",
            id="bad-type",
        ),
        pytest.param(
            '{"queue": {"vhost": "/", "name": "q", "auto_delete": true}}',
            "inequivalent arg 'auto_delete'",
            id="declared-otherwise",
        ),
        pytest.param(
            '{"message": {"vhost": "/", "queue": "q", "exchange": "", "routing_key": "q",'
            ' "body": "x"}}',
            "the message is not persistent",
            id="transient",
        ),
        pytest.param(
            '{"message": {"vhost": "/", "queue": "q", "exchange": "", "routing_key": "q",'
            ' "body_base64": "*"}}',
            "message.body_base64: this is no base64",
            id="no-base64",
        ),
        pytest.param(
            '{"policy": {"vhost": "/", "name": "p", "pattern": "(", "definition": {}}}',
            "pattern",
            id="bad-policy",
        ),
    ],
)
def test_line_that_cannot_be_taken_ends_the_import(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ImportFault) as caught:
        imported(tmp_path, [VHOST, QUEUE, line, '{"vhost": {"name": "behind"}}'])

    assert caught.value.number == 3
    assert str(caught.value).startswith("line 3: ")
    assert why in str(caught.value)
    lines = exported(tmp_path)
    assert [one["name"] for one in of_kind(lines, "vhost")] == ["/"]
    assert [(one["name"], one["auto_delete"]) for one in of_kind(lines, "queue")] == [("q", False)]
    assert not of_kind(lines, "message")
