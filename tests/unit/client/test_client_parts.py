"""Small parts of the client: errors, delays as keys, ids that were handled, files of pymq."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.client import connect, errors
from broker.client.core import HandledIds
from broker.client.delays import (
    DELAY_MS_MAX,
    RUNGS,
    TICK_MS,
    check_delay,
    ladder_key,
    rung_pattern,
    ticks_of,
)
from broker.client.errors import InvalidName, InvalidSchedule, InvalidValue, ToolkitError
from broker.client.events import ClientEvent, Events
from broker.client.options import Options
from broker.client.pymq_file import is_pymq_file, read_pymq_file
from broker.client.topics import check_topic


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.Unavailable, ConnectionError),
        (errors.AccessRefused, PermissionError),
        (errors.QueueNotFound, LookupError),
        (errors.InvalidPriority, ValueError),
        (errors.DecodeError, ValueError),
        (errors.ResultTimeout, TimeoutError),
    ],
)
def test_errors_are_also_what_one_knows(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - {"ToolkitError"}))
def test_all_errors_are_of_one_tree(name: str) -> None:
    assert issubclass(getattr(errors, name), ToolkitError)


def matches(pattern: str, key: str) -> bool:
    words, wanted = key.split("."), pattern.removesuffix(".#").split(".")
    pairs = zip(words, wanted, strict=False)
    return len(words) >= len(wanted) and all(want in ("*", word) for word, want in pairs)


@pytest.mark.parametrize("delay_ms", [1, 32, 33, 64, 1000, 86_400_000, DELAY_MS_MAX])
def test_the_rungs_of_a_delay_add_up_to_it(delay_ms: int) -> None:
    key = ladder_key(ticks_of(delay_ms))
    rungs = [rung for rung in range(RUNGS) if matches(rung_pattern(rung, 1), key)]
    waited_ms = sum(TICK_MS << rung for rung in rungs)

    assert delay_ms <= waited_ms <= delay_ms + 2 * TICK_MS
    assert 0 in rungs
    assert {*range(RUNGS)} - {*rungs} == {
        rung for rung in range(RUNGS) if matches(rung_pattern(rung, 0), key)
    }


def test_the_name_of_a_queue_is_no_way_onto_the_ladder() -> None:
    """Names are routing keys too, and travel in CC past every rung."""
    for name in ("1.0.1", "x." * 30 + "1", ".".join("1" * (RUNGS + 1))):
        assert not any(
            matches(rung_pattern(rung, bit), name) for rung in range(RUNGS) for bit in (0, 1)
        )


def test_a_delay_that_is_too_long_is_refused() -> None:
    assert check_delay(DELAY_MS_MAX / 1000) == DELAY_MS_MAX / 1000
    with pytest.raises(InvalidSchedule, match="49 days"):
        check_delay(DELAY_MS_MAX / 1000 + 1)


def test_handled_ids_are_forgotten_in_time_and_beyond_their_number() -> None:
    handled = HandledIds(size_max=2)
    for number in range(3):
        handled.add("q", str(number), until=10)

    assert [handled.has("q", str(number), now=9) for number in range(3)] == [False, True, True]
    assert not handled.has("other", "1", now=9)
    assert not handled.has("q", "1", now=10)
    handled.forget("q")
    assert not handled.has("q", "2", now=9)


def test_a_listener_that_fails_does_not_keep_others_from_hearing() -> None:
    events = Events()
    heard: list[ClientEvent] = []

    def fail(_: ClientEvent) -> None:
        raise RuntimeError

    events.listen(fail)
    stop = events.listen(heard.append)
    events.emit(ClientEvent("connected"))
    stop()
    stop()
    events.emit(ClientEvent("disconnected"))

    assert [event.kind for event in heard] == ["connected"]


@pytest.mark.parametrize("topic", ["", "a..b", "ü", "#", "a" * 255])
def test_every_key_of_amqp_is_a_topic(topic: str) -> None:
    assert check_topic(topic) == topic


def test_a_topic_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidName):
        check_topic("ü" * 128)


@pytest.mark.parametrize(
    "arguments", [{"timeout": 0}, {"send_timeout": float("nan")}, {"delays": "plugin"}], ids=str
)
def test_options_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Options(**arguments)


@pytest.mark.parametrize(
    "url", ["", "localhost:5672", "http://localhost/", "amqp:///", "amqp://[::"]
)
def test_urls_of_nothing_are_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="amqp://"):
        connect(url)


def pymq_message(number: int, priority: object = 0) -> dict[str, object]:
    return {
        "id": f"m{number}",
        "body": {"n": number},
        "timestamp": "2026-01-01T00:00:00+00:00",
        "priority": priority,
        "retries": 1,
    }


def pymq_file(**changes: object) -> bytes:
    queue = {
        "name": "orders",
        "kind": "priority",
        "max_retries": 2,
        "waiting": [pymq_message(1, -5), pymq_message(2, 10), pymq_message(3, -5)],
        "dead_letters": [pymq_message(4)],
    }
    return json.dumps({"queues": [queue | changes]}).encode()


def test_a_file_of_pymq_is_read() -> None:
    [queue] = read_pymq_file(pymq_file())

    assert queue.name == "orders"
    assert queue.spec.retry.attempts == 3
    assert queue.spec.priority_order == "low"
    assert [(one.id, one.priority) for one in queue.waiting] == [("m1", 0), ("m2", 1), ("m3", 0)]
    assert [one.body for one in queue.dead] == [{"n": 4}]


def test_what_pymq_saves_and_cannot_load_is_read() -> None:
    """Bodies that are no text, and priorities that are no whole number."""
    [queue] = read_pymq_file(pymq_file(waiting=[pymq_message(1, 0.5), pymq_message(2, 0.25)]))

    assert [one.priority for one in queue.waiting] == [1, 0]


def test_its_plain_queues_have_no_priorities() -> None:
    [queue] = read_pymq_file(pymq_file(kind="fifo"))

    assert queue.spec.max_priority is None
    assert [one.priority for one in queue.waiting] == [None, None, None]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"kind": "heap"}, id="kind"),
        pytest.param({"max_retries": -1}, id="retries"),
        pytest.param({"waiting": [{"body": 1}]}, id="no-id"),
        pytest.param({"waiting": [pymq_message(1, "high")]}, id="priority"),
        pytest.param({"waiting": [pymq_message(n, n) for n in range(300)]}, id="too-many"),
    ],
)
def test_a_file_of_pymq_that_is_wrong_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match="queue number 1"):
        read_pymq_file(pymq_file(**changes))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"queues": 3}'])
def test_other_files_are_none_of_pymq(data: bytes) -> None:
    assert not is_pymq_file(data)
