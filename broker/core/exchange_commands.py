"""Declaring, deleting and binding: the commands about exchanges and bindings (rules E, B).

Each function checks everything, in the order that decides which error is reported, before it
changes anything. AMQP methods, the configuration and management all come through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.equivalence import (
    ExchangeTraits,
    alternate_exchange_of,
    check_exchange_equivalence,
)
from broker.core.erlterm import resource_text
from broker.core.exchange.base import (
    Exchange,
    ExchangeSettings,
    exhausted_sources,
    remove_incoming_bindings,
)
from broker.core.exchange.registry import EXCHANGE_TYPES, create_exchange
from broker.core.names import check_name
from broker.core.queue.queue import Queue
from broker.core.reply_to import is_reply_name
from broker.errors import AccessRefused, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from broker.core.actor import Actor
    from broker.core.binding import Binding, Destination
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = [
    "BindingRequest",
    "bind",
    "check_exchange",
    "declare_exchange",
    "delete_exchange",
    "drop_bindings_to",
    "exchange_named",
    "unbind",
]

DEFAULT_EXCHANGE_TEXT = "operation not permitted on the default exchange"


class BindingRequest(NamedTuple):
    """What queue.bind, exchange.bind and their opposites ask for."""

    source: str
    destination: str
    is_queue: bool
    routing_key: str
    arguments: Arguments


def exchange_named(vhost: VirtualHost, name: str) -> Exchange:
    """Find an exchange.

    Raises:
        NotFound: rules E-30, P-04.

    """
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise NotFound(f"no {resource_text('exchange', name, vhost.name)}")

    return exchange


def check_exchange(vhost: VirtualHost, actor: Actor, name: str) -> Exchange:
    """exchange.declare(passive): the exchange is there, whatever its type (rules E-12, E-30).

    Raises:
        AccessRefused: it is the default exchange, or no right to it (rule E-31).
        NotFound: it is not there.

    """
    _refuse_default(name)
    actor.check_any("exchange", name)
    return exchange_named(vhost, name)


def declare_exchange(vhost: VirtualHost, actor: Actor, settings: ExchangeSettings) -> Exchange:
    """exchange.declare: make an exchange, or find the equal one that is there (section E.3).

    Raises:
        PreconditionFailed: unknown type, bad arguments, or an unequal exchange of that name.
        AccessRefused: reserved name, default exchange, or no right.

    """
    name = settings.name
    vhost.release.check_exchange_type(settings.type, is_known=settings.type in EXCHANGE_TYPES)
    _refuse_default(name)
    actor.check("configure", "exchange", name)
    check_name("exchange name", name)
    existing = vhost.exchanges.get(name)
    if existing is not None:
        current = ExchangeTraits(
            existing.type,
            existing.durable,
            existing.auto_delete,
            existing.internal,
            existing.arguments,
        )
        received = ExchangeTraits(
            settings.type,
            settings.durable,
            settings.auto_delete,
            settings.internal,
            settings.arguments,
        )
        check_exchange_equivalence(name, vhost.name, current, received)
        return existing

    if name.startswith("amq."):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")

    alternate = alternate_exchange_of(name, vhost.name, settings.arguments)
    if alternate is not None:
        # Rule E-25: whoever names an alternate must be able to read here and to write there.
        actor.check("read", "exchange", name)
        actor.check("write", "exchange", alternate)

    limit = vhost.exchanges_max
    if len(vhost.exchanges) >= limit:
        # Rule E-26.
        raise PreconditionFailed(
            f"cannot declare exchange '{name}' in vhost '{vhost.name}': exchange limit of {limit} "
            "is reached"
        )

    exchange = create_exchange(settings)
    vhost.act_for(actor.user_name)
    vhost.add_exchange(exchange)
    vhost.act_for("")
    return exchange


def delete_exchange(vhost: VirtualHost, actor: Actor, name: str, *, if_unused: bool) -> None:
    """exchange.delete; an exchange that is not there is no error (rules E-40..E-43).

    Raises:
        AccessRefused: default or system exchange, or no right.
        PreconditionFailed: if_unused, and bindings lead out of it.

    """
    _refuse_default(name)
    resource = resource_text("exchange", name, vhost.name)
    if name.startswith("amq."):
        raise AccessRefused(f"deletion of system {resource} not allowed")

    actor.check("configure", "exchange", name)
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return

    if if_unused and exchange.bindings:
        raise PreconditionFailed(f"{resource} in use")

    vhost.act_for(actor.user_name)
    _remove_exchange(vhost, exchange)
    vhost.act_for("")


def _remove_exchange(vhost: VirtualHost, exchange: Exchange) -> None:
    """Remove an exchange with its bindings, and the auto-delete exchanges that were left bare."""
    doomed = [exchange]
    for one in doomed:  # grows while it is walked (rule E-51)
        if one.name not in vhost.exchanges:
            continue

        vhost.forget_exchange(one)
        removed = one.drop_all_bindings()
        removed += remove_incoming_bindings(one)
        _tell_deleted(vhost, removed)
        doomed += exhausted_sources([binding for binding in removed if binding.source is not one])


def drop_bindings_to(vhost: VirtualHost, destination: Destination) -> None:
    """A destination is gone: so are its bindings, and exchanges with them (rules B-08, E-50)."""
    removed = remove_incoming_bindings(destination)
    _tell_deleted(vhost, removed)
    _remove_exhausted(vhost, removed)


def _tell_deleted(vhost: VirtualHost, removed: list[Binding]) -> None:
    if vhost.events is not None:
        vhost.events.bindings_deleted(vhost, removed)


def _remove_exhausted(vhost: VirtualHost, removed: list[Binding]) -> None:
    for exchange in exhausted_sources(removed):
        _remove_exchange(vhost, exchange)


def bind(vhost: VirtualHost, actor: Actor, request: BindingRequest) -> None:
    """queue.bind and exchange.bind; what is bound already is no error (rule B-01).

    Raises:
        AccessRefused: no right (rule B-02), or the default exchange (rule E-12).
        NotFound: an end is missing; of two missing ones the source is named (rule B-04).
        PreconditionFailed: the exchange's type does not take such a binding (rule B-03).
        ResourceLocked: another connection's queue (rule B-05).

    """
    _check_binding_rights(vhost, actor, request)
    check_name("routing key", request.routing_key)
    source = exchange_named(vhost, request.source)
    destination = _destination_of(vhost, request)
    if destination is None:
        kind = "queue" if request.is_queue else "exchange"
        raise NotFound(f"no {resource_text(kind, request.destination, vhost.name)}")

    source.validate_binding(request.routing_key, request.arguments)
    source.validate_destination(destination)
    if isinstance(destination, Queue):
        actor.check_unlocked(destination)

    limit = vhost.bindings_per_exchange_max
    if len(source.bindings) >= limit and not source.find_binding(
        destination, request.routing_key, request.arguments
    ):
        raise PreconditionFailed(
            f"cannot bind to {resource_text('exchange', source.name, vhost.name)}: binding limit "
            f"of {limit} is reached"
        )

    binding = source.add_binding(destination, request.routing_key, request.arguments)
    if binding is not None:
        vhost.topology_changed()
        if vhost.journal is not None and binding.durable:
            vhost.journal.bound(binding)

        if vhost.events is not None:
            vhost.act_for(actor.user_name)
            vhost.events.binding_created(vhost, binding)
            vhost.act_for("")

        source.bound(binding)


def unbind(vhost: VirtualHost, actor: Actor, request: BindingRequest) -> None:
    """queue.unbind and exchange.unbind; what is not bound is no error (rule B-06).

    Raises:
        AccessRefused: no right (rule B-02), or the default exchange (rule E-12).
        ResourceLocked: the binding of another connection's queue (rule B-05).

    """
    _check_binding_rights(vhost, actor, request)
    source = vhost.exchanges.get(request.source)
    destination = _destination_of(vhost, request)
    if source is None or destination is None:
        return

    binding = source.find_binding(destination, request.routing_key, request.arguments)
    if binding is None:
        return

    if isinstance(destination, Queue):
        actor.check_unlocked(destination)

    source.drop_binding(binding)
    vhost.topology_changed()
    if vhost.journal is not None and binding.durable:
        vhost.journal.unbound(binding)

    vhost.act_for(actor.user_name)
    _tell_deleted(vhost, [binding])
    _remove_exhausted(vhost, [binding])
    vhost.act_for("")


def _destination_of(vhost: VirtualHost, request: BindingRequest) -> Destination | None:
    if request.is_queue:
        return vhost.queues.get(request.destination)

    return vhost.exchanges.get(request.destination)


def _check_binding_rights(vhost: VirtualHost, actor: Actor, request: BindingRequest) -> None:
    """Rules B-02 and E-13, in their order."""
    if request.is_queue and is_reply_name(request.destination):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")

    actor.check("write", "queue" if request.is_queue else "exchange", request.destination)
    _refuse_default(request.source)
    if not request.is_queue:
        _refuse_default(request.destination)

    actor.check("read", "exchange", request.source)
    source = vhost.exchanges.get(request.source)
    if source is not None and source.type == "topic":
        actor.check_topic("read", request.source, request.routing_key)


def _refuse_default(name: str) -> None:
    if name == "":
        raise AccessRefused(DEFAULT_EXCHANGE_TEXT)
