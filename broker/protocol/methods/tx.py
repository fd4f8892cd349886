"""tx.* and confirm.select: the modes of a channel (sections TX, CF)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.confirms import Confirms
from broker.core.transaction import ACK, REJECT, REQUEUE, Transaction
from broker.errors import PreconditionFailed
from broker.wire import codec

if TYPE_CHECKING:
    from broker.protocol.channel import Channel
    from broker.wire.methods import ConfirmSelect, TxCommit, TxRollback, TxSelect

__all__ = ["commit", "confirm_select", "rollback", "select"]

SETTLEMENTS: Final = {ACK: "ack", REJECT: "nack", REQUEUE: "nack-requeue"}
"""As a witness is told of them; by which of two methods is not known any more."""


def confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    """confirm.select; once more changes nothing (rules CF-01, CF-02)."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")

    if channel.confirms is None:
        confirms = Confirms(
            channel.connection.node.confirms, channel.connection.output, channel.number
        )
        channel.confirms = confirms
        channel.publisher.confirms = confirms

    if not method.nowait:
        channel.send(codec.CONFIRM_SELECT_OK)


def select(channel: Channel, method: TxSelect) -> None:
    """tx.select; once more changes nothing (rule TX-01)."""
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")

    if channel.transaction is None:
        channel.transaction = Transaction()
        channel.publisher.transaction = channel.transaction
        channel.deliveries.transaction = channel.transaction

    channel.send(codec.TX_SELECT_OK)


def commit(channel: Channel, method: TxCommit) -> None:
    """tx.commit: publishes in order, then settlements in order (rules TX-04, TX-05)."""
    transaction = _transaction_of(channel)
    is_accepted = channel.publisher.commit(transaction.take_publications())
    if is_accepted:
        # RabbitMQ: the answer comes before what the settlements let through.
        channel.send(codec.TX_COMMIT_OK)

    deliveries = channel.deliveries
    witness = channel.vhost.witness
    for settlement in transaction.take_settlements():
        if witness is not None:
            witness.settling(settlement.messages, SETTLEMENTS[settlement.kind])

        if settlement.kind == ACK:
            deliveries.settle(settlement.messages)
        elif settlement.kind == REQUEUE:
            deliveries.give_back(settlement.messages)
        else:
            deliveries.reject(settlement.messages)

    journal = channel.vhost.journal
    if journal is not None:
        # Rule TX-05: the answer leaves when the log has all of it.
        journal.hold_output(channel.connection.output)

    if not is_accepted:
        # Rules Q-87, TX-05: a queue that was full refused a message of the transaction.
        raise PreconditionFailed("partial tx completion")


def rollback(channel: Channel, method: TxRollback) -> None:
    """tx.rollback: publishes are forgotten, what was settled is unacked again (rule TX-06)."""
    transaction = _transaction_of(channel)
    transaction.take_publications()
    witness = channel.vhost.witness
    if witness is not None:
        witness.rolled_back(channel.deliveries)

    messages = transaction.settled_messages()
    transaction.take_settlements()
    if messages:
        channel.deliveries.unacked.restore(messages)

    channel.send(codec.TX_ROLLBACK_OK)


def _transaction_of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")

    return channel.transaction
