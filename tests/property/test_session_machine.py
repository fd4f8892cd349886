"""Whole sessions against a simple model: what every method, right or wrong, answers and leaves.

Two connections with two channels each speak bytes to one broker. The model is in
tests/helpers/session_model.py; queues with several consumers are in test_queue_machine.py.
"""

from __future__ import annotations

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

from tests.helpers.session import body, frame, header, publish
from tests.helpers.session_model import Channel, Client, Consumer, Delivery, Queue, SessionModel

pytestmark = pytest.mark.timeout(120)
"""Only a failure takes so long: it is made smaller before it is shown."""

CLIENTS = st.integers(0, 1)
CHANNELS = st.integers(1, 2)
NAMES = st.sampled_from(["a", "a", "b", "b", "c", "d"])
SOURCES = st.sampled_from(["amq.direct", "amq.fanout"])
TARGETS = st.sampled_from(["", "", "", "amq.direct", "amq.fanout", "none"])
KEYS = st.sampled_from(["a", "b", "c", "k"])
TAGS = st.sampled_from(["s", "t"])
NONSENSE = st.sampled_from(["method", "body", "header", "kind"])
CARES = st.sampled_from(["", "used", "full"])
MODES = st.sampled_from(["", "tx", "tx", "confirm"])
PLACES = st.integers(0, 5)


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


class SessionMachine(SessionModel, RuleBasedStateMachine):
    """Every rule sends something, says what has to come of it, and compares.

    While it is careful, a channel that is closed is opened before something is asked of it, and
    what ends a whole connection is seldom done; so that there is something to be ended.
    """

    @initialize(
        modes=st.lists(st.sampled_from(["", "tx", "tx", "confirm"]), min_size=4, max_size=4)
    )
    def begin(self, modes: list[str]) -> None:
        """There are channels, queues and deliveries from the first step on."""
        self.begin_model()
        self.number = 0
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


TestSession = SessionMachine.TestCase
TestSession.settings = settings(stateful_step_count=50, report_multiple_bugs=False)


def test_who_has_deleted_a_queue_hears_when_somebody_else_deletes_another() -> None:
    """Rules Q-53, OR-05. Found by the machine: the notice waited for the next queue.delete."""
    machine = SessionMachine()
    machine.begin(["", "", "", ""])
    machine.delete(1, 1, "b", "")
    machine.delete(0, 1, "a", "")
