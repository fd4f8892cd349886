"""Settings that make Celery use a broker under test. Layer: testing; imports nothing of Celery."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.testing.broker import Broker

__all__ = ["celery_config", "celery_worker", "follow_broker_clock"]

TIMED_BY_BROKER: Final[dict[str, object]] = {
    "task_default_queue_type": "quorum",
    "task_default_exchange": "celery",
    "task_default_exchange_type": "topic",
    "task_default_routing_key": "celery",
    "broker_transport_options": {"confirm_publish": True},
    "worker_detect_quorum_queues": True,
}
"""What Celery (5.5 and later) calls native delayed delivery; it works with topic exchanges only."""


def celery_config(
    broker: Broker | str, *, timed_by_broker: bool = False, **settings: object
) -> dict[str, object]:
    """Settings for a Celery application.

    ::

        @pytest.fixture(scope="session")
        def celery_config(leveret_session):
            return leveret_session.celery_config()

    Args:
        broker: the broker, or its URL.
        timed_by_broker: use quorum queues and a topic exchange, with which Celery leaves countdowns
            and retries to the broker. See :func:`follow_broker_clock`.
        settings: more of them; they win.

    """
    return {
        "broker_url": broker if isinstance(broker, str) else broker.url,
        "result_backend": "rpc://",
        "broker_connection_retry_on_startup": True,
        "worker_hijack_root_logger": False,
        **(TIMED_BY_BROKER if timed_by_broker else {}),
        **settings,
    }


def follow_broker_clock(app: Any) -> None:
    """Have the workers of an application run a task with a countdown when the broker delivers it.

    A worker looks at its own clock once more, which ``clock.advance`` does not move. Only for an
    application whose tasks are timed by the broker; call it before workers start.

    Args:
        app: the Celery application.

    """
    request: Any = import_module("celery.worker.request").Request
    # A request whose time has come when it does.
    timed_by_broker = type("TimedByBroker", (request,), {"eta": property(lambda _self: None)})
    for task in app.tasks.values():
        task.Request = timed_by_broker

    app.Task.Request = timed_by_broker


@contextmanager
def celery_worker(app: Any, broker: Broker, **options: object) -> Iterator[Any]:
    """A worker in a thread, by Celery's own ``celery.contrib.testing.worker.start_worker``.

    It ends at once, where a worker that is idle sleeps for up to half a heartbeat first.

    Args:
        app: the Celery application.
        broker: where its queues are.
        options: for ``start_worker``.

    """
    testing: Any = import_module("celery.contrib.testing.worker")
    options = {"perform_ping_check": False, "pool": "solo", **options}
    with testing.start_worker(app, **options) as worker:
        try:
            yield worker
        finally:
            broker.stage.keep_awake()
