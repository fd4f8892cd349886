"""Core: exchange types by name. A new type is a module beside this one and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange.consistent_hash import ConsistentHashExchange
from broker.core.exchange.delayed import DELAYED_MESSAGE, DelayedExchange, delayed_type_of
from broker.core.exchange.direct import DirectExchange
from broker.core.exchange.fanout import FanoutExchange
from broker.core.exchange.headers import HeadersExchange
from broker.core.exchange.modulus_hash import ModulusHashExchange
from broker.core.exchange.random_choice import LocalRandomExchange, RandomExchange
from broker.core.exchange.recent_history import RecentHistoryExchange
from broker.core.exchange.topic import TopicExchange
from broker.errors import PreconditionFailed

if TYPE_CHECKING:
    from broker.core.exchange.base import Exchange, ExchangeSettings

__all__ = ["EXCHANGE_TYPES", "create_exchange", "exchange_type_named"]

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
    "x-consistent-hash": ConsistentHashExchange,
    DELAYED_MESSAGE: DelayedExchange,
    "x-local-random": LocalRandomExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-random": RandomExchange,
    "x-recent-history": RecentHistoryExchange,
}


def exchange_type_named(name: str) -> type[Exchange]:
    """Return the class of an exchange type: the first check of a declaration.

    Raises:
        PreconditionFailed: there is no such type (rule E-20).

    """
    found = EXCHANGE_TYPES.get(name)
    if found is None:
        raise PreconditionFailed(f"unknown exchange type '{name}'")

    return found


def create_exchange(settings: ExchangeSettings) -> Exchange:
    """Make an exchange, not yet known to anybody.

    Raises:
        PreconditionFailed: there is no such type, or it cannot do with these arguments.

    """
    exchange_type = exchange_type_named(settings.type)
    if settings.type == DELAYED_MESSAGE:
        inner = create_exchange(settings._replace(type=delayed_type_of(settings.arguments)))
        exchange: Exchange = DelayedExchange(settings, inner)
    else:
        exchange = exchange_type(settings)

    exchange.validate()
    return exchange
