"""Toolkit: queues as objects, and pumps from a queue to a function.

::

    async with MemoryQueue[Order]() as queue, queue.draining(handle):
        await queue.send(Order(hares=2))

Whatever satisfies the protocols works with a pump: these queues, or your own.
"""

from broker.queues.amqp import AmqpQueue
from broker.queues.memory import MemoryQueue
from broker.queues.middlewares import (
    AsyncContextManagerMiddleware,
    CaptureExceptionMiddleware,
    ContextManagerMiddleware,
    Middleware,
    MiddlewareError,
    RetryMiddleware,
    with_middlewares,
)
from broker.queues.protocols import Consumer, Delivery, Producer, Queue
from broker.queues.pump import Pump

__all__ = [
    "AmqpQueue",
    "AsyncContextManagerMiddleware",
    "CaptureExceptionMiddleware",
    "Consumer",
    "ContextManagerMiddleware",
    "Delivery",
    "MemoryQueue",
    "Middleware",
    "MiddlewareError",
    "Producer",
    "Pump",
    "Queue",
    "RetryMiddleware",
    "with_middlewares",
]
