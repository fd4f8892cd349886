"""Frame types, class ids and method indexes of AMQP 0-9-1 (semantics of the wire, no behaviour).

Layer 0 (wire). A method index is ``class id << 16 | method id``, the first four bytes of a method
frame's payload. Everything is a plain ``Final`` so that compiled code holds the number itself.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ACCESS_REQUEST",
    "ACCESS_REQUEST_OK",
    "BASIC_ACK",
    "BASIC_CANCEL",
    "BASIC_CANCEL_OK",
    "BASIC_CONSUME",
    "BASIC_CONSUME_OK",
    "BASIC_DELIVER",
    "BASIC_GET",
    "BASIC_GET_EMPTY",
    "BASIC_GET_OK",
    "BASIC_NACK",
    "BASIC_PUBLISH",
    "BASIC_QOS",
    "BASIC_QOS_OK",
    "BASIC_RECOVER",
    "BASIC_RECOVER_ASYNC",
    "BASIC_RECOVER_OK",
    "BASIC_REJECT",
    "BASIC_RETURN",
    "CHANNEL_CLOSE",
    "CHANNEL_CLOSE_OK",
    "CHANNEL_FLOW",
    "CHANNEL_FLOW_OK",
    "CHANNEL_OPEN",
    "CHANNEL_OPEN_OK",
    "CLASS_ACCESS",
    "CLASS_BASIC",
    "CLASS_CHANNEL",
    "CLASS_CONFIRM",
    "CLASS_CONNECTION",
    "CLASS_EXCHANGE",
    "CLASS_QUEUE",
    "CLASS_TX",
    "CONFIRM_SELECT",
    "CONFIRM_SELECT_OK",
    "CONNECTION_BLOCKED",
    "CONNECTION_CLOSE",
    "CONNECTION_CLOSE_OK",
    "CONNECTION_OPEN",
    "CONNECTION_OPEN_OK",
    "CONNECTION_SECURE",
    "CONNECTION_SECURE_OK",
    "CONNECTION_START",
    "CONNECTION_START_OK",
    "CONNECTION_TUNE",
    "CONNECTION_TUNE_OK",
    "CONNECTION_UNBLOCKED",
    "CONNECTION_UPDATE_SECRET",
    "CONNECTION_UPDATE_SECRET_OK",
    "EXCHANGE_BIND",
    "EXCHANGE_BIND_OK",
    "EXCHANGE_DECLARE",
    "EXCHANGE_DECLARE_OK",
    "EXCHANGE_DELETE",
    "EXCHANGE_DELETE_OK",
    "EXCHANGE_UNBIND",
    "EXCHANGE_UNBIND_OK",
    "FRAME_BODY",
    "FRAME_END",
    "FRAME_HEADER",
    "FRAME_HEADER_BYTES",
    "FRAME_HEARTBEAT",
    "FRAME_METHOD",
    "FRAME_OVERHEAD_BYTES",
    "HEARTBEAT_FRAME",
    "METHODS_WITH_CONTENT",
    "METHOD_NAMES",
    "PROTOCOL_HEADER",
    "QUEUE_BIND",
    "QUEUE_BIND_OK",
    "QUEUE_DECLARE",
    "QUEUE_DECLARE_OK",
    "QUEUE_DELETE",
    "QUEUE_DELETE_OK",
    "QUEUE_PURGE",
    "QUEUE_PURGE_OK",
    "QUEUE_UNBIND",
    "QUEUE_UNBIND_OK",
    "REPLY_NO_ROUTE",
    "REPLY_SUCCESS",
    "SERVER_TO_CLIENT",
    "TX_COMMIT",
    "TX_COMMIT_OK",
    "TX_ROLLBACK",
    "TX_ROLLBACK_OK",
    "TX_SELECT",
    "TX_SELECT_OK",
    "class_id_of",
    "method_id_of",
    "method_name_of",
]

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

FRAME_END: Final = 0xCE
FRAME_HEADER_BYTES: Final = 7
"""Type, channel and size before the payload (rule F-01)."""
FRAME_OVERHEAD_BYTES: Final = 8
"""What a frame needs besides its payload: the header and the end octet."""
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

REPLY_SUCCESS: Final = 200
REPLY_NO_ROUTE: Final = 312

CLASS_CONNECTION: Final = 10
CLASS_CHANNEL: Final = 20
CLASS_ACCESS: Final = 30
CLASS_EXCHANGE: Final = 40
CLASS_QUEUE: Final = 50
CLASS_BASIC: Final = 60
CLASS_CONFIRM: Final = 85
CLASS_TX: Final = 90

CONNECTION_START: Final = 0x000A000A
CONNECTION_START_OK: Final = 0x000A000B
CONNECTION_SECURE: Final = 0x000A0014
CONNECTION_SECURE_OK: Final = 0x000A0015
CONNECTION_TUNE: Final = 0x000A001E
CONNECTION_TUNE_OK: Final = 0x000A001F
CONNECTION_OPEN: Final = 0x000A0028
CONNECTION_OPEN_OK: Final = 0x000A0029
CONNECTION_CLOSE: Final = 0x000A0032
CONNECTION_CLOSE_OK: Final = 0x000A0033
CONNECTION_BLOCKED: Final = 0x000A003C
CONNECTION_UNBLOCKED: Final = 0x000A003D
CONNECTION_UPDATE_SECRET: Final = 0x000A0046
CONNECTION_UPDATE_SECRET_OK: Final = 0x000A0047

CHANNEL_OPEN: Final = 0x0014000A
CHANNEL_OPEN_OK: Final = 0x0014000B
CHANNEL_FLOW: Final = 0x00140014
CHANNEL_FLOW_OK: Final = 0x00140015
CHANNEL_CLOSE: Final = 0x00140028
CHANNEL_CLOSE_OK: Final = 0x00140029

ACCESS_REQUEST: Final = 0x001E000A
ACCESS_REQUEST_OK: Final = 0x001E000B

EXCHANGE_DECLARE: Final = 0x0028000A
EXCHANGE_DECLARE_OK: Final = 0x0028000B
EXCHANGE_DELETE: Final = 0x00280014
EXCHANGE_DELETE_OK: Final = 0x00280015
EXCHANGE_BIND: Final = 0x0028001E
EXCHANGE_BIND_OK: Final = 0x0028001F
EXCHANGE_UNBIND: Final = 0x00280028
# Not 41: the number RabbitMQ gave its extension.
EXCHANGE_UNBIND_OK: Final = 0x00280033

QUEUE_DECLARE: Final = 0x0032000A
QUEUE_DECLARE_OK: Final = 0x0032000B
QUEUE_BIND: Final = 0x00320014
QUEUE_BIND_OK: Final = 0x00320015
QUEUE_PURGE: Final = 0x0032001E
QUEUE_PURGE_OK: Final = 0x0032001F
QUEUE_DELETE: Final = 0x00320028
QUEUE_DELETE_OK: Final = 0x00320029
QUEUE_UNBIND: Final = 0x00320032
QUEUE_UNBIND_OK: Final = 0x00320033

BASIC_QOS: Final = 0x003C000A
BASIC_QOS_OK: Final = 0x003C000B
BASIC_CONSUME: Final = 0x003C0014
BASIC_CONSUME_OK: Final = 0x003C0015
BASIC_CANCEL: Final = 0x003C001E
BASIC_CANCEL_OK: Final = 0x003C001F
BASIC_PUBLISH: Final = 0x003C0028
BASIC_RETURN: Final = 0x003C0032
BASIC_DELIVER: Final = 0x003C003C
BASIC_GET: Final = 0x003C0046
BASIC_GET_OK: Final = 0x003C0047
BASIC_GET_EMPTY: Final = 0x003C0048
BASIC_ACK: Final = 0x003C0050
BASIC_REJECT: Final = 0x003C005A
BASIC_RECOVER_ASYNC: Final = 0x003C0064
BASIC_RECOVER: Final = 0x003C006E
BASIC_RECOVER_OK: Final = 0x003C006F
BASIC_NACK: Final = 0x003C0078

CONFIRM_SELECT: Final = 0x0055000A
CONFIRM_SELECT_OK: Final = 0x0055000B

TX_SELECT: Final = 0x005A000A
TX_SELECT_OK: Final = 0x005A000B
TX_COMMIT: Final = 0x005A0014
TX_COMMIT_OK: Final = 0x005A0015
TX_ROLLBACK: Final = 0x005A001E
TX_ROLLBACK_OK: Final = 0x005A001F

METHOD_NAMES: Final[dict[int, str]] = {
    CONNECTION_START: "connection.start",
    CONNECTION_START_OK: "connection.start-ok",
    CONNECTION_SECURE: "connection.secure",
    CONNECTION_SECURE_OK: "connection.secure-ok",
    CONNECTION_TUNE: "connection.tune",
    CONNECTION_TUNE_OK: "connection.tune-ok",
    CONNECTION_OPEN: "connection.open",
    CONNECTION_OPEN_OK: "connection.open-ok",
    CONNECTION_CLOSE: "connection.close",
    CONNECTION_CLOSE_OK: "connection.close-ok",
    CONNECTION_BLOCKED: "connection.blocked",
    CONNECTION_UNBLOCKED: "connection.unblocked",
    CONNECTION_UPDATE_SECRET: "connection.update-secret",
    CONNECTION_UPDATE_SECRET_OK: "connection.update-secret-ok",
    CHANNEL_OPEN: "channel.open",
    CHANNEL_OPEN_OK: "channel.open-ok",
    CHANNEL_FLOW: "channel.flow",
    CHANNEL_FLOW_OK: "channel.flow-ok",
    CHANNEL_CLOSE: "channel.close",
    CHANNEL_CLOSE_OK: "channel.close-ok",
    ACCESS_REQUEST: "access.request",
    ACCESS_REQUEST_OK: "access.request-ok",
    EXCHANGE_DECLARE: "exchange.declare",
    EXCHANGE_DECLARE_OK: "exchange.declare-ok",
    EXCHANGE_DELETE: "exchange.delete",
    EXCHANGE_DELETE_OK: "exchange.delete-ok",
    EXCHANGE_BIND: "exchange.bind",
    EXCHANGE_BIND_OK: "exchange.bind-ok",
    EXCHANGE_UNBIND: "exchange.unbind",
    EXCHANGE_UNBIND_OK: "exchange.unbind-ok",
    QUEUE_DECLARE: "queue.declare",
    QUEUE_DECLARE_OK: "queue.declare-ok",
    QUEUE_BIND: "queue.bind",
    QUEUE_BIND_OK: "queue.bind-ok",
    QUEUE_PURGE: "queue.purge",
    QUEUE_PURGE_OK: "queue.purge-ok",
    QUEUE_DELETE: "queue.delete",
    QUEUE_DELETE_OK: "queue.delete-ok",
    QUEUE_UNBIND: "queue.unbind",
    QUEUE_UNBIND_OK: "queue.unbind-ok",
    BASIC_QOS: "basic.qos",
    BASIC_QOS_OK: "basic.qos-ok",
    BASIC_CONSUME: "basic.consume",
    BASIC_CONSUME_OK: "basic.consume-ok",
    BASIC_CANCEL: "basic.cancel",
    BASIC_CANCEL_OK: "basic.cancel-ok",
    BASIC_PUBLISH: "basic.publish",
    BASIC_RETURN: "basic.return",
    BASIC_DELIVER: "basic.deliver",
    BASIC_GET: "basic.get",
    BASIC_GET_OK: "basic.get-ok",
    BASIC_GET_EMPTY: "basic.get-empty",
    BASIC_ACK: "basic.ack",
    BASIC_REJECT: "basic.reject",
    BASIC_RECOVER_ASYNC: "basic.recover-async",
    BASIC_RECOVER: "basic.recover",
    BASIC_RECOVER_OK: "basic.recover-ok",
    BASIC_NACK: "basic.nack",
    CONFIRM_SELECT: "confirm.select",
    CONFIRM_SELECT_OK: "confirm.select-ok",
    TX_SELECT: "tx.select",
    TX_SELECT_OK: "tx.select-ok",
    TX_COMMIT: "tx.commit",
    TX_COMMIT_OK: "tx.commit-ok",
    TX_ROLLBACK: "tx.rollback",
    TX_ROLLBACK_OK: "tx.rollback-ok",
}
"""Method index to its name as the specification writes it."""

SERVER_TO_CLIENT: Final[frozenset[int]] = frozenset(
    {
        CONNECTION_START,
        CONNECTION_SECURE,
        CONNECTION_TUNE,
        CONNECTION_OPEN_OK,
        CONNECTION_BLOCKED,
        CONNECTION_UNBLOCKED,
        CONNECTION_UPDATE_SECRET_OK,
        CHANNEL_OPEN_OK,
        ACCESS_REQUEST_OK,
        EXCHANGE_DECLARE_OK,
        EXCHANGE_DELETE_OK,
        EXCHANGE_BIND_OK,
        EXCHANGE_UNBIND_OK,
        QUEUE_DECLARE_OK,
        QUEUE_BIND_OK,
        QUEUE_PURGE_OK,
        QUEUE_DELETE_OK,
        QUEUE_UNBIND_OK,
        BASIC_QOS_OK,
        BASIC_CONSUME_OK,
        BASIC_RETURN,
        BASIC_DELIVER,
        BASIC_GET_OK,
        BASIC_GET_EMPTY,
        BASIC_RECOVER_OK,
        CONFIRM_SELECT_OK,
        TX_SELECT_OK,
        TX_COMMIT_OK,
        TX_ROLLBACK_OK,
    }
)
"""Methods only a server sends: from a client they are 503 (rule CH-11)."""

METHODS_WITH_CONTENT: Final[frozenset[int]] = frozenset(
    {BASIC_PUBLISH, BASIC_RETURN, BASIC_DELIVER, BASIC_GET_OK}
)
"""Methods a content header and body follow."""


def class_id_of(index: int) -> int:
    """Return the class id of a method index."""
    return index >> 16


def method_id_of(index: int) -> int:
    """Return the method id of a method index."""
    return index & 0xFFFF


def method_name_of(index: int) -> str:
    """Return ``basic.publish``, or ``60.99`` for a method nobody knows."""
    name = METHOD_NAMES.get(index)
    if name is None:
        return f"{index >> 16}.{index & 0xFFFF}"

    return name
