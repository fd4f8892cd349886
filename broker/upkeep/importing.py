"""JSON lines into a data directory, through the commands that clients use. Layer: rim.

See export.py for what the lines say. A line is taken as a whole or not at all. What is declared
already in the same way stays as it is; users, rights and policies become what the line says. A
message is enqueued once more with each import.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.auth.passwords import HASHING_ALGORITHM_DEFAULT, parse_password_hash
from broker.auth.users import configure_users
from broker.config.schema import DEFAULT_CONFIG
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.limit_commands import set_user_limits, set_vhost_limits
from broker.core.parameter_commands import (
    COMPONENTS,
    Parameter,
    set_global_parameter,
    set_parameter,
)
from broker.core.policy import policy_from_plain
from broker.core.queue.arguments import requested_queue_type, validate_arguments
from broker.core.queue.queue import QueueDefinition
from broker.core.queue.registry import create_queue
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.core.user_commands import (
    Rights,
    TopicRights,
    put_user,
    set_permissions,
    set_topic_permissions,
    vhost_named,
)
from broker.core.vhost_commands import set_vhost_metadata
from broker.core.vhost_metadata import NO_METADATA, VHostMetadata
from broker.errors import BrokerError, StoreError
from broker.upkeep.export import RESERVED_PREFIX
from broker.upkeep.fields import Fields
from broker.upkeep.import_message import import_message
from broker.wire.tables import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.core.vhost import VirtualHost
    from broker.upkeep.offline import OpenDirectory

__all__ = ["ImportFault", "Imported", "import_lines"]

UNWRITTEN_LINES_MAX: Final = 2_000
UNWRITTEN_BYTES_MAX: Final = 8 * 1024 * 1024
"""Lines gather that long before they are written: as one batch, mostly."""

TEXT_MAX: Final = 60


class Imported(NamedTuple):
    """What has been taken."""

    lines: int
    counts: dict[str, int]
    """How many lines of each kind."""

    has_default_user: bool
    """There was no user, and the one of the default configuration was made."""


class ImportFault(StoreError):
    """A line cannot be taken; those before it are in the directory.

    Attributes:
        number: of the line, the first being 1.

    """

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why}")
        self.number = number


def import_lines(directory: OpenDirectory, lines: Iterable[bytes]) -> Imported:
    """Take lines until one cannot be taken; then, or at the end, all that was taken is safe.

    Args:
        directory: is saved, and must not be used any more.
        lines: as `export_lines` gives them; empty ones are passed over.

    Raises:
        ImportFault: a line cannot be taken.
        StoreError: the directory cannot be written.

    """
    importer = _Importer(directory)
    unwritten_lines = unwritten_bytes = 0
    number = 0
    fault: ImportFault | None = None
    for line in lines:
        number += 1
        try:
            importer.take(line)
        except (BrokerError, ValueError, RecursionError) as problem:
            fault = ImportFault(number, str(problem) or type(problem).__name__)
            break

        unwritten_lines += 1
        unwritten_bytes += len(line)
        if unwritten_lines >= UNWRITTEN_LINES_MAX or unwritten_bytes >= UNWRITTEN_BYTES_MAX:
            directory.settle()
            unwritten_lines = unwritten_bytes = 0

    has_default_user = fault is None and importer.add_default_user()
    directory.save()
    if fault is not None:
        raise fault

    return Imported(number, importer.counts, has_default_user)


class _Importer:
    def __init__(self, directory: OpenDirectory) -> None:
        self._directory = directory
        self._node = directory.node
        self.counts: dict[str, int] = {}
        self._takers: dict[str, Callable[[Fields], None]] = {
            "vhost": self._take_vhost,
            "user": self._take_user,
            "permission": self._take_permission,
            "topic_permission": self._take_topic_permission,
            "global_parameter": self._take_global_parameter,
            "policy": self._take_policy,
            "parameter": self._take_parameter,
            "exchange": self._take_exchange,
            "queue": self._take_queue,
            "binding": self._take_binding,
            "message": self._take_message,
        }

    def take(self, line: bytes) -> None:
        """Take one line.

        Raises:
            BrokerError, ValueError: it cannot be taken, and nothing has happened.

        """
        if not line.strip():
            return

        value = json.loads(line)
        if not isinstance(value, dict) or len(value) != 1:
            raise ValueError("expected an object with one key, such as 'queue'")

        [(kind, fields)] = value.items()
        taker = self._takers.get(kind)
        if taker is None:
            known = ", ".join(self._takers)
            raise ValueError(f"'{kind[:TEXT_MAX]}' is nothing that can be imported: {known}")

        taker(Fields(fields, kind))
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def add_default_user(self) -> bool:
        """Let somebody in: a new directory counts as started once, so no default follows later."""
        if not self._directory.is_new or self._node.users.users:
            return False

        vhosts = tuple(one for one in DEFAULT_CONFIG.vhosts if one.name in self._node.vhosts)
        config = DEFAULT_CONFIG._replace(vhosts=vhosts)
        configure_users(self._node.users, config, random_bytes=os.urandom)
        return True

    def _vhost(self, fields: Fields) -> VirtualHost:
        return vhost_named(self._node, fields.text("vhost"))

    # -- outside of virtual hosts

    def _take_vhost(self, fields: Fields) -> None:
        name = fields.text("name")
        limits = fields.limits("limits")
        metadata = _metadata(fields) if fields.has("metadata") else None
        # RabbitMQ writes them twice.
        fields.ignore("description", "tags", "default_queue_type", "tracing")
        fields.finish()
        is_new = name not in self._node.vhosts
        self._node.add_vhost(name)
        try:
            if limits:
                set_vhost_limits(self._node, name, limits, by="")

            if metadata is not None:
                set_vhost_metadata(self._node, name, metadata, by="")
        except ValueError:
            if is_new:
                self._node.delete_vhost(name)

            raise

    def _take_user(self, fields: Fields) -> None:
        name = fields.text("name")
        password_hash = None
        algorithm = fields.text("hashing_algorithm", HASHING_ALGORITHM_DEFAULT)
        if fields.has("password_hash"):
            password_hash = parse_password_hash(fields.text("password_hash"), algorithm)

        tags = fields.texts("tags") or []
        limits = fields.limits("limits")
        fields.finish()
        is_new = name not in self._node.users.users
        put_user(self._node, name, password_hash, tags=tags, by="")
        try:
            if limits:
                set_user_limits(self._node, name, limits, by="")
        except ValueError:
            if is_new:
                self._node.users.delete_user(name)

            raise

    def _take_permission(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        name = fields.text("user")
        rights = Rights(fields.text("configure"), fields.text("write"), fields.text("read"))
        fields.finish()
        set_permissions(self._node, name, rights, vhost=vhost.name, by="")

    def _take_topic_permission(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        name = fields.text("user")
        rights = TopicRights(fields.text("exchange"), fields.text("write"), fields.text("read"))
        fields.finish()
        set_topic_permissions(self._node, name, rights, vhost=vhost.name, by="")

    def _take_global_parameter(self, fields: Fields) -> None:
        name = fields.text("name")
        value = fields.raw("value")
        fields.finish()
        set_global_parameter(self._node, name, value, by="")

    # -- in a virtual host

    def _take_policy(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        name = fields.text("name")
        keys = ("pattern", "apply-to", "definition", "priority")
        plain = {key: fields.raw(key) for key in keys if fields.has(key)}
        fields.finish()
        vhost.set_policy(policy_from_plain(name, plain), is_operator=False)

    def _take_parameter(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        component = fields.text("component")
        name = fields.text("name")
        value = fields.raw("value")
        fields.finish()
        if not isinstance(value, dict):
            raise ValueError("parameter.value: expected an object")

        if component in COMPONENTS:
            parameter = Parameter(vhost.name, component, name, value)
            set_parameter(self._node, parameter, by="")
        elif component == "operator_policy":
            policy = policy_from_plain(name, value, is_operator=True)
            vhost.set_policy(policy, is_operator=True)
        elif component == "vhost-limits":
            set_vhost_limits(self._node, vhost.name, value, by="")
        else:
            raise ValueError(f"parameter.component: '{component[:TEXT_MAX]}' is not known")

    def _take_exchange(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        settings = ExchangeSettings(
            fields.text("name"),
            fields.text("type"),
            durable=fields.flag("durable", default=True),
            auto_delete=fields.flag("auto_delete", default=False),
            internal=fields.flag("internal", default=False),
            arguments=fields.table("arguments"),
        )
        fields.finish()
        if not settings.durable:
            raise ValueError(f"exchange '{settings.name}' is not durable: it could not stay")

        declare_exchange(vhost, self._node.own_actor(vhost), settings)

    def _take_queue(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        name = fields.text("name")
        arguments = fields.table("arguments")
        queue_type = fields.text("type", requested_queue_type(arguments))
        auto_delete = fields.flag("auto_delete", default=False)
        is_durable = fields.flag("durable", default=True)
        fields.ignore("exclusive")
        fields.finish()
        if not is_durable:
            raise ValueError(f"queue '{name}' is not durable: it could not stay")

        if queue_type != requested_queue_type(arguments):
            if "x-queue-type" in arguments:
                raise ValueError(f"queue.type: '{queue_type}', and the arguments say otherwise")

            arguments["x-queue-type"] = Field("S", queue_type)

        if name.startswith(RESERVED_PREFIX) and name not in vhost.queues:
            # A name that the broker gave: no client may ask for it, but here it comes back.
            settings = validate_arguments(queue_type, name, vhost.name, arguments)
            definition = QueueDefinition(True, auto_delete, None, arguments)
            vhost.add_queue(create_queue(queue_type, vhost, name, definition, settings=settings))
        elif not name.startswith(RESERVED_PREFIX):
            request = QueueRequest(name, True, False, auto_delete, arguments)
            self._declare_queue(vhost, request)

    def _declare_queue(self, vhost: VirtualHost, request: QueueRequest) -> None:
        """A queue is of the type that its line says, whatever the default here."""
        metadata = vhost.metadata
        vhost.metadata = NO_METADATA
        try:
            declare_queue(vhost, self._node.own_actor(vhost), request)
        finally:
            vhost.metadata = metadata

    def _take_binding(self, fields: Fields) -> None:
        vhost = self._vhost(fields)
        kind = fields.text("destination_type")
        if kind not in ("queue", "exchange"):
            raise ValueError("binding.destination_type: expected 'queue' or 'exchange'")

        request = BindingRequest(
            source=fields.text("source"),
            destination=fields.text("destination"),
            is_queue=kind == "queue",
            routing_key=fields.text("routing_key"),
            arguments=fields.table("arguments"),
        )
        fields.finish()
        bind(vhost, self._node.own_actor(vhost), request)

    def _take_message(self, fields: Fields) -> None:
        import_message(self._vhost(fields), fields)


def _metadata(fields: Fields) -> VHostMetadata:
    metadata = fields.inner("metadata")
    found = VHostMetadata(
        metadata.text("description", ""),
        tuple(metadata.texts("tags") or ()),
        metadata.text("default_queue_type", ""),
        metadata.flag("protected_from_deletion", default=False),
    )
    metadata.finish()
    return found
