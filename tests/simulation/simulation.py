"""A whole broker and its clients in virtual time, all of it decided by one seed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from broker.core.message import content_body
from tests.helpers.session import World
from tests.simulation.client import SimulatedChannel, SimulatedClient, copy_number
from tests.simulation.ledger import Copy, Ledger
from tests.simulation.topology import ADDRESSES, QUEUES, declare_topology
from tests.simulation.witness import watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.dead_letter import DeathHistory
    from broker.core.queue.queue import Queue
    from broker.protocol.channel import Channel

__all__ = ["Simulation"]

STEPS: Final = 260
CLIENTS: Final = 4
CHANNELS: Final = 3
DRAIN_ROUNDS: Final = 12
QUEUES_CHECKED_EVERY: Final = 4


class Simulation:
    """One run.

    Args:
        seed: decides everything.

    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.ledger = Ledger()
        self.clients: list[SimulatedClient] = []
        self.passing_queues: list[str] = []
        self._client_count = 0
        declare_topology(self.world.node, self.world.vhost)
        for _ in range(CLIENTS):
            self._connect()

    def run(self) -> None:
        """Let everything happen, then let everybody finish, then look at what is left."""
        for step in range(STEPS):
            self._step()
            self._check(is_thorough=step % QUEUES_CHECKED_EVERY == 0)

        self._finish()

    # -- one step

    def _step(self) -> None:
        act: Callable[[], None]
        [act] = self.random.choices(
            (self._act, self._feed, self._read, self._wait, self._disturb, self._disconnect),
            weights=(50, 45, 30, 8, 5, 1),
        )
        act()

    def _check(self, *, is_thorough: bool = True) -> None:
        watch(self.clients, self.ledger)
        assert not self.world.bugs, self.world.bugs[0]
        for client in self.clients:
            assert not client.session.link.late_writes

        if is_thorough:
            for queue in self.world.vhost.queues.values():
                check_queue(queue)

            for client in self.clients:
                for channel in client.session.connection.channels.values():
                    check_channel(channel)

    def _connect(self) -> None:
        self._client_count += 1
        client = SimulatedClient(
            f"c{self._client_count}", self.world.connect(), self.ledger, self.random
        )
        self.clients.append(client)
        client.feed(1_000_000)
        for _ in range(self.random.randint(1, CHANNELS)):
            self._open_channel(client)

    def _feed(self) -> None:
        """Some client's bytes arrive: all of them, or as far as one read got."""
        waiting = [client for client in self.clients if client.has_output]
        if waiting:
            sizes = (1, 40, 300, 5_000, 1_000_000, 1_000_000, 1_000_000)
            self.random.choice(waiting).feed(self.random.choice(sizes))

    def _read(self) -> None:
        self.random.choice(self.clients).read(self.random.choice((1, 5, 100)))

    def _wait(self) -> None:
        self.world.wait(self.random.choice((0.001, 0.01, 0.05, 0.5)))

    def _disturb(self) -> None:
        """Alarms come and go, sockets fill up and empty."""
        random = self.random
        if random.random() < 0.2:
            self.world.node.set_alarm("memory", random.random() < 0.25)
            self.world.settle()
        else:
            connection = random.choice(self.clients).session.connection
            if random.random() < 0.5:
                connection.pause_output()
            else:
                connection.resume_output()
                self.world.settle()

        self._take_stock()

    def _take_stock(self) -> None:
        for client in self.clients:
            client.settle_taken()

    def _disconnect(self) -> None:
        client = self.random.choice(self.clients)
        self.end(client, self.random.choice(("lose", "eof", "close")))
        self._connect()

    def end(self, client: SimulatedClient, how: str) -> None:
        """A client leaves, saying so or not; the socket is lost in any case."""
        watch(self.clients, self.ledger)
        client.release_all()
        if how == "close":
            client.close()

        if how == "eof":
            client.session.connection.receive_eof()
            self.world.settle()

        client.session.lose()
        watch(self.clients, self.ledger)
        self.clients.remove(client)

    # -- what clients do

    def _act(self) -> None:
        client = self.random.choice(self.clients)
        if client.is_over:
            self.end(client, "lose")
            self._connect()
            return

        channels = list(client.channels.values())
        if not channels or (len(channels) < CHANNELS and self.random.random() < 0.05):
            self._open_channel(client)
            return

        channel = self.random.choice(channels)
        if channel.is_over:
            return

        act: Callable[[SimulatedClient, SimulatedChannel], None]
        [act] = self.random.choices(
            (
                self._publish,
                self._settle,
                self._consume,
                self._get,
                self._manage,
                self._transact,
                self._misbehave,
            ),
            weights=(30, 50, 16, 8, 6, 10, 1),
        )
        act(client, channel)

    def _open_channel(self, client: SimulatedClient) -> None:
        taken = {*client.channels, *client.closing}
        free = [number for number in range(1, 9) if number not in taken]
        if free:
            mode = self.random.choice(("plain", "confirm", "confirm", "tx"))
            client.open_channel(self.random.choice(free), mode, self.random.choice((0, 0, 1, 4)))

    def _publish(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        random = self.random
        for _ in range(random.choice((1, 1, 3, 10))):
            address = random.choice(list(ADDRESSES))
            if self.passing_queues and random.random() < 0.2:
                address = ("", random.choice(self.passing_queues))

            size = random.choice((0, 10, 200, 5_000))
            expiration = random.choice(("", "", "", "", "0", "20"))
            client.publish(channel, address, size, expiration)

    def _settle(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        random = self.random
        for holding in client.channels.values():
            if holding.seen and not holding.is_over:
                channel = holding

        if not channel.seen:
            self._consume(client, channel)
            return

        if random.random() < 0.04:
            client.recover(channel)
            return

        how = random.choices(("ack", "requeue", "reject"), weights=(6, 2, 1))[0]
        tags = sorted(channel.seen)
        tag = random.choice((tags[0], tags[-1], random.choice(tags)))
        client.settle(channel, how, tag, random.random() < 0.4)

    def _queue_name(self) -> str:
        return self.random.choice([*QUEUES, *self.passing_queues[-3:]])

    def _consume(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        random = self.random
        tags = [tag for tag in channel.queues if tag not in channel.cancelled]
        if len(tags) > 3 or (tags and random.random() < 0.3):
            nowait = random.random() < 0.1
            client.call(channel, "basic.cancel", consumer_tag=random.choice(tags), nowait=nowait)
        else:
            prefetch = random.choice((0, 1, 2, 5))
            client.consume(channel, self._queue_name(), prefetch, random.random() < 0.2)

    def _get(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        client.get(channel, self._queue_name(), self.random.random() < 0.3)

    def _manage(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        random = self.random
        if self.passing_queues and random.random() < 0.4:
            name = random.choice(self.passing_queues)
            self.passing_queues.remove(name)
            client.call(channel, "queue.delete", queue=name, nowait=random.random() < 0.2)
        elif random.random() < 0.2:
            client.close_channel(channel)
        else:
            name = f"passing-{client.name}-{len(self.ledger.publications)}-{random.random()}"
            self.passing_queues.append(name)
            client.call(
                channel,
                "queue.declare",
                queue=name,
                exclusive=random.random() < 0.3,
                auto_delete=random.random() < 0.4,
                arguments=random.choice(({}, {"x-expires": 30}, {"x-message-ttl": 0})),
            )

    def _transact(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        if channel.mode == "tx":
            if self.random.random() < 0.7:
                client.commit(channel)
            else:
                client.rollback(channel)

    def _misbehave(self, client: SimulatedClient, channel: SimulatedChannel) -> None:
        """Something that closes the channel, or the whole connection."""
        random = self.random
        if random.random() < 0.7:
            client.call(channel, "basic.ack", delivery_tag=100_000)
        elif random.random() < 0.7:
            client.call(channel, "basic.get", queue="no such queue")
        else:
            client.call(channel, "channel.open")

    # -- the end

    def _finish(self) -> None:
        """No more disturbance: everything is sent and read, then everybody goes."""
        self.world.node.set_alarm("memory", False)
        for _ in range(DRAIN_ROUNDS):
            for client in self.clients:
                client.session.connection.resume_output()
                client.feed(1_000_000)
                client.read(1_000)

            self.world.settle()
            self._take_stock()
            self._check()

        for client in self.clients:
            for channel in client.channels.values():
                check_answers(client, channel)

        while self.clients:
            self.end(self.random.choice(self.clients), self.random.choice(("lose", "close")))
            self._check()

        self.world.wait(60)
        self._check()
        self._check_rest()

    def _check_rest(self) -> None:
        """Nobody is left, and neither is anything of theirs but what is in the queues."""
        world = self.world
        node = world.node
        assert not node.connections
        assert not node.connection_counts
        assert not node.channel_counts
        assert not node.confirms.waiting
        assert not node.outputs.dirty
        assert not node.outputs.starved
        assert world.vhost.connection_count == 0
        for queue in world.vhost.queues.values():
            assert not queue.consumers, queue.name
            assert queue.unacked_count == 0, queue.name
            assert queue.exclusive_owner is None, queue.name

        rest = {name: self._rest_of(name) for name in QUEUES}
        for name, kind in QUEUES.items():
            self.ledger.check_rest(name, kind, rest)

    def _rest_of(self, name: str) -> list[Copy]:
        return [
            Copy(copy_number(content_body(one.content)), name, trail(one.history))
            for one in self.world.vhost.queues[name].ready.messages()
        ]


def trail(history: DeathHistory | None) -> tuple[str, ...]:
    """The deaths of a message, as the broker remembers them."""
    if history is None:
        return ()

    return tuple(f"{one.queue} {one.reason} {one.times}" for one in history.entries)


def check_queue(queue: Queue) -> None:
    """What holds of a queue whenever the broker is at rest."""
    ready = queue.ready.messages()
    assert queue.ready_count == len(ready), queue.name
    assert queue.ready_bytes == sum(message.body_size for message in ready), queue.name
    limit = queue.settings.length_max
    if limit is not None and queue.settings.overflow is None:
        assert queue.ready_count <= limit, queue.name

    if ready:
        entitled = list(queue.consumers)
        if queue.active_consumer is not None:
            entitled = [queue.active_consumer]

        idle = [consumer.tag for consumer in entitled if consumer.is_able()]
        assert not idle, f"{idle} of '{queue.name}' could take what is ready"


def check_channel(channel: Channel) -> None:
    """No more counts against a channel's limit than it has unacked, settled in a tx or not."""
    unacked = int(channel.deliveries.unacked.count)
    if channel.transaction is not None:
        unacked += len(channel.transaction.settled_messages())

    assert 0 <= channel.deliveries.consumer_unacked <= unacked


def check_answers(client: SimulatedClient, channel: SimulatedChannel) -> None:
    """All that the broker owed a channel that is still open has come (rules CF-04, P-21)."""
    if channel.is_over or client.is_over:
        return

    assert not channel.unanswered, f"{channel} waits for confirms of {list(channel.unanswered)}"
    owed = [one for one in channel.owed if not one.is_void]
    assert not owed, f"{channel} waits for {len(owed)} returned messages"
