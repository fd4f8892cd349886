"""Does a message cost more when millions are ready before it?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from scripts.benchmark.flat.curve import (
    PROBE_MESSAGES_MIN,
    REPEATS,
    TAKE_LEFT,
    point,
    probe_count,
    sizes_of,
    take_messages,
)
from scripts.benchmark.traffic import PREFIX, fill_queue, scratch_queues

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running
    from scripts.benchmark.measurement import Measurement, Options

__all__ = ["run_ready"]

TRANSIENT_SIZES: Final = (100_000, 300_000, 1_000_000)
PERSISTENT_SIZES: Final = (1_000_000, 3_000_000, 10_000_000)
PROBE_PART: Final = 4
"""Of the usual probe, so that the depth of the queue stays about what it is said to be."""


def run_ready(running: Running, options: Options, *, is_persistent: bool) -> list[Measurement]:
    """Fill a queue step by step; at each step publish some more, and take as many from its head."""
    kind = "persistent" if is_persistent else "transient"
    queue = f"{PREFIX}-flat-{kind}"
    count = max(PROBE_MESSAGES_MIN, probe_count(options) // PROBE_PART)
    sizes = sizes_of(options, *(PERSISTENT_SIZES if is_persistent else TRANSIENT_SIZES))
    found: list[Measurement] = []
    held = 0
    with scratch_queues(running, [queue], durable=is_persistent, may_be_left=True) as client:
        fill = partial(fill_queue, running, client, queue, is_persistent=is_persistent)
        for size in sorted({max(size, TAKE_LEFT) for size in sizes}):
            fill(size - held)
            published, taken = [], []
            # One after the other, so that the depth stays what it is; the first warms up.
            for _ in range(REPEATS + 1):
                published.append(fill(count))
                taken.append(take_messages(running, client, queue, count))

            found.append(point(f"ready-{kind}-publish", size, published[1:]))
            found.append(point(f"ready-{kind}-take", size, taken[1:]))
            held, _ = client.declare_queue(queue, passive=True)

        client.purge_queue(queue)

    return found
