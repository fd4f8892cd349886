"""What Celery's integration suite wants of a broker in a container, written anew for the fixture.

One worker on the broker of the module, as that suite has one for its session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from broker.testing import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.testing import Broker

celery: Any = import_module("celery")
canvas: Any = import_module("celery.canvas")
exceptions: Any = import_module("celery.exceptions")

WAIT_S = 10

pytestmark = pytest.mark.filterwarnings("ignore")


def add(x: int, y: int) -> int:
    return x + y


def fail() -> None:
    raise ZeroDivisionError("no hare")


def retry_once(self: Any) -> int:
    """Fails at first; a retry without a countdown."""
    if self.request.retries == 0:
        raise self.retry(countdown=0)

    return int(self.request.retries)


def reject_at_first(self: Any) -> str:
    if not self.request.delivery_info["redelivered"]:
        raise exceptions.Reject("later", requeue=True)

    return "done"


TASKS: dict[str, tuple[Callable[..., object], dict[str, object]]] = {
    "add": (add, {}),
    "fail": (fail, {}),
    "retry_once": (retry_once, {"bind": True, "max_retries": 1}),
    "reject_at_first": (reject_at_first, {"bind": True, "acks_late": True}),
}


@pytest.fixture(scope="module")
def app(leveret_module: Broker) -> Iterator[Any]:
    app = celery.Celery("suite", set_as_current=False)
    app.conf.update(leveret_module.celery_config())
    for name, (function, options) in TASKS.items():
        app.task(name=name, **options)(function)

    with celery_worker(app, leveret_module):
        yield app

    app.close()


@pytest.fixture
def tasks(app: Any) -> Any:
    return app.tasks


def test_a_task_has_a_result(tasks: Any) -> None:
    assert tasks["add"].delay(3, 4).get(WAIT_S) == 7


def test_many_tasks_have_many_results(tasks: Any) -> None:
    results = [tasks["add"].delay(number, 1) for number in range(50)]
    assert [one.get(WAIT_S) for one in results] == list(range(1, 51))


def test_an_exception_is_a_result_too(tasks: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="no hare"):
        tasks["fail"].delay().get(WAIT_S)


def test_a_chain_hands_results_on(tasks: Any) -> None:
    sum_of_four = tasks["add"].s(1, 2) | tasks["add"].s(3) | tasks["add"].s(4)
    assert sum_of_four().get(WAIT_S) == 10


def test_a_chain_ends_where_it_fails(leveret_module: Broker, tasks: Any) -> None:
    before = len(leveret_module.queue("celery").published())
    result = (tasks["fail"].si() | tasks["add"].si(1, 1))()
    with pytest.raises(ZeroDivisionError):
        result.parent.get(WAIT_S)

    leveret_module.wait_idle("celery")
    assert len(leveret_module.queue("celery").published()) == before + 1


def test_a_group_has_all_results_in_order(tasks: Any) -> None:
    result = canvas.group(tasks["add"].s(number, number) for number in range(10))()
    assert result.get(WAIT_S) == [2 * number for number in range(10)]


def test_a_callback_has_the_result(leveret_module: Broker, tasks: Any) -> None:
    before = len(leveret_module.queue("celery").published())
    tasks["add"].apply_async((1, 2), link=tasks["add"].s(3)).get(WAIT_S)
    leveret_module.wait_for(
        lambda: leveret_module.queue("celery").assert_published(before + 2).assert_empty()
    )


def test_a_task_may_try_again(tasks: Any) -> None:
    assert tasks["retry_once"].delay().get(WAIT_S) == 1


def test_a_task_that_is_given_back_is_redelivered(leveret_module: Broker, tasks: Any) -> None:
    assert tasks["reject_at_first"].delay().get(WAIT_S) == "done"

    (back,) = leveret_module.history.requeued(queue="celery")
    assert back.reason == "basic.reject"


def test_a_task_that_is_too_old_is_not_done(tasks: Any) -> None:
    with pytest.raises(exceptions.TaskRevokedError):
        tasks["add"].apply_async((1, 1), expires=-1).get(WAIT_S)


def test_a_worker_answers_to_everybody(app: Any) -> None:
    """Remote control: a fanout, and answers in a queue of who asks."""
    (answer,) = app.control.inspect(limit=1, timeout=WAIT_S).ping().values()
    assert answer == {"ok": "pong"}


def test_a_worker_goes_on_after_its_socket_was_lost(leveret_module: Broker, tasks: Any) -> None:
    assert leveret_module.faults.drop_connections() >= 1
    leveret_module.wait_for(
        lambda: leveret_module.queue("celery").assert_consumers(1), timeout=WAIT_S
    )
    assert tasks["add"].delay(20, 22).get(WAIT_S) == 42
