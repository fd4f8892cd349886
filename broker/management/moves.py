"""Moving messages between queues, with progress (management layer).

A move is a task that moves a few messages, waits until they are safe in their new place, gives the
loop its turn, and goes on: at the rate that was asked for, or as fast as that goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.moving import HELD_MAX, Mover, MoveTarget, check_move
from broker.errors import BrokerError, NotFound
from broker.management.arguments import boolean_of, integer_of
from broker.management.auth import ANYBODY, VHOST
from broker.management.call import answer, done
from broker.management.errors import BadRequest, HTTPProblem, NotAuthorised, NotThere
from broker.management.filters import filter_in_body
from broker.management.numbers import bounded, whole_number
from broker.management.queues import queue_in_path
from broker.management.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.site import Site

__all__ = ["ROUTES", "Moves"]

PER_STEP: Final = 200
COUNT_MAX: Final = 2**62
RUNNING_MAX: Final = 16
KEPT_MAX: Final = 64
"""Moves that are remembered, those that ended among them."""

PACE_S: Final = 0.05
"""Between two steps of a move that has a rate; and between looks at an alarm."""

RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


class Move:
    """One move, running or over.

    Args:
        number: its name.
        about: what was asked for, as it is shown.
        mover: does it.
        rate: messages a second; 0 is no limit.

    """

    def __init__(self, number: int, about: JSON, mover: Mover, rate: int) -> None:
        self.number = number
        self.about = about
        self.mover = mover
        self.rate = rate
        self.state = RUNNING
        self.reason = ""
        self.task: asyncio.Task[None] | None = None

    def row(self) -> JSON:
        mover = self.mover
        looked = mover.moved + mover.refused + mover.passed
        total = mover.total
        return {
            "id": self.number,
            **self.about,
            "state": self.state,
            "reason": self.reason,
            "total": total,
            "moved": mover.moved,
            "refused": mover.refused,
            "passed": mover.passed,
            "progress": 1.0 if not total or self.state == DONE else looked / total,
        }


class Moves:
    """All moves of one broker."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._next = 1
        self.known: dict[int, Move] = {}

    def begin(self, about: JSON, mover: Mover, rate: int) -> Move:
        """Start a move.

        Raises:
            HTTPProblem: too many are running.

        """
        running = [one for one in self.known.values() if one.state == RUNNING]
        if len(running) >= RUNNING_MAX:
            mover.finish()
            raise HTTPProblem(503, "too_many_moves", f"{RUNNING_MAX} moves are running already")

        for one in list(self.known.values()):
            if len(self.known) < KEPT_MAX:
                break

            if one.state != RUNNING:
                del self.known[one.number]

        move = Move(self._next, about, mover, rate)
        self._next += 1
        self.known[move.number] = move
        move.task = asyncio.get_running_loop().create_task(self._run(move))
        return move

    async def _run(self, move: Move) -> None:
        try:
            await self._go_on(move)
            move.state = DONE
        except asyncio.CancelledError:
            move.state = CANCELLED
        except (BrokerError, TimeoutError) as fault:
            move.state, move.reason = FAILED, str(fault) or "the disk does not answer"
        except Exception:
            move.state, move.reason = FAILED, "see the log of the broker"
            self._site.node.log("error", "management.fault", {"traceback": traceback.format_exc()})
        finally:
            self._site.runner.run(move.mover.finish)
            fields: dict[str, object] = {"move": move.number, "state": move.state}
            fields.update(move.about)
            self._site.node.log("info", "queue.moved", {**fields, "moved": move.mover.moved})

    async def _go_on(self, move: Move) -> None:
        mover = move.mover
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        while not mover.is_done:
            count = PER_STEP
            if move.rate:
                due = int((loop.time() - start_s) * move.rate) + 1
                count = min(count, due - mover.moved - mover.refused - mover.passed)

            if count <= 0 or self._site.node.alarms:
                await asyncio.sleep(PACE_S)
                continue

            await self._site.change(partial(mover.step, count), mover.vhost)
            await asyncio.sleep(0)

        if mover.lost:
            raise NotFound(f"{mover.lost} has been deleted")

        if mover.passed >= HELD_MAX:
            move.reason = f"stopped after {HELD_MAX} messages that were not wanted"

    async def cancel(self, move: Move) -> None:
        """End a move; what is moved stays moved."""
        task = move.task
        if task is not None and not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def stop(self) -> None:
        """End all moves."""
        for move in list(self.known.values()):
            await self.cancel(move)


# -- handlers


async def _begin(call: Call, target: MoveTarget, body: JSON) -> web.Response:
    queue = queue_in_path(call)
    vhost = call.vhost
    actor = call.actor
    wanted = filter_in_body(body.get("filter")).wanted
    limit = bounded("limit", integer_of(body, "limit", default=COUNT_MAX), 1, COUNT_MAX)
    rate = bounded("rate", integer_of(body, "rate"), 0, COUNT_MAX)
    check_move(vhost, actor, queue.name, target)
    about: JSON = {
        "user": call.caller.name,
        "vhost": vhost.name,
        "source": queue.name,
        "destination": target.queue,
        "exchange": target.exchange,
        "routing_key": target.routing_key,
        "filter": body.get("filter"),
        "limit": body.get("limit"),
        "rate": rate or None,
    }
    mover = Mover(vhost, actor, queue, target, wanted=wanted, count_max=limit)
    move = call.moves.begin(about, mover, rate)
    if boolean_of(body, "wait") and move.task is not None:
        await asyncio.shield(move.task)
        return answer(move.row())

    return answer(move.row(), 202, {"location": f"/api/moves/{move.number}"})


def _text_or_none(body: JSON, key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise BadRequest(["not_a_string", key])

    return value


async def move_messages(call: Call) -> web.Response:
    body = await call.body()
    queue = _text_or_none(body, "destination")
    exchange = _text_or_none(body, "exchange")
    if (queue is None) == (exchange is None):
        raise BadRequest("name a destination, which is a queue, or an exchange")

    if queue == call["queue"]:
        raise BadRequest("the destination is the queue itself")

    key = _text_or_none(body, "routing_key")
    if key is not None and queue is not None:
        raise BadRequest("a routing key goes with an exchange")

    return await _begin(call, MoveTarget(queue, exchange, key), body)


async def redrive_messages(call: Call) -> web.Response:
    """Back to where they died first."""
    return await _begin(call, MoveTarget(), await call.body())


def _move_in_path(call: Call) -> Move:
    number = whole_number(call["move"])
    move = None if number is None else call.moves.known.get(number)
    if move is None:
        raise NotThere

    if not call.caller.is_administrator and move.about["user"] != call.caller.name:
        raise NotAuthorised("User not authorised to access object")

    return move


async def list_moves(call: Call) -> web.Response:
    caller = call.caller
    return answer(
        [
            move.row()
            for move in call.moves.known.values()
            if caller.is_monitor or move.about["user"] == caller.name
        ]
    )


async def get_move(call: Call) -> web.Response:
    return answer(_move_in_path(call).row())


async def cancel_move(call: Call) -> web.Response:
    await call.moves.cancel(_move_in_path(call))
    return done()


ROUTES: Final = (
    Route("POST", "/queues/:vhost/:queue/move", VHOST, move_messages),
    Route("POST", "/queues/:vhost/:queue/redrive", VHOST, redrive_messages),
    Route("GET", "/moves", ANYBODY, list_moves),
    Route("GET", "/moves/:move", ANYBODY, get_move),
    Route("DELETE", "/moves/:move", ANYBODY, cancel_move),
)
