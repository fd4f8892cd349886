"""The broker that a test talks to, and asks. Layer: testing; public.

Invariant: a broker is reached over a real socket, by any client, unchanged; whatever is asked of it
beside that may be asked from any thread.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from broker.core.user_commands import Rights, set_permissions
from broker.net.addresses import format_address
from broker.testing.celery import celery_config
from broker.testing.compat import config_with_compat
from broker.testing.faults import Faults
from broker.testing.history import History
from broker.testing.stage import PATIENCE_S, SETTLE_S, Stage
from broker.testing.views import (
    ConnectionView,
    ConsumerView,
    ExchangeView,
    QueueView,
    demand_queue,
    describe,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType

    from broker.testing.topology import Topology
    from broker.testing.waiting import Waited

__all__ = ["Broker", "ClockControl"]

WAIT_S: Final = 5.0
ALL: Final = Rights(".*", ".*", ".*")
DEFAULT_VHOST: Final = "/"


class ClockControl:
    """The time of a broker: whatever it does by the clock, it does by this one.

    Time to live, delays, queue expiry, consumer timeouts, heartbeats and stamps follow it. It runs
    with the machine's until it is frozen or moved. What a client times by itself does not follow.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def now(self) -> float:
        """Seconds since the broker began, by its clock."""
        return self._stage.ledger.now_s

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._stage.clock.is_frozen

    def advance(
        self, seconds: float, *, patience: float = PATIENCE_S, settle: float = SETTLE_S
    ) -> Waited:
        """Let time pass at once, from one thing that is due to the next, in order.

        Whenever something was delivered on the way, its consumer gets real time to settle it before
        the clock goes on; so a message that is retried every minute is retried sixty times in
        ``advance(3600)``. In a coroutine, await it.

        Args:
            seconds: how much.
            patience: real seconds that a consumer has for one delivery; one that is held longer is
                not waited for any more.
            settle: real seconds of silence from clients after a delivery that was acknowledged,
                or needs no acknowledgement. Nobody says when the work on such a one is done: give
                more than a consumer works that acknowledges first, or 0 where none does.

        """
        for name, value in (("seconds", seconds), ("patience", patience), ("settle", settle)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}: it must be finite, and time does not go back")

        stage = self._stage
        return stage.wait(lambda: stage.advance(seconds, patience, settle), "clock.advance()")

    def freeze(self) -> None:
        """Stand still from now on: time passes by :meth:`advance` alone."""
        self._stage.set_frozen(True)

    def resume(self) -> None:
        """Run on."""
        self._stage.set_frozen(False)


class Broker:
    """A broker for a test, in a thread of its own.

    ::

        with Broker() as broker:
            ...  # a client connects to broker.url
            broker.wait_idle()
            broker.queue("orders").assert_acked(1)

    ``async with`` does the same. What has to wait for clients (:meth:`wait_idle`, :meth:`wait_for`,
    ``clock.advance``, ``faults.restart``) is awaited in a coroutine.

    Args:
        config: a mapping as in the configuration file; None is guest/guest and ``/``.
        compat: behave as a release of RabbitMQ where it refuses what others take:
            ``rabbitmq-3.10``, ``rabbitmq-3.13``, ``rabbitmq-4.0``, ``rabbitmq-4.2`` or
            ``rabbitmq-4.3``.
        durable: keep on disk what is durable, so that it survives ``faults.restart()``.
        definitions: the path of exported definitions (JSON or YAML), or what is in one: made in the
            virtual host at the start.
        host: where to listen.
        port: where to listen; 0 takes any free port.
        vhost: which of the configuration's virtual hosts this is about; ``/`` or else the first, if
            not named.

    """

    def __init__(  # noqa: PLR0913 - all but the first are named
        self,
        config: Mapping[str, object] | None = None,
        *,
        compat: str | None = None,
        durable: bool = False,
        definitions: Mapping[str, object] | str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        vhost: str = "",
    ) -> None:
        self.stage = Stage(
            config_with_compat({} if config is None else config, compat),
            is_durable=durable,
            host=host,
            port=port,
        )
        self.vhost = vhost or _first_vhost(config or {})
        self._is_guest = False
        self._definitions = definitions

    # -- its life

    def start(self) -> Broker:
        """Start it; whoever calls this must call :meth:`stop`.

        Raises:
            ConfigProblems: what is wrong with the configuration.
            StartError: the address cannot be had.

        """
        if not self._is_guest:
            self.stage.start()
            self.stage.on_restart.append(self._load_definitions_again)

        try:
            self._check_vhost()
            if self._definitions is not None:
                self.topology.load(self._definitions).block()
        except BaseException:
            self.stop()
            raise

        return self

    def _check_vhost(self) -> None:
        names = self.stage.call(lambda: sorted(self.stage.node.vhosts))
        if self.vhost not in names:
            raise LookupError(f"no vhost {self.vhost!r}; there are: {', '.join(names) or 'none'}")

    def stop(self) -> None:
        """End it; a virtual host of somebody else's broker is deleted instead. Harmless twice."""
        if not self._is_guest:
            self.stage.stop()
        elif self.stage.is_running:
            self.faults.heal()
            self.clock.resume()
            self.stage.call(self._leave)

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return self.start()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # Clients of this loop have to answer the close.
        await asyncio.to_thread(self.stop)

    def fresh_vhost(
        self, *, definitions: Mapping[str, object] | str | os.PathLike[str] | None = None
    ) -> Broker:
        """A virtual host of its own on this broker, to be used like a broker.

        Its history, queues and faults are its own; the clock and the alarms are the broker's.
        """
        fresh = Broker.__new__(Broker)
        fresh.stage = self.stage
        fresh.vhost = f"test-{next(self.stage.vhost_numbers)}"
        fresh._is_guest = True
        fresh._definitions = definitions

        self.stage.call(fresh._move_in)
        self.stage.on_restart.append(fresh._move_in_again)
        return fresh

    def _move_in(self) -> None:
        node = self.stage.node
        if self.vhost not in node.vhosts:
            node.add_vhost(self.vhost)

        for user in list(node.users.users):
            set_permissions(node, user, ALL, vhost=self.vhost, by="")

    async def _move_in_again(self) -> None:
        self.stage.call(self._move_in)
        await self._load_definitions_again()

    def _leave(self) -> None:
        node = self.stage.node
        if self.vhost in node.vhosts:
            node.delete_vhost(self.vhost)
            self.stage.on_restart.remove(self._move_in_again)

        self.stage.ledger.forget(self.vhost)

    async def _load_definitions_again(self) -> None:
        if self._definitions is not None:
            await self.topology.load_here(self._definitions)

    # -- where it is

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self.stage.host

    @property
    def port(self) -> int:
        """The port it listens on; the same after a restart."""
        return self.stage.port

    @property
    def url(self) -> str:
        """``amqp://user:password@host:port/vhost``."""
        own = self.stage.player.url
        if self.vhost == DEFAULT_VHOST and not self._is_guest:
            return own

        credentials = own.removeprefix("amqp://").rpartition("@")[0]
        address = format_address(self.host, self.port)
        return f"amqp://{credentials}@{address}/{quote(self.vhost, safe='')}"

    # -- what is asked

    @property
    def clock(self) -> ClockControl:
        """Its time."""
        return ClockControl(self.stage)

    @property
    def faults(self) -> Faults:
        """What can go wrong."""
        return Faults(self.stage, self._scope, self.vhost)

    @property
    def history(self) -> History:
        """What has happened."""
        stage = self.stage
        return History(
            stage.ledger, self._scope, lambda name: describe(self, name), stage.call_if_there
        )

    @property
    def topology(self) -> Topology:
        """Exchanges, queues and bindings as a whole."""
        module = import_module("broker.testing.topology")
        made: Topology = module.Topology(self.stage, self.vhost)
        return made

    def queue(self, name: str) -> QueueView:
        """A queue, whether it is there or not."""
        return QueueView(self, name)

    def exchange(self, name: str) -> ExchangeView:
        """An exchange; the empty name is the default one."""
        return ExchangeView(self, name)

    def consumer(self, tag: str) -> ConsumerView:
        """A consumer, by its tag."""
        return ConsumerView(self, tag)

    @property
    def queues(self) -> list[str]:
        """The names of the queues there are."""
        return self.stage.call(lambda: sorted(self.stage.node.vhosts[self.vhost].queues))

    @property
    def connections(self) -> list[ConnectionView]:
        """The clients that are connected."""

        def read() -> list[ConnectionView]:
            return [
                ConnectionView(tap.connection)
                for tap in self.stage.plans.taps
                if tap.connection.vhost is not None
                and not tap.connection.is_closed
                and self._scope in (None, tap.connection.vhost.name)
            ]

        return self.stage.call(read)

    @property
    def _scope(self) -> str | None:
        """The virtual host that history and faults keep to; None is all."""
        return self.vhost if self._is_guest else None

    def celery_config(
        self, *, timed_by_broker: bool = False, **settings: object
    ) -> dict[str, object]:
        """Settings for a Celery application that uses this broker (see docs/testing.md)."""
        return celery_config(self.url, timed_by_broker=timed_by_broker, **settings)

    # -- what is waited for

    def wait_idle(self, *queues: str, timeout: float = WAIT_S) -> Waited:
        """Wait until consumers have settled all that they could get.

        That is: everything that clients sent so far has been read, nothing is unacknowledged, and
        no queue that has consumers has messages. Messages in queues without consumers may wait on.
        In a coroutine, await it.

        Args:
            queues: only these; all of them if none is named. One that was never there is waited for
                too.
            timeout: real seconds.

        Raises:
            AssertionError: it takes longer; says what is still going on.

        """
        stage = self.stage

        def is_idle() -> bool:
            for name in queues:
                demand_queue(self, name, self._scope)

            return not stage.call(lambda: stage.busy_queues(self._scope, queues))

        def complain(last: str) -> str:
            if last:
                return f"not idle after {timeout:g} s: {last}"

            busy = stage.call(lambda: stage.busy_queues(self._scope, queues))
            lines = [f"not idle after {timeout:g} s"]
            lines += [describe(self, queue.name) for queue in busy]
            lines.append(self.history.story())
            return "\n".join(lines)

        return stage.wait_until(is_idle, timeout, complain, "wait_idle()")

    def wait_for(
        self, condition: Callable[[], object], timeout: float = WAIT_S, *, what: str = ""
    ) -> Waited:
        """Wait until something is so: a condition is true, or an assertion holds.

        ::

            broker.wait_for(lambda: broker.queue("orders").assert_acked(3))

        In a coroutine, await it.

        Args:
            condition: asked again after whatever happens, here, so that it may use a client too.
                An AssertionError means not yet.
            timeout: real seconds.
            what: what is waited for, for the failure message.

        Raises:
            AssertionError: it takes longer; with what the condition said last.

        """
        stage = self.stage

        def complain(last: str) -> str:
            title = f"waited {timeout:g} s" + (f" for {what}" if what else "")
            return f"{title}: {last}" if last else f"{title}\n{self.history.story()}"

        return stage.wait_until(condition, timeout, complain, "wait_for()")

    def __repr__(self) -> str:
        state = self.url if self.stage.is_running else "not running"
        return f"<Broker {state}>"


def _first_vhost(config: Mapping[str, object]) -> str:
    """The virtual host of a configuration that a broker is about, if nobody says."""
    named = config.get("vhosts")
    if not isinstance(named, Mapping) or not named or DEFAULT_VHOST in named:
        return DEFAULT_VHOST

    return str(next(iter(named)))
