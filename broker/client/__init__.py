"""Toolkit: a client for programs: queues, topics, retries, dead letters, delays; on any broker.

::

    async with connect("amqp://localhost/") as client:
        await client.declare("orders", QueueSpec(retry=Retry(3)))
        await client.send("orders", {"hares": 2})

Needs ``pip install leveret[client]``. ``broker.client.sync`` is the same without ``await``.
"""

from __future__ import annotations

try:
    import aiormq  # noqa: F401
except ImportError as problem:  # pragma: no cover
    raise ImportError("broker.client needs aiormq: pip install 'leveret[client]'") from problem

from broker.client.backup import Loaded
from broker.client.client import Client, connect
from broker.client.codecs import Codec
from broker.client.consumer import Consumer
from broker.client.dead import DeadLetters
from broker.client.delivery import Delivery
from broker.client.errors import (
    AccessRefused,
    Closed,
    CodecError,
    DecodeError,
    EncodeError,
    FileFailed,
    FileMissing,
    InvalidName,
    InvalidPriority,
    InvalidSchedule,
    InvalidValue,
    MessageTooLarge,
    QueueFull,
    QueueNotFound,
    ResultTimeout,
    SpecConflict,
    TaskFailed,
    ToolkitError,
    Unavailable,
    Unroutable,
)
from broker.client.events import ClientEvent
from broker.client.message import DeadLetter, Envelope, Message, QueueStats, Sent, ServerStats
from broker.client.options import Options
from broker.client.retry import NO_RETRY, Backoff, Exponential, Fixed, Linear, Retry
from broker.client.schedule import At, Cron, Delay, Every, Schedule
from broker.client.spec import QueueSpec
from broker.client.topics import Subscription

__all__ = [
    "NO_RETRY",
    "AccessRefused",
    "At",
    "Backoff",
    "Client",
    "ClientEvent",
    "Closed",
    "Codec",
    "CodecError",
    "Consumer",
    "Cron",
    "DeadLetter",
    "DeadLetters",
    "DecodeError",
    "Delay",
    "Delivery",
    "EncodeError",
    "Envelope",
    "Every",
    "Exponential",
    "FileFailed",
    "FileMissing",
    "Fixed",
    "InvalidName",
    "InvalidPriority",
    "InvalidSchedule",
    "InvalidValue",
    "Linear",
    "Loaded",
    "Message",
    "MessageTooLarge",
    "Options",
    "QueueFull",
    "QueueNotFound",
    "QueueSpec",
    "QueueStats",
    "ResultTimeout",
    "Retry",
    "Schedule",
    "Sent",
    "ServerStats",
    "SpecConflict",
    "Subscription",
    "TaskFailed",
    "ToolkitError",
    "Unavailable",
    "Unroutable",
    "connect",
]
