"""Makes what a configuration declares: virtual hosts and what is in them. Layer: rim.

Invariant: everything comes about through the commands that AMQP methods use, so the configuration
can say nothing that a client could not, and all complaints of one configuration come at once.
Users and permissions are built by :func:`broker.auth.users.user_store_from_config`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.config.problems import ConfigProblems, Origin, Problem
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.policy import policy_from_plain
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.errors import BrokerError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config.schema import Config, PolicyConfig, VHostConfig
    from broker.core.node import Node

__all__ = ["apply_topology"]


def apply_topology(config: Config, node: Node) -> None:
    """Declare everything the configuration declares on a node that has no virtual host yet.

    Raises:
        ConfigProblems: all that the core refuses, with the place in the file. The node is then half
            filled and of no use.

    """
    problems: list[Problem] = []
    for entry in config.vhosts:
        _Builder(node, config.origin, problems, entry.name).build(entry)

    if problems:
        raise ConfigProblems(problems)


class _Builder:
    """Fills one virtual host and gathers what is refused."""

    def __init__(self, node: Node, origin: Origin, problems: list[Problem], name: str) -> None:
        self._vhost = node.add_vhost(name)
        self._actor = node.own_actor(self._vhost)
        self._origin = origin
        self._problems = problems

    def build(self, entry: VHostConfig) -> None:
        self._vhost.connections_max = entry.limits.connections_max
        self._vhost.queues_max = entry.limits.queues_max
        # Policies come first: each queue and exchange then gets its own once, when it is made.
        self._build_policies(entry.policies, "policies", is_operator=False)
        self._build_policies(entry.operator_policies, "operator_policies", is_operator=True)
        self._build_exchanges(entry)
        self._build_queues(entry)
        self._build_bindings(entry)

    def _build_policies(
        self, policies: tuple[PolicyConfig, ...], section: str, *, is_operator: bool
    ) -> None:
        for policy in policies:
            plain: dict[str, object] = {
                "pattern": policy.pattern,
                "apply-to": policy.apply_to,
                "priority": policy.priority,
                "definition": policy.definition,
            }
            with self._complaints(section, policy.name):
                made = policy_from_plain(policy.name, plain, is_operator=is_operator)
                self._vhost.set_policy(made, is_operator=is_operator)

    def _build_exchanges(self, entry: VHostConfig) -> None:
        for exchange in entry.exchanges:
            with self._complaints("exchanges", exchange.name):
                declare_exchange(self._vhost, self._actor, ExchangeSettings(*exchange))

    def _build_queues(self, entry: VHostConfig) -> None:
        for queue in entry.queues:
            request = QueueRequest(
                name=queue.name,
                durable=queue.durable,
                exclusive=False,
                auto_delete=queue.auto_delete,
                arguments=queue.arguments,
            )
            with self._complaints("queues", queue.name):
                declare_queue(self._vhost, self._actor, request)

    def _build_bindings(self, entry: VHostConfig) -> None:
        for position, binding in enumerate(entry.bindings):
            request = BindingRequest(
                source=binding.source,
                destination=binding.destination,
                is_queue=binding.destination_type == "queue",
                routing_key=binding.routing_key,
                arguments=binding.arguments,
            )
            with self._complaints("bindings", str(position)):
                bind(self._vhost, self._actor, request)

    @contextmanager
    def _complaints(self, section: str, name: str) -> Iterator[None]:
        try:
            yield
        except NotFound as problem:
            # Loading has seen to it that all ends of bindings are declared: whatever is missing
            # now was refused before, and one complaint is enough.
            if not self._problems:
                self._complain(section, name, problem)
        except BrokerError as problem:
            self._complain(section, name, problem)

    def _complain(self, section: str, name: str, problem: BrokerError) -> None:
        keys = ("vhosts", self._vhost.name, section, name)
        self._problems.append(self._origin.problem(keys, str(problem)))
