"""Bindings: lists, bind, unbind (management layer).

The bindings of the default exchange are not kept anywhere: each queue has one by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

from broker.core.exchange_commands import BindingRequest, bind, unbind
from broker.management.arguments import arguments_of, text_of
from broker.management.auth import ANYBODY, VHOST
from broker.management.call import answer, created, done
from broker.management.errors import BadRequest, NotThere
from broker.management.paging import answer_list
from broker.management.queues import queue_in_path
from broker.management.routes import Route
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from broker.core.binding import Binding, Destination
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "bindings_of"]

NO_PROPERTIES: Final = "~"
KINDS: Final = {"q": True, "e": False}


class _Bound(NamedTuple):
    """A binding, or the one that a queue has by its name."""

    vhost: str
    source: str
    destination: Destination
    routing_key: str
    binding: Binding | None

    @property
    def properties_key(self) -> str:
        """Its name among the bindings of the same two ends (rule B-10)."""
        if self.binding is not None:
            return self.binding.properties_key

        raw = self.routing_key.encode("utf-8", "surrogateescape")
        return quote_plus(raw).replace("~", "%7E")

    def row(self) -> JSON:
        arguments = {} if self.binding is None else self.binding.arguments
        return {
            "source": self.source,
            "vhost": self.vhost,
            "destination": self.destination.name,
            "destination_type": "queue" if self.destination.is_queue else "exchange",
            "routing_key": self.routing_key,
            "arguments": table_to_plain(arguments),
            "properties_key": self.properties_key,
        }


def _by_name(vhost: VirtualHost, queue: Destination) -> _Bound:
    return _Bound(vhost.name, "", queue, queue.name, None)


def _made(vhost: VirtualHost, binding: Binding) -> _Bound:
    return _Bound(
        vhost.name, binding.source.name, binding.destination, binding.routing_key, binding
    )


def _from(vhost: VirtualHost, source: str) -> Iterator[_Bound]:
    if source == "":
        for queue in vhost.queues.values():
            yield _by_name(vhost, queue)

        return

    for binding in vhost.exchanges[source].bindings.values():
        yield _made(vhost, binding)


def _to(vhost: VirtualHost, destination: Destination) -> Iterator[_Bound]:
    if destination.is_queue:
        yield _by_name(vhost, destination)

    for binding in destination.incoming:
        yield _made(vhost, binding)


def bindings_of(vhost: VirtualHost) -> list[Binding]:
    """All bindings that somebody made."""
    return [one for exchange in vhost.exchanges.values() for one in exchange.bindings.values()]


def _rank_of(bound: _Bound) -> tuple[str, str, str, str]:
    return bound.vhost, bound.source, bound.destination.name, bound.routing_key


async def _answer(call: Call, found: list[_Bound]) -> web.Response:
    found.sort(key=_rank_of)
    return await answer_list(
        call, found, _Bound.row, name_of=lambda bound: bound.routing_key, is_paged=False
    )


async def list_bindings(call: Call) -> web.Response:
    found = [
        bound
        for vhost in call.visible_vhosts()
        for name in vhost.exchanges
        for bound in _from(vhost, name)
    ]
    return await _answer(call, found)


async def list_from_exchange(call: Call) -> web.Response:
    if call["exchange"] not in call.vhost.exchanges:
        raise NotThere

    return await _answer(call, list(_from(call.vhost, call["exchange"])))


async def list_to_exchange(call: Call) -> web.Response:
    exchange = call.vhost.exchanges.get(call["exchange"])
    if exchange is None:
        raise NotThere

    return await _answer(call, list(_to(call.vhost, exchange)))


async def list_to_queue(call: Call) -> web.Response:
    return await _answer(call, list(_to(call.vhost, queue_in_path(call))))


# -- between two ends


def _destination(call: Call) -> Destination:
    """The far end that the path names; both ends are there.

    Raises:
        NotThere: one of them is not.

    """
    is_queue = KINDS.get(call["kind"])
    vhost = call.vhost
    if is_queue is None or call["source"] not in vhost.exchanges:
        raise NotThere

    name = call["target"]
    found = vhost.queues.get(name) if is_queue else vhost.exchanges.get(name)
    if found is None:
        raise NotThere

    return found


def _between(call: Call) -> list[_Bound]:
    destination = _destination(call)
    return [one for one in _to(call.vhost, destination) if one.source == call["source"]]


async def list_between(call: Call) -> web.Response:
    return await _answer(call, _between(call))


def _one_between(call: Call) -> _Bound:
    wanted = call["properties"]
    if wanted.count("~") > 1:
        raise BadRequest("invalid properties key")

    for bound in _between(call):
        if bound.properties_key == wanted:
            return bound

    # It may have been decoded on the way, or quoted by other rules.
    if "~" not in wanted:
        for bound in _between(call):
            if bound.routing_key in (wanted, unquote_plus(wanted)) and (
                bound.binding is None or not bound.binding.arguments
            ):
                return bound

    raise NotThere


async def get_binding(call: Call) -> web.Response:
    return answer(_one_between(call).row())


def _request(call: Call, bound: _Bound) -> BindingRequest:
    arguments = {} if bound.binding is None else bound.binding.arguments
    return BindingRequest(
        bound.source,
        bound.destination.name,
        bound.destination.is_queue,
        bound.routing_key,
        arguments,
    )


async def post_binding(call: Call) -> web.Response:
    body = await call.body()
    is_queue = KINDS.get(call["kind"])
    if is_queue is None:
        raise NotThere

    request = BindingRequest(
        source=call["source"],
        destination=call["target"],
        is_queue=is_queue,
        routing_key=text_of(body, "routing_key"),
        arguments=arguments_of(body),
    )
    vhost = call.vhost
    actor = call.actor
    await call.site.change(lambda: bind(vhost, actor, request), vhost)
    destination = _destination(call)
    source = vhost.exchanges[request.source]
    made = source.find_binding(destination, request.routing_key, request.arguments)
    key = NO_PROPERTIES if made is None else made.properties_key
    name = quote(destination.name.encode("utf-8", "surrogateescape"), safe="")
    return created({"location": f"{name}/{key}"})


async def delete_binding(call: Call) -> web.Response:
    request = _request(call, _one_between(call))
    vhost = call.vhost
    actor = call.actor
    await call.site.change(lambda: unbind(vhost, actor, request), vhost)
    return done()


BETWEEN: Final = "/bindings/:vhost/e/:source/:kind/:target"

ROUTES: Final = (
    Route("GET", "/bindings", ANYBODY, list_bindings),
    Route("GET", "/bindings/:vhost", VHOST, list_bindings),
    Route("GET", "/exchanges/:vhost/:exchange/bindings/source", VHOST, list_from_exchange),
    Route("GET", "/exchanges/:vhost/:exchange/bindings/destination", VHOST, list_to_exchange),
    Route("GET", "/queues/:vhost/:queue/bindings", VHOST, list_to_queue),
    Route("GET", BETWEEN, VHOST, list_between),
    Route("POST", BETWEEN, VHOST, post_binding),
    Route("GET", f"{BETWEEN}/:properties", VHOST, get_binding),
    Route("DELETE", f"{BETWEEN}/:properties", VHOST, delete_binding),
)
