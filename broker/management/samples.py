"""Histories of counters, for charts (management layer).

What is asked for by ``lengths_age`` and ``lengths_incr``, ``msg_rates_age`` and so on, in seconds.
Histories are kept of the node and of virtual hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.management.errors import BadRequest

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost
    from broker.management.call import Call
    from broker.management.json_text import JSON
    from broker.metrics.history import Sample

__all__ = ["add_samples"]

RANGES: Final = ("lengths", "msg_rates", "data_rates")
SAMPLES_MAX: Final = 500
_DETAILS: Final = "_details"


def _number(call: Call, name: str) -> int | None:
    text = call.query.get(name)
    if text is None or not text.isdecimal() or len(text) > 9:
        return None

    return int(text)


def range_of(call: Call) -> tuple[int, int] | None:
    """Age and step of the first range that is asked for; None for no histories.

    Raises:
        BadRequest: it would be too many samples.

    """
    for name in RANGES:
        age_s = _number(call, f"{name}_age")
        every_s = _number(call, f"{name}_incr")
        if age_s is not None and every_s:
            if age_s // every_s > SAMPLES_MAX:
                raise BadRequest("invalid sample range: too many samples")

            return age_s, every_s

    return None


def add_samples(call: Call, facts: JSON, vhost: VirtualHost | None = None) -> None:
    """Complete the details of counters with their history, if one is asked for."""
    wanted = range_of(call)
    if wanted is None:
        return

    sampler = call.site.sampler
    age_s, every_s = wanted
    histories = sampler.samples(vhost, age_s, every_s)
    _complete(facts, histories)
    for inner in list(facts.values()):
        if isinstance(inner, dict):
            _complete(inner, histories)


def _complete(stats: JSON, histories: dict[str, list[Sample]]) -> None:
    for name, details in list(stats.items()):
        samples = histories.get(name.removesuffix(_DETAILS))
        if name.endswith(_DETAILS) and isinstance(details, dict) and samples is not None:
            stats[name] = {**details, **_history(samples)}


def _history(samples: list[Sample]) -> JSON:
    shown: JSON = {
        "samples": [{"sample": one.totals[0], "timestamp": int(one.at_s * 1000)} for one in samples]
    }
    if len(samples) > 1:
        newest = samples[0]
        oldest = samples[-1]
        span_s = newest.at_s - oldest.at_s
        shown["avg"] = sum(one.totals[0] for one in samples) / len(samples)
        if span_s > 0:
            shown["avg_rate"] = (newest.totals[0] - oldest.totals[0]) / span_s

    return shown
