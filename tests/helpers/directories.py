"""Data directories with something in them, made without sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.parameter_commands import Parameter, set_global_parameter, set_parameter
from broker.core.policy import policy_from_plain
from broker.core.user_commands import Rights, set_permissions
from broker.core.vhost_metadata import VHostMetadata
from broker.upkeep.export import export_lines
from broker.upkeep.offline import OpenDirectory
from tests.helpers.core import CoreClient, CoreWorld, arguments_of

if TYPE_CHECKING:
    from pathlib import Path

    from broker.core.vhost import VirtualHost

__all__ = ["DirectoryWorld", "add_people", "exported", "fill"]


class DirectoryWorld(CoreWorld):
    """A node whose virtual host lies in a data directory; no time passes in it.

    Args:
        path: of the directory.
        segment_bytes: of the logs' segments.

    """

    def __init__(self, path: Path, *, segment_bytes: int = 16 * 1024) -> None:
        self.logged = []
        self.directory = OpenDirectory(str(path), self._log, segment_bytes=segment_bytes)
        self.node = self.directory.node
        self.users = self.node.users
        self.vhost: VirtualHost = self.node.add_vhost("/")

    def settle(self) -> None:
        super().settle()
        self.directory.settle()

    def checkpoint(self) -> None:
        """Keep the state as it is now."""
        self.settle()
        journal = self.vhost.journal
        assert journal is not None
        journal.books.write_checkpoint()
        self.settle()

    def stop(self) -> None:
        """End in good order."""
        self.directory.save()
        self.directory.close()

    def abandon(self) -> None:
        """End like a process that is killed; users and virtual hosts are as at the last save."""
        self.directory.close()


def fill(world: DirectoryWorld, count: int = 40) -> CoreClient:
    """Declare one thing of each kind, and publish to all queues."""
    client = world.client()
    client.declare("plain", durable=True)
    client.declare("quorum", durable=True, x_queue_type="quorum")
    client.declare("ranked", durable=True, x_max_priority=5)
    client.declare("stream", durable=True, x_queue_type="stream")
    client.declare("mortal", durable=True, x_message_ttl=3_600_000)
    client.declare("graves", durable=True)
    client.declare("full", durable=True, x_max_length=3, x_dead_letter_exchange="graves")
    for settings in (
        ExchangeSettings("graves", "fanout", True, False, False, {}),
        ExchangeSettings(
            "topics", "topic", True, False, True, arguments_of({"alternate-exchange": "amq.fanout"})
        ),
        ExchangeSettings(
            "later",
            "x-delayed-message",
            True,
            False,
            False,
            arguments_of({"x_delayed_type": "direct"}),
        ),
    ):
        declare_exchange(world.vhost, client.actor, settings)

    _bind(client, "amq.topic", "plain", "hare.#")
    _bind(client, "amq.topic", "quorum", "hare.*", number=7, text="x")
    _bind(client, "graves", "graves", "")
    world.set_policy({"max-length": 100_000}, pattern="^plain$", name="long")
    for number in range(count):
        headers = {"n": number, "t": {"x": [1, "two", True]}, "CC": ["hare.y"]}
        body = b"hare %d" % number
        _publish(client, "hare.x", body, exchange="amq.topic", headers=headers)
        _publish(client, "ranked", body, priority=number % 6)
        _publish(client, "stream", body)
        _publish(client, "mortal", body, expiration="900000")
        _publish(client, "full", body)
        _publish(client, "hare", body, exchange="later", headers={"x-delay": 500_000})
        if number % 10 == 0:
            world.settle()

    world.settle()
    return client


def _publish(client: CoreClient, key: str, body: bytes, **options: Any) -> None:
    client.publish(key, body, delivery_mode=2, **options)


def _bind(client: CoreClient, source: str, queue: str, key: str, **arguments: object) -> None:
    request = BindingRequest(source, queue, True, key, arguments_of(arguments))
    bind(client.vhost, client.actor, request)


def exported(path: Path) -> list[str]:
    """All that is in a directory, a line each."""
    return list(export_lines(str(path)))


def add_people(world: DirectoryWorld) -> None:
    """A user with rights, and a second virtual host."""
    other = world.node.add_vhost("other")
    other.metadata = VHostMetadata("of others", ("a", "b"), "quorum", is_protected=True)
    set_global_parameter(world.node, "cluster_name", "hares", by="")
    shovel = Parameter("/", "shovel", "s", {"src-uri": "amqp://"})
    set_parameter(world.node, shovel, by="")
    other.set_policy(policy_from_plain("p", {"pattern": "x", "definition": {"expires": 5}}))
    world.users.add_user("bob", None, tags=["monitoring"])
    set_permissions(world.node, "bob", Rights("^b", ".*", ""), vhost="other", by="")
