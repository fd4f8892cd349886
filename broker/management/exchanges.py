"""Exchanges: lists, one of them, declare, delete (management layer)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import declare_exchange, delete_exchange
from broker.management.arguments import arguments_of, boolean_of, text_of
from broker.management.auth import ANYBODY, VHOST
from broker.management.call import answer, created, done
from broker.management.errors import NotThere
from broker.management.paging import answer_list, columns_of, pick
from broker.management.routes import Route
from broker.management.samples import Ranges, add_samples, ranges_of
from broker.management.stats import add_stats, exchange_stats
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.exchange.base import Exchange
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.management.site import Site

__all__ = ["ROUTES"]

OWN_ACTOR: Final = "rmq-internal"
"""Who is said to have made what every virtual host is born with."""

Housed = tuple["VirtualHost", "Exchange"]


def _row(site: Site, ranges: Ranges, housed: Housed) -> JSON:
    vhost, exchange = housed
    row: JSON = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_plain(exchange.arguments),
        "user_who_performed_action": OWN_ACTOR,
    }
    applied = vhost.policies.for_exchange(exchange.name)
    if applied.policy is not None:
        row["policy"] = applied.policy.name

    add_stats(row, exchange_stats(site.sampler, exchange))
    add_samples(ranges, site.sampler, exchange, row)
    return row


def _rank_of(housed: Housed) -> tuple[str, str]:
    return housed[0].name, housed[1].name


def _name_of(housed: Housed) -> str:
    return housed[1].name


async def list_exchanges(call: Call) -> web.Response:
    found = [(vhost, one) for vhost in call.visible_vhosts() for one in vhost.exchanges.values()]
    found.sort(key=_rank_of)
    return await answer_list(
        call, found, partial(_row, call.site, ranges_of(call)), name_of=_name_of
    )


def _exchange_in_path(call: Call) -> Exchange:
    exchange = call.vhost.exchanges.get(call["exchange"])
    if exchange is None:
        raise NotThere

    return exchange


async def get_exchange(call: Call) -> web.Response:
    row = _row(call.site, ranges_of(call), (call.vhost, _exchange_in_path(call)))
    row["incoming"] = []
    row["outgoing"] = []
    return answer(pick(row, columns_of(call)))


async def put_exchange(call: Call) -> web.Response:
    body = await call.body()
    vhost = call.vhost
    actor = call.actor
    settings = ExchangeSettings(
        name=call["exchange"],
        type=text_of(body, "type", default="direct"),
        durable=boolean_of(body, "durable"),
        auto_delete=boolean_of(body, "auto_delete"),
        internal=boolean_of(body, "internal"),
        arguments=arguments_of(body),
    )
    is_new = settings.name not in vhost.exchanges
    await call.site.change(lambda: declare_exchange(vhost, actor, settings), vhost)
    return created() if is_new else done()


async def delete(call: Call) -> web.Response:
    exchange = _exchange_in_path(call)
    vhost = call.vhost
    actor = call.actor
    if_unused = call.flag("if-unused")
    await call.site.change(
        lambda: delete_exchange(vhost, actor, exchange.name, if_unused=if_unused), vhost
    )
    return done()


ROUTES: Final = (
    Route("GET", "/exchanges", ANYBODY, list_exchanges),
    Route("GET", "/exchanges/:vhost", VHOST, list_exchanges),
    Route("GET", "/exchanges/:vhost/:exchange", VHOST, get_exchange),
    Route("PUT", "/exchanges/:vhost/:exchange", VHOST, put_exchange),
    Route("DELETE", "/exchanges/:vhost/:exchange", VHOST, delete),
)
