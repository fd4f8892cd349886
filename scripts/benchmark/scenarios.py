"""The list of scenarios, in groups, and what chooses among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from scripts.benchmark.api_load import run_api_load
from scripts.benchmark.brokers import Running
from scripts.benchmark.durable import DURABLE_FLOWS, QUEUE_TYPES, run_durable
from scripts.benchmark.flat import ready, spread, topology, unacked
from scripts.benchmark.floor import run_floor
from scripts.benchmark.latency import run_fair, run_round_trip
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.memory import (
    run_connections,
    run_idle_memory,
    run_many_queues,
    run_persistent_ready,
    run_transient_ready,
)
from scripts.benchmark.micro_scenario import run_instructions, run_micro
from scripts.benchmark.starting import run_embedded_start, run_import, run_start
from scripts.benchmark.throughput import FLOWS, run_backlog, run_flow

__all__ = ["GROUPS", "SCENARIOS", "Scenario", "choose_scenarios"]

_Run: TypeAlias = Callable[[Running, Options], list[Measurement]]

GROUPS: Final = {
    "throughput": "transient messages a second",
    "durable": "persistent ones, on classic and on quorum queues, and how late confirms are",
    "latency": "round trips, alone and beside a loud publisher",
    "start": "exec to accepting, import, embedded start (Leveret)",
    "memory": "what messages, connections and queues take (Leveret, once)",
    "api": "what 50 HTTP requests a second cost beside 10,000 queues (Leveret, once)",
    "flat": "cost against the number of things (Leveret, once)",
    "micro": "single operations of the core, one knob each (Leveret, once)",
}
STANDARD: Final = ("throughput", "durable", "latency", "start", "memory")
"""What runs when nothing is named."""


class Scenario(NamedTuple):
    """Something to measure on one broker; it returns one figure or more."""

    name: str
    title: str
    run: _Run
    group: str
    variant: str = ""
    """Added to the broker's name, where one broker does the same in several ways."""
    ours_only: bool = False
    """It needs a broker that was started for it."""
    once: bool = False
    """It takes long and hardly varies: one round, and of several builds the first."""
    needs_pids: bool = False
    """It needs a broker whose processes can be seen."""


def _ours(name: str, title: str, run: _Run, group: str) -> Scenario:
    return Scenario(name, title, run, group, ours_only=True, once=group != "start")


SCENARIOS: Final = (
    *(Scenario(flow.name, flow.title, partial(run_flow, flow), "throughput") for flow in FLOWS),
    Scenario(
        "backlog",
        "publish 300 thousand with no consumer, then drain them",
        run_backlog,
        "throughput",
    ),
    *(
        Scenario(
            flow.name,
            flow.title,
            partial(run_durable, flow, queue_type),
            "durable",
            "" if queue_type == QUEUE_TYPES[0] else queue_type,
        )
        for flow in DURABLE_FLOWS
        for queue_type in QUEUE_TYPES
    ),
    Scenario("round-trip", "p50 and p99 with one message in flight", run_round_trip, "latency"),
    Scenario("fair", "p50 and p99 beside a publisher at full blast", run_fair, "latency"),
    Scenario("relay", "a relay without a broker: the floor", run_floor, "latency", ours_only=True),
    _ours("start", "exec to the first accepted connection", run_start, "start"),
    _ours("import", "import broker", run_import, "start"),
    _ours("embedded", "async with Broker()", run_embedded_start, "start"),
    Scenario("idle-memory", "resident, idle", run_idle_memory, "memory", needs_pids=True),
    _ours("ready", "--messages transient ones ready", run_transient_ready, "memory"),
    _ours("persistent", "--persistent-messages ready", run_persistent_ready, "memory"),
    _ours("connections", "--connections idle ones", run_connections, "memory"),
    _ours("queues", "--queues empty ones", run_many_queues, "memory"),
    _ours("api", "traffic without and with requests; lists of all queues", run_api_load, "api"),
    _ours(
        "flat-transient",
        "10,000 to 1,000,000 ready",
        partial(ready.run_ready, is_persistent=False),
        "flat",
    ),
    _ours("flat-queues", "1 to 10,000 queues", spread.run_queues, "flat"),
    _ours("flat-connections", "1 to 5,000 connections", spread.run_connections, "flat"),
    _ours("flat-consumers", "1 to 1,000 consumers on a queue", spread.run_consumers, "flat"),
    _ours("flat-unacked", "1 to 100,000 unacked on a channel", unacked.run_unacked, "flat"),
    _ours("flat-bindings", "10 to 100,000 topic bindings", topology.run_bindings, "flat"),
    _ours("flat-objects", "100,000 declared, bound, deleted", topology.run_objects, "flat"),
    _ours(
        "flat-persistent",
        "1 to 10 million persistent ones ready",
        partial(ready.run_ready, is_persistent=True),
        "flat",
    ),
    _ours("micro", "nanoseconds of single operations", run_micro, "micro"),
    _ours("instructions", "the same, counted", run_instructions, "micro"),
)
_ALIASES: Final = {"fill": "backlog", "drain": "backlog"}


def choose_scenarios(only: Sequence[str]) -> list[Scenario]:
    """Find scenarios by name or group; the standard ones when none is given."""
    wanted = {_ALIASES.get(name, name) for name in only} or set(STANDARD)
    if "standard" in wanted:
        wanted = (wanted - {"standard"}) | set(STANDARD)

    known = {scenario.name for scenario in SCENARIOS} | set(GROUPS) | {"all"}
    if unknown := wanted - known:
        names = ", ".join(dict.fromkeys(scenario.name for scenario in SCENARIOS))
        raise ValueError(
            f"no scenario {', '.join(sorted(unknown))}; there are {names}, "
            f"the groups {', '.join(GROUPS)}, and all"
        )

    return [
        scenario
        for scenario in SCENARIOS
        if scenario.name in wanted or scenario.group in wanted or "all" in wanted
    ]
