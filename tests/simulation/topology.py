"""The permanent queues and exchanges of a simulation: one of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost

__all__ = ["ADDRESSES", "NOWHERE", "QUEUES", "QueueKind", "declare_topology"]


class QueueKind(NamedTuple):
    """A permanent queue.

    Attributes:
        arguments: as declared.
        is_lossy: whether limits or time take messages out of it.
        may_refuse: whether a publish may not be taken.
        dead_letters_to: the queue that gets its rejected messages.

    """

    arguments: dict[str, object]
    is_lossy: bool = False
    may_refuse: bool = False
    dead_letters_to: str | None = None


TO_GRAVE: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}

QUEUES: Final = {
    "grave": QueueKind({}),
    "plain": QueueKind({}),
    "work": QueueKind({**TO_GRAVE}, dead_letters_to="grave"),
    "ranked": QueueKind({"x-max-priority": 5}),
    "single": QueueKind({"x-single-active-consumer": True}),
    "short": QueueKind({"x-max-length": 6, **TO_GRAVE}, is_lossy=True),
    "narrow": QueueKind({"x-max-length": 5, "x-overflow": "reject-publish"}, may_refuse=True),
    "brief": QueueKind({"x-message-ttl": 40, **TO_GRAVE}, is_lossy=True),
}

NOWHERE: Final = ("", "nowhere")
"""An address that nothing is ever bound to."""

ADDRESSES: Final[dict[tuple[str, str], frozenset[str]]] = {
    NOWHERE: frozenset(),
    **{("", name): frozenset({name}) for name in QUEUES if name != "grave"},
    ("amq.fanout", "any"): frozenset({"plain", "work", "short"}),
    ("amq.topic", "hare.brown"): frozenset({"plain", "ranked"}),
    ("amq.topic", "hare.white"): frozenset({"ranked"}),
    ("chain", "x"): frozenset({"work", "plain", "short", "single"}),
}
"""Exchange and key, and the queues that a message to it reaches."""

BINDINGS: Final = [
    ("amq.fanout", "plain", ""),
    ("amq.fanout", "work", ""),
    ("amq.fanout", "short", ""),
    ("amq.topic", "ranked", "hare.#"),
    ("amq.topic", "plain", "*.brown"),
    ("chain", "single", "x"),
]


def declare_topology(node: Node, vhost: VirtualHost) -> None:
    """Make all of it."""
    actor = node.own_actor(vhost)
    for name, kind in QUEUES.items():
        arguments = table_from_plain(kind.arguments)
        declare_queue(vhost, actor, QueueRequest(name, True, False, False, arguments))

    declare_exchange(vhost, actor, ExchangeSettings("chain", "direct", True, False, False, {}))
    for source, queue, key in BINDINGS:
        bind(vhost, actor, BindingRequest(source, queue, True, key, {}))

    bind(vhost, actor, BindingRequest("chain", "amq.fanout", False, "x", {}))
