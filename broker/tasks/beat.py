"""Toolkit, tasks: fires periodic tasks, once per tick in all workers, with nothing but AMQP.

Every worker that has periodic tasks consumes one queue, which has a single active consumer: that
worker leads, and the broker picks the next one when it is gone. In the queue is a token, a message
that says what was fired last. The leader holds it unacknowledged. To fire a tick, it publishes the
task and a new token and acknowledges the old one, in one transaction.

Invariant: a tick and the token that says so become true together. A leader that dies before the
commit has done nothing, and the next one gets the old token; after it, the new one. A leader that
was stopped, and that the broker took for dead, holds a token that is not its own any more: its
channel is closed, and nothing that it commits counts.

Workers do not ask whether there is a token: each brings one of its own, marked as initial, and the
leader merges what it gets. An initial one fires nothing that lies before it, so one too many does
no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pamqp.commands import Basic

from broker.client.errors import ToolkitError
from broker.client.spec import QueueSpec
from broker.tasks.partition import partition_of
from broker.tasks.periodic import BeatState, Tick
from broker.tasks.port import CONNECTION_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiormq.abc import DeliveredMessage

    from broker.client.underlay import Channel
    from broker.tasks.app import Tasks
    from broker.tasks.task import Task

__all__ = ["DONE", "SCHEDULE", "Beat", "beat_queue"]

LOG: Final = logging.getLogger("leveret.tasks")

TOKEN: Final = "token"  # noqa: S105 - no secret
DONE: Final = "done"
"""The type of the messages by which workers say that a run has ended."""
SCHEDULE: Final = "x-schedule"
"""Header of runs whose end is to be said so, with the name of the queue for that."""

GRACE_S: Final = 1.0
"""How long a leader that has only an initial token waits for one that knows more."""
RETRY_S: Final = 0.5
WAIT_MAX_S: Final = 3600.0
RUN_MAX_S: Final = 30 * 86_400.0
"""More than that no run is waited for of which nothing is heard."""


def beat_queue(app_name: str) -> str:
    """Return the name of the queue that the token is in."""
    return f"{app_name}.beat"


class Beat:
    """What fires the periodic tasks of an application, if this worker leads."""

    def __init__(
        self, app: Tasks, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._app = app
        self._now = now
        self._queue = beat_queue(app.name)
        self._state = BeatState()
        self._held: list[int] = []
        self._is_dirty = False
        self._arrived = asyncio.Event()
        self._gone = asyncio.Event()
        """Set when somebody has deleted the queue."""
        self._began_s = 0.0
        self.is_leader = False
        self.fired = 0

    async def run(self) -> None:
        """Lead when it is our turn, until cancelled."""
        while True:
            try:
                await self._run_once()
            except (*CONNECTION_ERRORS, ToolkitError) as problem:
                LOG.debug("the beat starts anew: %r", problem)
            except Exception:
                LOG.exception("the beat failed, and starts anew")

            self.is_leader = False
            await asyncio.sleep(RETRY_S)

    async def _run_once(self) -> None:
        link = await self._app.link()
        await link.port.wait_open()
        await link.declare(self._queue, QueueSpec(single_active_consumer=True, dead_letter=False))
        specs = self._app.queues()
        for name in self._app.periodic:
            for queue in self._app.registered[name].options.queues:
                await link.declare(queue, specs[queue])

        channel = await link.port.channel()
        try:
            await self._lead(channel)
        finally:
            # What is held goes back into the queue, for the next leader.
            with contextlib.suppress(*CONNECTION_ERRORS):
                await channel.close()

    async def _lead(self, channel: Channel) -> None:
        self._state = BeatState()
        self._held = []
        self._is_dirty = False
        self._arrived.clear()
        self._gone.clear()
        await channel.tx_select()
        await self._publish_token(channel, BeatState())
        await channel.tx_commit()
        channel.on_consumer_gone = lambda _: self._gone.set()
        await channel.basic_consume(self._queue, self._arrive)
        loop = asyncio.get_running_loop()
        while True:
            await self._wait(channel)
            if not self._held:
                continue

            if self._state.is_initial and loop.time() < self._began_s + GRACE_S:
                continue

            await self._turn(channel)

    async def _wait(self, channel: Channel) -> None:
        """Wait until something arrives or is due; raise when the channel is gone."""
        arrived = asyncio.ensure_future(self._arrived.wait())
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait(
                (arrived, gone, channel.closing),
                timeout=self._seconds_to_wait(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            arrived.cancel()
            gone.cancel()

        if self._gone.is_set():
            (await self._app.link()).forget_declared(self._queue)
            raise ConnectionError("the queue of the beat is gone")

        if channel.is_closed:
            raise ConnectionError("the channel of the beat was closed")

        self._arrived.clear()

    def _seconds_to_wait(self) -> float | None:
        if not self._held:
            return None

        if self._state.is_initial:
            return GRACE_S

        now = self._now()
        due = self._state.next_due(self._app.periodic, now)
        if due is None:
            return WAIT_MAX_S

        return min(max(0.0, (due - now).total_seconds()), WAIT_MAX_S)

    async def _turn(self, channel: Channel) -> None:
        """Fire what is due, and put away what was learned."""
        state = self._state
        now = self._now()
        if state.is_initial or state.adopt(self._app.periodic, now):
            state.adopt(self._app.periodic, now)
            state.is_initial = False
            self._is_dirty = True

        ticks = state.due(self._app.periodic, now, self._run_seconds())
        if not ticks and not self._is_dirty and len(self._held) == 1:
            return

        held, self._held = self._held, []
        self._is_dirty = False
        for tick in ticks:
            try:
                made = self._make(tick)
            except Exception:
                # Of one task only: the others have their ticks.
                LOG.exception("%s of %s cannot be sent, and is left out", tick.name, tick.at)
                state.done(tick.task_id)
                continue

            queue, properties, body = made
            await channel.basic_publish(body, routing_key=queue, properties=properties, wait=False)

        await self._publish_token(channel, state)
        for tag in held:
            await channel.basic_ack(tag, wait=False)

        await channel.tx_commit()
        self.fired += len(ticks)
        for tick in ticks:
            LOG.info("fired %s of %s", tick.name, tick.at.isoformat())

    async def _arrive(self, message: DeliveredMessage) -> None:
        if not self.is_leader:
            self.is_leader = True
            self._began_s = asyncio.get_running_loop().time()
            LOG.info("this worker fires the periodic tasks of %s", self._app.name)

        properties = message.header.properties
        assert message.delivery_tag is not None
        self._held.append(message.delivery_tag)
        if properties.message_type == DONE:
            self._is_dirty |= self._state.done(properties.message_id or "")
        else:
            try:
                self._state.merge(BeatState.from_dict(json.loads(message.body)))
            except (ValueError, TypeError, KeyError, AttributeError) as problem:
                LOG.warning("a token of the beat cannot be read, and is dropped: %r", problem)

        self._arrived.set()

    async def _publish_token(self, channel: Channel, state: BeatState) -> None:
        await channel.basic_publish(
            json.dumps(state.as_dict()).encode(),
            routing_key=self._queue,
            properties=_properties(message_type=TOKEN, content_type="application/json"),
            wait=False,
        )

    def _run_seconds(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for name in self._app.periodic:
            options = self._app.registered[name].options
            timeout, attempts = options.timeout, options.retry.attempts
            found[name] = None if timeout is None else min(timeout * attempts, RUN_MAX_S)

        return found

    def _make(self, tick: Tick) -> tuple[str, Basic.Properties, bytes]:
        """Return the message of a tick, and the queue that it goes to."""
        app = self._app
        task = app.registered[tick.name]
        options = task.options
        body, content_type = app.codecs.encode([[], {}])
        headers = {}
        if app.periodic[tick.name].overlap == "skip":
            headers[SCHEDULE] = self._queue

        properties = _properties(
            message_type=tick.name,
            message_id=tick.task_id,
            content_type=content_type,
            headers=headers,
            priority=app.spec.wire_priority(options.priority),
            expiration=None if options.ttl_ms is None else str(options.ttl_ms),
        )
        return self._queue_of(task), properties, body

    @staticmethod
    def _queue_of(task: Task[..., Any, Any]) -> str:
        queue, parts = task.options.queue, task.options.partitions
        if parts is None:
            return queue

        try:
            return parts.queue_for(queue, (), {})
        except Exception as problem:
            # Without arguments there may be no key: ticks of one task then stay together.
            LOG.debug("%s has no key for its ticks: %r", task.name, problem)
            return parts.name(queue, partition_of(task.name, parts.count))


def _properties(**given: Any) -> Basic.Properties:
    return Basic.Properties(delivery_mode=2, **given)
