"""What each method on a channel does: one function a method, one module a class.

A function checks nothing that the core checks: it turns arguments into a command and the result
into an answer. It raises what the command raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.protocol.methods import basic, channels, exchange, queue, tx
from broker.wire import constants

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.protocol.channel import Channel

__all__ = ["METHODS"]

METHODS: Final[dict[int, Callable[[Channel, Any], None]]] = {
    constants.CHANNEL_FLOW: channels.flow,
    constants.CHANNEL_CLOSE: channels.close,
    constants.ACCESS_REQUEST: channels.access_request,
    constants.EXCHANGE_DECLARE: exchange.declare,
    constants.EXCHANGE_DELETE: exchange.delete,
    constants.EXCHANGE_BIND: exchange.bind,
    constants.EXCHANGE_UNBIND: exchange.unbind,
    constants.QUEUE_DECLARE: queue.declare,
    constants.QUEUE_BIND: queue.bind,
    constants.QUEUE_UNBIND: queue.unbind,
    constants.QUEUE_PURGE: queue.purge,
    constants.QUEUE_DELETE: queue.delete,
    constants.BASIC_QOS: basic.qos,
    constants.BASIC_CONSUME: basic.consume,
    constants.BASIC_CANCEL: basic.cancel,
    constants.BASIC_GET: basic.get,
    constants.BASIC_ACK: basic.ack,
    constants.BASIC_NACK: basic.nack,
    constants.BASIC_REJECT: basic.reject,
    constants.BASIC_RECOVER: basic.recover,
    constants.BASIC_RECOVER_ASYNC: basic.recover_async,
    constants.CONFIRM_SELECT: tx.confirm_select,
    constants.TX_SELECT: tx.select,
    constants.TX_COMMIT: tx.commit,
    constants.TX_ROLLBACK: tx.rollback,
}
"""Method index -> function. Each takes its own method's tuple, which is why the type is open."""
