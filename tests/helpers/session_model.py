"""What sessions on one broker should do, in as few words as possible: for test_session_machine.py.

The model knows channels, queues, bindings, consumers, unacked deliveries, confirm numbers and
transactions. A queue has one consumer at most, so that it is known where each message goes.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final

from tests.helpers.session import World

if TYPE_CHECKING:
    from tests.helpers.session import Heard, Session

__all__ = ["EXCHANGES", "Channel", "Client", "Consumer", "Delivery", "Queue", "SessionModel"]

EXCHANGES: Final = {"amq.direct": "direct", "amq.fanout": "fanout"}


class Queue:
    """A queue: `ready` in the order in which it is served."""

    def __init__(self, name: str, owner: int | None, auto_delete: bool) -> None:
        self.name = name
        self.owner = owner
        self.auto_delete = auto_delete
        self.ready: list[Entry] = []
        self.position = 0
        self.unacked = 0
        self.consumer: Consumer | None = None
        self.is_deleted = False

    def put(self, data: bytes) -> None:
        self.position += 1
        self.ready.append(Entry(self, data, self.position))

    def give_back(self, entry: Entry) -> None:
        """Rule A-05: to its place."""
        entry.redelivered = True
        self.unacked -= 1
        if not self.is_deleted:
            insort(self.ready, entry, key=lambda one: one.position)


class Entry:
    """A message in a queue, or unacked."""

    def __init__(self, queue: Queue, data: bytes, position: int) -> None:
        self.queue = queue
        self.data = data
        self.position = position
        self.redelivered = False


class Consumer:
    """A consumer; `held` are its deliveries that count against the limit."""

    def __init__(self, tag: str, channel: Channel, queue: Queue, no_ack: bool) -> None:
        self.tag = tag
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.prefetch = 0 if no_ack else channel.prefetch
        self.held = 0

    @property
    def is_able(self) -> bool:
        return not self.prefetch or self.held < self.prefetch


class Delivery:
    """An unacked delivery; without a consumer it was fetched."""

    def __init__(self, entry: Entry, consumer: Consumer | None) -> None:
        self.entry = entry
        self.consumer = consumer

    def settle(self, is_requeued: bool) -> None:
        if self.consumer is not None:
            self.consumer.held -= 1

        if is_requeued:
            self.entry.queue.give_back(self.entry)
        else:
            self.entry.queue.unacked -= 1


class Channel:
    """An open channel, or one that the broker has closed."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.is_closing = False
        self.mode = ""
        self.prefetch = 0
        self.last_tag = 0
        self.last_number = 0
        self.unconfirmed: list[int] = []
        self.consumers: dict[str, Consumer] = {}
        self.unacked: dict[int, Delivery] = {}
        self.publications: list[tuple[list[Queue], bytes, bool]] = []
        self.settlements: list[tuple[int, Delivery, bool]] = []
        self.expected: list[str] = []


class Client:
    """A connection."""

    def __init__(self, world: World, index: int) -> None:
        self.index = index
        self.session: Session = world.open()
        self.channels: dict[int, Channel] = {}
        self.expected: list[str] = []


class SessionModel:
    """Two connections of one broker, what they are owed, and how to find out whether they got it.

    Attributes:
        is_reckless: things are done that make errors, more often than not.

    """

    world: World
    queues: dict[str, Queue]
    bindings: dict[tuple[str, str, str], Queue]
    clients: list[Client]
    is_reckless: bool

    def begin_model(self) -> None:
        """A new broker, and nothing on it but two connections."""
        self.world = World()
        self.queues = {}
        self.bindings = {}
        self.clients = [Client(self.world, index) for index in range(2)]
        self.is_reckless = False

    def channels(self) -> list[Channel]:
        return [one for client in self.clients for one in client.channels.values()]

    # -- what has to come

    def channel_for_method(self, client: int, number: int) -> Channel | None:
        channel = self.clients[client].channels.get(number)
        if channel is None:
            # Rule CH-03.
            self.fail(self.clients[client], 504)
            self.compare()
        elif channel.is_closing:
            # Rule CH-07: nothing comes of it.
            self.compare()
        else:
            return channel

        return None

    def answer(self, channel: Channel, *expected: str) -> None:
        channel.expected += expected
        self.compare()

    def refuse(self, channel: Channel, code: int) -> None:
        """The channel is closed for an error (rules CH-07, T-01)."""
        self.is_reckless = False
        channel.expected.append(f"channel.close {code}")
        channel.is_closing = True
        self.let_go(channel)
        self.compare()

    def fail(self, client: Client, code: int) -> None:
        """The connection is closed for an error."""
        client.expected.append(f"connection.close {code}")
        self.is_reckless = False
        self.end(client)

    def end(self, client: Client) -> None:
        """Rule C-70: nothing of the connection remains."""
        # First of all channels: what one gives back does not go to another one's consumer.
        for channel in client.channels.values():
            for consumer in channel.consumers.values():
                consumer.queue.consumer = None

        for channel in client.channels.values():
            self.let_go(channel)

        for queue in list(self.queues.values()):
            if queue.owner == client.index:
                self.drop(queue)

    def let_go(self, channel: Channel) -> None:
        """Rules CH-06, TX-09: consumers go, and what is unacked goes back."""
        channel.publications = []
        deliveries = [*channel.unacked.values(), *(one[1] for one in channel.settlements)]
        channel.settlements = []
        channel.unacked = {}
        channel.unconfirmed = []
        consumers = list(channel.consumers.values())
        channel.consumers = {}
        for consumer in consumers:
            consumer.queue.consumer = None

        for delivery in deliveries:
            delivery.settle(is_requeued=True)

        for consumer in consumers:
            self.drop_unused(consumer.queue)

    def drop_unused(self, queue: Queue) -> None:
        """Rule Q-60: an auto-delete queue goes with its last consumer."""
        if queue.auto_delete and queue.consumer is None and not queue.is_deleted:
            self.drop(queue)

    def drop(self, queue: Queue) -> None:
        queue.is_deleted = True
        queue.ready = []
        del self.queues[queue.name]
        self.bindings = {key: one for key, one in self.bindings.items() if one is not queue}
        consumer = queue.consumer
        if consumer is not None:
            del consumer.channel.consumers[consumer.tag]
            consumer.channel.expected.append("basic.cancel")
            queue.consumer = None

    def route(self, exchange: str, key: str) -> list[Queue]:
        if exchange == "":
            return [self.queues[key]] if key in self.queues else []

        found = [
            queue
            for (source, _, bound), queue in self.bindings.items()
            if source == exchange and (EXCHANGES[source] == "fanout" or bound == key)
        ]
        return list(dict.fromkeys(found))

    def accessible(self, channel: Channel, name: str) -> Queue | None:
        """The queue, or the error that there is none or that it is another's (Q-40, Q-41)."""
        queue = self.queues.get(name)
        if queue is None:
            self.refuse(channel, 404)
        elif queue.owner not in (None, channel.client.index):
            self.refuse(channel, 405)
        else:
            return queue

        return None

    # -- the model: comparing

    def compare(self) -> None:
        """What came is what had to come, on every channel of every connection."""
        for client in self.clients:
            seen: dict[int, list[str]] = {}
            for heard in client.session.heard():
                if heard.name == "basic.deliver":
                    self.deliver(client, heard)
                elif heard.name == "basic.ack":
                    self.confirm(client.channels[heard.channel], heard)
                else:
                    seen.setdefault(heard.channel, []).append(described(heard))

            assert seen.pop(0, []) == client.expected
            for number, channel in client.channels.items():
                has_ended = bool(client.expected)
                assert has_ended or seen.pop(number, []) == channel.expected
                channel.expected = []

            assert not seen or client.expected, seen

        for client in self.clients:
            if client.expected:
                assert client.session.connection not in self.world.node.connections
                client.session.lose()
                self.clients[client.index] = Client(self.world, client.index)

        for queue in self.queues.values():
            consumer = queue.consumer
            assert not (queue.ready and consumer is not None and consumer.is_able)

    def deliver(self, client: Client, heard: Heard) -> None:
        channel = client.channels[heard.channel]
        consumer = channel.consumers[str(heard.arguments["consumer_tag"])]
        assert consumer.is_able
        entry = self.hand_out(channel, consumer.queue, heard, consumer.no_ack)
        if not consumer.no_ack:
            consumer.held += 1
            channel.unacked[channel.last_tag] = Delivery(entry, consumer)

    def hand_out(self, channel: Channel, queue: Queue, heard: Heard, no_ack: bool) -> Entry:
        entry = queue.ready.pop(0)
        channel.last_tag += 1
        assert heard.body == entry.data
        assert heard.arguments["redelivered"] == entry.redelivered
        assert heard.arguments["delivery_tag"] == channel.last_tag
        if not no_ack:
            queue.unacked += 1

        return entry

    def confirm(self, channel: Channel, heard: Heard) -> None:
        """Rules CF-03, CF-04: each number once."""
        number = heard.arguments["delivery_tag"]
        assert isinstance(number, int)
        assert number in channel.unconfirmed
        is_multiple = bool(heard.arguments["multiple"])
        channel.unconfirmed = [
            one for one in channel.unconfirmed if one > number or (one < number and not is_multiple)
        ]


def described(heard: Heard) -> str:
    """A method as the rules above write it."""
    arguments = heard.arguments
    if heard.name in ("channel.close", "connection.close"):
        return f"{heard.name} {arguments['reply_code']}"

    if heard.name == "queue.declare-ok":
        return f"{heard.name} {arguments['message_count']} {arguments['consumer_count']}"

    if heard.name in ("queue.delete-ok", "queue.purge-ok"):
        return f"{heard.name} {arguments['message_count']}"

    return f"{heard.name} {heard.body.decode()}" if heard.name == "basic.return" else heard.name
