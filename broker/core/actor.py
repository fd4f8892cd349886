"""On whose behalf a command runs: a user on a connection, or the broker itself.

Commands of the core are the same for AMQP methods, HTTP requests, the configuration and recovery;
what differs is who asks, and that is this object (rules PM-03, PM-10, PM-20, Q-30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.erlterm import resource_text
from broker.errors import AccessRefused, ResourceLocked

if TYPE_CHECKING:
    from broker.auth.users import User
    from broker.core.queue.queue import Queue

__all__ = ["Actor"]

LOCKED_TEXT = (
    "cannot obtain exclusive access to locked {resource}. It could be originally declared on "
    "another connection or the exclusive property value does not match that of the original "
    "declaration."
)


class Actor:
    """Who asks for something in a virtual host.

    Args:
        vhost_name: the virtual host in question.
        user: whose rights count; None is the broker itself, which may do everything.
        connection: identifies the owner of exclusive queues; None owns none.
        connection_name: for people to read; empty where there is no connection.

    """

    __slots__ = ("connection", "connection_name", "user", "vhost_name")

    def __init__(
        self,
        vhost_name: str,
        user: User | None,
        connection: object | None,
        connection_name: str = "",
    ) -> None:
        self.vhost_name = vhost_name
        self.user = user
        self.connection = connection
        self.connection_name = connection_name

    @property
    def user_name(self) -> str:
        """Of whoever asks; empty for the broker itself."""
        return "" if self.user is None else self.user.name

    def may(self, operation: str, name: str) -> bool:
        """Whether ``configure``, ``write`` or ``read`` of the named resource is allowed."""
        user = self.user
        return user is None or user.allows(operation, vhost=self.vhost_name, name=name)

    def check(self, operation: str, kind: str, name: str) -> None:
        """Demand a right.

        Args:
            operation: ``configure``, ``write`` or ``read``.
            kind: ``queue`` or ``exchange``.
            name: of the resource; the default exchange goes by ``amq.default`` (rule P-03).

        Raises:
            AccessRefused: rule PM-10.

        """
        if kind == "exchange" and name == "":
            name = "amq.default"

        if not self.may(operation, name):
            resource = resource_text(kind, name, self.vhost_name)
            raise AccessRefused(f"{operation} access to {resource} refused for user '{self._who}'")

    def check_any(self, kind: str, name: str) -> None:
        """Demand any right at all, as passive declarations do (rules E-31, Q-41)."""
        if not (self.may("read", name) or self.may("write", name)):
            self.check("configure", kind, name)

    def check_topic(self, operation: str, exchange: str, routing_key: str) -> None:
        """Demand a right to a routing key of a topic exchange.

        Raises:
            AccessRefused: rule PM-21.

        """
        user = self.user
        if user is None or user.allows_topic(
            operation, vhost=self.vhost_name, exchange=exchange, routing_key=routing_key
        ):
            return

        raise AccessRefused(
            f"{operation} access to topic '{routing_key}' in exchange '{exchange}' "
            f"in vhost '{self.vhost_name}' refused for user '{self._who}'"
        )

    def check_unlocked(self, queue: Queue) -> None:
        """Demand that the queue is not another connection's own.

        Raises:
            ResourceLocked: rule Q-30.

        """
        owner = queue.exclusive_owner
        if owner is not None and owner is not self.connection:
            raise self.locked(queue.name)

    def locked(self, queue_name: str) -> ResourceLocked:
        """The error for a queue that belongs to somebody else (rules Q-30, Q-31)."""
        resource = resource_text("queue", queue_name, self.vhost_name)
        return ResourceLocked(LOCKED_TEXT.format(resource=resource))

    @property
    def _who(self) -> str:
        return self.user.name if self.user is not None else ""
