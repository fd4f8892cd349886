"""Celery: priorities, workers that are killed, stopped, watched and told what to do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from celery.exceptions import TaskRevokedError

from interop.celery.worker import Worker
from interop.support.deadline import WITHIN_S, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from celery import Celery
    from celery.result import AsyncResult

    from interop.celery.conftest import Journal

LONG_S = 30.0


def test_priority_queue_runs_the_urgent_first(
    lonely_app: Celery, journal: Journal, tmp_path: Path
) -> None:
    queue = f"{lonely_app.conf.task_default_queue}.priority"
    record = lonely_app.tasks["interop.record"]
    for priority in (0, 9, 3, 9, 5):
        record.apply_async((journal.path, priority), queue=queue, priority=priority)

    # One process that prefetches one: the order of starts is the order of deliveries.
    with Worker(lonely_app, tmp_path, queues=[queue], concurrency=1):
        eventually(partial(journal.has, 5), within=LONG_S)

    assert [note["value"] for note in journal.read()] == [9, 9, 5, 3, 0]


def test_task_of_a_killed_worker_is_redelivered(
    lonely_app: Celery, journal: Journal, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    result = lonely_app.tasks["interop.hold"].delay(journal.path, str(release))
    doomed = Worker(lonely_app, tmp_path)
    with doomed:
        eventually(partial(journal.has, 1), within=LONG_S)
        doomed.kill()

    with Worker(lonely_app, tmp_path) as heir:
        eventually(partial(journal.has, 2))
        release.touch()
        assert result.get(timeout=WITHIN_S) == "released"

    first, second = journal.read()
    assert (first["redelivered"], first["worker"]) == (False, doomed.name)
    assert (second["redelivered"], second["worker"]) == (True, heir.name)


def test_rejected_task_comes_back(lonely_app: Celery, journal: Journal, tmp_path: Path) -> None:
    lonely_app.tasks["interop.reject_once"].delay(journal.path)
    with Worker(lonely_app, tmp_path):
        eventually(partial(journal.has, 2))

    assert [note["redelivered"] for note in journal.read()] == [False, True]


def test_tasks_sent_while_the_worker_was_away_are_run(
    lonely_app: Celery, journal: Journal, tmp_path: Path
) -> None:
    record = lonely_app.tasks["interop.record"]
    worker = Worker(lonely_app, tmp_path)
    for round_number in range(2):
        # The second start is a restart under the same name.
        for number in range(10):
            record.delay(journal.path, (round_number, number))

        with worker:
            eventually(partial(journal.has, 10 * (round_number + 1)))

    values = [note["value"] for note in journal.read()]
    assert sorted(values) == [[r, n] for r in range(2) for n in range(10)]


def test_broadcast_reaches_every_worker(
    lonely_app: Celery, journal: Journal, tmp_path: Path
) -> None:
    everyone = f"{lonely_app.conf.task_default_queue}.everyone"
    workers = [Worker(lonely_app, tmp_path, queues=[everyone]) for _ in range(2)]
    with workers[0], workers[1]:
        lonely_app.tasks["interop.record"].apply_async((journal.path, "all"), queue=everyone)
        eventually(partial(journal.has, 2))

    assert {note["worker"] for note in journal.read()} == {worker.name for worker in workers}


def test_remote_control_answers(app: Celery, worker: Worker) -> None:
    inspect = app.control.inspect(destination=[worker.name], timeout=LONG_S, limit=1)
    assert inspect.ping() == {worker.name: {"ok": "pong"}}
    (queue,) = inspect.active_queues()[worker.name]
    assert queue["name"] == app.conf.task_default_queue
    assert "interop.add" in inspect.registered()[worker.name]
    assert inspect.stats()[worker.name]["broker"]["transport"] == "amqp"


def test_prefetch_and_consumers_change_by_remote_control(app: Celery, worker: Worker) -> None:
    control = {"destination": [worker.name], "reply": True, "timeout": LONG_S, "limit": 1}
    (grown,) = app.control.pool_grow(1, **control)
    assert "ok" in grown[worker.name]
    (shrunk,) = app.control.pool_shrink(1, **control)
    assert "ok" in shrunk[worker.name]
    extra = f"{app.conf.task_default_queue}.priority"
    (added,) = app.control.add_consumer(extra, **control)
    assert "ok" in added[worker.name]
    result = app.tasks["interop.add"].apply_async((1, 1), queue=extra)
    assert result.get(timeout=WITHIN_S) == 2
    (cancelled,) = app.control.cancel_consumer(extra, **control)
    assert "ok" in cancelled[worker.name]


def test_waiting_task_is_revoked(app: Celery, worker: Worker) -> None:
    result = app.tasks["interop.add"].apply_async((1, 1), countdown=3)
    inspect = app.control.inspect(destination=[worker.name], timeout=LONG_S, limit=1)

    def is_scheduled() -> bool:
        entries = inspect.scheduled()[worker.name]
        return result.id in {entry["request"]["id"] for entry in entries}

    eventually(is_scheduled)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WITHIN_S)


def test_running_task_is_terminated(
    app: Celery, worker: Worker, journal: Journal, tmp_path: Path
) -> None:
    result = app.tasks["interop.hold"].delay(journal.path, str(tmp_path / "never"))
    eventually(journal.read)
    result.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WITHIN_S)

    assert app.tasks["interop.add"].delay(1, 1).get(timeout=WITHIN_S) == 2


def test_events_tell_the_life_of_a_task(app: Celery, worker: Worker) -> None:
    events: list[dict[str, Any]] = []
    sent: list[AsyncResult] = []
    add = app.tasks["interop.add"]

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        if event["type"] == "worker-heartbeat" and not sent:
            # The receiver asks all workers for a heartbeat when it listens.
            sent.append(add.delay(20, 3))

        if event["type"] == "task-succeeded" and sent and event["uuid"] == sent[0].id:
            receiver.should_stop = True

    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": on_event})
        receiver.capture(timeout=WITHIN_S, wakeup=True)

    assert sent[0].get(timeout=WITHIN_S) == 23
    life = [event["type"] for event in events if event.get("uuid") == sent[0].id]
    assert sorted(life) == ["task-received", "task-sent", "task-started", "task-succeeded"]
    assert events[-1]["result"] == "23"
    assert events[-1]["hostname"] == worker.name
