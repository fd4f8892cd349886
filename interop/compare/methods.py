"""The methods of AMQP 0-9-1: ids, arguments, and what answers them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from interop.compare.fields import Reader, encode_basic

__all__ = ["ANSWERS", "IDS", "Method", "decode_method", "encode_method"]

TABLE: Final = """
10 10 connection.start version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
10 11 connection.start-ok client_properties:table mechanism:shortstr response:longstr locale:shortstr
10 20 connection.secure challenge:longstr
10 21 connection.secure-ok response:longstr
10 30 connection.tune channel_max:short frame_max:long heartbeat:short
10 31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10 40 connection.open virtual_host:shortstr reserved_1:shortstr reserved_2:bit
10 41 connection.open-ok known_hosts:shortstr
10 50 connection.close reply_code:short reply_text:shortstr class_id:short method_id:short
10 51 connection.close-ok
10 60 connection.blocked reason:shortstr
10 61 connection.unblocked
10 70 connection.update-secret new_secret:longstr reason:shortstr
10 71 connection.update-secret-ok
20 10 channel.open reserved_1:shortstr
20 11 channel.open-ok channel_id:longstr
20 20 channel.flow active:bit
20 21 channel.flow-ok active:bit
20 40 channel.close reply_code:short reply_text:shortstr class_id:short method_id:short
20 41 channel.close-ok
30 10 access.request realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
30 11 access.request-ok ticket:short
40 10 exchange.declare ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
40 11 exchange.declare-ok
40 20 exchange.delete ticket:short exchange:shortstr if_unused:bit nowait:bit
40 21 exchange.delete-ok
40 30 exchange.bind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 31 exchange.bind-ok
40 40 exchange.unbind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 51 exchange.unbind-ok
50 10 queue.declare ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
50 11 queue.declare-ok queue:shortstr message_count:long consumer_count:long
50 20 queue.bind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
50 21 queue.bind-ok
50 30 queue.purge ticket:short queue:shortstr nowait:bit
50 31 queue.purge-ok message_count:long
50 40 queue.delete ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
50 41 queue.delete-ok message_count:long
50 50 queue.unbind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:long prefetch_count:short global_:bit
60 11 basic.qos-ok
60 20 basic.consume ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
60 21 basic.consume-ok consumer_tag:shortstr
60 30 basic.cancel consumer_tag:shortstr nowait:bit
60 31 basic.cancel-ok consumer_tag:shortstr
60 40 basic.publish ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
60 50 basic.return reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
60 60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
60 70 basic.get ticket:short queue:shortstr no_ack:bit
60 71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
60 72 basic.get-empty cluster_id:shortstr
60 80 basic.ack delivery_tag:longlong multiple:bit
60 90 basic.reject delivery_tag:longlong requeue:bit
60 100 basic.recover-async requeue:bit
60 110 basic.recover requeue:bit
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
85 10 confirm.select nowait:bit
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""  # noqa: E501 - a table

DEFAULTS: Final[dict[str, object]] = {
    "bit": False, "octet": 0, "short": 0, "long": 0, "longlong": 0,
    "shortstr": "", "longstr": "", "table": {},
}  # fmt: skip


class Method(NamedTuple):
    """One method that came."""

    name: str
    arguments: dict[str, object]

    def text(self, name: str) -> str:
        value = self.arguments[name]
        assert isinstance(value, str)
        return value

    def number(self, name: str) -> int:
        value = self.arguments[name]
        assert isinstance(value, int)
        return value


def _read_table() -> dict[str, tuple[int, int, list[tuple[str, str]]]]:
    known = {}
    for line in TABLE.strip().splitlines():
        class_id, method_id, name, *arguments = line.split()
        pairs = [(field, kind) for field, _, kind in (text.partition(":") for text in arguments)]
        known[name] = (int(class_id), int(method_id), pairs)

    return known


_METHODS: Final = _read_table()

IDS: Final = {name: (class_id, method_id) for name, (class_id, method_id, _) in _METHODS.items()}

_NAMES: Final = {ids: name for name, ids in IDS.items()}

ANSWERS: Final = {
    name: {f"{name}-ok", "basic.get-empty"} if name == "basic.get" else {f"{name}-ok"}
    for name in _METHODS
    if f"{name}-ok" in _METHODS and name != "connection.start"
}
"""Method -> what answers it when it succeeds."""


def encode_method(name: str, arguments: dict[str, object]) -> bytes:
    """Write the payload of a method frame; what is not given is zero, empty or false."""
    class_id, method_id, fields = _METHODS[name]
    unknown = arguments.keys() - {field for field, _ in fields}
    if unknown:
        raise TypeError(f"{name} has no {', '.join(sorted(unknown))}")

    payload = struct.pack(">HH", class_id, method_id)
    bits = 0
    bit_count = 0
    for field, kind in fields:
        value = arguments.get(field, DEFAULTS[kind])
        if kind == "bit":
            bits |= bool(value) << bit_count
            bit_count += 1
            continue

        if bit_count:
            payload += bytes([bits])
            bits = bit_count = 0

        payload += encode_basic(kind, value)

    return payload + bytes([bits]) if bit_count else payload


def decode_method(payload: bytes) -> Method:
    """Read the payload of a method frame."""
    name = _NAMES[struct.unpack_from(">HH", payload)]
    reader = Reader(payload, 4)
    arguments: dict[str, object] = {}
    bits = 0
    bit_count = 0
    for field, kind in _METHODS[name][2]:
        if kind == "bit":
            bits = bits if bit_count else reader.number(1)
            arguments[field] = bits >> bit_count & 1
            bit_count += 1
            continue

        bit_count = 0
        arguments[field] = reader.basic(kind)

    if not reader.is_at_end:
        arguments["left_over"] = payload[reader.place :]

    return Method(name, arguments)
