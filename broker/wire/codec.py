"""Every method that is not per message: decoded from clients, encoded for them.

Layer 0 (wire), not compiled. The only module that imports pamqp: it knows the layout of each
method and the plain types. What it does not do is done here: telling a cut or overlong argument
list (rule F-08), tables whose type letters matter (rule F-20), names it refuses though they are
legal on the wire. Invariant: whatever the bytes, ``decode_method`` returns or raises an AMQPError.

A method's payload is what lies in the method frame: its index and its arguments. Answers that
never differ are constants.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pamqp import base, commands, decode, encode
from pamqp.exceptions import PAMQPException

from broker.errors import AMQPError, CommandInvalid, FrameError
from broker.limits import SHORT_STRING_BYTES_MAX
from broker.wire import constants, methods
from broker.wire.tables import decode_table, encode_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.wire.methods import Method
    from broker.wire.tables import Arguments

__all__ = [
    "ACCESS_REQUEST_OK",
    "BASIC_GET_EMPTY",
    "BASIC_QOS_OK",
    "BASIC_RECOVER_OK",
    "CHANNEL_CLOSE_OK",
    "CHANNEL_OPEN_OK",
    "CONFIRM_SELECT_OK",
    "CONNECTION_CLOSE_OK",
    "CONNECTION_OPEN_OK",
    "CONNECTION_UNBLOCKED",
    "CONNECTION_UPDATE_SECRET_OK",
    "EXCHANGE_BIND_OK",
    "EXCHANGE_DECLARE_OK",
    "EXCHANGE_DELETE_OK",
    "EXCHANGE_UNBIND_OK",
    "QUEUE_BIND_OK",
    "QUEUE_UNBIND_OK",
    "TX_COMMIT_OK",
    "TX_ROLLBACK_OK",
    "TX_SELECT_OK",
    "decode_method",
    "encode_basic_cancel",
    "encode_basic_cancel_ok",
    "encode_basic_consume_ok",
    "encode_channel_close",
    "encode_channel_flow_ok",
    "encode_connection_blocked",
    "encode_connection_close",
    "encode_connection_secure",
    "encode_connection_start",
    "encode_connection_tune",
    "encode_queue_declare_ok",
    "encode_queue_delete_ok",
    "encode_queue_purge_ok",
]

_INDEX_BYTES: Final = 4
_COUNT_MAX: Final = 0xFFFF_FFFF
_DELIVERY_TAG_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF

_SHOWN_BYTES_MAX: Final = 128
"""Octets of an argument list worth printing: as decimals with commas they pass any reply text."""


class _Layout(NamedTuple):
    """How the arguments of one method lie on the wire.

    Attributes:
        make: the method's class.
        types: pamqp's name for each argument's type, in order; the ticket is among them.
        skips: octets before the first argument of ours: the ticket.
        is_text_checked: short strings must be valid UTF-8 (rule F-09).

    """

    make: Callable[..., Method]
    types: tuple[str, ...]
    skips: int
    is_text_checked: bool


_CLASSES: Final[dict[int, Callable[..., Method]]] = {
    constants.CONNECTION_START_OK: methods.ConnectionStartOk,
    constants.CONNECTION_SECURE_OK: methods.ConnectionSecureOk,
    constants.CONNECTION_TUNE_OK: methods.ConnectionTuneOk,
    constants.CONNECTION_OPEN: methods.ConnectionOpen,
    constants.CONNECTION_CLOSE: methods.ConnectionClose,
    constants.CONNECTION_CLOSE_OK: methods.ConnectionCloseOk,
    constants.CONNECTION_UPDATE_SECRET: methods.ConnectionUpdateSecret,
    constants.CHANNEL_OPEN: methods.ChannelOpen,
    constants.CHANNEL_FLOW: methods.ChannelFlow,
    constants.CHANNEL_FLOW_OK: methods.ChannelFlowOk,
    constants.CHANNEL_CLOSE: methods.ChannelClose,
    constants.CHANNEL_CLOSE_OK: methods.ChannelCloseOk,
    constants.EXCHANGE_DECLARE: methods.ExchangeDeclare,
    constants.EXCHANGE_DELETE: methods.ExchangeDelete,
    constants.EXCHANGE_BIND: methods.ExchangeBind,
    constants.EXCHANGE_UNBIND: methods.ExchangeUnbind,
    constants.QUEUE_DECLARE: methods.QueueDeclare,
    constants.QUEUE_BIND: methods.QueueBind,
    constants.QUEUE_PURGE: methods.QueuePurge,
    constants.QUEUE_DELETE: methods.QueueDelete,
    constants.QUEUE_UNBIND: methods.QueueUnbind,
    constants.BASIC_QOS: methods.BasicQos,
    constants.BASIC_CONSUME: methods.BasicConsume,
    constants.BASIC_CANCEL: methods.BasicCancel,
    constants.BASIC_CANCEL_OK: methods.BasicCancelOk,
    constants.BASIC_PUBLISH: methods.BasicPublish,
    constants.BASIC_GET: methods.BasicGet,
    constants.BASIC_ACK: methods.BasicAck,
    constants.BASIC_NACK: methods.BasicNack,
    constants.BASIC_REJECT: methods.BasicReject,
    constants.BASIC_RECOVER: methods.BasicRecover,
    constants.BASIC_RECOVER_ASYNC: methods.BasicRecoverAsync,
    constants.CONFIRM_SELECT: methods.ConfirmSelect,
    constants.TX_SELECT: methods.TxSelect,
    constants.TX_COMMIT: methods.TxCommit,
    constants.TX_ROLLBACK: methods.TxRollback,
}


def _make_layouts() -> dict[int, _Layout]:
    layouts: dict[int, _Layout] = {}
    for index, make in _CLASSES.items():
        known = commands.INDEX_MAPPING[index]
        if not issubclass(known, base.Frame):
            raise AssertionError(f"pamqp knows no layout for method {index:#010x}")

        names = known.attributes()
        types = tuple(known.amqp_type(name) for name in names if name != "ticket")
        skips = 2 if "ticket" in names else 0
        layouts[index] = _Layout(make, types, skips, index != constants.BASIC_PUBLISH)

    # pamqp has not had the tickets of AMQP 0-8 for long; old clients still ask for one.
    layouts[constants.ACCESS_REQUEST] = _Layout(
        methods.AccessRequest, ("shortstr", "bit", "bit", "bit", "bit", "bit"), 0, True
    )
    return layouts


_LAYOUTS: Final = _make_layouts()

_NUMBER_BYTES: Final = {"octet": 1, "short": 2, "long": 4, "longlong": 8}


class _CutError(Exception):
    """The argument list ends too early or too late."""


def decode_method(index: int, payload: bytes) -> Method:
    """Decode a method from a client.

    Args:
        index: class id << 16 | method id, the first four octets of the payload.
        payload: the whole payload of the method frame.

    Raises:
        CommandInvalid: the ids are unknown (rule F-07) or a server's (rule CH-11).
        FrameError: arguments cut or left over (rule F-08), or text that is no UTF-8 (rule F-09).
        TableError: a table whose entries do not decode.

    """
    layout = _LAYOUTS.get(index)
    if layout is None:
        if index in constants.SERVER_TO_CLIENT:
            raise CommandInvalid("unimplemented method")

        # RabbitMQ drops the connection without a word here (rule F-07).
        raise CommandInvalid(
            f"unimplemented method {constants.method_name_of(index)}",
            class_id=constants.class_id_of(index),
            method_id=constants.method_id_of(index),
        )

    try:
        values = _decode_arguments(layout, payload)
    except AMQPError:
        raise
    except (_CutError, PAMQPException, ValueError, TypeError, struct.error):
        raise _cannot_decode(index, payload) from None

    return layout.make(*values)


def _cannot_decode(index: int, payload: bytes) -> FrameError:
    shown = ",".join(str(octet) for octet in payload[_INDEX_BYTES:][:_SHOWN_BYTES_MAX])
    # RabbitMQ answers 541 without a text on channel 0; this says more.
    return FrameError(
        f"cannot decode <<{shown}>>",
        class_id=constants.class_id_of(index),
        method_id=constants.method_id_of(index),
    )


def _decode_arguments(layout: _Layout, payload: bytes) -> list[object]:
    """Decode the arguments and see that nothing is left over."""
    values: list[object] = []
    end = len(payload)
    pos = _INDEX_BYTES + layout.skips
    bit_position = -1
    for kind in layout.types:
        if kind == "bit":
            # Consecutive bits share an octet, the first one lowest (rule X-03).
            if bit_position < 0:
                pos = _claim(pos, 1, end)
                bit_position = 0

            values.append(decode.bit(payload[pos - 1 : pos], bit_position)[1])
            bit_position += 1
            continue

        bit_position = -1
        start = pos
        pos = _end_of(kind, payload, start)
        values.append(_decode_value(kind, payload[start:pos], layout.is_text_checked))

    if pos != end:
        raise _CutError

    return values


def _claim(pos: int, count: int, end: int) -> int:
    if pos + count > end:
        raise _CutError

    return pos + count


def _end_of(kind: str, payload: bytes, pos: int) -> int:
    """Return where the argument at ``pos`` ends; pamqp would decode what there is of it."""
    end = len(payload)
    octets = _NUMBER_BYTES.get(kind)
    if octets is not None:
        return _claim(pos, octets, end)
    if kind == "shortstr":
        stop = _claim(pos, 1, end)
        return _claim(stop, payload[pos], end)

    stop = _claim(pos, 4, end)
    return _claim(stop, int.from_bytes(payload[pos:stop], "big"), end)


def _decode_value(kind: str, raw: bytes, is_text_checked: bool) -> object:
    if kind == "table":
        return decode_table(raw, 4, len(raw))
    if kind == "longstr":
        # pamqp gives text or bytes, whichever fits; SASL responses are bytes.
        return raw[4:]
    if kind == "shortstr":
        return _decode_text(raw) if is_text_checked else raw[1:].decode("utf-8", "surrogateescape")

    value = decode.by_type(raw, kind)[1]
    if kind == "longlong" and isinstance(value, int):
        # Delivery tags are unsigned; pamqp reads them signed.
        return value & _DELIVERY_TAG_MASK

    return value


def _decode_text(raw: bytes) -> str:
    try:
        return decode.short_str(raw)[1]
    except (PAMQPException, ValueError):
        raise FrameError("Malformed UTF-8 in shortstr", class_id=0, method_id=0) from None


def _payload(index: int, *arguments: bytes) -> bytes:
    return encode.long_uint(index) + b"".join(arguments)


def _short(text: str) -> bytes:
    """Encode a short string; pamqp refuses bytes that are no UTF-8 and some legal names."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"short string longer than {SHORT_STRING_BYTES_MAX} bytes: {text!r}")

    return encode.octet(len(raw)) + raw


def _count(count: int) -> bytes:
    return encode.long_uint(min(count, _COUNT_MAX))


CONNECTION_OPEN_OK: Final = _payload(constants.CONNECTION_OPEN_OK, _short(""))
CONNECTION_CLOSE_OK: Final = _payload(constants.CONNECTION_CLOSE_OK)
CONNECTION_UNBLOCKED: Final = _payload(constants.CONNECTION_UNBLOCKED)
CONNECTION_UPDATE_SECRET_OK: Final = _payload(constants.CONNECTION_UPDATE_SECRET_OK)
CHANNEL_OPEN_OK: Final = _payload(constants.CHANNEL_OPEN_OK, encode.long_string(""))
CHANNEL_CLOSE_OK: Final = _payload(constants.CHANNEL_CLOSE_OK)
# Rule CH-10: every ticket is 1.
ACCESS_REQUEST_OK: Final = _payload(constants.ACCESS_REQUEST_OK, encode.short_uint(1))
EXCHANGE_DECLARE_OK: Final = _payload(constants.EXCHANGE_DECLARE_OK)
EXCHANGE_DELETE_OK: Final = _payload(constants.EXCHANGE_DELETE_OK)
EXCHANGE_BIND_OK: Final = _payload(constants.EXCHANGE_BIND_OK)
EXCHANGE_UNBIND_OK: Final = _payload(constants.EXCHANGE_UNBIND_OK)
QUEUE_BIND_OK: Final = _payload(constants.QUEUE_BIND_OK)
QUEUE_UNBIND_OK: Final = _payload(constants.QUEUE_UNBIND_OK)
BASIC_QOS_OK: Final = _payload(constants.BASIC_QOS_OK)
BASIC_GET_EMPTY: Final = _payload(constants.BASIC_GET_EMPTY, _short(""))
BASIC_RECOVER_OK: Final = _payload(constants.BASIC_RECOVER_OK)
CONFIRM_SELECT_OK: Final = _payload(constants.CONFIRM_SELECT_OK)
TX_SELECT_OK: Final = _payload(constants.TX_SELECT_OK)
TX_COMMIT_OK: Final = _payload(constants.TX_COMMIT_OK)
TX_ROLLBACK_OK: Final = _payload(constants.TX_ROLLBACK_OK)


def encode_connection_start(
    server_properties: Arguments, mechanisms: str, locales: str = "en_US"
) -> bytes:
    """Encode connection.start of AMQP 0-9-1 (rules C-10..C-13)."""
    return _payload(
        constants.CONNECTION_START,
        encode.octet(0),
        encode.octet(9),
        encode_table(server_properties),
        encode.long_string(mechanisms),
        encode.long_string(locales),
    )


def encode_connection_secure(challenge: bytes) -> bytes:
    """Encode connection.secure."""
    return _payload(constants.CONNECTION_SECURE, encode.long_uint(len(challenge)), challenge)


def encode_connection_tune(channel_max: int, frame_max: int, heartbeat: int) -> bytes:
    """Encode connection.tune (rule C-40)."""
    return _payload(
        constants.CONNECTION_TUNE,
        encode.short_uint(channel_max),
        encode.long_uint(frame_max),
        encode.short_uint(heartbeat),
    )


def encode_connection_close(
    reply_code: int, reply_text: str, *, class_id: int, method_id: int
) -> bytes:
    """Encode connection.close; a reply text is at most 255 bytes (rule T-03)."""
    return _encode_close(
        constants.CONNECTION_CLOSE, reply_code, reply_text, class_id=class_id, method_id=method_id
    )


def encode_channel_close(
    reply_code: int, reply_text: str, *, class_id: int, method_id: int
) -> bytes:
    """Encode channel.close; a reply text is at most 255 bytes (rule T-03)."""
    return _encode_close(
        constants.CHANNEL_CLOSE, reply_code, reply_text, class_id=class_id, method_id=method_id
    )


def _encode_close(
    index: int, reply_code: int, reply_text: str, *, class_id: int, method_id: int
) -> bytes:
    return _payload(
        index,
        encode.short_uint(reply_code),
        _short(reply_text),
        encode.short_uint(class_id),
        encode.short_uint(method_id),
    )


def encode_connection_blocked(reason: str) -> bytes:
    """Encode connection.blocked."""
    return _payload(constants.CONNECTION_BLOCKED, _short(reason))


def encode_channel_flow_ok(active: bool) -> bytes:
    """Encode channel.flow-ok (rule CH-09)."""
    return _payload(constants.CHANNEL_FLOW_OK, encode.octet(1 if active else 0))


def encode_queue_declare_ok(queue: str, message_count: int, consumer_count: int) -> bytes:
    """Encode queue.declare-ok (rule Q-05)."""
    return _payload(
        constants.QUEUE_DECLARE_OK, _short(queue), _count(message_count), _count(consumer_count)
    )


def encode_queue_purge_ok(message_count: int) -> bytes:
    """Encode queue.purge-ok."""
    return _payload(constants.QUEUE_PURGE_OK, _count(message_count))


def encode_queue_delete_ok(message_count: int) -> bytes:
    """Encode queue.delete-ok."""
    return _payload(constants.QUEUE_DELETE_OK, _count(message_count))


def encode_basic_consume_ok(consumer_tag: str) -> bytes:
    """Encode basic.consume-ok."""
    return _payload(constants.BASIC_CONSUME_OK, _short(consumer_tag))


def encode_basic_cancel(consumer_tag: str) -> bytes:
    """Encode the server's own basic.cancel, which expects no answer."""
    return _payload(constants.BASIC_CANCEL, _short(consumer_tag), encode.octet(1))


def encode_basic_cancel_ok(consumer_tag: str) -> bytes:
    """Encode basic.cancel-ok."""
    return _payload(constants.BASIC_CANCEL_OK, _short(consumer_tag))
