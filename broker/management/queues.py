"""Queues: lists, one of them, declare, delete, purge (management layer)."""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.queue.quorum import QuorumQueue
from broker.core.queue_commands import QueueRequest, declare_queue, delete_queue, purge_queue
from broker.management.arguments import arguments_of, boolean_of
from broker.management.auth import ANYBODY, VHOST
from broker.management.call import answer, created, done
from broker.management.errors import NotThere
from broker.management.paging import answer_list, columns_of, pick
from broker.management.queue_rows import queue_details, queue_row, queue_totals_row
from broker.management.routes import Route
from broker.management.samples import ranges_of
from broker.metrics.totals import aside_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.paging import Order
    from broker.metrics.sampler import Sampler

__all__ = ["ROUTES", "queue_in_path"]


def queue_in_path(call: Call) -> Queue:
    """The queue that the path names.

    Raises:
        NotThere: there is none.

    """
    queue = call.vhost.queues.get(call["queue"])
    if queue is None:
        raise NotThere

    return queue


def _vhost_name(vhost: VirtualHost) -> str:
    return vhost.name


def _orders(sampler: Sampler) -> dict[str, Order[Queue]]:
    """What queues are sorted by most often."""
    orders: dict[str, Order[Queue]] = {
        "name": lambda queues: [one.name for one in queues],
        "messages": lambda queues: [
            int(one.ready_count + one.unacked_count + aside_count(one)) for one in queues
        ],
        "messages_ready": lambda queues: [int(one.ready_count) for one in queues],
        "messages_unacknowledged": lambda queues: [int(one.unacked_count) for one in queues],
        "consumers": lambda queues: [len(one.consumers) for one in queues],
        "type": lambda queues: [one.type for one in queues],
    }
    for key in ("publish", "deliver_get", "ack"):
        orders[f"message_stats.{key}_details.rate"] = partial(_rates, sampler, key)

    return orders


def _rates(sampler: Sampler, key: str, queues: Sequence[Queue]) -> list[float]:
    return [sampler.rate(queue, key) for queue in queues]


async def list_queues(call: Call) -> web.Response:
    return await _answer(call, call.visible_vhosts())


async def list_of_user(call: Call) -> web.Response:
    """The queues in the virtual hosts that a user has rights in, as far as the caller sees them."""
    user = call.node.users.users.get(call["user"])
    if user is None:
        raise NotThere

    vhosts = call.visible_vhosts()
    return await _answer(call, [one for one in vhosts if user.permission(one.name) is not None])


async def _answer(call: Call, vhosts: list[VirtualHost]) -> web.Response:
    in_order = [call.site.queues_in_order(vhost) for vhost in sorted(vhosts, key=_vhost_name)]
    queues = in_order[0] if len(in_order) == 1 else list(chain.from_iterable(in_order))
    if call.flag("disable_stats"):
        row_of = partial(queue_totals_row, call.site, with_totals=call.flag("enable_queue_totals"))
    else:
        await call.site.add_up_unacked()
        row_of = partial(queue_row, call.site, ranges_of(call))

    return await answer_list(
        call, queues, row_of, name_of=attrgetter("name"), orders=_orders(call.site.sampler)
    )


async def get_queue(call: Call) -> web.Response:
    queue = queue_in_path(call)
    await call.site.add_up_unacked()
    return answer(pick(queue_details(call.site, ranges_of(call), queue), columns_of(call)))


async def put_queue(call: Call) -> web.Response:
    body = await call.body()
    vhost = call.vhost
    name = call["queue"]
    request = QueueRequest(
        name=name,
        durable=boolean_of(body, "durable"),
        exclusive=boolean_of(body, "exclusive"),
        auto_delete=boolean_of(body, "auto_delete"),
        arguments=arguments_of(body),
    )
    actor = call.actor
    is_new = name not in vhost.queues
    await call.site.change(lambda: declare_queue(vhost, actor, request), vhost)
    return created() if is_new else done()


async def delete(call: Call) -> web.Response:
    queue = queue_in_path(call)
    vhost = call.vhost
    actor = call.actor
    await call.site.change(
        lambda: delete_queue(
            vhost,
            actor,
            queue.name,
            if_unused=call.flag("if-unused"),
            if_empty=call.flag("if-empty"),
        ),
        vhost,
    )
    return done()


async def purge(call: Call) -> web.Response:
    queue = queue_in_path(call)
    vhost = call.vhost
    actor = call.actor
    await call.site.change(lambda: purge_queue(vhost, actor, queue.name), vhost)
    return done()


async def act(call: Call) -> web.Response:
    """Actions are for queues in a cluster; RabbitMQ has none left either."""
    queue_in_path(call)
    await call.body("action")
    return done()


async def status_of_quorum_queue(call: Call) -> web.Response:
    """What there is to say of the one replica of a quorum queue."""
    queue = queue_in_path(call)
    if not isinstance(queue, QuorumQueue):
        raise NotThere

    name = call.node.settings.node_name
    replica: JSON = {"Node Name": name, "Raft State": "leader", "Membership": "voter"}
    for key in ("Last Log Index", "Last Written", "Last Applied", "Commit Index"):
        replica[key] = 0

    replica.update({"Snapshot Index": 0, "Term": 1, "Machine Version": 0})
    return answer([replica])


ROUTES: Final = (
    Route("GET", "/queues", ANYBODY, list_queues),
    Route("GET", "/queues/detailed", ANYBODY, list_queues),
    Route("GET", "/queues/:vhost", VHOST, list_queues),
    Route("GET", "/queues/:vhost/:queue", VHOST, get_queue),
    Route("PUT", "/queues/:vhost/:queue", VHOST, put_queue),
    Route("DELETE", "/queues/:vhost/:queue", VHOST, delete),
    Route("DELETE", "/queues/:vhost/:queue/contents", VHOST, purge),
    Route("POST", "/queues/:vhost/:queue/actions", VHOST, act),
    Route("GET", "/queues/quorum/:vhost/:queue/status", VHOST, status_of_quorum_queue),
    Route("GET", "/users/:user/queues", ANYBODY, list_of_user),
)
