"""Definitions and messages of a data directory as JSON lines. Layer: rim.

One object a line, with one key that says what it is: ``vhost``, ``user``, ``permission``,
``topic_permission``, ``global_parameter``, ``parameter``, ``policy``, ``exchange``, ``queue``,
``binding``, ``message``; in an order in which they can be made. Names of fields are those of
RabbitMQ's definitions (section DE), arguments keep their types (typed_json.py). Nothing is changed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from broker.core.message import NO_DEADLINE, content_body
from broker.core.queue.stream import StreamQueue
from broker.errors import StoreError
from broker.store.node_file import NodeState, VHostState, parse_node_file
from broker.store.view import open_view
from broker.upkeep.messages import held_messages, queue_messages, return_count, waiting_until
from broker.upkeep.offline import look_into
from broker.upkeep.typed_json import encode_base64, properties_to_json, table_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.dead_letter import Death, DeathHistory
    from broker.core.exchange.base import Exchange
    from broker.core.message import Message
    from broker.core.policy import Policy
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.store.node_file import UserState
    from broker.store.view import DirectoryView, LogView

__all__ = ["RESERVED_PREFIX", "export_lines"]

RESERVED_PREFIX = "amq."
"""Exchanges with such names are there from the beginning."""

Line = tuple[str, dict[str, object]]


def export_lines(
    path: str, *, only_vhost: str | None = None, has_messages: bool = True
) -> Iterator[str]:
    """Tell all that is in a data directory.

    Args:
        path: of a directory that no broker is using; a snapshot is one.
        only_vhost: leave out all others, and users with their rights.
        has_messages: whether to tell the messages too.

    Raises:
        StoreError: it is in use, damaged, or has no such virtual host.

    """
    with open_view(path) as view:
        if view.format is None:
            raise StoreError(f"{view.path} is no data directory of Leveret")

        if view.holder:
            raise StoreError(
                f"data directory {view.path} is in use by {view.holder}: stop it, or take a"
                " snapshot (`leveret store snapshot`) and export that"
            )

        for kind, fields in _Export(view, only_vhost, has_messages=has_messages).lines():
            # ASCII alone: names may hold bytes that are no UTF-8, as lone surrogates.
            yield json.dumps({kind: fields}, separators=(",", ":"))


class _Export:
    def __init__(self, view: DirectoryView, only_vhost: str | None, *, has_messages: bool) -> None:
        self._view = view
        self._has_messages = has_messages
        self._node = NodeState()
        if view.node is not None:
            self._node = parse_node_file(view.node_path, view.node)

        self._only = only_vhost
        self._vhosts = self._listed()

    def _listed(self) -> list[tuple[VHostState, LogView]]:
        """The virtual hosts to tell of, those among them that are not on the list yet."""
        logs = {log.number: log for log in self._view.logs}
        entries = list(self._node.vhosts)
        for number, log in logs.items():
            if number >= self._node.next_vhost_number:
                entries.append(VHostState(log.name or "", number))

        found: list[tuple[VHostState, LogView]] = []
        for entry in entries:
            if self._only not in (None, entry.name):
                continue

            if entry.number not in logs:
                raise StoreError(f"the log of virtual host '{entry.name}' is missing")

            found.append((entry, logs[entry.number]))

        if self._only is not None and not found:
            raise StoreError(f"there is no virtual host '{self._only}' in {self._view.path}")

        return found

    def lines(self) -> Iterator[Line]:
        for entry, _ in self._vhosts:
            yield "vhost", _vhost_fields(entry)

        if self._only is None:
            for user in self._node.users:
                yield from _user_lines(user)

        yield from self._parameters()
        for entry, log in self._vhosts:
            vhost = look_into(log, entry.name)
            yield from _definitions(vhost)
            if self._has_messages:
                yield from _messages(vhost)

    def _parameters(self) -> Iterator[Line]:
        """What programs keep: of the node, and of the virtual hosts to tell of."""
        names = {entry.name for entry, _ in self._vhosts}
        for one in self._node.parameters:
            if not one.component and self._only is None:
                yield "global_parameter", {"name": one.name, "value": one.value}
            elif one.vhost in names and one.component:
                yield "parameter", one._asdict()


def _vhost_fields(entry: VHostState) -> dict[str, object]:
    limits = {"max-connections": entry.connections_max, "max-queues": entry.queues_max}
    metadata: dict[str, object] = {
        "description": entry.description,
        "tags": list(entry.tags),
        "default_queue_type": entry.default_queue_type,
        "protected_from_deletion": entry.is_protected,
    }
    return {
        "name": entry.name,
        "limits": _present(limits),
        "metadata": {key: value for key, value in metadata.items() if value},
    }


def _present(fields: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if value is not None}


def _user_lines(user: UserState) -> Iterator[Line]:
    limits = {"max-connections": user.connections_max, "max-channels": user.channels_max}
    fields: dict[str, object] = {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": _present(limits),
    }
    yield "user", fields
    for one in user.permissions:
        yield "permission", {"user": user.name, **one._asdict()}

    for topic in user.topic_permissions:
        yield "topic_permission", {"user": user.name, **topic._asdict()}


def _definitions(vhost: VirtualHost) -> Iterator[Line]:
    for policy in vhost.policies.policies:
        yield "policy", {"vhost": vhost.name, "name": policy.name, **_policy_value(policy)}

    for policy in vhost.policies.operator_policies:
        fields: dict[str, object] = {
            "vhost": vhost.name,
            "component": "operator_policy",
            "name": policy.name,
            "value": _policy_value(policy),
        }
        yield "parameter", fields

    for exchange in vhost.exchanges.values():
        if exchange.name and not exchange.name.startswith(RESERVED_PREFIX):
            yield "exchange", _exchange_fields(vhost, exchange)

    for queue in vhost.queues.values():
        yield "queue", _queue_fields(vhost, queue)

    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            yield (
                "binding",
                {
                    "source": exchange.name,
                    "vhost": vhost.name,
                    "destination": binding.destination.name,
                    "destination_type": "queue" if binding.destination.is_queue else "exchange",
                    "routing_key": binding.routing_key,
                    "arguments": table_to_json(binding.arguments),
                },
            )


def _policy_value(policy: Policy) -> dict[str, object]:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def _exchange_fields(vhost: VirtualHost, exchange: Exchange) -> dict[str, object]:
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table_to_json(exchange.arguments),
    }


def _queue_fields(vhost: VirtualHost, queue: Queue) -> dict[str, object]:
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": table_to_json(queue.arguments),
    }


def _messages(vhost: VirtualHost) -> Iterator[Line]:
    for exchange in vhost.exchanges.values():
        for message in held_messages(exchange):
            yield "message", _message_fields(vhost, {"delayed_by": exchange.name}, message)

    for queue in vhost.queues.values():
        if isinstance(queue, StreamQueue):
            yield from _stream_messages(vhost, queue)
            continue

        due = waiting_until(queue)
        for message in queue_messages(queue):
            fields = _message_fields(vhost, {"queue": queue.name}, message)
            ready_at = due.get(id(message))
            if ready_at is not None:
                fields["ready_at_ms"] = ready_at

            yield "message", fields


def _stream_messages(vhost: VirtualHost, stream: StreamQueue) -> Iterator[Line]:
    offset = int(stream.log.first_offset)
    for message in queue_messages(stream):
        came_ms = int(message.deadline_ms)
        message.deadline_ms = NO_DEADLINE
        fields = _message_fields(vhost, {"queue": stream.name}, message)
        yield "message", {**fields, "offset": offset, "came_ms": came_ms}
        offset += 1


def _message_fields(
    vhost: VirtualHost, holder: dict[str, object], message: Message
) -> dict[str, object]:
    address = message.address
    content = message.logged_content()
    raw = _raw_properties(content)
    fields: dict[str, object] = {
        "vhost": vhost.name,
        **holder,
        "exchange": address.exchange,
        "routing_key": address.routing_key,
        "redelivered": message.redelivered,
        "delivery_count": return_count(message),
        "deadline_ms": None if message.deadline_ms == NO_DEADLINE else int(message.deadline_ms),
        "properties": properties_to_json(raw),
        "properties_base64": encode_base64(raw),
        "body_base64": encode_base64(content_body(content)),
    }
    if address.cc_keys is not None or address.bcc_keys is not None:
        fields["cc"] = address.cc_keys
        fields["bcc"] = address.bcc_keys

    if message.history is not None:
        fields["deaths"] = _deaths(message.history)

    return fields


def _raw_properties(content: bytes) -> bytes:
    """What stands behind the body size in the header frame."""
    size = int.from_bytes(content[3:7], "big")
    return content[19 : 7 + size]


def _deaths(history: DeathHistory) -> dict[str, object]:
    return {
        "first": _death_fields(history.first),
        "all": [_death_fields(one) for one in history.entries],
    }


def _death_fields(death: Death) -> dict[str, object]:
    return death._asdict()
