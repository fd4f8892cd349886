"""One figure, and the settings that runs share."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HIGHER_IS_BETTER", "Measurement", "Options"]

HIGHER_IS_BETTER = frozenset({"msg/s", "queues/s", "connections/s"})
"""Units of rates; of every other unit less is better."""


class Options(NamedTuple):
    """What the command line says about how long and how many."""

    seconds: float
    connections: int
    queues: int
    messages: int
    persistent_messages: int = 10_000_000
    scale: float = 1.0
    """Sizes of the flatness scenarios and counts of the micro-benchmarks are multiplied by this."""

    def scaled(self, count: int) -> int:
        """Multiply a count; at least 1."""
        return max(1, round(count * self.scale))


class Measurement(NamedTuple):
    """One figure of one run."""

    name: str
    value: float
    unit: str
    cpu_s_per_million: float | None = None
    """CPU seconds of the broker per million messages (deliveries, where there are any)."""
    client_cpu_share: float | None = None
    """CPU of the load generator per second of the run: near 1 core, it is what was measured."""
    size: int | None = None
    """How many there were of what the figure may depend on: a point of a curve."""
