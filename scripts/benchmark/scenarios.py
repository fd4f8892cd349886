"""The list of scenarios and what chooses among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from scripts.benchmark.brokers import Running
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.resources import (
    run_connections,
    run_idle_memory,
    run_million_ready,
    run_queues,
    run_round_trip,
    run_start,
)
from scripts.benchmark.throughput import FLOWS, run_backlog, run_flow

__all__ = ["SCENARIOS", "Scenario", "choose_scenarios"]

_Run: TypeAlias = Callable[[Running, Options], list[Measurement]]


class Scenario(NamedTuple):
    """Something to measure on one broker; it returns one figure or more."""

    name: str
    title: str
    run: _Run
    by_default: bool = True


SCENARIOS: Final = (
    *(Scenario(flow.name, flow.title, partial(run_flow, flow)) for flow in FLOWS),
    Scenario("backlog", "publish 300 thousand with no consumer, then drain them", run_backlog),
    Scenario("round-trip", "p50 and p99 with one message in flight", run_round_trip),
    Scenario("start", "exec to the first accepted connection (Leveret)", run_start),
    Scenario("idle-memory", "resident memory, idle", run_idle_memory),
    Scenario("ready", "memory with --messages ready", run_million_ready, by_default=False),
    Scenario("connections", "memory of --connections idle ones", run_connections, by_default=False),
    Scenario("queues", "memory of --queues empty ones", run_queues, by_default=False),
)
_ALIASES: Final = {"fill": "backlog", "drain": "backlog"}


def choose_scenarios(only: Sequence[str]) -> list[Scenario]:
    """Find scenarios by name; all that run by default when no name is given."""
    if not only:
        return [scenario for scenario in SCENARIOS if scenario.by_default]

    wanted = {_ALIASES.get(name, name) for name in only}
    unknown = wanted - {scenario.name for scenario in SCENARIOS} - {"all"}
    if unknown:
        names = ", ".join(scenario.name for scenario in SCENARIOS)
        raise ValueError(f"no scenario {', '.join(sorted(unknown))}; there are {names} and all")

    return [scenario for scenario in SCENARIOS if scenario.name in wanted or "all" in wanted]
