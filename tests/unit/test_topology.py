"""From a configuration to what is in a node."""

from __future__ import annotations

import os
from typing import Any

import pytest

from broker.auth.users import UserStore
from broker.config.loader import config_from_dict
from broker.config.problems import ConfigProblems
from broker.core.node import Node
from broker.core.settings import NodeSettings
from broker.topology import apply_topology
from tests.helpers.clock import VirtualClock


def node_of(**vhosts: Any) -> Node:
    """A node with these virtual hosts."""
    config = config_from_dict({"vhosts": vhosts})
    node = Node(
        NodeSettings(),
        VirtualClock(),
        users=UserStore(),
        mechanisms={},
        random_bytes=os.urandom,
        log=lambda _level, _event, _fields: None,
    )
    apply_topology(config, node)
    return node


def problems_of(**vhosts: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigProblems) as caught:
        node_of(**vhosts)

    return [(problem.key, problem.message) for problem in caught.value.problems]


def test_every_virtual_host_is_made_with_its_limits() -> None:
    node = node_of(a={"limits": {"max-connections": 3, "max-queues": 7}}, b={})
    assert list(node.vhosts) == ["a", "b"]
    assert (node.vhosts["a"].connections_max, node.vhosts["a"].queues_max) == (3, 7)
    assert (node.vhosts["b"].connections_max, node.vhosts["b"].queues_max) == (None, None)


def test_exchanges_have_the_traits_that_are_declared() -> None:
    exchanges = (
        node_of(
            v={
                "exchanges": {
                    "plain": {},
                    "all": {
                        "type": "headers",
                        "durable": False,
                        "auto_delete": True,
                        "internal": True,
                        "arguments": {"alternate-exchange": "plain"},
                    },
                }
            }
        )
        .vhosts["v"]
        .exchanges
    )
    plain, full = exchanges["plain"], exchanges["all"]
    assert (plain.type, plain.durable, plain.auto_delete, plain.internal) == (
        "direct",
        True,
        False,
        False,
    )
    assert (full.type, full.durable, full.auto_delete, full.internal) == (
        "headers",
        False,
        True,
        True,
    )
    assert full.alternate_exchange == "plain"


def test_queues_have_the_traits_that_are_declared() -> None:
    queues = (
        node_of(
            v={
                "queues": {
                    "plain": {},
                    "all": {
                        "durable": False,
                        "auto_delete": True,
                        "arguments": {"x-max-length": 5},
                    },
                }
            }
        )
        .vhosts["v"]
        .queues
    )
    assert (queues["plain"].durable, queues["plain"].auto_delete) == (True, False)
    assert (queues["all"].durable, queues["all"].auto_delete) == (False, True)
    assert queues["all"].arguments["x-max-length"].value == 5
    assert all(queue.exclusive_owner is None for queue in queues.values())


def test_bindings_route() -> None:
    vhost = node_of(
        v={
            "exchanges": {"in": {"type": "topic"}, "out": {"type": "fanout"}},
            "queues": {"q": {}, "r": {}},
            "bindings": [
                {"source": "in", "destination": "q", "routing_key": "a.#"},
                {"source": "in", "destination": "out", "type": "exchange", "routing_key": "b"},
                {"source": "out", "destination": "r"},
            ],
        }
    ).vhosts["v"]
    for key, expected in (("a.x", ["q"]), ("b", ["r"]), ("c", [])):
        found, _ = vhost.route_queues(vhost.exchanges["in"], [key], None)
        assert [queue.name for queue in found] == expected


def test_policies_hold_for_what_is_declared_with_them() -> None:
    vhost = node_of(
        v={
            "queues": {"tmp.a": {}, "b": {}},
            "policies": {
                "short": {
                    "pattern": "^tmp",
                    "apply-to": "queues",
                    "priority": 2,
                    "definition": {"max-length": 10},
                }
            },
            "operator_policies": {
                "cap": {"pattern": ".*", "apply-to": "queues", "definition": {"max-length": 20}}
            },
        }
    ).vhosts["v"]
    assert vhost.queues["tmp.a"].settings.length_max == 10
    assert vhost.queues["b"].settings.length_max == 20


def test_everything_the_core_refuses_is_told_at_once_with_its_key() -> None:
    problems = problems_of(
        v={
            "exchanges": {"x": {"arguments": {"alternate-exchange": 5}}},
            "queues": {"q": {"arguments": {"x-expires": 0}}},
            "policies": {"p": {"pattern": "a", "definition": {"max-length": "many"}}},
        },
        w={"queues": {"r": {"arguments": {"x-overflow": "nonsense"}}}},
    )
    assert [key for key, _ in problems] == [
        "vhosts.v.policies.p",
        "vhosts.v.exchanges.x",
        "vhosts.v.queues.q",
        "vhosts.w.queues.r",
    ]
    assert all(message for _, message in problems)


def test_what_follows_from_a_complaint_is_not_told() -> None:
    problems = problems_of(
        v={
            "queues": {"q": {"arguments": {"x-expires": 0}}},
            "bindings": [{"source": "amq.topic", "destination": "q", "routing_key": "#"}],
        }
    )
    assert [key for key, _ in problems] == ["vhosts.v.queues.q"]


def test_a_bad_binding_is_told_with_its_place() -> None:
    problems = problems_of(
        v={
            "queues": {"q": {}},
            "bindings": [
                {"source": "amq.headers", "destination": "q"},
                {"source": "amq.headers", "destination": "q", "arguments": {"x-match": "some"}},
            ],
        }
    )
    assert [key for key, _ in problems] == ["vhosts.v.bindings.1"]
