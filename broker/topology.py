"""Makes what a configuration declares: virtual hosts and what is in them. Layer: rim.

Invariant: everything comes about through the commands that AMQP methods use, so the configuration
can say nothing that a client could not, and all complaints of one configuration come at once.
Users and permissions are built by :func:`broker.auth.users.configure_users`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker.config.problems import ConfigProblems, Origin, Problem
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.policy import policy_from_plain
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.errors import BrokerError, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.config.schema import Config, PolicyConfig, VHostConfig, VHostLimitsConfig
    from broker.core.node import Node
    from broker.core.policy import Policy

__all__ = ["apply_topology", "check_topology"]

_DIFFERENCE: Final = re.compile(
    "inequivalent arg '(.*)' for .*: received (.*) but current is (.*)", re.DOTALL
)
"""What declaring a thing otherwise than it is there is answered with (rules T-13, T-14)."""


def apply_topology(config: Config, node: Node) -> None:
    """Declare everything the configuration declares.

    A node may hold what survived from before: what is declared in the same way stays as it is,
    policies and limits become what the configuration says.

    Raises:
        ConfigProblems: all that the core refuses, with the place in the file. The node is then half
            filled and of no use.

    """
    problems: list[Problem] = []
    for entry in config.vhosts:
        _Builder(node, config.origin, problems, entry.name).build(entry)

    if problems:
        raise ConfigProblems(problems)


def check_topology(config: Config, node: Node) -> None:
    """Hold what the configuration declares against what is there; nothing is made or changed.

    Raises:
        ConfigProblems: something is there and is another thing, or there would be too many queues.

    """
    problems: list[Problem] = []
    for entry in config.vhosts:
        if entry.name in node.vhosts:
            _Builder(node, config.origin, problems, entry.name, is_running=True).check(entry)

    if problems:
        raise ConfigProblems(problems)


class _Builder:
    """Fills one virtual host and gathers what is refused."""

    def __init__(
        self,
        node: Node,
        origin: Origin,
        problems: list[Problem],
        name: str,
        *,
        is_running: bool = False,
    ) -> None:
        self._vhost = node.add_vhost(name)
        self._actor = node.own_actor(self._vhost)
        self._log = node.log
        self._origin = origin
        self._problems = problems
        self._is_running = is_running
        # What survived from before, but for what every virtual host is born with.
        exchanges = {name for name in self._vhost.exchanges if not name.startswith("amq.")}
        self._stored = {"exchanges": exchanges, "queues": set(self._vhost.queues)}

    def build(self, entry: VHostConfig) -> None:
        self._build_limits(entry.limits)
        if entry.is_protected is not None:
            vhost = self._vhost
            vhost.metadata = vhost.metadata._replace(is_protected=entry.is_protected)

        # Policies come first: each queue and exchange then gets its own once, when it is made.
        self._build_policies(entry.policies, "policies", is_operator=False)
        self._build_policies(entry.operator_policies, "operator_policies", is_operator=True)
        self._build_exchanges(entry)
        self._build_queues(entry)
        self._build_bindings(entry)

    def check(self, entry: VHostConfig) -> None:
        """Compare what is there already: to declare it once more changes nothing."""
        vhost = self._vhost
        there = entry._replace(
            exchanges=tuple(one for one in entry.exchanges if one.name in vhost.exchanges),
            queues=tuple(one for one in entry.queues if one.name in vhost.queues),
        )
        self._build_exchanges(there)
        self._build_queues(there)
        queues_max = vhost.queues_max
        if self._origin.names(("vhosts", vhost.name, "limits")):
            queues_max = entry.limits.queues_max

        count = len(vhost.queues) + len(entry.queues) - len(there.queues)
        if queues_max is not None and count > max(queues_max, len(vhost.queues)):
            message = f"there would be {count} queues, and {queues_max} are allowed"
            keys = ("vhosts", vhost.name, "queues")
            self._problems.append(self._origin.problem(keys, message))

    def _build_limits(self, limits: VHostLimitsConfig) -> None:
        vhost = self._vhost
        is_named = self._origin.names(("vhosts", vhost.name, "limits"))
        stored = (vhost.connections_max, vhost.queues_max)
        if not is_named or limits == stored:
            return

        if stored != (None, None):
            self._log("warning", "config.overrules", {"vhost": vhost.name, "what": "limits"})

        vhost.connections_max, vhost.queues_max = limits

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
                self._set_policy(made, is_operator=is_operator)

    def _set_policy(self, policy: Policy, *, is_operator: bool) -> None:
        policies = self._vhost.policies
        for there in policies.operator_policies if is_operator else policies.policies:
            if there.name == policy.name:
                if _facts_of(there) == _facts_of(policy):
                    return

                what = f"{'operator policy' if is_operator else 'policy'} {policy.name}"
                self._log("warning", "config.overrules", {"vhost": self._vhost.name, "what": what})

        self._vhost.set_policy(policy, is_operator=is_operator)

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
        except PreconditionFailed as problem:
            self._complain(section, name, self._against_stored(section, name, str(problem)))
        except NotFound as problem:
            # Loading has seen to it that all ends of bindings are declared: whatever is missing
            # now was refused before, and one complaint is enough.
            if not self._problems:
                self._complain(section, name, str(problem))
        except BrokerError as problem:
            self._complain(section, name, str(problem))

    def _complain(self, section: str, name: str, message: str) -> None:
        keys = ("vhosts", self._vhost.name, section, name)
        self._problems.append(self._origin.problem(keys, message))

    def _against_stored(self, section: str, name: str, problem: str) -> str:
        """Say what is declared otherwise in the data directory, if that is what is wrong."""
        difference = _DIFFERENCE.match(problem)
        if difference is None or name not in self._stored.get(section, ()):
            return problem

        key, received, current = difference.groups()
        kind = section.removesuffix("s")
        if self._is_running:
            return (
                f"the broker has this {kind} with {key} {current}, and here it is {received} - say"
                f" the same here, or delete the {kind} and all that is in it first"
            )

        return (
            f"the data directory holds this {kind} with {key} {current}, and here it is {received}"
            f" - say the same here, or start without it here, delete the {kind} and all that is in"
            " it, and start again"
        )


def _facts_of(policy: Policy) -> tuple[object, ...]:
    return policy.pattern, policy.apply_to, policy.priority, policy.definition
