"""The broker without its sockets: virtual hosts, users, time, and who is connected.

A node is driven from outside: ``advance`` says what time it is, connections are fed bytes,
``run_deadlines`` does what has come due, and ``flush`` hands out what there is to write. Nothing
in it waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from broker.auth.logins import Logins
from broker.core.actor import Actor
from broker.core.confirms import ConfirmSet
from broker.core.deadlines import Deadlines
from broker.core.events import EVENT_EXCHANGE, Events
from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange.registry import create_exchange
from broker.core.log_exchange import LOG_EXCHANGE, LogExchange
from broker.core.names import check_name
from broker.core.output import OutputSet
from broker.core.protection import check_deletion
from broker.core.tally import Churn, VHostTally
from broker.core.tracing import Tracer
from broker.core.user_commands import forget_rights_in, tell
from broker.core.vhost import Log, VirtualHost
from broker.limits import TIMERS_PER_TURN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_extensions import i64

    from broker.auth.mechanisms import Mechanism
    from broker.auth.users import User, UserStore
    from broker.clock import Clock
    from broker.core.journal import Journal
    from broker.core.parameter_commands import Parameter
    from broker.core.settings import NodeSettings
    from broker.core.watcher import Witness

__all__ = ["BY_HAND", "ConnectionHandle", "LogKeeper", "Node"]

BY_HAND: Final = {"memory": "memory by hand", "disk": "disk by hand"}
"""Alarms that somebody raises to see what becomes of it; no measurement clears them."""

SHORT_OF: Final = {"store": "disk", "memory by hand": "memory", "disk by hand": "disk"}
"""What clients are told is low when an alarm has another name."""

EVENTS_VHOST: Final = "/"
"""The virtual host that has the exchange for events (rule E-02)."""

SHUTDOWN_TEXT: Final = "broker forced connection closure with reason 'shutdown'"


class ConnectionHandle(ABC):
    """What a node asks of its connections."""

    @abstractmethod
    def force_close(self, explanation: str) -> None:
        """Close with 320 CONNECTION_FORCED and this explanation (rules C-77, C-78)."""

    @abstractmethod
    def alarms_changed(self) -> None:
        """The node's alarms are others than before (rules MA-02..MA-04)."""

    @abstractmethod
    def belongs_to(self, user: User | None, vhost: VirtualHost | None) -> bool:
        """Whether the connection is of that user, or open on that virtual host."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LogKeeper(ABC):
    """Where the logs of virtual hosts lie."""

    @abstractmethod
    def open_log(self, vhost: VirtualHost) -> None:
        """Make a fresh virtual host what its log says it was, and keep its log from now on.

        Raises:
            StoreError: the log cannot be used.

        """

    @abstractmethod
    def drop_log(self, vhost: VirtualHost) -> None:
        """A virtual host is gone, with its log."""


class Node:
    """One broker.

    Args:
        settings: identity and limits.
        clock: read once for the start; afterwards time comes through `advance`.
        users: who may log in.
        mechanisms: the SASL mechanisms on offer, by name, in the order they are offered.
        random_bytes: source of the names and secrets the broker makes up.
        log: takes level, event and fields of what a person may want to know.

    """

    __slots__ = (
        "_behind",
        "_wall_offset_s",
        "alarms",
        "channel_counts",
        "churn",
        "clock",
        "confirms",
        "connection_counts",
        "connections",
        "deadlines",
        "dirty_journals",
        "events",
        "global_parameters",
        "log",
        "log_exchange",
        "logins",
        "logs",
        "mechanisms",
        "next_vhost_number",
        "on_state_changed",
        "outputs",
        "parameters",
        "quiet_alarms",
        "random_bytes",
        "settings",
        "started_s",
        "tally",
        "users",
        "vhosts",
        "witness",
    )

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        *,
        users: UserStore,
        mechanisms: dict[str, Mechanism],
        random_bytes: Callable[[int], bytes],
        log: Log,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.users = users
        self.logins = Logins(users, random_bytes(32))
        self.mechanisms = mechanisms
        self.random_bytes = random_bytes
        self.log = log
        now_s = clock.monotonic()
        wall_offset_ms = int((clock.wall() - now_s) * 1000)
        self.deadlines = Deadlines(int(now_s * 1000), wall_offset_ms)
        self.outputs = OutputSet()
        self.confirms = ConfirmSet()
        self.vhosts: dict[str, VirtualHost] = {}
        self.events: Events | None = None
        self.witness: Witness | None = None
        self.log_exchange: LogExchange | None = None
        self.connections: dict[ConnectionHandle, None] = {}
        # What programs keep here: by virtual host, component and name; and by name alone.
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, object] = {}
        # Open connections and channels by user name, for the users' limits (rules C-55, CH-05).
        self.connection_counts: dict[str, int] = {}
        self.channel_counts: dict[str, int] = {}
        self.alarms: dict[str, None] = {}
        # Alarms that hold nobody back.
        self.quiet_alarms: dict[str, None] = {}
        # Counts of what is gone: connections, and virtual hosts with all they had.
        self.churn = Churn()
        self.tally = VHostTally()
        self.started_s = now_s
        # Those with something for their logs, and those whose disk does not keep up.
        self.dirty_journals: list[Journal] = []
        self._behind: dict[Journal, None] = {}
        # Gives each virtual host its log; without it nothing outlives the broker.
        self.logs: LogKeeper | None = None
        # The number of the next virtual host to be made: none is ever used again.
        self.next_vhost_number = 1
        # Told of changes of users, rights, limits and the list of virtual hosts.
        self.on_state_changed: Callable[[], None] | None = None

    # -- driven from outside

    def advance(self, now_s: float) -> None:
        """Say what time it is, in seconds of the node's clock; call before feeding anything."""
        # A microsecond more, so that `next_deadline` itself is late enough for what is due then:
        # 1.001 * 1000.0 is a little less than 1001.
        self.deadlines.now_ms = int(now_s * 1000.0 + 0.001)

    def next_deadline(self) -> float | None:
        """When `run_deadlines` has something to do next, in seconds of the node's clock."""
        due_ms: i64 = self.deadlines.next_due_ms()
        return None if due_ms < 0 else int(due_ms) / 1000.0

    def run_deadlines(self) -> None:
        """Do what has come due; afterwards you must call `flush`."""
        self.deadlines.run(TIMERS_PER_TURN_MAX)

    def flush(self) -> None:
        """Write out what there is: to the logs, then confirms, then every dirty connection."""
        if self.dirty_journals:
            self._flush_journals()

        self.confirms.flush()
        self.outputs.flush()

    def _flush_journals(self) -> None:
        journals = self.dirty_journals[:]
        self.dirty_journals.clear()
        for journal in journals:
            journal.flush()
            if journal.is_dirty:
                # It goes on gathering, while the batch before is on its way.
                self.dirty_journals.append(journal)

            if journal.is_behind:
                self._behind[journal] = None
            else:
                self._behind.pop(journal, None)

        if self.outputs.is_flooded != bool(self._behind):
            self.outputs.flood(bool(self._behind))

    def wants_turn(self) -> bool:
        """Whether deliveries were cut short by a budget: call `resume` in the next turn."""
        return bool(self.outputs.starved)

    def resume(self) -> None:
        """Go on with deliveries that were cut short; afterwards you must call `flush`."""
        self.outputs.resume()

    # -- the books

    def count_connection(self, user_name: str, change: int) -> None:
        """One more connection of a user, or one less."""
        _count(self.connection_counts, user_name, change)

    def count_channel(self, user_name: str, change: int) -> None:
        """One more channel of a user, or one less."""
        _count(self.channel_counts, user_name, change)

    # -- virtual hosts and rights

    def add_vhost(self, name: str, *, by: str = "", number: int = 0) -> VirtualHost:
        """Make a virtual host, or find it.

        Args:
            name: as clients open it.
            by: the administrator who wants it, if it was one.
            number: the one it had in an earlier life; 0 gives it the next.

        Raises:
            PreconditionFailed: the name is too long.

        """
        vhost = self.vhosts.get(name)
        if vhost is None:
            check_name("virtual host name", name)
            vhost = VirtualHost(
                name,
                self.deadlines,
                self.random_bytes,
                self.log,
                topic_hash_words_max=self.settings.topic_hash_words_max
                or self.settings.release.hash_words_max,
            )
            vhost.release = self.settings.release
            vhost.number = number or self.next_vhost_number
            vhost.dirty_journals = self.dirty_journals
            vhost.on_space_changed = self.space_changed
            if self.logs is not None:
                self.logs.open_log(vhost)

            self.next_vhost_number = max(self.next_vhost_number, vhost.number + 1)
            self.vhosts[name] = vhost
            if self.settings.has_event_exchange and name == EVENTS_VHOST:
                self._begin_events(vhost)

            if self.settings.has_log_exchange and name == EVENTS_VHOST:
                _add_topic_exchange(vhost, LOG_EXCHANGE)
                self.log_exchange = LogExchange(vhost)

            vhost.events = self.events
            if self.witness is not None:
                vhost.watch(self.witness)

            tell(self, "vhost.created", by, name=name)

        return vhost

    def _begin_events(self, home: VirtualHost) -> None:
        _add_topic_exchange(home, EVENT_EXCHANGE)
        self.events = Events(home)
        for vhost in self.vhosts.values():
            vhost.events = self.events

    def delete_vhost(self, name: str, *, by: str = "") -> bool:
        """Delete a virtual host with all it holds; its connections are closed (rule PM-31).

        Returns:
            False where there is none.

        Raises:
            Protected: it may not be deleted.

        """
        vhost = self.vhosts.get(name)
        if vhost is None:
            return False

        check_deletion(vhost)
        del self.vhosts[name]
        forget_rights_in(self, name, by=by)
        for key in [key for key in self.parameters if key[0] == name]:
            del self.parameters[key]

        for connection in list(self.connections):
            if connection.belongs_to(None, vhost):
                connection.force_close(f"vhost '{name}' is deleted")

        for queue in list(vhost.queues.values()):
            vhost.remove_queue(queue)

        for exchange in vhost.exchanges.values():
            exchange.detach()

        if self.logs is not None:
            self.logs.drop_log(vhost)

        for exchange in vhost.exchanges.values():
            vhost.tally.publish_in += exchange.publish_in
            vhost.tally.publish_out += exchange.publish_out

        journal = vhost.journal
        if journal is not None:
            vhost.tally.disk_reads += journal.read_count
            vhost.tally.disk_writes += journal.written_count

        self.tally.absorb(vhost.tally)
        # It may have been the one that had no space.
        self.space_changed()
        tell(self, "vhost.deleted", by, name=name)
        if name == EVENTS_VHOST:
            self._end_events()

        return True

    def _end_events(self) -> None:
        self.events = None
        self.log_exchange = None
        for vhost in self.vhosts.values():
            vhost.events = None

    def tell_of_line(self, level: str, line: str) -> None:
        """The log has a new line."""
        if self.log_exchange is not None:
            self.log_exchange.tell(level, line)

    def state_changed(self) -> None:
        """Users, rights, limits or the list of virtual hosts are others than before."""
        if self.on_state_changed is not None:
            self.on_state_changed()

    def rights_changed(self) -> None:
        """Users or permissions are others than before: remembered verdicts are stale (PM-11)."""
        for vhost in self.vhosts.values():
            vhost.topology_changed()

    def set_tracing(self, vhost: VirtualHost, is_on: bool) -> None:
        """Switch the firehose of a virtual host on or off; it is off at start (rule E-135)."""
        if (vhost.tracer is not None) != is_on:
            vhost.trace(Tracer(vhost, self.settings.node_name) if is_on else None)
            name = "tracing.on" if is_on else "tracing.off"
            self.log("info", name, {"vhost": vhost.name})

    def watch(self, witness: Witness) -> None:
        """Have all that happens to messages witnessed, before anybody connects."""
        self.witness = witness
        for vhost in self.vhosts.values():
            vhost.watch(witness)

    def own_actor(self, vhost: VirtualHost) -> Actor:
        """The broker itself, for topology that comes from its configuration."""
        return Actor(vhost.name, None, None)

    # -- alarms and the end

    def set_alarm(self, name: str, is_on: bool, *, is_quiet: bool = False) -> None:
        """Raise or clear an alarm (rules MA-01..MA-04).

        Args:
            name: ``memory``, ``disk`` or ``store``, or of BY_HAND; or ``descriptors``, which is a
                quiet one.
            is_on: whether it holds.
            is_quiet: whether it is only to be seen, and holds nobody back.

        """
        alarms = self.quiet_alarms if is_quiet else self.alarms
        if (name in alarms) == is_on:
            return

        if is_on:
            alarms[name] = None
        else:
            del alarms[name]

        key = "alarm.set" if is_on else "alarm.cleared"
        self.log("warning", key, {"alarm": name})
        if self.events is not None:
            self.events.tell(key, source=name, node=self.settings.node_name)

        if is_quiet:
            return

        for connection in list(self.connections):
            connection.alarms_changed()

    def alarm_reason(self) -> str:
        """Why publishers are blocked, as connection.blocked says it; empty when they are not."""
        # RabbitMQ: by name, and "low on" once.
        short = self.short_of()
        return f"low on {' & '.join(short)}" if short else ""

    def short_of(self) -> list[str]:
        """What there is too little of for publishers: ``disk``, ``memory``, both or nothing."""
        return sorted({SHORT_OF.get(name, name) for name in self.alarms})

    def memory_is_short(self) -> None:
        """Leave to the disk what can be read back, forget what can be found again.

        To be called again while it is true.

        """
        for vhost in self.vhosts.values():
            vhost.wide_routes.clear()
            if vhost.journal is not None:
                vhost.journal.page_out_all()

    def space_changed(self) -> None:
        """A journal has run out of space, or has some again."""
        is_full = False
        for vhost in self.vhosts.values():
            journal = vhost.journal
            if journal is not None and (journal.is_stalled or journal.is_short):
                is_full = True

        self.set_alarm("store", is_full)

    def shutdown(self) -> None:
        """Say 320 to every connection (rules C-78, DU-07); afterwards you must call `flush`."""
        for connection in list(self.connections):
            connection.force_close(SHUTDOWN_TEXT)


def _add_topic_exchange(home: VirtualHost, name: str) -> None:
    settings = ExchangeSettings(name, "topic", True, False, True, {})
    home.add_exchange(create_exchange(settings))


def _count(counts: dict[str, int], name: str, change: int) -> None:
    total = counts.get(name, 0) + change
    if total:
        counts[name] = total
    else:
        del counts[name]
