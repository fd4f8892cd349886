"""The scenarios. Importing this package fills the catalogue."""

from interop.compare.scenarios import (
    bindings,
    channels,
    confirms,
    connections,
    consuming,
    dead_letters,
    exchanges,
    frames,
    headers_exchange,
    more_dead_letters,
    prefetch,
    publishing,
    queue_arguments,
    queues,
    reply_to,
    settling,
)

__all__ = [
    "bindings",
    "channels",
    "confirms",
    "connections",
    "consuming",
    "dead_letters",
    "exchanges",
    "frames",
    "headers_exchange",
    "more_dead_letters",
    "prefetch",
    "publishing",
    "queue_arguments",
    "queues",
    "reply_to",
    "settling",
]
