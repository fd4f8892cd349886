"""Every method of AMQP 0-9-1 as a table of its own, with the codec a test client needs.

It shares nothing with the broker's codec but the field tables, so the two check one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.wire.tables import Arguments, decode_table, encode_table, table_from_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BY_INDEX",
    "CLIENT_METHODS",
    "CONTENT_METHODS",
    "METHODS",
    "SERVER_METHODS",
    "Layout",
    "decode_arguments",
    "encode_method",
]


class Layout(NamedTuple):
    """Ids and arguments of one method; each argument is a name and a letter of `_WIDTHS`."""

    class_id: int
    method_id: int
    arguments: tuple[tuple[str, str], ...]

    @property
    def key(self) -> int:
        return self.class_id << 16 | self.method_id


_WIDTHS: Final = {"o": 1, "h": 2, "l": 4, "q": 8}
"""Octet, short, long, long long; besides them b is a bit, s and S are strings, F is a table."""

# Class and method id, name, arguments. A method that both sides may send stands in both lists.
_CLIENT: Final = """
10 11 connection.start-ok client_properties:F mechanism:s response:S locale:s
10 21 connection.secure-ok response:S
10 31 connection.tune-ok channel_max:h frame_max:l heartbeat:h
10 40 connection.open virtual_host:s capabilities:s insist:b
10 50 connection.close reply_code:h reply_text:s class_id:h method_id:h
10 51 connection.close-ok
10 70 connection.update-secret new_secret:S reason:s
20 10 channel.open out_of_band:s
20 20 channel.flow active:b
20 21 channel.flow-ok active:b
20 40 channel.close reply_code:h reply_text:s class_id:h method_id:h
20 41 channel.close-ok
30 10 access.request realm:s exclusive:b passive:b active:b write:b read:b
40 10 exchange.declare ticket:h exchange:s type:s passive:b durable:b auto_delete:b internal:b nowait:b arguments:F
40 20 exchange.delete ticket:h exchange:s if_unused:b nowait:b
40 30 exchange.bind ticket:h destination:s source:s routing_key:s nowait:b arguments:F
40 40 exchange.unbind ticket:h destination:s source:s routing_key:s nowait:b arguments:F
50 10 queue.declare ticket:h queue:s passive:b durable:b exclusive:b auto_delete:b nowait:b arguments:F
50 20 queue.bind ticket:h queue:s exchange:s routing_key:s nowait:b arguments:F
50 30 queue.purge ticket:h queue:s nowait:b
50 40 queue.delete ticket:h queue:s if_unused:b if_empty:b nowait:b
50 50 queue.unbind ticket:h queue:s exchange:s routing_key:s arguments:F
60 10 basic.qos prefetch_size:l prefetch_count:h global_:b
60 20 basic.consume ticket:h queue:s consumer_tag:s no_local:b no_ack:b exclusive:b nowait:b arguments:F
60 30 basic.cancel consumer_tag:s nowait:b
60 31 basic.cancel-ok consumer_tag:s
60 40 basic.publish ticket:h exchange:s routing_key:s mandatory:b immediate:b
60 70 basic.get ticket:h queue:s no_ack:b
60 80 basic.ack delivery_tag:q multiple:b
60 90 basic.reject delivery_tag:q requeue:b
60 100 basic.recover-async requeue:b
60 110 basic.recover requeue:b
60 120 basic.nack delivery_tag:q multiple:b requeue:b
85 10 confirm.select nowait:b
90 10 tx.select
90 20 tx.commit
90 30 tx.rollback
"""  # noqa: E501

_SERVER: Final = """
10 10 connection.start version_major:o version_minor:o server_properties:F mechanisms:S locales:S
10 20 connection.secure challenge:S
10 30 connection.tune channel_max:h frame_max:l heartbeat:h
10 41 connection.open-ok known_hosts:s
10 60 connection.blocked reason:s
10 61 connection.unblocked
10 71 connection.update-secret-ok
20 11 channel.open-ok channel_id:S
30 11 access.request-ok ticket:h
40 11 exchange.declare-ok
40 21 exchange.delete-ok
40 31 exchange.bind-ok
40 51 exchange.unbind-ok
50 11 queue.declare-ok queue:s message_count:l consumer_count:l
50 21 queue.bind-ok
50 31 queue.purge-ok message_count:l
50 41 queue.delete-ok message_count:l
50 51 queue.unbind-ok
60 11 basic.qos-ok
60 21 basic.consume-ok consumer_tag:s
60 50 basic.return reply_code:h reply_text:s exchange:s routing_key:s
60 60 basic.deliver consumer_tag:s delivery_tag:q redelivered:b exchange:s routing_key:s
60 71 basic.get-ok delivery_tag:q redelivered:b exchange:s routing_key:s message_count:l
60 72 basic.get-empty cluster_id:s
60 111 basic.recover-ok
85 11 confirm.select-ok
90 11 tx.select-ok
90 21 tx.commit-ok
90 31 tx.rollback-ok
"""


def _read(table: str) -> dict[str, Layout]:
    layouts: dict[str, Layout] = {}
    for line in table.strip().splitlines():
        class_id, method_id, name, *arguments = line.split()
        pairs = [argument.split(":") for argument in arguments]
        fields = tuple((field, kind) for field, kind in pairs)
        layouts[name] = Layout(int(class_id), int(method_id), fields)

    return layouts


CLIENT_METHODS: Final = _read(_CLIENT)
"""What a client may send, by name."""

SERVER_METHODS: Final = _read(_SERVER)
"""What only a server sends, by name."""

METHODS: Final = CLIENT_METHODS | SERVER_METHODS
BY_INDEX: Final = {layout.key: name for name, layout in METHODS.items()}

CONTENT_METHODS: Final = ("basic.publish", "basic.return", "basic.deliver", "basic.get-ok")
"""Methods that a content follows."""


def _text(value: object) -> bytes:
    if isinstance(value, bytes):
        return value

    assert isinstance(value, str), value
    return value.encode("utf-8", "surrogateescape")


def _table(value: object) -> bytes:
    """Bytes are a whole table with its length, as it goes over the wire."""
    if isinstance(value, bytes):
        return value

    assert isinstance(value, dict), value
    return encode_table(table_from_plain(value))


def _encode_value(kind: str, value: object) -> bytes:
    if kind == "s":
        raw = _text(value)
        return bytes((len(raw),)) + raw

    if kind == "S":
        raw = _text(value)
        return len(raw).to_bytes(4, "big") + raw

    if kind == "F":
        return _table(value)

    assert isinstance(value, int), value
    return value.to_bytes(_WIDTHS[kind], "big")


def encode_method(name: str, arguments: Mapping[str, object]) -> bytes:
    """The payload of a method frame; what is not given is empty, zero or false."""
    layout = METHODS[name]
    unknown = set(arguments) - {field for field, _ in layout.arguments}
    assert not unknown, f"{name} has no {unknown}"
    parts = [layout.key.to_bytes(4, "big")]
    bits: list[bool] = []
    for field, kind in layout.arguments:
        if kind == "b":
            bits.append(bool(arguments.get(field, False)))
            continue

        parts.append(_encode_bits(bits))
        bits = []
        empty: object = {} if kind == "F" else "" if kind in "sS" else 0
        parts.append(_encode_value(kind, arguments.get(field, empty)))

    parts.append(_encode_bits(bits))
    return b"".join(parts)


def _encode_bits(bits: list[bool]) -> bytes:
    if not bits:
        return b""

    return bytes((sum(1 << place for place, bit in enumerate(bits) if bit),))


def decode_arguments(name: str, payload: bytes) -> dict[str, object]:
    """The arguments of a method; every octet must belong to one of them."""
    values: dict[str, object] = {}
    position = 4
    bit = -1
    for field, kind in METHODS[name].arguments:
        if kind == "b":
            bit += 1
            position += bit == 0
            values[field] = bool(payload[position - 1] >> bit & 1)
            continue

        bit = -1
        position, values[field] = _decode_value(kind, payload, position)

    assert position == len(payload), f"{name} has octets left over: {payload[position:]!r}"
    return values


def _decode_value(kind: str, payload: bytes, position: int) -> tuple[int, object]:
    if kind in _WIDTHS:
        end = position + _WIDTHS[kind]
        assert end <= len(payload), "cut number"
        return end, int.from_bytes(payload[position:end], "big")

    width = 1 if kind == "s" else 4
    start = position + width
    end = start + int.from_bytes(payload[position:start], "big")
    assert end <= len(payload), "cut text or table"
    if kind == "F":
        table: Arguments = decode_table(payload, start, end)
        return end, table

    return end, payload[start:end].decode("utf-8", "surrogateescape")
