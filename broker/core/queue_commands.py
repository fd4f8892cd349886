"""Declaring, deleting and purging: the commands about queues (sections Q.1 to Q.6).

As with exchanges: all checks first, in the order that decides which error is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.equivalence import QueueTraits, check_queue_equivalence
from broker.core.erlterm import resource_text
from broker.core.names import check_name
from broker.core.queue.arguments import (
    CLASSIC,
    check_for_release,
    check_queue_properties,
    check_server_named,
    dead_letter_exchange_of,
    requested_queue_type,
    validate_arguments,
)
from broker.core.queue.queue import QueueDefinition
from broker.core.queue.registry import create_queue
from broker.errors import AccessRefused, NotFound, PreconditionFailed
from broker.wire.tables import Field

if TYPE_CHECKING:
    from broker.core.actor import Actor
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = [
    "QueueRequest",
    "check_queue",
    "declare_queue",
    "delete_queue",
    "purge_queue",
    "queue_named",
]


TYPE_ARGUMENT: Final = "x-queue-type"


class QueueRequest(NamedTuple):
    """What queue.declare asks for; an empty name lets the broker choose one (rule Q-01)."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Arguments


def queue_named(vhost: VirtualHost, name: str) -> Queue:
    """Find a queue.

    Raises:
        NotFound: rule Q-40.

    """
    queue = vhost.queues.get(name)
    if queue is None:
        raise NotFound(f"no {resource_text('queue', name, vhost.name)}")

    return queue


def check_queue(vhost: VirtualHost, actor: Actor, name: str) -> Queue:
    """queue.declare(passive): the queue is there, and not locked (rules Q-34, Q-40, Q-41).

    Raises:
        AccessRefused: no right to it.
        NotFound: it is not there.
        ResourceLocked: it is another connection's own.

    """
    actor.check_any("queue", name)
    queue = queue_named(vhost, name)
    actor.check_unlocked(queue)
    queue.redeclared()
    return queue


def declare_queue(vhost: VirtualHost, actor: Actor, request: QueueRequest) -> Queue:
    """queue.declare: make a queue, or find the equal one that is there (section Q.1).

    Raises:
        AccessRefused: reserved name, or no right.
        ResourceLocked: another connection's queue, or exclusive where it was not (rule Q-31).
        PreconditionFailed: bad arguments, an unequal queue of that name, or a limit.

    """
    request = _with_default_type(vhost, request)
    queue_type = requested_queue_type(request.arguments)
    name = request.name
    if name == "":
        check_server_named(queue_type)
        name = vhost.generate_queue_name()
    elif name.startswith("amq."):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")

    actor.check("configure", "queue", name)
    check_name("queue name", name)
    vhost.tally.queues_declared += 1
    existing = vhost.queues.get(name)
    if existing is not None:
        _check_same(vhost, actor, existing, request)
        existing.redeclared()
        return existing

    return _create(vhost, actor, name, request)


def _with_default_type(vhost: VirtualHost, request: QueueRequest) -> QueueRequest:
    """Name the virtual host's type for queues, where none is named and the queue can be of it."""
    queue_type = vhost.metadata.default_queue_type
    if (
        not queue_type
        or queue_type == CLASSIC
        or TYPE_ARGUMENT in request.arguments
        or not request.durable
        or request.exclusive
        or request.auto_delete
        or not request.name
    ):
        return request

    arguments = {**request.arguments, TYPE_ARGUMENT: Field("S", queue_type)}
    return request._replace(arguments=arguments)


def _check_same(vhost: VirtualHost, actor: Actor, queue: Queue, request: QueueRequest) -> None:
    """Rules Q-10 and Q-31: ownership strictly, then flags, then arguments."""
    owner = queue.exclusive_owner
    if (owner is not None) != request.exclusive or (
        owner is not None and owner is not actor.connection
    ):
        raise actor.locked(queue.name)

    durable = request.durable and not request.exclusive
    current = QueueTraits(queue.durable, queue.auto_delete, queue.arguments, queue.type)
    received = QueueTraits(durable, request.auto_delete, request.arguments, queue.type)
    check_queue_equivalence(queue.name, vhost.name, current, received)


def _create(vhost: VirtualHost, actor: Actor, name: str, request: QueueRequest) -> Queue:
    arguments = request.arguments
    dead_letter_exchange = dead_letter_exchange_of(name, vhost.name, arguments)
    if dead_letter_exchange is not None:
        # Rule Q-29c: dead letters leave this queue and enter that exchange.
        actor.check("read", "queue", name)
        actor.check("write", "exchange", dead_letter_exchange)

    queue_type = requested_queue_type(arguments)
    settings = validate_arguments(queue_type, name, vhost.name, arguments)
    check_for_release(vhost.release, queue_type, name, vhost.name, arguments)
    limit = vhost.queues_bound if vhost.queues_max is None else vhost.queues_max
    if len(vhost.queues) >= limit:
        raise PreconditionFailed(
            f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' ({limit}) "
            "is reached"
        )

    durable = request.durable and not request.exclusive
    check_queue_properties(
        queue_type,
        name,
        vhost.name,
        auto_delete=request.auto_delete,
        exclusive=request.exclusive,
        durable=durable,
    )
    owner = actor.connection if request.exclusive else None
    definition = QueueDefinition(durable, request.auto_delete, owner, arguments)
    queue = create_queue(queue_type, vhost, name, definition, settings=settings)
    vhost.act_for(actor.user_name)
    vhost.add_queue(queue)
    vhost.act_for("")
    return queue


def delete_queue(
    vhost: VirtualHost, actor: Actor, name: str, *, if_unused: bool, if_empty: bool
) -> int:
    """queue.delete; returns the number of ready messages that went with it (rules Q-50, Q-51).

    Raises:
        AccessRefused: no right to it.
        ResourceLocked: it is another connection's own.
        PreconditionFailed: it is in use or not empty, and that was to be respected.
        NotImplementedByBroker: queues of its type cannot tell (rule Q-52).

    """
    actor.check("configure", "queue", name)
    queue = vhost.queues.get(name)
    if queue is None:
        return 0

    actor.check_unlocked(queue)
    queue.check_delete(if_unused=if_unused, if_empty=if_empty)
    count = queue.deleted_message_count
    vhost.act_for(actor.user_name)
    vhost.remove_queue(queue)
    vhost.act_for("")
    return count


def purge_queue(vhost: VirtualHost, actor: Actor, name: str) -> int:
    """queue.purge; returns how many ready messages were dropped (rule Q-55).

    Raises:
        AccessRefused: no right to it.
        NotFound: it is not there.
        ResourceLocked: it is another connection's own.
        NotImplementedByBroker: queues of its type are not purged (rule Q-55).

    """
    actor.check("read", "queue", name)
    queue = queue_named(vhost, name)
    actor.check_unlocked(queue)
    queue.check_purge()
    if vhost.witness is not None:
        vhost.witness.dropped(queue, int(queue.ready_count), "purged")

    return queue.purge()
