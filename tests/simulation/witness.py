"""Checks what the broker writes to a client against what the client may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.client import SimulatedChannel, SimulatedClient, copy_number, trail_of
from tests.simulation.ledger import Copy, Ledger

if TYPE_CHECKING:
    from tests.helpers.session import Heard

__all__ = ["watch"]


def watch(clients: list[SimulatedClient], ledger: Ledger) -> None:
    """Take what was written to all clients since the last time, and check it.

    What the broker wrote in one go has no order between clients; first deliveries are entered
    before others, since they must have come before.

    """
    deliveries: list[tuple[Copy, SimulatedChannel, int, bool]] = []
    recovered: dict[SimulatedChannel, int] = {}
    for client in clients:
        for channel, heard in client.tap():
            if channel is None:
                continue

            if heard.name in ("basic.deliver", "basic.get-ok"):
                deliveries.append(_delivery(channel, heard))
            elif heard.name == "basic.recover-ok":
                client.release_unacked(channel)
                channel.unacked.clear()
                channel.seen.clear()
                recovered[channel] = channel.delivered
            else:
                _check_other(channel, heard, ledger)

    for copy, channel, tag, redelivered in sorted(deliveries, key=lambda one: one[3]):
        is_no_ack = tag in channel.no_ack_tags
        is_closed = channel.is_over or is_no_ack or tag <= recovered.get(channel, 0)
        ledger.deliver(copy, channel, tag, redelivered=redelivered, is_closed=is_closed)
        if not redelivered:
            ledger.check_order(copy, channel)

        if is_no_ack:
            ledger.finish(copy, is_rejection=False)


def _delivery(channel: SimulatedChannel, heard: Heard) -> tuple[Copy, SimulatedChannel, int, bool]:
    arguments = heard.arguments
    tag = arguments["delivery_tag"]
    assert isinstance(tag, int)
    assert tag == channel.delivered + 1, f"tag {tag} after {channel.delivered} on {channel}"
    channel.delivered = tag
    if heard.name == "basic.get-ok":
        queue, no_ack = channel.got_from.popleft()
        consumer = ""
    else:
        consumer = str(arguments["consumer_tag"])
        assert consumer not in channel.cancelled, f"{consumer} on {channel} was cancelled"
        queue = channel.queues[consumer]
        no_ack = consumer in channel.no_ack

    copy = Copy(copy_number(heard.body), queue, trail_of(heard.properties))
    if no_ack:
        channel.no_ack_tags.add(tag)
    else:
        channel.unacked[tag] = copy
        channel.consumer_of[tag] = consumer
        _check_limits(channel, consumer)

    return copy, channel, tag, bool(arguments["redelivered"])


def _check_limits(channel: SimulatedChannel, consumer: str) -> None:
    """Rules QS-02..QS-06: what is unacked is within the limits of consumer and channel."""
    holders = [channel.consumer_of[tag] for tag in channel.unacked]
    prefetch = channel.prefetches.get(consumer, 0)
    if prefetch:
        count = holders.count(consumer)
        assert count <= prefetch, f"{consumer} on {channel} holds {count} of {prefetch}"

    if channel.limit and consumer:
        count = sum(1 for holder in holders if holder)
        assert count <= channel.limit, f"{channel} holds {count} of {channel.limit}"


def _check_other(channel: SimulatedChannel, heard: Heard, ledger: Ledger) -> None:
    if heard.name == "basic.get-empty":
        channel.got_from.popleft()
    elif heard.name in ("basic.cancel", "basic.cancel-ok"):
        channel.cancelled.add(str(heard.arguments["consumer_tag"]))
    elif heard.name == "basic.return":
        publication = ledger.publications[copy_number(heard.body)]
        assert not publication.queues, "it was routable and came back"
        assert not publication.is_void, "it was never committed and came back"
        publication.returns += 1
        assert publication.returns == 1, "it came back twice"
        if publication in channel.owed:
            channel.owed.remove(publication)
    elif heard.name in ("basic.ack", "basic.nack"):
        _check_confirm(channel, heard)


def _check_confirm(channel: SimulatedChannel, heard: Heard) -> None:
    """Rule CF-04: each number is answered once."""
    number = heard.arguments["delivery_tag"]
    assert isinstance(number, int)
    assert number in channel.unanswered, f"{number} on {channel} was answered before"
    numbers = [number]
    if heard.arguments["multiple"]:
        numbers = [one for one in channel.unanswered if one <= number]

    for one in numbers:
        publication = channel.unanswered.pop(one)
        assert publication not in channel.owed, f"{one} was confirmed before it came back"
        if heard.name == "basic.nack":
            assert publication.queues == {"narrow"}, f"{one} was refused by no queue"
            publication.is_refused = True
        else:
            publication.is_certain = True
            publication.is_confirmed = True
