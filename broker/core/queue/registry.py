"""Core: queue types by name. A new type is a module beside this one, a line here, and its name in
``argument_rules.SUPPORTED_QUEUE_TYPES``.

A type is a subclass of :class:`Queue`. What differs between types is asked through its methods
``check_get``, ``check_purge``, ``check_delete`` and ``check_consume`` before a command is obeyed,
and done by overriding ``enqueue``, ``pump``, ``take``, ``settled``, ``rejected`` and ``requeue``;
a type whose consumers have more to them makes them in ``new_consumer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.argument_rules import CLASSIC, QUORUM, STREAM
from broker.core.queue.queue import Queue, QueueDefinition
from broker.core.queue.quorum import QuorumQueue
from broker.core.queue.stream import StreamQueue

if TYPE_CHECKING:
    from broker.core.queue.arguments import QueueSettings
    from broker.core.vhost import VirtualHost

__all__ = ["QUEUE_TYPES", "create_queue"]

QUEUE_TYPES: Final[dict[str, type[Queue]]] = {
    CLASSIC: Queue,
    QUORUM: QuorumQueue,
    STREAM: StreamQueue,
}


def create_queue(
    queue_type: str,
    vhost: VirtualHost,
    name: str,
    definition: QueueDefinition,
    *,
    settings: QueueSettings,
) -> Queue:
    """Make a queue of a type that the validation of arguments let pass; nobody knows it yet."""
    return QUEUE_TYPES[queue_type](vhost, name, definition, settings)
