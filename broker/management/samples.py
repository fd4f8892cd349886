"""Histories of counters, for charts (management layer).

They are asked for by ``lengths_age`` and ``lengths_incr``, ``msg_rates_age`` and so on, in seconds.
RabbitMQ tells four kinds of counters apart, of which each needs its own pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.management.errors import BadRequest
from broker.management.node_counts import MACHINE_KEYS
from broker.management.numbers import whole_number
from broker.metrics.totals import CHURN_KEYS, CONNECTION_KEYS, DEPTH_KEYS

if TYPE_CHECKING:
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.metrics.history import Sample
    from broker.metrics.sampler import Sampler

__all__ = ["Ranges", "add_samples", "ranges_of"]

KINDS: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
NODE_KEYS: Final = frozenset((*MACHINE_KEYS, *CHURN_KEYS))
SAMPLES_MAX: Final = 500
_DETAILS: Final = "_details"


class Range(NamedTuple):
    """How far back, and in which steps."""

    age_ms: int
    every_ms: int


Ranges = dict[str, Range]


def _number(call: Call, name: str) -> int | None:
    return whole_number(call.query.get(name, ""))


def ranges_of(call: Call) -> Ranges:
    """The ranges that are asked for, by kind; most requests ask for none.

    Raises:
        BadRequest: it would be none, or too many samples.

    """
    found: Ranges = {}
    for kind in KINDS:
        age_s = _number(call, f"{kind}_age")
        every_s = _number(call, f"{kind}_incr")
        if age_s is None or every_s is None:
            continue

        if min(age_s, every_s) <= 0 or age_s // every_s > SAMPLES_MAX:
            raise BadRequest(f"Invalid range parameters: age {age_s}, incr {every_s}")

        found[kind] = Range(age_s * 1000, every_s * 1000)

    return found


def add_samples(
    ranges: Ranges, sampler: Sampler, subject: object, facts: JSON, *, depths: str = "lengths"
) -> None:
    """Complete the details of counters with their histories, if any are asked for.

    Args:
        ranges: what is asked for.
        sampler: has the histories.
        subject: whose; None is the node.
        facts: a row, with details in it and in the objects in it.
        depths: the kind that the depths of queues are of. RabbitMQ: not the same everywhere.

    """
    if not ranges:
        return

    keys = sampler.keys_of(subject)
    histories: dict[str, list[Sample] | None] = {}
    for kind, (age_ms, every_ms) in ranges.items():
        is_late = kind == "lengths"
        histories[kind] = sampler.samples(subject, age_ms, every_ms, is_late=is_late)

    def kind_of(key: str) -> str:
        if key in DEPTH_KEYS:
            return depths

        if key in CONNECTION_KEYS:
            return "data_rates"

        return "node_stats" if key in NODE_KEYS else "msg_rates"

    for stats in (facts, *(one for one in facts.values() if isinstance(one, dict))):
        for place, key in enumerate(keys):
            details = stats.get(f"{key}{_DETAILS}")
            samples = histories.get(kind_of(key))
            if isinstance(details, dict) and samples is not None:
                stats[f"{key}{_DETAILS}"] = {**details, **_history(samples, place)}


def _history(samples: list[Sample], place: int) -> JSON:
    shown: JSON = {
        "samples": [{"sample": one.totals[place], "timestamp": one.at_ms} for one in samples]
    }
    if len(samples) > 1:
        newest, oldest = samples[0], samples[-1]
        shown["avg"] = sum(one.totals[place] for one in samples) / len(samples)
        moved = newest.totals[place] - oldest.totals[place]
        shown["avg_rate"] = moved * 1000 / (newest.at_ms - oldest.at_ms)

    return shown
