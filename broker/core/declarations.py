"""Core: what people declare, as the log keeps it: tables whose fields keep their AMQP types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from broker.core.exchange.base import ExchangeSettings
from broker.core.policy import Policy, policy_from_plain
from broker.core.queue.queue import QueueDefinition
from broker.wire.tables import Arguments, Field, decode_table, encode_table

if TYPE_CHECKING:
    from broker.core.binding import Binding
    from broker.core.exchange.base import Exchange
    from broker.core.queue.queue import Queue

__all__ = [
    "StoredBinding",
    "StoredExchange",
    "StoredQueue",
    "binding_body",
    "exchange_body",
    "policy_body",
    "policy_name_body",
    "policy_of",
    "queue_body",
]


def _fields(buffer: bytes, start: int, end: int) -> Arguments:
    return decode_table(buffer, start + 4, end)


def _text(fields: Arguments, name: str) -> str:
    value = fields[name].value
    assert isinstance(value, str)
    return value


def _flag(fields: Arguments, name: str) -> bool:
    return fields[name].value is True


def _number(fields: Arguments, name: str) -> int:
    value = fields[name].value
    assert isinstance(value, int)
    return value


def _table(fields: Arguments, name: str) -> Arguments:
    value = fields[name].value
    assert isinstance(value, dict)
    return value


def queue_body(queue: Queue) -> bytes:
    """A queue's declaration."""
    return encode_table(
        {
            "id": Field("l", int(queue.log_id)),
            "name": Field("S", queue.name),
            "type": Field("S", queue.type),
            "auto-delete": Field("t", queue.auto_delete),
            "arguments": Field("F", queue.arguments),
        }
    )


class StoredQueue:
    """A queue's declaration, read back."""

    __slots__ = ("definition", "log_id", "name", "type")

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        fields = _fields(buffer, start, end)
        self.log_id = _number(fields, "id")
        self.name = _text(fields, "name")
        self.type = _text(fields, "type")
        auto_delete = _flag(fields, "auto-delete")
        self.definition = QueueDefinition(True, auto_delete, None, _table(fields, "arguments"))


def exchange_body(exchange: Exchange) -> bytes:
    """An exchange's declaration."""
    return encode_table(
        {
            "id": Field("l", int(exchange.log_id)),
            "name": Field("S", exchange.name),
            "type": Field("S", exchange.type),
            "auto-delete": Field("t", exchange.auto_delete),
            "internal": Field("t", exchange.internal),
            "arguments": Field("F", exchange.arguments),
        }
    )


class StoredExchange:
    """An exchange's declaration, read back."""

    __slots__ = ("log_id", "settings")

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        fields = _fields(buffer, start, end)
        self.log_id = _number(fields, "id")
        self.settings = ExchangeSettings(
            _text(fields, "name"),
            _text(fields, "type"),
            durable=True,
            auto_delete=_flag(fields, "auto-delete"),
            internal=_flag(fields, "internal"),
            arguments=_table(fields, "arguments"),
        )


def binding_body(binding: Binding) -> bytes:
    """A binding."""
    return encode_table(
        {
            "source": Field("S", binding.source.name),
            "destination": Field("S", binding.destination.name),
            "is-queue": Field("t", binding.destination.is_queue),
            "routing-key": Field("S", binding.routing_key),
            "arguments": Field("F", binding.arguments),
        }
    )


class StoredBinding:
    """A binding, read back."""

    __slots__ = ("arguments", "destination", "is_queue", "routing_key", "source")

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        fields = _fields(buffer, start, end)
        self.source = _text(fields, "source")
        self.destination = _text(fields, "destination")
        self.is_queue = _flag(fields, "is-queue")
        self.routing_key = _text(fields, "routing-key")
        self.arguments = _table(fields, "arguments")


def policy_body(policy: Policy, *, is_operator: bool) -> bytes:
    """A policy; its definition is JSON, as it was when it was set."""
    return encode_table(
        {
            "name": Field("S", policy.name),
            "is-operator": Field("t", is_operator),
            "pattern": Field("S", policy.pattern),
            "apply-to": Field("S", policy.apply_to),
            "priority": Field("l", policy.priority),
            "definition": Field("S", json.dumps(policy.definition)),
        }
    )


def policy_name_body(name: str, *, is_operator: bool) -> bytes:
    """Which policy is gone."""
    return encode_table({"name": Field("S", name), "is-operator": Field("t", is_operator)})


def policy_of(buffer: bytes, start: int, end: int) -> tuple[str, bool, Policy | None]:
    """A policy read back: its name, whether it is an operator policy, and itself if it was set."""
    fields = _fields(buffer, start, end)
    name = _text(fields, "name")
    is_operator = _flag(fields, "is-operator")
    if "pattern" not in fields:
        return name, is_operator, None

    plain: dict[str, object] = {
        "pattern": _text(fields, "pattern"),
        "apply-to": _text(fields, "apply-to"),
        "priority": _number(fields, "priority"),
        "definition": json.loads(_text(fields, "definition")),
    }
    return name, is_operator, policy_from_plain(name, plain, is_operator=is_operator)
