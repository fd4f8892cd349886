"""The Celery application, configured as a plain program would configure it.

A worker process finds its settings in the environment; the tests make the same application
in their own process.
"""

from __future__ import annotations

import os

from celery import Celery
from kombu import Exchange, Queue
from kombu.common import Broadcast

__all__ = ["BACKEND_VARIABLE", "PREFIX_VARIABLE", "URL_VARIABLE", "app", "make_app"]

URL_VARIABLE = "INTEROP_URL"
BACKEND_VARIABLE = "INTEROP_CELERY_BACKEND"
PREFIX_VARIABLE = "INTEROP_CELERY_PREFIX"


def make_app(url: str, *, backend: str = "rpc://", prefix: str) -> Celery:
    """Return an application whose queues' names begin with a prefix of its own."""
    made = Celery("interop", broker=url, backend=backend, include=["interop.celery.tasks"])
    priority = Exchange(f"{prefix}.priority", "direct")
    made.conf.update(
        task_default_queue=prefix,
        task_default_exchange=prefix,
        task_default_routing_key=prefix,
        task_queues=[
            Queue(prefix, Exchange(prefix, "direct"), routing_key=prefix),
            Queue(f"{prefix}.priority", priority, routing_key="priority", max_priority=10),
            Broadcast(f"{prefix}.everyone"),
        ],
        task_send_sent_event=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=5,
        result_expires=600,
    )
    made.loader.import_default_modules()
    made.finalize()
    return made


app = make_app(
    os.environ.get(URL_VARIABLE, "amqp://guest:guest@127.0.0.1:5672/"),
    backend=os.environ.get(BACKEND_VARIABLE, "rpc://"),
    prefix=os.environ.get(PREFIX_VARIABLE, "interop.celery"),
)
