"""Routing through bindings between exchanges and through alternates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.exchange.default import DefaultExchange
from broker.core.routing import route
from tests.helpers.topology import filter_of, make_exchange, make_queue, names_of

if TYPE_CHECKING:
    from broker.core.binding import Destination
    from broker.core.exchange.base import Exchange
    from broker.wire.tables import Arguments


class Topology:
    """A handful of exchanges and queues, made as they are named.

    Exchanges are named by a letter for their type: ``d1`` direct, ``f1`` fanout, ``h1`` headers,
    ``t1`` topic. Every other name is a queue's.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Destination] = {}
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(self.queues, lambda name: None)}

    def find(self, name: str) -> Destination:
        types = {"d": "direct", "f": "fanout", "h": "headers", "t": "topic"}
        if name[0] in types:
            return self.exchange(name, types[name[0]])

        return self.queues.setdefault(name, make_queue(name))

    def exchange(self, name: str, exchange_type: str = "") -> Exchange:
        if name not in self.exchanges:
            self.exchanges[name] = make_exchange(exchange_type, name)

        return self.exchanges[name]

    def bind(
        self, source: str, destination: str, key: str = "", arguments: Arguments | None = None
    ) -> None:
        self.find(source)
        self.exchange(source).add_binding(self.find(destination), key, arguments or {})

    def alternate(self, name: str, alternate: str) -> None:
        self.find(name)
        self.exchange(name).alternate_exchange = alternate

    def route(self, start: str, *keys: str, headers: Arguments | None = None) -> list[str]:
        return names_of(route(self.exchanges, self.exchange(start), list(keys), headers).queues)


def test_bindings_between_exchanges_are_followed_with_the_same_key() -> None:
    """Rules E-71, E-100."""
    topology = Topology()
    topology.bind("f1", "d1")
    topology.bind("d1", "q1", "a")
    topology.bind("d1", "t1", "a")
    topology.bind("t1", "q2", "#")
    topology.bind("t1", "q3", "b.#")
    assert topology.route("f1", "a") == ["q1", "q2"]
    assert topology.route("f1", "b") == []
    assert topology.route("f1", "b", "a") == ["q1", "q2", "q3"]


def test_a_queue_reached_by_several_ways_is_found_once() -> None:
    """Rule E-71."""
    topology = Topology()
    for middle in ("f2", "f3", "q1"):
        topology.bind("f1", middle)

    topology.bind("f2", "q1")
    topology.bind("f3", "q1")
    topology.bind("f3", "q1", "other")
    assert topology.route("f1", "") == ["q1"]


def test_circles_end() -> None:
    """Rules E-71, E-102."""
    topology = Topology()
    topology.bind("f1", "f2")
    topology.bind("f2", "f3")
    topology.bind("f3", "f1")
    topology.bind("f1", "f1")
    topology.bind("f3", "q1")
    for start in ("f1", "f2", "f3"):
        assert topology.route(start, "k") == ["q1"]


def test_an_alternate_takes_what_its_exchange_routes_nowhere() -> None:
    """Rules E-72, E-74."""
    topology = Topology()
    topology.bind("d1", "q1", "a")
    topology.bind("f1", "q2")
    topology.alternate("d1", "f1")
    assert topology.route("d1", "a") == ["q1"]
    assert topology.route("d1", "b") == ["q2"]
    assert topology.route("d1", "b", "a") == ["q1"]


@pytest.mark.parametrize(
    ("key", "expected"), [("x", ["qx"]), ("u", ["qu"]), ("v", ["qv"]), ("z", [])]
)
def test_a_circle_of_alternates_ends(key: str, expected: list[str]) -> None:
    """Rule E-72, scenario S-038."""
    topology = Topology()
    ring = {"dx": "du", "du": "dv", "dv": "dx"}
    for name, alternate in ring.items():
        topology.bind(name, f"q{name[1]}", name[1])
        topology.alternate(name, alternate)

    assert topology.route("dx", key) == expected


def test_every_visited_exchange_has_its_own_alternate() -> None:
    """Rule E-72."""
    topology = Topology()
    topology.bind("f1", "d1")
    topology.bind("f1", "q1")
    topology.bind("f2", "q2")
    topology.alternate("d1", "f2")
    assert topology.route("f1", "k") == ["q1", "q2"]


def test_an_exchange_that_leads_to_another_has_routed() -> None:
    """Rule E-72: its own result is not empty, even if the other goes nowhere."""
    topology = Topology()
    topology.bind("f1", "d1")
    topology.bind("f2", "q2")
    topology.alternate("f1", "f2")
    assert topology.route("f1", "k") == []


@pytest.mark.parametrize("alternate", ["missing", ""])
def test_an_alternate_that_is_not_there_takes_nothing(alternate: str) -> None:
    """Rules E-72, E-25: an empty name is not the default exchange."""
    topology = Topology()
    topology.find("k")
    topology.alternate("d1", alternate)
    assert topology.route("d1", "k") == []
    assert topology.route("", "k") == ["k"]


def test_headers_are_handed_on_and_reported() -> None:
    topology = Topology()
    topology.bind("f1", "h1")
    topology.bind("f1", "q1")
    topology.bind("h1", "q2", arguments=filter_of("all", a=1))
    headers = filter_of(None, a=1)
    assert topology.route("f1", "k", headers=headers) == ["q1", "q2"]
    assert topology.route("f1", "k") == ["q1"]
    assert route(topology.exchanges, topology.exchange("f1"), ["k"], headers).depends_on_headers


@pytest.mark.parametrize("way", ["start", "binding", "alternate", "then-another", "none"])
def test_any_visited_headers_exchange_makes_the_result_depend_on_headers(way: str) -> None:
    topology = Topology()
    topology.find("f1")
    topology.find("h1")
    if way == "binding":
        topology.bind("f1", "h1")
    elif way == "alternate":
        topology.alternate("f1", "h1")
    elif way == "then-another":
        topology.alternate("h1", "f1")

    start = topology.exchange("h1" if way in ("start", "then-another") else "f1")
    result = route(topology.exchanges, start, ["k"], None)
    assert result.depends_on_headers is (way != "none")
    assert result.queues == ()


def test_queues_come_in_a_stable_order() -> None:
    topology = Topology()
    expected = [f"q{number}" for number in range(30)]
    for name in expected:
        topology.bind("f1", name)

    found = route(topology.exchanges, topology.exchange("f1"), ["k"], None).queues
    assert [queue.name for queue in found] == expected
