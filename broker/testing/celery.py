"""Settings that make Celery use a broker under test. Layer: testing; imports nothing of Celery."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.testing.broker import Broker

__all__ = ["celery_config"]


def celery_config(broker: Broker | str, **settings: object) -> dict[str, object]:
    """Settings for a Celery application.

    ::

        @pytest.fixture(scope="session")
        def celery_config(leveret_session):
            return leveret_session.celery_config()

    Queues are quorum queues, with which Celery leaves countdowns and retries to the broker instead
    of its workers' own clocks: so they follow ``clock.advance``.

    Args:
        broker: the broker, or its URL.
        settings: more of them; they win.

    """
    url = broker if isinstance(broker, str) else broker.url
    return {
        "broker_url": url,
        "result_backend": "rpc://",
        "broker_connection_retry_on_startup": True,
        "task_default_queue_type": "quorum",
        "broker_transport_options": {"confirm_publish": True},
        "worker_detect_quorum_queues": True,
        # The first failure is told at once, not after a while of retrying.
        "broker_connection_max_retries": 3,
        "worker_hijack_root_logger": False,
        **settings,
    }
