"""Toolkit: dead letters: look at them, put them back, throw them away.

Invariant: looking changes nothing but that the broker has handed them out once more.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.client import wire
from broker.client.checks import SHORT_TEXT_BYTES_MAX, check_count, check_queue, check_texts
from broker.client.errors import (
    DecodeError,
    QueueFull,
    QueueNotFound,
    ToolkitError,
    Unroutable,
)
from broker.client.link import get_message
from broker.client.message import DeadLetter
from broker.client.patience import carried
from broker.client.spec import dead_queue_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiormq.abc import DeliveredMessage

    from broker.client.core import Core
    from broker.client.link import Link, Operation
    from broker.client.underlay import Channel

__all__ = ["DeadLetters", "dead_letter_of", "walk"]

R = TypeVar("R")

FORGOTTEN = (
    wire.ATTEMPT,
    wire.ERROR,
    wire.ERROR_TYPE,
    wire.TRACEBACK,
    wire.REASON,
    wire.DEAD_AT,
    wire.QUEUE,
)
"""What a message that begins anew does not remember."""

LEFT_SHOWN_MAX: Final = 10
"""Ids that a text names."""


class DeadLetters:
    """The dead letters of one queue. Made by :meth:`Client.dead`."""

    def __init__(self, core: Core, queue: str) -> None:
        self.queue = check_queue(queue)
        self.name = dead_queue_name(queue)
        """The queue that they are in."""

        self._core = core

    async def count(self) -> int:
        """Return how many there are; none if the queue has none."""
        if len(self.name) > SHORT_TEXT_BYTES_MAX:
            return 0

        async def ask(link: Link) -> int:
            async with link.admin() as channel:
                return (await channel.queue_declare(self.name, passive=True)).message_count or 0

        try:
            return await self._core.session.run(ask)
        except QueueNotFound:
            return 0

    async def list(self, limit: int | None = 100) -> list[DeadLetter[Any]]:
        """Return the oldest of them, and leave them where they are.

        A body that cannot be decoded is bytes.
        """
        check_queue(self.name)
        if limit is not None:
            check_count("limit", limit, low=0)

        found: list[DeadLetter[Any]] = []

        async def look(link: Link) -> None:
            found.clear()

            async def note(raw: DeliveredMessage) -> bool:
                found.append(dead_letter_of(self._core, raw, self.queue))
                return False

            await walk(link, self.name, note, limit, self._core.options.timeout)

        await self._core.session.run_steps(look)
        return found

    async def replay(self, ids: Iterable[str] | None = None, *, to: str | None = None) -> int:
        """Put them back into their queue, or into another one, as if they had never failed.

        Each id is put back once; of two letters with the same one the second stays. None is taken
        away before the broker has confirmed that it is where it was put.

        Args:
            ids: which ones; all that are there now if None.
            to: another queue.

        Returns:
            How many.

        Raises:
            QueueFull: the queue takes no more. The oldest are in it; ``left`` has the ids of those
                that are dead letters still.
            Unroutable: there is no such queue; ``left`` has all of them.
            ToolkitError: it was interrupted; the text says how many were put back before that.

        """
        wanted = None if ids is None else set(check_texts("ids", ids))
        check_queue(self.name)
        queue = self.queue if to is None else check_queue(to, "to")
        count = 0
        # What dies again at once is not put back again: that would have no end.
        moved: set[str | None] = set()
        left: list[str] = []
        refusal: Unroutable | None = None

        async def move(link: Link) -> None:
            nonlocal refusal
            left.clear()
            refusal = None

            async def put_back(raw: DeliveredMessage) -> bool:
                nonlocal count, refusal
                message_id = raw.header.properties.message_id
                if message_id in moved or (wanted is not None and message_id not in wanted):
                    return False

                if refusal is None:
                    fresh = wire.copy_of(raw, dict.fromkeys(FORGOTTEN))
                    try:
                        await link.publish("", queue, fresh)
                    except Unroutable as problem:
                        refusal = problem

                if refusal is not None:
                    left.append(message_id or "")
                    return False

                moved.add(fresh.properties.message_id)
                count += 1
                return True

            await walk(link, self.name, put_back, None, self._core.options.timeout)

        try:
            await self._core.session.run_steps(move)
        except ToolkitError as problem:
            problem.args = (f"{problem}; {count} dead letters had been put back by then",)
            raise
        except asyncio.CancelledError as problem:
            problem.add_note(f"{count} dead letters had been put back by then")
            raise

        if refusal is not None:
            raise _not_replayed(refusal, queue, count, left) from refusal

        return count

    async def purge(self) -> int:
        """Throw them away; returns how many there were."""
        check_queue(self.name)

        async def purge(link: Link) -> int:
            async with link.admin() as channel:
                return (await channel.queue_purge(self.name)).message_count or 0

        try:
            return await self._core.session.run(purge)
        except QueueNotFound:
            return 0


def _not_replayed(refusal: Unroutable, queue: str, count: int, left: list[str]) -> Unroutable:
    is_full = isinstance(refusal, QueueFull)
    why = f"the queue {queue!r} is full" if is_full else f"there is no queue {queue!r}"
    shown = ", ".join(left[:LEFT_SHOWN_MAX]) + (", ..." if len(left) > LEFT_SHOWN_MAX else "")
    error = type(refusal)(
        f"{why}: {count} dead letters were put back, and {len(left)} stay where they were: {shown}"
    )
    error.left = tuple(left)
    return error


async def walk(
    link: Link,
    queue: str,
    visit: Callable[[DeliveredMessage], Awaitable[bool]],
    limit: int | None,
    step_s: float,
) -> None:
    """Show the messages that are in a queue, the oldest first; those for which ``visit`` says True
    are acknowledged, the others given back, in the order and to the places they had. Each step may
    take ``step_s`` seconds."""

    def step() -> Operation:
        return link.operation(asyncio.get_running_loop().time() + step_s)

    async with step():
        channel = await link.open_channel()

    try:
        await _walk(channel, queue, visit, limit, step)
    except QueueNotFound:
        return
    finally:
        if not channel.is_closed and link.is_alive:
            async with step():
                await carried(_give_back(channel))


async def _give_back(channel: Channel) -> None:
    """Give back what is not acknowledged, and go, even if who has looked does not wait for it."""
    await channel.basic_nack(0, multiple=True, requeue=True)
    await channel.close()


async def _walk(
    channel: Channel,
    queue: str,
    visit: Callable[[DeliveredMessage], Awaitable[bool]],
    limit: int | None,
    step: Callable[[], Operation],
) -> None:
    seen = 0
    while limit is None or seen < limit:
        seen += 1
        async with step():
            raw = await get_message(channel, queue)
            if raw is None:
                return

            if await visit(raw):
                assert raw.delivery_tag is not None
                await channel.basic_ack(raw.delivery_tag, wait=False)


def dead_letter_of(core: Core, raw: DeliveredMessage, queue: str) -> DeadLetter[Any]:
    """Return a dead letter as a value, whoever has made it one."""
    properties = raw.header.properties
    death = _last_death(raw)
    where = wire.text_header(raw, wire.QUEUE) or str(death.get("queue") or queue)
    spec = core.specs.get(where)
    try:
        body: Any = core.codecs.decode(raw.body, properties.content_type)
    except DecodeError:
        body = raw.body

    priority = properties.priority
    return DeadLetter(
        body=body,
        id=properties.message_id or "",
        headers=wire.user_headers(raw),
        priority=(priority or 0) if spec is None else spec.given_priority(priority),
        attempt=wire.attempt_of(raw),
        queue=where,
        topic=wire.text_header(raw, wire.TOPIC) or _first_key(death) or where,
        timestamp=wire.sent_at(raw),
        redelivered=bool(raw.redelivered),
        type=properties.message_type or None,
        correlation_id=properties.correlation_id or None,
        reply_to=properties.reply_to or None,
        content_type=properties.content_type or None,
        error=wire.text_header(raw, wire.ERROR),
        reason=wire.text_header(raw, wire.REASON) or str(death.get("reason") or ""),
        error_type=wire.text_header(raw, wire.ERROR_TYPE),
        traceback=wire.text_header(raw, wire.TRACEBACK),
        dead_at=_dead_at(raw, death),
    )


def _last_death(raw: DeliveredMessage) -> dict[str, Any]:
    deaths = wire.own_headers(raw).get("x-death")
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        return deaths[0]

    return {}


def _first_key(death: dict[str, Any]) -> str | None:
    keys = death.get("routing-keys")
    return str(keys[0]) if isinstance(keys, list) and keys else None


def _dead_at(raw: DeliveredMessage, death: dict[str, Any]) -> datetime | None:
    text = wire.text_header(raw, wire.DEAD_AT)
    if text is not None:
        return datetime.fromisoformat(text)

    time: object = death.get("time")
    if not isinstance(time, datetime):
        return None

    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
