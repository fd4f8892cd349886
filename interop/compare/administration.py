"""What a scenario asks of a broker that AMQP has no method for.

There are two that do it: :mod:`interop.compare.management_api` over RabbitMQ's HTTP API and its
control tool, and :mod:`interop.compare.node_administration` by the commands of this broker's core.
A new kind of step is a method of :class:`Administration` and of both; scenarios take it by
``session.administer``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = [
    "Administration",
    "Governed",
    "PolicySetting",
    "Refused",
    "Rights",
    "TopicRights",
    "UserSetting",
]


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


class UserSetting(NamedTuple):
    """A user, whose password is the name unless another is given."""

    name: str
    password: str = ""
    tags: tuple[str, ...] = ()


class Rights(NamedTuple):
    """Patterns for what a user may do in a virtual host."""

    configure: str = ""
    write: str = ""
    read: str = ""


class TopicRights(NamedTuple):
    """Patterns for the keys that a user may use with a topic exchange."""

    exchange: str
    write: str = ""
    read: str = ""


class Administration(Protocol):
    """Each step raises Refused when the broker does not do it, and has taken effect afterwards."""

    @property
    def has_control(self) -> bool:
        """Whether it can do what changes the whole broker, as alarms do."""

    # -- policies

    def set_policy(self, setting: PolicySetting) -> None:
        """Set or replace a policy."""

    def clear_policy(self, name: str, *, is_operator: bool = False, vhost: str = "/") -> None:
        """Remove a policy."""

    def queue_governed(
        self, queue: str, expected: Governed | None, *, vhost: str = "/"
    ) -> Governed:
        """Wait until that governs a queue, or not at all; returns what does in the end."""

    def exchange_policy(self, exchange: str, *, vhost: str = "/") -> str:
        """The name of the policy that governs an exchange, or nothing."""

    # -- users and virtual hosts

    def put_user(self, setting: UserSetting) -> None:
        """Add a user, or give one that is there another password and other tags."""

    def delete_user(self, name: str) -> None:
        """Delete a user."""

    def add_vhost(self, name: str) -> None:
        """Make a virtual host in which guest may do everything."""

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with all that is in it."""

    def set_rights(self, user: str, rights: Rights, *, vhost: str = "/") -> None:
        """Say what a user may do."""

    def clear_rights(self, user: str, *, vhost: str = "/") -> None:
        """Leave a user nothing to do in a virtual host."""

    def set_topic_rights(self, user: str, rights: TopicRights, *, vhost: str = "/") -> None:
        """Say which keys a user may use with a topic exchange."""

    def clear_topic_rights(self, user: str, *, vhost: str = "/") -> None:
        """Let a user use all keys with all topic exchanges."""

    def limit_user(self, user: str, limit: str, value: int) -> None:
        """Set a limit of a user; a negative one is none."""

    def limit_vhost(self, vhost: str, limit: str, value: int) -> None:
        """Set a limit of a virtual host; a negative one is none."""

    # -- the whole broker; only for scenarios that play alone

    def set_alarm(self, name: str, is_on: bool) -> None:
        """Let the broker run out of ``memory`` or ``disk``, or let it have enough again."""

    def set_consumer_timeout(self, milliseconds: int | None) -> None:
        """How long a delivery may stay unsettled; None is what it was at the start."""
