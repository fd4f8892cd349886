"""A Celery task that is retried after a minute: the broker times the minute, and the test moves it.

With quorum queues and a topic exchange Celery leaves countdowns to the broker (its "native delayed
delivery"), so they follow the broker's clock. Otherwise a worker holds the message and looks at its
own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from broker.testing import Broker, celery_config, celery_worker, follow_broker_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

celery: Any = import_module("celery")

MINUTE_S = 60


class Payments:
    """A service that is down for a while."""

    def __init__(self, failures: int) -> None:
        self.failures_left = failures
        self.charged: list[str] = []

    def charge(self, order: str) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise ConnectionError("payments are down")

        self.charged.append(order)


@pytest.fixture
def payments() -> Payments:
    return Payments(failures=3)


@pytest.fixture
def app(leveret: Broker, payments: Payments) -> Iterator[Any]:
    app = celery.Celery("shop", set_as_current=False)
    app.conf.update(celery_config(leveret, timed_by_broker=True))

    def charge(self: Any, order: str) -> None:
        try:
            payments.charge(order)
        except ConnectionError as problem:
            raise self.retry(exc=problem, countdown=MINUTE_S) from problem

    app.task(name="charge", bind=True, max_retries=5, acks_late=True)(charge)
    follow_broker_clock(app)
    yield app
    app.close()


@pytest.mark.filterwarnings("ignore")
def test_a_payment_is_tried_again_every_minute(
    leveret: Broker, app: Any, payments: Payments
) -> None:
    with celery_worker(app, leveret):
        leveret.clock.freeze()
        app.tasks["charge"].delay("order 7")
        leveret.wait_for(lambda: leveret.queue("celery").assert_acked(1))
        assert payments.failures_left == 2

        leveret.clock.advance(4 * MINUTE_S)

        leveret.wait_for(lambda: payments.charged == ["order 7"])

    first, *others = leveret.queue("celery").delivered().times
    waits = [round(one - first) for one in others]
    assert waits == [MINUTE_S, 2 * MINUTE_S, 3 * MINUTE_S]
