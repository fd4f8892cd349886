"""What the program of every other language shows, by the names it prints."""

from __future__ import annotations

from typing import Final

__all__ = ["BEHAVIOURS"]

BEHAVIOURS: Final[dict[str, str]] = {
    "confirms": "two hundred publishes are all confirmed, and all are in the queue",
    "returns": "a mandatory message without a queue comes back with 312, before its confirm",
    "prefetch": "no more than the limit is out, and one settlement lets one more through",
    "requeue": "a requeued message comes again and says so, one that is not is gone",
    "dead_letter": "rejected and expired messages arrive with x-death",
    "bindings": "topic, headers and exchange-to-exchange bindings route, and cease to",
    "header_types": "every type of header and property comes back as it went",
    "large_bodies": "bodies of 0 bytes, about a frame's size and 5 MiB arrive whole",
    "transactions": "what is rolled back never was, what is committed is there",
    "heartbeats": "an idle connection with a heartbeat of 1 s lives for 4 s",
    "cancel_notify": "a consumer hears that its queue is gone",
    "exclusive_queue": "405 for another connection, and gone with its own",
    "server_named_queue": "the broker's names begin with amq.gen- and differ",
    "blocked": "a publisher is told that the broker is low on memory",
    "channel_errors": "404 and 406 with their texts close the channel and nothing else",
    "connection_errors": "530 and 403 with their texts close the connection",
}
"""Each as one fact; a program prints `ok NAME`, `skipped NAME: why` or `FAILED NAME: why`."""
