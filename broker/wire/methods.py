"""The methods a client sends, one named tuple each; the codec makes them, the protocol reads them.

Layer 0 (wire). Field names are those of the specification with underscores; the ticket, which
means nothing since AMQP 0-9, is left out. Short strings are text (undecodable bytes as surrogate
escapes), long strings are bytes. A method without fields is an empty tuple and so is false:
compare types, not truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.wire.tables import Arguments

__all__ = [
    "AccessRequest",
    "BasicAck",
    "BasicCancel",
    "BasicCancelOk",
    "BasicConsume",
    "BasicGet",
    "BasicNack",
    "BasicPublish",
    "BasicQos",
    "BasicRecover",
    "BasicRecoverAsync",
    "BasicReject",
    "ChannelClose",
    "ChannelCloseOk",
    "ChannelFlow",
    "ChannelFlowOk",
    "ChannelOpen",
    "ConfirmSelect",
    "ConnectionClose",
    "ConnectionCloseOk",
    "ConnectionOpen",
    "ConnectionSecureOk",
    "ConnectionStartOk",
    "ConnectionTuneOk",
    "ConnectionUpdateSecret",
    "ExchangeBind",
    "ExchangeDeclare",
    "ExchangeDelete",
    "ExchangeUnbind",
    "Method",
    "QueueBind",
    "QueueDeclare",
    "QueueDelete",
    "QueuePurge",
    "QueueUnbind",
    "TxCommit",
    "TxRollback",
    "TxSelect",
]


class ConnectionStartOk(NamedTuple):
    """Who the client is, and its first SASL response (rules C-14..C-37)."""

    client_properties: Arguments
    mechanism: str
    response: bytes
    locale: str


class ConnectionSecureOk(NamedTuple):
    """The next SASL response."""

    response: bytes


class ConnectionTuneOk(NamedTuple):
    """The limits the client settles on (rules C-41..C-44)."""

    channel_max: int
    frame_max: int
    heartbeat: int


class ConnectionOpen(NamedTuple):
    """Choose a virtual host (rules C-50..C-58)."""

    virtual_host: str
    capabilities: str
    insist: bool


class ConnectionClose(NamedTuple):
    """End the connection (rule C-70)."""

    reply_code: int
    reply_text: str
    class_id: int
    method_id: int


class ConnectionCloseOk(NamedTuple):
    """Confirm the server's close (rule C-72)."""


class ConnectionUpdateSecret(NamedTuple):
    """Renew the credentials (rule C-73)."""

    new_secret: bytes
    reason: str


class ChannelOpen(NamedTuple):
    """Open a channel (rules CH-01..CH-05)."""

    out_of_band: str


class ChannelFlow(NamedTuple):
    """Ask for deliveries to pause or resume (rule CH-09)."""

    active: bool


class ChannelFlowOk(NamedTuple):
    """Answer to a flow the server never sends."""

    active: bool


class ChannelClose(NamedTuple):
    """End a channel (rule CH-06)."""

    reply_code: int
    reply_text: str
    class_id: int
    method_id: int


class ChannelCloseOk(NamedTuple):
    """Confirm the server's close (rules CH-07, CH-08)."""


class AccessRequest(NamedTuple):
    """The access tickets of AMQP 0-8, obsolete (rule CH-10)."""

    realm: str
    exclusive: bool
    passive: bool
    active: bool
    write: bool
    read: bool


class ExchangeDeclare(NamedTuple):
    """Make an exchange, or check one."""

    exchange: str
    type: str
    passive: bool
    durable: bool
    auto_delete: bool
    internal: bool
    nowait: bool
    arguments: Arguments


class ExchangeDelete(NamedTuple):
    """Delete an exchange."""

    exchange: str
    if_unused: bool
    nowait: bool


class ExchangeBind(NamedTuple):
    """Bind an exchange to an exchange (rule E-100)."""

    destination: str
    source: str
    routing_key: str
    nowait: bool
    arguments: Arguments


class ExchangeUnbind(NamedTuple):
    """Undo exchange.bind."""

    destination: str
    source: str
    routing_key: str
    nowait: bool
    arguments: Arguments


class QueueDeclare(NamedTuple):
    """Make a queue, or check one."""

    queue: str
    passive: bool
    durable: bool
    exclusive: bool
    auto_delete: bool
    nowait: bool
    arguments: Arguments


class QueueBind(NamedTuple):
    """Bind a queue to an exchange."""

    queue: str
    exchange: str
    routing_key: str
    nowait: bool
    arguments: Arguments


class QueuePurge(NamedTuple):
    """Drop what is ready in a queue."""

    queue: str
    nowait: bool


class QueueDelete(NamedTuple):
    """Delete a queue."""

    queue: str
    if_unused: bool
    if_empty: bool
    nowait: bool


class QueueUnbind(NamedTuple):
    """Undo queue.bind; it has no nowait (rule B-06)."""

    queue: str
    exchange: str
    routing_key: str
    arguments: Arguments


class BasicQos(NamedTuple):
    """Limit what may be unacknowledged."""

    prefetch_size: int
    prefetch_count: int
    global_: bool


class BasicConsume(NamedTuple):
    """Start a consumer."""

    queue: str
    consumer_tag: str
    no_local: bool
    no_ack: bool
    exclusive: bool
    nowait: bool
    arguments: Arguments


class BasicCancel(NamedTuple):
    """End a consumer."""

    consumer_tag: str
    nowait: bool


class BasicCancelOk(NamedTuple):
    """Answer to a cancel by the server, which expects none (rule CH-11)."""

    consumer_tag: str


class BasicPublish(NamedTuple):
    """Publish a message; the content follows."""

    exchange: str
    routing_key: str
    mandatory: bool
    immediate: bool


class BasicGet(NamedTuple):
    """Take one message."""

    queue: str
    no_ack: bool


class BasicAck(NamedTuple):
    """Acknowledge one delivery or all up to it."""

    delivery_tag: int
    multiple: bool


class BasicNack(NamedTuple):
    """Refuse one delivery or all up to it."""

    delivery_tag: int
    multiple: bool
    requeue: bool


class BasicReject(NamedTuple):
    """Refuse one delivery."""

    delivery_tag: int
    requeue: bool


class BasicRecover(NamedTuple):
    """Give back what is unacknowledged."""

    requeue: bool


class BasicRecoverAsync(NamedTuple):
    """As basic.recover, without an answer."""

    requeue: bool


class ConfirmSelect(NamedTuple):
    """Turn on publisher confirms."""

    nowait: bool


class TxSelect(NamedTuple):
    """Turn on transactions."""


class TxCommit(NamedTuple):
    """Commit, and begin the next transaction."""


class TxRollback(NamedTuple):
    """Roll back, and begin the next transaction."""


Method = (
    ConnectionStartOk
    | ConnectionSecureOk
    | ConnectionTuneOk
    | ConnectionOpen
    | ConnectionClose
    | ConnectionCloseOk
    | ConnectionUpdateSecret
    | ChannelOpen
    | ChannelFlow
    | ChannelFlowOk
    | ChannelClose
    | ChannelCloseOk
    | AccessRequest
    | ExchangeDeclare
    | ExchangeDelete
    | ExchangeBind
    | ExchangeUnbind
    | QueueDeclare
    | QueueBind
    | QueuePurge
    | QueueDelete
    | QueueUnbind
    | BasicQos
    | BasicConsume
    | BasicCancel
    | BasicCancelOk
    | BasicPublish
    | BasicGet
    | BasicAck
    | BasicNack
    | BasicReject
    | BasicRecover
    | BasicRecoverAsync
    | ConfirmSelect
    | TxSelect
    | TxCommit
    | TxRollback
)
"""Any method a client may send."""
