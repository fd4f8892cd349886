"""From a configuration to what is in a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from broker.auth.users import UserStore
from broker.config.loader import config_from_dict, load_config
from broker.config.problems import ConfigProblems
from broker.core.node import Node
from broker.core.settings import NodeSettings
from broker.topology import apply_topology
from tests.helpers.clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path


def node_of(**vhosts: Any) -> Node:
    """A node with these virtual hosts."""
    node = empty_node([])
    apply_topology(config_from_dict({"vhosts": vhosts}), node)
    return node


def empty_node(logged: list[dict[str, object]]) -> Node:
    """A node that has nothing yet; what it logs at level warning is gathered."""

    def log(level: str, event: str, fields: dict[str, object]) -> None:
        if level == "warning":
            logged.append({"event": event, **fields})

    return Node(
        NodeSettings(),
        VirtualClock(),
        users=UserStore(),
        mechanisms={},
        random_bytes=os.urandom,
        log=log,
    )


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


# What survived from before


@pytest.fixture
def logged() -> list[dict[str, object]]:
    return []


@pytest.fixture
def stored(logged: list[dict[str, object]]) -> Node:
    """A node with what an earlier configuration, or a program, has declared."""
    node = empty_node(logged)
    vhost: dict[str, object] = {
        "limits": {"max-queues": 9},
        "exchanges": {"x": {"type": "topic"}},
        "queues": {"q": {"arguments": {"x-max-length": 5}}, "kept": {}},
        "bindings": [{"source": "x", "destination": "q", "routing_key": "#"}],
        "policies": {"p": {"pattern": "^q", "apply-to": "queues", "definition": {"expires": 9}}},
    }
    apply_topology(config_from_dict({"vhosts": {"v": vhost, "w": {}}}), node)
    logged.clear()
    return node


def test_declared_in_both_and_equal_is_fine(stored: Node, logged: list[dict[str, object]]) -> None:
    vhost = stored.vhosts["v"]
    before = vhost.generation
    config = {
        "limits": {"max-queues": 9},
        "exchanges": {"x": {"type": "topic"}},
        "queues": {"q": {"arguments": {"x-max-length": 5}}},
        "bindings": [{"source": "x", "destination": "q", "routing_key": "#"}],
        "policies": {"p": {"pattern": "^q", "apply-to": "queues", "definition": {"expires": 9}}},
    }
    apply_topology(config_from_dict({"vhosts": {"v": config}}), stored)
    assert vhost.generation == before, "nothing was done"
    assert logged == []
    assert set(vhost.queues) == {"q", "kept"}
    assert set(stored.vhosts) == {"v", "w"}


def test_declared_otherwise_is_told_with_both_and_the_place(stored: Node, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(
        "version: 1\n"
        "vhosts:\n"
        "  v:\n"
        "    exchanges:\n"
        "      x: {type: fanout}\n"
        "    queues:\n"
        "      q: {arguments: {x-max-length: 6}}\n"
        "      kept: {auto_delete: true}\n"
        "      new: {arguments: {x-expires: 0}}\n"
    )
    with pytest.raises(ConfigProblems) as caught:
        apply_topology(load_config(str(path)), stored)

    lines = str(caught.value).replace(f"{path}:", "").splitlines()
    advice = "say the same here, or start without it here, delete the {} and all that is in it, and"
    queue, exchange = advice.format("queue"), advice.format("exchange")
    assert lines[0] == (
        "5:7: vhosts.v.exchanges.x: the data directory holds this exchange with type 'topic', and"
        f" here it is 'fanout' - {exchange} start again"
    )
    assert lines[1] == (
        "7:7: vhosts.v.queues.q: the data directory holds this queue with x-max-length '5', and"
        f" here it is '6' - {queue} start again"
    )
    assert lines[2].startswith(
        "8:7: vhosts.v.queues.kept: the data directory holds this queue with"
    )
    assert lines[3].startswith("9:7: vhosts.v.queues.new: ")
    assert "data directory" not in lines[3]


def test_what_every_virtual_host_has_is_not_blamed_on_the_data_directory() -> None:
    [(_, message)] = problems_of(v={"exchanges": {"amq.direct": {"type": "topic"}}})
    assert "data directory" not in message


def test_the_configuration_prevails_over_policies_and_limits(
    stored: Node, logged: list[dict[str, object]]
) -> None:
    policy = {"pattern": "^q", "apply-to": "queues", "definition": {"expires": 10}}
    config = {"limits": {"max-queues": 10}, "policies": {"p": policy}, "operator_policies": {}}
    apply_topology(config_from_dict({"vhosts": {"v": config}}), stored)
    assert stored.vhosts["v"].queues_max == 10
    assert stored.vhosts["v"].policies.policies[0].definition == {"expires": 10}
    assert logged == [
        {"event": "config.overrules", "vhost": "v", "what": "limits"},
        {"event": "config.overrules", "vhost": "v", "what": "policy p"},
    ]


def test_limits_that_are_not_named_stay(stored: Node) -> None:
    apply_topology(config_from_dict({"vhosts": {"v": {}}}), stored)
    assert stored.vhosts["v"].queues_max == 9
