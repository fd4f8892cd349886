"""What Leveret is to reach: as a multiple of RabbitMQ 3.10 in the same run, or outright."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GROWTH_MAX", "LIMITS", "RATIOS", "growth_of", "verdict_of"]

RIVAL: Final = "RabbitMQ 3.10"
GROWTH_MAX: Final = 0.2
"""A curve is flat when no point costs more than this beyond the cheapest one before it."""


class Ratio(NamedTuple):
    """Bounds of a ratio; of rates it is to be at least so much, of times at most."""

    plain: float
    compiled: float
    is_least: bool = True


_DURABLE_1000: Final = Ratio(3, 8)
_DURABLE_100: Final = Ratio(2, 3.5)

RATIOS: Final = {
    "auto-ack": Ratio(2.5, 12),
    "auto-ack cpu": Ratio(0.25, 0.06, is_least=False),
    "manual-ack": Ratio(2.5, 9),
    "confirms": Ratio(2.5, 9),
    "durable-1000": _DURABLE_1000,
    "durable-1000-consumed": _DURABLE_1000,
    "durable-100": _DURABLE_100,
    "durable-100-consumed": _DURABLE_100,
    "fill": Ratio(4, 14),
    "drain": Ratio(6, 20),
    "four-queues": Ratio(3, 10),
    "fanout": Ratio(3, 12),
    "topic": Ratio(3, 10),
    "large-bodies": Ratio(1, 2),
    "round-trip-p50": Ratio(1, 0.5, is_least=False),
    "round-trip-p99": Ratio(1, 0.5, is_least=False),
}
LIMITS: Final = {
    "idle-memory": 45.0,
    "ready-memory": 350.0,
    "persistent-memory": 300.0,
    "connection-memory": 20.0,
    "queue-memory": 3.0,
    "fair-p99": 20.0,
    "start": 300.0,
    "import": 120.0,
    "embedded": 50.0,
}
"""In the unit of the figure; less is better."""


def verdict_of(name: str, medians: Mapping[str, float]) -> str:
    """Say which targets of a figure are met; empty where there are none, or nothing to compare.

    A durable figure of any queue type is compared with the rival's classic queues.
    """
    found = []
    for broker, value in medians.items():
        kind = broker.removeprefix("Leveret ")
        if kind == broker:
            continue

        limit = LIMITS.get(name)
        if limit is not None:
            found.append(f"{kind} ≤ {limit:g} {_mark(value <= limit)}")
            continue

        ratio = RATIOS.get(name)
        rival = next((medians[other] for other in medians if other.startswith(RIVAL)), 0.0)
        if ratio is None or not rival or kind not in {"plain", "compiled"}:
            continue

        bound = ratio.compiled if kind == "compiled" else ratio.plain
        is_met = value / rival >= bound if ratio.is_least else value / rival <= bound
        found.append(f"{kind} {'≥' if ratio.is_least else '≤'} {bound:g} {_mark(is_met)}")

    return ", ".join(found)


def _mark(is_met: bool) -> str:
    return "yes" if is_met else "NO"


def growth_of(costs: list[float]) -> float:
    """How much more the dearest point costs than the cheapest one of a smaller size."""
    growth = 0.0
    cheapest = costs[0] if costs else 0.0
    for cost in costs[1:]:
        if cheapest:
            growth = max(growth, cost / cheapest - 1)

        cheapest = min(cheapest, cost)

    return growth
