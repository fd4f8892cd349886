"""A pump in front of a message bus: from a queue to whatever takes one argument.

The bus knows nothing of queues. In its tests the queue is a MemoryQueue, and nothing else changes.

Run a broker (`leveret serve`), then this.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from broker.client import Fixed, QueueSpec, Retry, connect
from broker.queues import CaptureExceptionMiddleware, MemoryQueue, Pump, Queue, RetryMiddleware


@dataclass
class PlaceOrder:
    number: int
    hares: int


class CommandBus:
    """Any bus will do: this one has a handler for each type of command."""

    def __init__(self) -> None:
        self._handlers: dict[type, Callable[[PlaceOrder], Awaitable[None]]] = {}

    def register(self, kind: type, handler: Callable[[PlaceOrder], Awaitable[None]]) -> None:
        self._handlers[kind] = handler

    async def dispatch(self, command: PlaceOrder) -> None:
        await self._handlers[type(command)](command)


async def place_order(order: PlaceOrder) -> None:
    if order.hares > 9:
        raise ValueError(f"{order.hares} hares do not fit into one basket")

    print(f"order {order.number}: {order.hares} hares")


async def run(queue: Queue[PlaceOrder]) -> None:
    """The same code for any queue."""
    bus = CommandBus()
    bus.register(PlaceOrder, place_order)
    failed = asyncio.Event()
    for number, hares in enumerate((2, 5, 12), start=1):
        await queue.send(PlaceOrder(number, hares))

    pump = Pump(
        queue,
        bus.dispatch,
        middlewares=(
            RetryMiddleware(Retry(2, Fixed(0), on=(ConnectionError,))),
            CaptureExceptionMiddleware(lambda _: failed.set(), reraise=True),
        ),
        on_error=lambda error: print(f"failed: {error}"),
    )
    async with pump.draining(concurrency=1, graceful=True, timeout=10):
        await failed.wait()


async def main(url: str) -> None:
    print("in memory:")
    await run(MemoryQueue[PlaceOrder]())

    print("at a broker:")
    async with connect(url) as client:
        spec = QueueSpec(retry=Retry(1))
        async with client.queue("orders", PlaceOrder, spec=spec) as queue:
            await run(queue)

        print(f"dead letters: {await client.dead('orders').count()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://localhost/"))
