"""What the broker calls itself where tools ask (management layer)."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.core.settings import COMPATIBLE_VERSION

if TYPE_CHECKING:
    from broker.core.node import Node
    from broker.management.json_text import JSON

__all__ = ["CLUSTER_NAME", "cluster_name_of", "exchange_types", "product_of", "versions"]

CLUSTER_NAME: Final = "cluster_name"
"""The global parameter that renames a cluster, here as in RabbitMQ."""

DESCRIPTIONS: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent hashing exchange",
    "x-delayed-message": "Delayed message exchange",
    "x-local-random": "Picks one of the bound queues at random",
    "x-modulus-hash": "Modulus hashing exchange",
    "x-random": "Picks one of the bindings at random",
    "x-recent-history": "Recent history exchange",
}


def product_of(node: Node) -> str:
    """The product's name, as connection.start has it."""
    return node.settings.product


def versions(node: Node) -> JSON:
    """Versions by the names that RabbitMQ has for them."""
    python = platform.python_version()
    return {
        "management_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": product_of(node),
        "product_version": __version__,
        "erlang_version": python,
        "erlang_full_version": f"{platform.python_implementation()} {python}",
        "crypto_lib_version": "",
    }


def cluster_name_of(node: Node) -> str:
    """The name of the cluster, which is this node."""
    name = node.global_parameters.get(CLUSTER_NAME)
    return name if isinstance(name, str) else node.settings.node_name


def exchange_types() -> list[JSON]:
    """The types that exchanges may have."""
    return [
        {"name": name, "description": text, "enabled": True} for name, text in DESCRIPTIONS.items()
    ]
