"""A broker inside your test: real sockets, a history of every message, time and faults at hand.

Layer: testing; above everything but the command line. Importing this package imports nothing of the
broker: names are looked up when they are asked for, so that the pytest plugin costs nothing where
no test uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.testing.broker import Broker
    from broker.testing.celery import celery_config, celery_worker, follow_broker_clock
    from broker.testing.events import Event, Events, RecordedMessage
    from broker.testing.history import History

__all__ = [
    "Broker",
    "Event",
    "Events",
    "History",
    "RecordedMessage",
    "celery_config",
    "celery_worker",
    "follow_broker_clock",
]

_HOMES = {
    "Broker": "broker.testing.broker",
    "Event": "broker.testing.events",
    "Events": "broker.testing.events",
    "History": "broker.testing.history",
    "RecordedMessage": "broker.testing.events",
    "celery_config": "broker.testing.celery",
    "celery_worker": "broker.testing.celery",
    "follow_broker_clock": "broker.testing.celery",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    return getattr(import_module(home), name)
