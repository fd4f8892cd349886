"""What definitions say of virtual hosts, a row for each thing (management layer; DE-01..DE-08).

Without messages, exclusive queues, and what every virtual host is born with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.auth.passwords import ARGON2ID, HASHING_ALGORITHM_DEFAULT, OWN_HASH
from broker.core.limit_commands import limits_of_vhost
from broker.management.bindings import bindings_of
from broker.management.parameters import parameters_in
from broker.management.policies import policies_of, policy_row
from broker.management.users import user_row
from broker.management.vhosts import metadata_row
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.auth.users import User
    from broker.core.node import Node
    from broker.core.vhost import VirtualHost
    from broker.management.json_text import JSON

__all__ = [
    "bindings_in",
    "exchanges_in",
    "parameter_rows_in",
    "policies_in",
    "queues_in",
    "sections_of",
    "user_in",
    "vhosts_in",
    "without_vhost",
]

VHOST: Final = "vhost"


def user_in(user: User) -> JSON:
    """A user. To RabbitMQ, one whose hash it would refuse is one without a password."""
    row = user_row(user)
    known = user.password_hash
    if known is None or known.algorithm != ARGON2ID:
        return row

    return {
        **row,
        "password_hash": "",
        "hashing_algorithm": HASHING_ALGORITHM_DEFAULT,
        OWN_HASH: known.to_text(),
    }


def queues_in(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The queues that are nobody's own."""
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            if queue.exclusive_owner is None:
                yield {
                    "name": queue.name,
                    VHOST: vhost.name,
                    "type": queue.type,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": table_to_plain(queue.arguments),
                }


def exchanges_in(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The exchanges that somebody has declared.

    Internal ones are among them. RabbitMQ 4.3 leaves these out, but not their bindings.
    """
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            if exchange.name and not exchange.name.startswith("amq."):
                yield {
                    "name": exchange.name,
                    VHOST: vhost.name,
                    "type": exchange.type,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": table_to_plain(exchange.arguments),
                }


def bindings_in(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The bindings of both."""
    for vhost in vhosts:
        for binding in bindings_of(vhost):
            destination = binding.destination
            queue = vhost.queues.get(destination.name) if destination.is_queue else None
            if queue is not None and queue.exclusive_owner is not None:
                continue

            yield {
                "source": binding.source.name,
                VHOST: vhost.name,
                "destination": destination.name,
                "destination_type": "queue" if destination.is_queue else "exchange",
                "routing_key": binding.routing_key,
                "arguments": table_to_plain(binding.arguments),
            }


def policies_in(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The policies; operator policies are not among them."""
    for vhost in vhosts:
        for policy in policies_of(vhost, is_operator=False):
            yield policy_row(vhost, policy)


def parameter_rows_in(node: Node, vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The parameters that programs keep there."""
    for vhost in vhosts:
        for one in parameters_in(node, vhost):
            yield {
                "component": one.component,
                "name": one.name,
                "value": one.value,
                VHOST: vhost.name,
            }


def vhosts_in(vhosts: list[VirtualHost]) -> Iterator[JSON]:
    """The virtual hosts themselves."""
    for vhost in vhosts:
        yield {
            "name": vhost.name,
            "limits": limits_of_vhost(vhost),
            "metadata": metadata_row(vhost),
        }


def sections_of(node: Node, vhost: VirtualHost) -> dict[str, Iterator[JSON]]:
    """The sections of a document about one virtual host, which is not named in them."""
    return {
        "parameters": without_vhost(parameter_rows_in(node, [vhost])),
        "policies": without_vhost(policies_in([vhost])),
        "queues": without_vhost(queues_in([vhost])),
        "exchanges": without_vhost(exchanges_in([vhost])),
        "bindings": without_vhost(bindings_in([vhost])),
    }


def without_vhost(rows: Iterator[JSON]) -> Iterator[JSON]:
    """The same rows, for a document about one virtual host."""
    for row in rows:
        del row[VHOST]
        yield row
