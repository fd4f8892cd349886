"""Celery: a worker and a program that outlive their broker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interop.celery.app import make_app
from interop.celery.worker import Worker
from interop.support.deadline import eventually
from interop.support.names import unique_name

if TYPE_CHECKING:
    from pathlib import Path

    from interop.celery.conftest import Journal
    from interop.support.process import BrokerProcess


def test_worker_reconnects_to_a_restarted_broker(
    broker_process: BrokerProcess, journal: Journal, tmp_path: Path
) -> None:
    app = make_app(broker_process.url, prefix=unique_name("celery"))
    record = app.tasks["interop.record"]
    policy = {"max_retries": 100, "interval_start": 0.05, "interval_step": 0.0}
    with Worker(app, tmp_path):
        record.apply_async((journal.path, "before"), ignore_result=True)
        eventually(partial(journal.has, 1))
        broker_process.stop()
        broker_process.start()
        # Sent before the worker is back: its queue may not be there, so declare it.
        with app.connection_for_write() as connection:
            for queue in app.amqp.queues.values():
                queue(connection.default_channel).declare()

        record.apply_async(
            (journal.path, "after"), ignore_result=True, retry=True, retry_policy=policy
        )
        eventually(partial(journal.has, 2), within=60)

    app.close()
    assert [note["value"] for note in journal.read()] == ["before", "after"]
