"""What a user's program looks like to a type checker: mypy --strict reads it, nobody runs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_type

from broker.client import (
    ClientEvent,
    Consumer,
    Cron,
    DeadLetter,
    Delay,
    Delivery,
    Envelope,
    Exponential,
    Message,
    Options,
    QueueSpec,
    QueueStats,
    Retry,
    Schedule,
    Sent,
    Subscription,
    ToolkitError,
    connect,
)
from broker.client.sync import connect as sync_connect
from broker.queues import AmqpQueue, MemoryQueue, Producer, Pump, Queue, RetryMiddleware
from broker.queues import Consumer as QConsumer


def note_down(*values: object) -> None:
    """Do something with them."""


@dataclass
class Order:
    hares: int


async def handle(delivery: Delivery[Order]) -> None:
    async with delivery as order:
        assert_type(order, Order)
        note_down(order.hares, delivery.attempt, delivery.id)


async def untyped(delivery: Delivery[Any]) -> None:
    note_down(delivery.body, delivery.headers.get("k"))


def in_thread(delivery: Delivery[Order]) -> int:
    return delivery.body.hares


async def on_sighting(message: Message[Order]) -> None:
    note_down(message.topic, message.body.hares)


async def dispatch(order: Order) -> None:
    note_down(order)


def note(event: ClientEvent) -> None:
    note_down(event.kind, event.queue, event.error)


async def main() -> None:
    options = Options(timeout=5, management_url="http://localhost:15672")
    async with connect("amqp://localhost/", name="shop", options=options) as client:
        stop = client.on_event(note)
        spec = QueueSpec(retry=Retry(3, Exponential(1), on=(OSError,)), max_priority=9)
        await client.declare("orders", spec)
        sent = await client.send("orders", Order(2), priority=3, when=Delay(3))
        assert_type(sent, Sent)
        await client.send("orders", 1, when=datetime.now(UTC) + timedelta(days=1))
        await client.send("orders", 1, when=Schedule.cron("0 6 * * mon-fri", tz="Europe/Berlin"))
        await client.send("orders", 1, when=Cron("@daily"))
        await client.send_envelope("orders", Envelope(body=b"x", type="t"))
        got = await client.get("orders", wait=1, type=Order)
        if got is not None:
            assert_type(got, Delivery[Order])
            async with got as order:
                assert_type(order, Order)
        async for received in client.receive("orders", wait=1, type=Order):
            assert_type(received, Delivery[Order])

        plain = await client.get("orders")
        if plain is not None:
            ok = await plain.ack()
            assert_type(ok, bool)
        maybe = await client.get("orders", type=int | None)
        if maybe is not None:
            note_down(maybe.body)
        await client.consume("orders", untyped, type=Literal["a", "b"])
        client.queue("orders", list[int] | None)
        consumer = await client.consume("orders", handle, type=Order, prefetch=5, ack="manual")
        assert_type(consumer, Consumer[Order])
        await client.consume("orders", in_thread, type=Order)
        await client.consume("orders", untyped)
        subscription = await client.subscribe("a.#", on_sighting, type=Order)
        assert_type(subscription, Subscription[Order])
        stats = await client.stats("orders")
        assert_type(stats, QueueStats)
        for letter in await client.dead("orders").list():
            assert_type(letter, DeadLetter[Any])
            note_down(letter.reason)
        queue = client.queue("orders", Order)
        assert_type(queue, AmqpQueue[Order])
        await serve(queue)
        await serve(MemoryQueue[Order]())
        stop()


async def serve(queue: Queue[Order]) -> None:
    producer: Producer[Order] = queue
    consumer: QConsumer[Order] = queue
    await producer.send(Order(1))
    async for delivery in consumer:
        async with delivery as order:
            assert_type(order, Order)
    pump = Pump(queue, dispatch, on_error="log", middlewares=(RetryMiddleware(3),))
    async with pump.draining(concurrency=3, graceful=True, timeout=5):
        pass


def script() -> None:
    with sync_connect("amqp://localhost/") as client:
        for either in client.receive("orders", wait=1, type=int | str):
            note_down(either.body)
        for delivery in client.receive("orders", wait=1, type=Order):
            with delivery as order:
                assert_type(order, Order)
        try:
            client.send("orders", 1)
        except ToolkitError as problem:
            note_down(problem)


if __name__ == "__main__":
    asyncio.run(main())
