"""Whole sessions against a simple model: what every method, right or wrong, answers and leaves.

Two connections with two channels each speak bytes to one broker. The model knows channels, queues,
bindings, consumers, unacked deliveries, confirm numbers and transactions; a queue has one consumer
at most, so that it is known where each message goes (test_queue_machine.py has more of them).
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.helpers.session import World, body, frame, header, publish

if TYPE_CHECKING:
    from tests.helpers.session import Heard, Session

pytestmark = pytest.mark.timeout(120)
"""Only a failure takes so long: it is made smaller before it is shown."""

CLIENTS = st.integers(0, 1)
CHANNELS = st.integers(1, 2)
NAMES = st.sampled_from(["a", "a", "b", "b", "c", "d"])
EXCHANGES: Final = {"amq.direct": "direct", "amq.fanout": "fanout"}
SOURCES = st.sampled_from(["amq.direct", "amq.fanout"])
TARGETS = st.sampled_from(["", "", "", "amq.direct", "amq.fanout", "none"])
KEYS = st.sampled_from(["a", "b", "c", "k"])
TAGS = st.sampled_from(["s", "t"])
NONSENSE = st.sampled_from(["method", "body", "header", "kind"])
CARES = st.sampled_from(["", "used", "full"])
MODES = st.sampled_from(["", "tx", "tx", "confirm"])
PLACES = st.integers(0, 5)


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


def has_unacked(machine: SessionMachine) -> bool:
    return machine.is_reckless or any(one.unacked for one in machine.channels())


def has_consumers(machine: SessionMachine) -> bool:
    return machine.is_reckless or any(one.consumers for one in machine.channels())


def has_closing(machine: SessionMachine) -> bool:
    return machine.is_reckless or any(one.is_closing for one in machine.channels())


def has_transaction(machine: SessionMachine) -> bool:
    return machine.is_reckless or any(one.mode == "tx" for one in machine.channels())


def is_reckless(machine: SessionMachine) -> bool:
    return machine.is_reckless


class SessionMachine(RuleBasedStateMachine):
    """Every rule sends something, says what has to come of it, and compares.

    While it is careful, a channel that is closed is opened before something is asked of it, and
    what ends a whole connection is seldom done; so that there is something to be ended.
    """

    @initialize(
        modes=st.lists(st.sampled_from(["", "tx", "tx", "confirm"]), min_size=4, max_size=4)
    )
    def begin(self, modes: list[str]) -> None:
        """There are channels, queues and deliveries from the first step on."""
        self.is_reckless = False
        self.world = World()
        self.queues: dict[str, Queue] = {}
        self.bindings: dict[tuple[str, str, str], Queue] = {}
        self.number = 0
        self.clients = [Client(self.world, index) for index in range(2)]
        for client in self.clients:
            for number in (1, 2):
                self.open(client.index, number)

        for index, name in enumerate("ab"):
            self.declare(index, 1, name, False, False)
            self.publish(index, 1, "", name, False, 3)
            self.get(index, 2, name, False)

        self.limit(1, 1, 1)
        self.consume(1, 1, "a", "s", False)
        for place, mode in enumerate(modes):
            if mode:
                self.select(place // 2, 1 + place % 2, mode)

    @rule(is_reckless=st.sampled_from([True, False, False]))
    def turn(self, is_reckless: bool) -> None:
        self.is_reckless = is_reckless

    def channels(self) -> list[Channel]:
        return [one for client in self.clients for one in client.channels.values()]

    def known(self, name: str) -> str:
        """While it is careful, a queue that is there."""
        if self.is_reckless or name in self.queues or not self.queues:
            return name

        return sorted(self.queues)[ord(name) % len(self.queues)]

    # -- the model: sending, and what has to come

    def make_ready(self, client: int, number: int) -> None:
        """Be careful: open the channel if it is not."""
        if not self.is_reckless:
            channel = self.clients[client].channels.get(number)
            if channel is not None and channel.is_closing:
                self.confirm_close(client, number)

            if number not in self.clients[client].channels:
                self.open(client, number)

    def call(self, client: int, number: int, name: str, **arguments: object) -> Channel | None:
        """Send a method; the channel if it will be obeyed there, None if it is answered for."""
        self.make_ready(client, number)
        self.clients[client].session.send(number, name, **arguments)
        return self.channel_for_method(client, number)

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

    # -- channels and connections

    @rule(client=CLIENTS, number=CHANNELS)
    def open(self, client: int, number: int) -> None:
        """Rules CH-01, CH-02."""
        owner = self.clients[client]
        if number in owner.channels and not self.is_reckless:
            return

        owner.session.send(number, "channel.open")
        if number in owner.channels:
            self.fail(owner, 504)
        else:
            owner.channels[number] = Channel(owner, number)
            owner.channels[number].expected.append("channel.open-ok")

        self.compare()

    @rule(client=CLIENTS, number=CHANNELS)
    def close(self, client: int, number: int) -> None:
        """Rules CH-06, CH-07."""
        owner = self.clients[client]
        self.make_ready(client, number)
        owner.session.send(number, "channel.close")
        channel = owner.channels.get(number)
        if channel is None:
            self.fail(owner, 504)
            self.compare()
            return

        self.let_go(channel)
        self.answer(channel, "channel.close-ok")
        if not channel.is_closing:
            del owner.channels[number]

    @precondition(has_closing)
    @rule(client=CLIENTS, number=CHANNELS)
    def confirm_close(self, client: int, number: int) -> None:
        """Rule CH-08; on a channel that is open it is 503 (rule CH-07)."""
        owner = self.clients[client]
        channel = owner.channels.get(number)
        if (channel is None or not channel.is_closing) and not self.is_reckless:
            return

        owner.session.send(number, "channel.close-ok")
        if channel is not None and channel.is_closing:
            del owner.channels[number]
        else:
            self.fail(owner, 504 if channel is None else 503)

        self.compare()

    @rule(client=CLIENTS, is_polite=st.booleans())
    def leave(self, client: int, is_polite: bool) -> None:
        """Rules C-70, C-80."""
        if len(self.channels()) < 3 and not self.is_reckless:
            return

        owner = self.clients[client]
        if is_polite:
            owner.session.send(0, "connection.close")
            owner.expected.append("connection.close-ok")
            self.end(owner)
        else:
            owner.session.lose()
            self.end(owner)
            self.clients[client] = Client(self.world, client)

        self.compare()

    @precondition(is_reckless)
    @rule(client=CLIENTS, number=CHANNELS, kind=NONSENSE)
    def send_nonsense(self, client: int, number: int, kind: str) -> None:
        """Rules F-06, F-10, CH-11: the connection ends; a closing channel sees no content."""
        owner = self.clients[client]
        channel = owner.channels.get(number)
        is_ignored = channel is not None and channel.is_closing
        if kind == "method":
            owner.session.send(number, "queue.declare-ok")
            code = 504 if channel is None else 503
        elif kind == "body":
            owner.session.feed(body(number, b"x"))
            code = 505
        elif kind == "header":
            owner.session.feed(header(number, 1))
            code = 505
        else:
            owner.session.feed(frame(4, number, b"x"))
            code = 501
            is_ignored = False

        if not is_ignored:
            self.fail(owner, code)

        self.compare()

    # -- queues and bindings

    @rule(
        client=CLIENTS,
        number=CHANNELS,
        name=NAMES,
        exclusive=st.booleans(),
        auto_delete=st.sampled_from([False, False, True]),
    )
    def declare(
        self, client: int, number: int, name: str, exclusive: bool, auto_delete: bool
    ) -> None:
        """Rules Q-01, Q-10, Q-41."""
        channel = self.call(
            client,
            number,
            "queue.declare",
            queue=name,
            exclusive=exclusive,
            auto_delete=auto_delete,
        )
        if channel is None:
            return

        queue = self.queues.get(name)
        if queue is None:
            queue = Queue(name, client if exclusive else None, auto_delete)
            self.queues[name] = queue
        elif queue.owner not in (None, client):
            self.refuse(channel, 405)
            return
        elif (queue.owner is not None, queue.auto_delete) != (exclusive, auto_delete):
            # Exclusive and not is another's queue, whoever asks (rule Q-41).
            self.refuse(channel, 406 if queue.owner == (client if exclusive else None) else 405)
            return

        consumers = int(queue.consumer is not None)
        self.answer(channel, f"queue.declare-ok {len(queue.ready)} {consumers}")

    @rule(
        client=CLIENTS,
        number=CHANNELS,
        name=NAMES,
        is_careful=CARES,
    )
    def delete(self, client: int, number: int, name: str, is_careful: str) -> None:
        """Rules Q-50..Q-53: none is no error."""
        channel = self.call(
            client,
            number,
            "queue.delete",
            queue=name,
            if_unused=is_careful == "used",
            if_empty=is_careful == "full",
        )
        if channel is None:
            return

        if name not in self.queues:
            self.answer(channel, "queue.delete-ok 0")
            return

        queue = self.accessible(channel, name)
        if queue is None:
            return

        is_refused = (is_careful == "used" and queue.consumer is not None) or (
            is_careful == "full" and queue.ready
        )
        if is_refused:
            self.refuse(channel, 406)
            return

        channel.expected.append(f"queue.delete-ok {len(queue.ready)}")
        self.drop(queue)
        self.compare()

    @rule(client=CLIENTS, number=CHANNELS, name=NAMES)
    def purge(self, client: int, number: int, name: str) -> None:
        """Rule Q-54."""
        name = self.known(name)
        channel = self.call(client, number, "queue.purge", queue=name)
        queue = None if channel is None else self.accessible(channel, name)
        if channel is not None and queue is not None:
            count = len(queue.ready)
            queue.ready = []
            self.answer(channel, f"queue.purge-ok {count}")

    @rule(
        client=CLIENTS, number=CHANNELS, name=NAMES, source=SOURCES, key=KEYS, is_end=st.booleans()
    )
    def bind(
        self, client: int, number: int, name: str, source: str, key: str, is_end: bool
    ) -> None:
        """Rules B-01, B-05, B-06: unbinding what is not there is no error."""
        verb = "unbind" if is_end else "bind"
        name = self.known(name)
        channel = self.call(
            client, number, f"queue.{verb}", queue=name, exchange=source, routing_key=key
        )
        if channel is None:
            return

        if is_end and (source, name, key) not in self.bindings:
            self.answer(channel, "queue.unbind-ok")
            return

        queue = self.accessible(channel, name)
        if queue is None:
            return

        if is_end:
            self.bindings.pop((source, name, key), None)
        else:
            self.bindings[source, name, key] = queue

        self.answer(channel, f"queue.{verb}-ok")

    # -- publishing

    @rule(
        client=CLIENTS,
        number=CHANNELS,
        exchange=TARGETS,
        key=KEYS,
        mandatory=st.booleans(),
        count=st.integers(1, 3),
    )
    def publish(
        self, client: int, number: int, exchange: str, key: str, mandatory: bool, count: int
    ) -> None:
        """Rules P-01, P-04, CF-03, TX-03."""
        if exchange == "none" and not self.is_reckless:
            exchange = ""

        if exchange == "":
            key = self.known(key)

        bodies = [b"%d" % (self.number + place) for place in range(count)]
        self.number += count
        self.make_ready(client, number)
        data = b"".join(
            publish(number, key, one, exchange=exchange, mandatory=mandatory) for one in bodies
        )
        self.clients[client].session.feed(data)
        channel = self.channel_for_method(client, number)
        if channel is None:
            return

        if exchange == "none":
            # The rest comes to a closing channel.
            self.refuse(channel, 404)
            return

        queues = self.route(exchange, key)
        for one in bodies:
            if channel.mode == "tx":
                channel.publications.append((queues, one, mandatory))
            else:
                self.emit(channel, queues, one, mandatory)

        self.compare()
        assert not channel.unconfirmed

    def emit(self, channel: Channel, queues: list[Queue], data: bytes, mandatory: bool) -> None:
        if mandatory and not queues:
            channel.expected.append(f"basic.return {data.decode()}")

        for queue in queues:
            queue.put(data)

        if channel.mode == "confirm":
            channel.last_number += 1
            channel.unconfirmed.append(channel.last_number)

    # -- consuming

    @rule(client=CLIENTS, number=CHANNELS, name=NAMES, tag=TAGS, no_ack=st.booleans())
    def consume(self, client: int, number: int, name: str, tag: str, no_ack: bool) -> None:
        """Rules CO-01, CO-03; a second consumer of a queue is left out."""
        name = self.known(name)
        queue = self.queues.get(name)
        if queue is not None and queue.consumer is not None:
            return

        channel = self.call(
            client, number, "basic.consume", queue=name, consumer_tag=tag, no_ack=no_ack
        )
        if channel is None:
            return

        if tag in channel.consumers:
            self.fail(channel.client, 530)
            self.compare()
            return

        queue = self.accessible(channel, name)
        if queue is not None:
            queue.consumer = Consumer(tag, channel, queue, no_ack)
            channel.consumers[tag] = queue.consumer
            self.answer(channel, "basic.consume-ok")

    @precondition(has_consumers)
    @rule(client=CLIENTS, number=CHANNELS, tag=TAGS)
    def cancel(self, client: int, number: int, tag: str) -> None:
        """Rule CO-12: what it holds stays unacked; no such consumer is no error."""
        channel = self.call(client, number, "basic.cancel", consumer_tag=tag)
        if channel is None:
            return

        consumer = channel.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.consumer = None
            self.drop_unused(consumer.queue)

        self.answer(channel, "basic.cancel-ok")

    @rule(client=CLIENTS, number=CHANNELS, count=st.integers(0, 2))
    def limit(self, client: int, number: int, count: int) -> None:
        """Rule QS-02: for consumers to come."""
        channel = self.call(client, number, "basic.qos", prefetch_count=count)
        if channel is not None:
            channel.prefetch = count
            self.answer(channel, "basic.qos-ok")

    @rule(client=CLIENTS, number=CHANNELS, name=NAMES, no_ack=st.booleans())
    def get(self, client: int, number: int, name: str, no_ack: bool) -> None:
        """Rules G-01, G-02."""
        name = self.known(name)
        channel = self.call(client, number, "basic.get", queue=name, no_ack=no_ack)
        queue = None if channel is None else self.accessible(channel, name)
        if channel is None or queue is None:
            return

        if not queue.ready:
            self.answer(channel, "basic.get-empty")
            return

        [heard] = self.clients[client].session.heard()
        assert heard.name == "basic.get-ok"
        entry = self.hand_out(channel, queue, heard, no_ack)
        assert heard.arguments["message_count"] == len(queue.ready)
        if not no_ack:
            channel.unacked[channel.last_tag] = Delivery(entry, None)

        self.compare()

    @precondition(has_unacked)
    @rule(
        client=CLIENTS,
        number=CHANNELS,
        place=PLACES,
        verb=st.sampled_from(["ack", "ack", "nack", "reject"]),
        multiple=st.booleans(),
        requeue=st.booleans(),
    )
    def settle(
        self, client: int, number: int, place: int, verb: str, multiple: bool, requeue: bool
    ) -> None:
        """Rules A-01..A-06, TX-04: what is unacked by its tag, now and then what is not."""
        client, number = self.where_unacked(client, number, place)
        channel = self.clients[client].channels.get(number)
        unacked = list(channel.unacked) if channel is not None else []
        tags = [*unacked, 0, 99] if self.is_reckless or not unacked else unacked
        tag = tags[place % len(tags)]
        arguments: dict[str, object] = {"delivery_tag": tag}
        multiple = multiple and verb != "reject"
        if verb != "reject":
            arguments["multiple"] = multiple

        if verb != "ack":
            arguments["requeue"] = requeue

        channel = self.call(client, number, f"basic.{verb}", **arguments)
        if channel is None:
            return

        if tag not in channel.unacked and not (tag == 0 and multiple):
            self.refuse(channel, 406)
            return

        chosen = [
            one for one in channel.unacked if one == tag or (multiple and (one < tag or tag == 0))
        ]
        is_requeued = verb != "ack" and requeue
        for one in sorted(chosen):
            delivery = channel.unacked.pop(one)
            if channel.mode == "tx":
                channel.settlements.append((one, delivery, is_requeued))
            else:
                delivery.settle(is_requeued)

        self.compare()

    def where_unacked(self, client: int, number: int, place: int) -> tuple[int, int]:
        """While it is careful, where there is something to settle."""
        found = [one for one in self.channels() if one.unacked]
        if self.is_reckless or not found:
            return client, number

        channel = found[place % len(found)]
        return channel.client.index, channel.number

    @precondition(has_unacked)
    @rule(client=CLIENTS, number=CHANNELS)
    def recover(self, client: int, number: int) -> None:
        """Rules A-10, TX-10."""
        channel = self.call(client, number, "basic.recover", requeue=True)
        if channel is not None:
            deliveries = list(channel.unacked.values())
            channel.unacked = {}
            for delivery in deliveries:
                delivery.settle(is_requeued=True)

            self.answer(channel, "basic.recover-ok")

    # -- confirms and transactions

    @precondition(lambda self: self.is_reckless or not all(one.mode for one in self.channels()))
    @rule(client=CLIENTS, number=CHANNELS, mode=st.sampled_from(["confirm", "tx"]))
    def select(self, client: int, number: int, mode: str) -> None:
        """Rules CF-01, CF-02, TX-01."""
        channel = self.clients[client].channels.get(number)
        if channel is not None and channel.mode and not self.is_reckless:
            return

        channel = self.call(client, number, f"{mode}.select")
        if channel is None:
            return

        if channel.mode not in ("", mode):
            self.refuse(channel, 406)
            return

        channel.mode = mode
        self.answer(channel, f"{mode}.select-ok")

    def where(self, mode: str, client: int, number: int) -> tuple[int, int]:
        """While it is careful, a channel in that mode."""
        found = [one for one in self.channels() if one.mode == mode]
        if self.is_reckless or not found:
            return client, number

        channel = found[(client * 2 + number) % len(found)]
        return channel.client.index, channel.number

    @precondition(has_transaction)
    @rule(client=CLIENTS, number=CHANNELS)
    def commit(self, client: int, number: int) -> None:
        """Rules TX-02..TX-05, TX-07: publishes first, then settlements."""
        client, number = self.where("tx", client, number)
        channel = self.call(client, number, "tx.commit")
        if channel is None:
            return

        if channel.mode != "tx":
            self.refuse(channel, 406)
            return

        publications = channel.publications
        if any(queue.is_deleted for queues, _, _ in publications for queue in queues):
            self.fail(channel.client, 506)
            self.compare()
            return

        channel.publications = []
        settlements = channel.settlements
        channel.settlements = []
        for queues, data, mandatory in publications:
            self.emit(channel, queues, data, mandatory)

        for _, delivery, is_requeued in settlements:
            delivery.settle(is_requeued)

        self.answer(channel, "tx.commit-ok")

    @precondition(has_transaction)
    @rule(client=CLIENTS, number=CHANNELS)
    def roll_back(self, client: int, number: int) -> None:
        """Rule TX-06: what was settled is unacked again, under the same tag."""
        client, number = self.where("tx", client, number)
        channel = self.call(client, number, "tx.rollback")
        if channel is None:
            return

        if channel.mode != "tx":
            self.refuse(channel, 406)
            return

        channel.publications = []
        for tag, delivery, _ in channel.settlements:
            channel.unacked[tag] = delivery

        channel.unacked = dict(sorted(channel.unacked.items()))
        channel.settlements = []
        self.answer(channel, "tx.rollback-ok")

    # -- what always holds

    @invariant()
    def nothing_unforeseen_has_happened(self) -> None:
        assert self.world.bugs == []

    @invariant()
    def connections_and_channels_are_as_in_the_model(self) -> None:
        node = self.world.node
        assert len(node.connections) == len(self.clients)
        count = sum(len(client.channels) for client in self.clients)
        assert node.channel_counts.get("guest", 0) == count
        for client in self.clients:
            actual = client.session.connection.channels
            assert sorted(actual) == sorted(client.channels)
            for number, channel in client.channels.items():
                assert sorted(actual[number].consumers) == sorted(channel.consumers)
                assert actual[number].deliveries.unacked.count == len(channel.unacked)

    @invariant()
    def queues_are_as_in_the_model(self) -> None:
        actual = self.world.vhost.queues
        assert sorted(actual) == sorted(self.queues)
        for name, queue in self.queues.items():
            assert actual[name].ready_count == len(queue.ready)
            assert actual[name].unacked_count == queue.unacked
            assert actual[name].declared_consumer_count == int(queue.consumer is not None)


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


TestSession = SessionMachine.TestCase
TestSession.settings = settings(stateful_step_count=50, report_multiple_bugs=False)
