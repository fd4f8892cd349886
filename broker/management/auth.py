"""Who asks, and what they may (management layer).

Tags of a user open parts of the API; the rights in a virtual host hold besides, for everything
that is done there, administrators included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.permissions import Permission
from broker.auth.users import User
from broker.management.errors import NotAuthorised, NotThere

if TYPE_CHECKING:
    from broker.core.node import Node

__all__ = [
    "ADMINISTRATOR",
    "ANYBODY",
    "ANYONE",
    "MONITOR",
    "OPENING_TAGS",
    "POLICYMAKER",
    "POLICYMAKER_IN_VHOST",
    "VHOST",
    "VHOST_OR_MONITOR",
    "Caller",
    "LocalAdministrator",
    "check_access",
]

ANYONE: Final = "anyone"
"""No login at all."""

ANYBODY: Final = "management"
"""Every user with a tag that opens the API; lists show what they may see."""

VHOST: Final = "vhost"
"""Who has rights in the virtual host; administrators."""

VHOST_OR_MONITOR: Final = "vhost-or-monitoring"
"""Who has rights in the virtual host; monitors and administrators."""

MONITOR: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
POLICYMAKER_IN_VHOST: Final = "policymaker-in-vhost"
"""A policymaker with rights in the virtual host; administrators."""

ADMINISTRATOR: Final = "administrator"

EVERYTHING: Final = Permission(".*", ".*", ".*")
OPENING_TAGS: Final = frozenset({"administrator", "monitoring", "policymaker", "management"})
"""With one of these a user may use the API at all."""


class LocalAdministrator(User):
    """Who has opened the socket in the data directory, and may do everything.

    RabbitMQ: its name is that of rabbitmqctl, which events tell too.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("rmq-cli", None, ("administrator", "impersonator"))

    def permission(self, vhost: str) -> Permission | None:
        return EVERYTHING

    def allows(self, operation: str, *, vhost: str, name: str) -> bool:
        return True


class Caller(NamedTuple):
    """The user on whose behalf a request is."""

    user: User

    @property
    def name(self) -> str:
        return self.user.name

    @property
    def is_administrator(self) -> bool:
        return "administrator" in self.user.tags

    @property
    def is_monitor(self) -> bool:
        """Sees everything (monitoring), as an administrator does."""
        return "monitoring" in self.user.tags or self.is_administrator

    @property
    def is_policymaker(self) -> bool:
        return "policymaker" in self.user.tags or self.is_administrator

    def has_rights_in(self, vhost: str) -> bool:
        return self.user.permission(vhost) is not None

    def may_see(self, vhost: str) -> bool:
        """Whether lists show what is in that virtual host."""
        return self.is_administrator or self.has_rights_in(vhost)


def check_access(
    node: Node, caller: Caller, access: str, vhost: str | None, *, may_be_new: bool = False
) -> None:
    """Demand what a route demands, before anything is looked at.

    Args:
        node: the broker core.
        caller: who asks.
        access: what the route demands.
        vhost: the virtual host in its path, if there is one.
        may_be_new: the virtual host need not be there.

    Raises:
        NotAuthorised: a tag is missing.
        NotThere: the virtual host is not there, or not to be known.

    """
    if access == ADMINISTRATOR and not caller.is_administrator:
        raise NotAuthorised("Not administrator user")

    if access == MONITOR and not caller.is_monitor:
        raise NotAuthorised("Not monitor user")

    if access in (POLICYMAKER, POLICYMAKER_IN_VHOST) and not caller.is_policymaker:
        raise NotAuthorised("User not authorised to access object")

    if vhost is None:
        return

    sees_all = caller.is_monitor if access == VHOST_OR_MONITOR else caller.is_administrator
    if not sees_all and not caller.has_rights_in(vhost):
        raise NotThere("not_found")

    if vhost not in node.vhosts and not may_be_new:
        raise NotThere
