"""What the API knows of the broker that it is the face of (management layer).

Invariant: the core is changed only within :meth:`Site.change`, which answers when the change is on
the disk as far as it is to be there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from broker.core.actor import Actor
from broker.management.node_counts import MACHINE, MACHINE_KEYS, machine_totals
from broker.metrics.totals import vhost_depths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.config.schema import AlarmsConfig, LogConfig
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.management.auth import Caller
    from broker.metrics.sampler import Sampler
    from broker.metrics.snapshot import DiskReading, MachineReading
    from broker.metrics.totals import Totals

__all__ = [
    "CertificateView",
    "ClientGate",
    "ListenerFact",
    "LogControl",
    "Operator",
    "ReloadReport",
    "Runner",
    "Site",
    "Surroundings",
]

SAFE_WAIT_S: Final = 30.0
"""How long a request waits for the disk; RabbitMQ waits as long for a confirm."""

QUEUES_AT_A_GLANCE: Final = 1_000
GLANCE_MS: Final = 1_000
"""Sums over more queues than that are not made anew for each request: dashboards ask and ask."""

T = TypeVar("T")


class Runner(Protocol):
    """Runs a command in the core, and writes what comes of it."""

    def run(self, command: Callable[[], None]) -> None: ...


class ListenerFact(NamedTuple):
    """One address that the broker accepts on."""

    protocol: str
    """``amqp`` or ``http``, and with TLS ``amqp/ssl`` or ``https``."""

    host: str
    port: int
    tls: str = ""
    """What it makes TLS connections with, by its name in the configuration; empty for nothing."""

    @property
    def is_tls(self) -> bool:
        """Whether clients speak TLS there."""
        return bool(self.tls)


class CertificateView(NamedTuple):
    """A certificate in use."""

    tls: str
    """What it belongs to, by its name in the configuration."""

    server_name: str
    """Who asks for that name sees it; empty where everybody does."""

    purpose: str
    """``server`` or ``authority``."""

    path: str
    subject: str
    issuer: str
    serial: int
    names: tuple[str, ...]
    not_before_s: int
    not_after_s: int


class ReloadReport(NamedTuple):
    """What became of a configuration that was read again.

    Attributes:
        is_applied: whether it is in force now.
        problems: why it cannot be, one line each.
        changes: what differs: an action, a key of the file, and a text that may be empty.
        pruned: what was removed, or would be, by key.

    """

    is_applied: bool
    problems: tuple[str, ...]
    changes: tuple[tuple[str, str, str], ...]
    pruned: tuple[str, ...]


class LogControl(NamedTuple):
    """The log, as it can be set.

    Attributes:
        known_levels: all there are.
        settings: tells how it is.
        change: makes it otherwise.
        reopen: opens its file anew.

    """

    known_levels: tuple[str, ...]
    settings: Callable[[], LogConfig]
    change: Callable[[LogConfig], None]
    reopen: Callable[[], None]


class Operator(NamedTuple):
    """What can be set around the core while it runs.

    Attributes:
        alarms: tells the limits in force.
        configured_alarms: tells those of the configuration.
        set_alarms: gives the alarms other limits.
        reload: reads the configuration again (whether it prunes, whether it only tells); None
            where there is no file.
        log: None where it is not the broker's to set.

    """

    alarms: Callable[[], AlarmsConfig]
    configured_alarms: Callable[[], AlarmsConfig]
    set_alarms: Callable[[AlarmsConfig], None]
    reload: Callable[[bool, bool], Awaitable[ReloadReport]] | None
    log: LogControl | None


class ClientGate(Protocol):
    """The way in for clients of AMQP."""

    @property
    def state(self) -> str: ...

    async def suspend(self) -> None: ...

    async def resume(self) -> None: ...

    async def stop(self) -> None: ...

    async def start(self) -> None: ...


class Surroundings(NamedTuple):
    """What is around the broker core.

    Attributes:
        listeners: tells where the broker accepts.
        machine: tells of memory, disk and descriptors.
        disk: tells what was done to the disk.
        memory_bytes: tells how much memory the broker could have; 0 where that is not known.
        operator: what can be set.
        gate: keeps clients out, or lets them in.
        request_stop: ends the broker; None where that is not for its clients to say.
        save: waits until users, rights and the list of virtual hosts are on the disk.
        data_directory: where what lasts is kept; None where nothing is.
        config_files: what it was configured with.
        certificates: tells which are in use.

    """

    listeners: Callable[[], list[ListenerFact]]
    machine: Callable[[], MachineReading]
    disk: Callable[[], DiskReading]
    memory_bytes: Callable[[], int]
    operator: Operator
    gate: ClientGate
    request_stop: Callable[[], None] | None
    save: Callable[[], Awaitable[None]]
    data_directory: str | None
    config_files: tuple[str, ...]
    certificates: Callable[[], list[CertificateView]] = list


class Glance(NamedTuple):
    """What the queues of a virtual host come to: DEPTH_KEYS, and their consumers."""

    depths: Totals
    consumers: int


class Site:
    """One broker, as the handlers see it.

    Args:
        node: the broker core.
        runner: drives it.
        sampler: knows how fast counters move.
        around: the rest.

    """

    def __init__(self, node: Node, runner: Runner, sampler: Sampler, around: Surroundings) -> None:
        self.node = node
        self.runner = runner
        self.sampler = sampler
        self.around = around
        self.started_wall_ms: Final = node.deadlines.wall_ms
        self._orders: dict[VirtualHost, tuple[tuple[int, int, int], list[Queue]]] = {}
        self._glances: dict[VirtualHost, tuple[int, Glance]] = {}
        sampler.add(MACHINE, MACHINE_KEYS, lambda: machine_totals(self))

    @property
    def now_wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.node.clock.wall() * 1000)

    def actor(self, caller: Caller, vhost: VirtualHost) -> Actor:
        """On whose behalf a command runs."""
        return Actor(vhost.name, caller.user, None, "")

    def queues_in_order(self, vhost: VirtualHost) -> list[Queue]:
        """The queues of a virtual host by name; to be left as it is.

        Sorting ten thousand takes several milliseconds, and pages are asked for again and again.
        """
        tally = vhost.tally
        stamp = (len(vhost.queues), int(tally.queues_created), int(tally.queues_deleted))
        known = self._orders.get(vhost)
        if known is not None and known[0] == stamp:
            return known[1]

        for gone in [one for one in self._orders if self.node.vhosts.get(one.name) is not one]:
            del self._orders[gone]

        ordered = sorted(vhost.queues.values(), key=_name_of)
        self._orders[vhost] = (stamp, ordered)
        return ordered

    async def add_up_unacked(self) -> None:
        """Have the bytes of unacked messages known, as of now or of a moment ago."""
        for _ in self.sampler.unacked.steps(self.node.clock.monotonic()):
            await asyncio.sleep(0)

    def glance(self, vhost: VirtualHost) -> Glance:
        """The sums over all queues; of very many, as of some moment in the last second."""
        now_ms = int(self.node.deadlines.now_ms)
        known = self._glances.get(vhost)
        if known is not None and 0 <= now_ms - known[0] < GLANCE_MS:
            return known[1]

        consumers = sum(len(queue.consumers) for queue in vhost.queues.values())
        glance = Glance(vhost_depths(vhost), consumers)
        if len(vhost.queues) > QUEUES_AT_A_GLANCE:
            if len(self._glances) > len(self.node.vhosts):
                self._glances.clear()

            self._glances[vhost] = (now_ms, glance)

        return glance

    async def change(self, command: Callable[[], T], vhost: VirtualHost | None = None) -> T:
        """Do one thing to the core, and return when that is safe.

        Args:
            command: checks everything, then changes.
            vhost: whose log it may be told to; None for users, rights and virtual hosts.

        Raises:
            TimeoutError: it is done, and not yet safe.
            BrokerError: what the command raises.

        """
        outcome: list[T] = []
        faults: list[Exception] = []
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not safe.done():
                safe.set_result(None)

        def act() -> None:
            try:
                outcome.append(command())
            except Exception as fault:
                faults.append(fault)

            if vhost is not None and vhost.journal is not None:
                vhost.journal.when_safe(finish)
            else:
                finish()

        self.runner.run(act)
        if faults:
            raise faults[0]

        async with asyncio.timeout(SAFE_WAIT_S):
            await safe
            if vhost is None:
                await self.around.save()

        return outcome[0]


def _name_of(queue: Queue) -> str:
    return queue.name
