"""Looking at the messages of a queue without touching them (management layer).

Nothing is taken, so nothing is marked as delivered, and consumers lose no place. RabbitMQ has no
such thing: its way to look is to get and to requeue.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.browsing import UNACKED_COUNT, Browser, unacked_parts
from broker.core.queue.quorum import ReturnedMessage
from broker.management.auth import VHOST
from broker.management.call import answer
from broker.management.consumer_rows import channel_of
from broker.management.errors import BadRequest
from broker.management.filters import filter_in_query
from broker.management.messages import payload_of
from broker.management.numbers import whole_number
from broker.management.queues import queue_in_path
from broker.management.routes import Route
from broker.metrics.totals import aside_count

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.management.call import Call
    from broker.management.filters import MessageFilter
    from broker.management.json_text import JSON

__all__ = ["ROUTES"]

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1000
SCANNED_MAX: Final = 200_000
"""Messages that one request looks at; the next goes on where it ended."""

SHOWN_BYTES_MAX: Final = 32 * 2**20
PER_TURN: Final = 256
STATES: Final = ("ready", "unacked", "all")


class _Wish(NamedTuple):
    """What is asked for."""

    state: str
    offset: int
    limit: int
    cut: int | None
    is_base64: bool
    filter: MessageFilter


def _number(call: Call, name: str, default: int, maximum: int, *, least: int = 0) -> int:
    text = call.query.get(name)
    if text is None:
        return default

    number = whole_number(text)
    if number is None or number < least:
        raise BadRequest(f"{name} should be a number, and at least {least}")

    return min(number, maximum)


def _wish(call: Call) -> _Wish:
    state = call.query.get("state", "ready")
    if state not in STATES:
        raise BadRequest(f"state is one of {', '.join(STATES)}")

    encoding = call.query.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise BadRequest("encoding is auto or base64")

    has_cut = "truncate" in call.query
    return _Wish(
        state=state,
        offset=_number(call, "offset", 0, 2**62),
        # With none at all, the next page would begin where this one does.
        limit=_number(call, "limit", LIMIT_DEFAULT, LIMIT_MAX, least=1),
        cut=_number(call, "truncate", 0, 2**31) if has_cut else None,
        is_base64=encoding == "base64",
        filter=filter_in_query(call.query),
    )


def _row(message: Message, state: str, offset: int, wish: _Wish) -> JSON:
    row: JSON = {
        "offset": offset,
        "state": state,
        "payload_bytes": int(message.body_size),
        "redelivered": message.redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "properties": message.properties().to_plain(),
        **payload_of(message, is_base64=wish.is_base64, cut=wish.cut),
    }
    if isinstance(message, ReturnedMessage):
        row["delivery_count"] = int(message.return_count)

    return row


class _Browsing:
    """One request on its way through a queue."""

    def __init__(self, queue: Queue, wish: _Wish) -> None:
        self._queue = queue
        self._wish = wish
        self.rows: list[JSON] = []
        self.offset = 0
        self.scanned = 0
        self._shown_bytes = 0

    @property
    def is_full(self) -> bool:
        return (
            len(self.rows) >= self._wish.limit
            or self.scanned >= SCANNED_MAX
            or self._shown_bytes >= SHOWN_BYTES_MAX
        )

    def look_at(self, message: Message, state: str) -> bool:
        """Show a message that is wanted; True when enough is shown."""
        wish = self._wish
        offset = self.offset
        self.offset += 1
        if offset >= wish.offset:
            self.scanned += 1
            if wish.filter.accepts(message):
                self.rows.append(_row(message, state, offset, wish))
                size = int(message.body_size)
                self._shown_bytes += size if wish.cut is None else min(size, wish.cut)

        return self.is_full

    async def show_ready(self) -> None:
        """Those that wait, behind what was shown before."""
        browser = Browser(self._queue)
        self.offset += browser.skip(max(self._wish.offset - self.offset, 0))
        while not self.is_full:
            messages = browser.take(PER_TURN)
            if not messages:
                return

            for message in messages:
                if self.look_at(message, "ready"):
                    break

            await asyncio.sleep(0)

    async def show_unacked(self) -> None:
        """Those that consumers have; who has them is told too."""
        queue = self._queue
        looked = 0
        for part in unacked_parts(queue.vhost):
            for message in part:
                consumer = message.consumer
                is_here = consumer is not None and consumer.queue is queue
                if is_here and self._show_held(message):
                    return

            looked += len(part)
            if looked >= UNACKED_COUNT:
                looked = 0
                await asyncio.sleep(0)

    def _show_held(self, message: Message) -> bool:
        count = len(self.rows)
        is_enough = self.look_at(message, "unacked")
        if len(self.rows) > count:
            self.rows[count].update(_holder_of(message))

        return is_enough


def _holder_of(message: Message) -> JSON:
    consumer = message.consumer
    if consumer is None:
        return {}

    channel = channel_of(consumer.queue.vhost, consumer.deliveries)
    return {
        "consumer_tag": consumer.tag,
        "delivery_tag": int(message.delivery_tag),
        "connection_name": "" if channel is None else channel.connection.name,
        "channel_number": int(consumer.deliveries.channel_id),
    }


async def browse(call: Call) -> web.Response:
    queue = queue_in_path(call)
    actor = call.actor
    actor.check("read", "queue", queue.name)
    wish = _wish(call)
    browsing = _Browsing(queue, wish)
    ready = int(queue.ready_count) + int(aside_count(queue))
    unacked = int(queue.unacked_count)
    totals = {"ready": ready, "unacked": unacked, "all": ready + unacked}
    if wish.state != "ready":
        await browsing.show_unacked()

    if wish.state != "unacked":
        await browsing.show_ready()

    is_more = browsing.is_full and browsing.offset < totals[wish.state]
    return answer(
        {
            "queue": queue.name,
            "vhost": queue.vhost.name,
            "state": wish.state,
            "total": totals[wish.state],
            "offset": wish.offset,
            "scanned": browsing.scanned,
            "next_offset": browsing.offset if is_more else None,
            "items": browsing.rows,
        }
    )


ROUTES: Final = (Route("GET", "/queues/:vhost/:queue/browse", VHOST, browse),)
