"""What a scenario asks of a broker that AMQP has no method for.

There are two that do it: :mod:`interop.compare.management_api` over RabbitMQ's HTTP API, and
:mod:`interop.compare.node_administration` by the commands of this broker's core. A new kind of step
is a method of :class:`Administration` and of both; scenarios take it by ``session.administer``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Administration", "Governed", "PolicySetting", "Refused"]


class Refused(Exception):
    """The broker does not do it; the text says why, in its words."""


class PolicySetting(NamedTuple):
    """A policy or an operator policy."""

    name: str
    pattern: str
    definition: object
    apply_to: str = "all"
    priority: object = 0
    is_operator: bool = False
    vhost: str = "/"


class Governed(NamedTuple):
    """What governs a queue or an exchange: names of policies, and both definitions as one."""

    policy: str = ""
    operator_policy: str = ""
    definition: dict[str, object] = {}  # noqa: RUF012 - of a NamedTuple, which nobody changes

    def __str__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in sorted(self.definition.items()))
        return f"policy={self.policy!r} operator_policy={self.operator_policy!r} {{{settings}}}"


class Administration(Protocol):
    """Each step raises Refused when the broker does not do it, and has taken effect afterwards."""

    def set_policy(self, setting: PolicySetting) -> None:
        """Set or replace a policy."""

    def clear_policy(self, name: str, *, is_operator: bool = False, vhost: str = "/") -> None:
        """Remove a policy."""

    def queue_governed(self, queue: str, expected: Governed, *, vhost: str = "/") -> Governed:
        """Wait until that governs a queue; returns what does in the end."""

    def exchange_policy(self, exchange: str, *, vhost: str = "/") -> str:
        """The name of the policy that governs an exchange, or nothing."""
