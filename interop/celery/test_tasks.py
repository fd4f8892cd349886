"""Celery: tasks and their results, retries, times, canvases."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING

import pytest
from celery import chain, chord, group

from interop.celery.app import make_app
from interop.celery.conftest import delete_queues
from interop.celery.worker import Worker
from interop.support.deadline import WITHIN_S
from interop.support.names import unique_name

if TYPE_CHECKING:
    from pathlib import Path

    from celery import Celery

pytestmark = pytest.mark.usefixtures("worker")


def test_result_comes_back_by_rpc(app: Celery) -> None:
    assert app.tasks["interop.add"].delay(2, 3).get(timeout=WITHIN_S) == 5


def test_two_hundred_results_find_their_callers(app: Celery) -> None:
    add = app.tasks["interop.add"]
    results = [add.delay(number, number) for number in range(200)]
    assert [each.get(timeout=WITHIN_S) for each in results] == [2 * n for n in range(200)]


def test_error_of_a_task_is_raised_at_the_caller(app: Celery) -> None:
    result = app.tasks["interop.fail"].delay("as told")
    with pytest.raises(ValueError, match="as told"):
        result.get(timeout=WITHIN_S)


def test_retried_task_succeeds_in_the_end(app: Celery) -> None:
    assert app.tasks["interop.flaky"].delay(3).get(timeout=WITHIN_S) == 3


def test_task_gives_up_after_its_retries(app: Celery) -> None:
    flaky = app.tasks["interop.flaky"]
    with pytest.raises(flaky.MaxRetriesExceededError):
        flaky.delay(100).get(timeout=WITHIN_S)


def test_countdown_is_kept(app: Celery) -> None:
    sent = time.time()
    ran = app.tasks["interop.now"].apply_async(countdown=0.7).get(timeout=WITHIN_S)
    assert ran - sent >= 0.7


def test_eta_is_kept(app: Celery) -> None:
    eta = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.7)
    ran = app.tasks["interop.now"].apply_async(eta=eta).get(timeout=WITHIN_S)
    assert ran >= eta.timestamp()


def test_large_arguments_and_results_pass(app: Celery) -> None:
    numbers = list(range(100_000))
    assert app.tasks["interop.total"].delay(numbers).get(timeout=WITHIN_S) == sum(numbers)


def test_group_gathers_its_results(app: Celery) -> None:
    add = app.tasks["interop.add"]
    result = group(add.s(number, 1) for number in range(20)).apply_async()
    assert result.get(timeout=WITHIN_S) == list(range(1, 21))


def test_chain_passes_results_on(app: Celery) -> None:
    add = app.tasks["interop.add"]
    assert chain(add.s(1, 2), add.s(10), add.s(100)).apply_async().get(timeout=WITHIN_S) == 113


def test_ignored_result_needs_no_reply_queue(app: Celery) -> None:
    result = app.tasks["interop.add"].apply_async((1, 2), ignore_result=True)
    assert result.get(timeout=WITHIN_S) is None


def test_chord_is_not_offered_by_rpc(app: Celery) -> None:
    """Celery's own limit: the rpc backend cannot ask for results it is not the caller of."""
    add, total = app.tasks["interop.add"], app.tasks["interop.total"]
    with pytest.raises(NotImplementedError):
        chord([add.s(1, 1), add.s(2, 2)])(total.s())


def test_chord_with_results_in_files(url: str, tmp_path: Path) -> None:
    """The header's tasks go through the broker, the count of the finished through the folder."""
    folder = tmp_path / "results"
    folder.mkdir()
    app = make_app(url, backend=folder.as_uri(), prefix=unique_name("celery"))
    add, total = app.tasks["interop.add"], app.tasks["interop.total"]
    with Worker(app, tmp_path):
        result = chord([add.s(number, number) for number in range(5)])(total.s())
        assert result.get(timeout=WITHIN_S, interval=0.05) == 20

    app.close()
    delete_queues(url, app)
