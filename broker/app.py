"""Puts a broker together, starts and stops it. Layer: composition root.

Invariant: a start that fails leaves nothing behind, neither socket nor timer; a stop ends within
its time whatever the clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.auth.logins import guard_of
from broker.auth.mechanisms import Credentials, build_mechanisms
from broker.auth.passwords import PASSWORD_HASHING
from broker.auth.users import UserStore, configure_users
from broker.build import build_kind
from broker.clock import Clock, SystemClock
from broker.config.schema import AlarmsConfig
from broker.core.node import Node
from broker.core.release import NO_RELEASE, RELEASES
from broker.core.settings import NodeSettings
from broker.errors import StartError, StoreError
from broker.keeper import NodeKeeper
from broker.limits import CONSUMERS_PER_CHANNEL_MAX, SOCKETS_MAX, SOCKETS_SPARED
from broker.logs import Log as EventLog
from broker.metrics.sampler import SAMPLE_INTERVAL_S, Sampler
from broker.net.gate import CLOSE_WAIT_S, Gate
from broker.net.listeners import Address, Listeners
from broker.net.memory import keep_freed_memory
from broker.net.pump import Pump
from broker.net.reception import Reception
from broker.net.ticker import Ticker
from broker.net.turnstile import TurnstileRules
from broker.net.verifying import ThreadedVerifier
from broker.node_state import without_spent_defaults
from broker.protocol.connection import Connection
from broker.store.directory import DataDirectory, default_data_directory
from broker.topology import apply_topology
from broker.vhost_logs import VHostLogs
from broker.watches import Watch, start_watches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.config.schema import Config
    from broker.net.door import Door
    from broker.net.transport import Session
    from broker.protocol.link import Link, Peer
    from broker.reload import Reloader
    from broker.store.counted import DiskCounts
    from broker.telemetry import Telemetry
    from broker.transport_security import TransportSecurity

    Log = Callable[[str, str, dict[str, object]], None]

    SessionFactory = Callable[[Node, Link, Peer], Session]

    LoopFactory = Callable[[], asyncio.AbstractEventLoop]

__all__ = ["STOP_WAIT_S", "Application", "build_node", "open_keeper", "serve", "sockets_max"]

STOP_WAIT_S: Final = CLOSE_WAIT_S
"""How long clients have to answer the close at a stop."""

_DONE: Final = object()

COLLECTOR_THRESHOLDS: Final = (50_000, 10, 10)
"""New containers before a young collection, and how many collections make one of the next kind."""


def open_keeper(config: Config, log: Log) -> NodeKeeper | None:
    """Open the data directory; None where nothing is kept.

    Raises:
        StoreError: it cannot be had, or is damaged.

    """
    storage = config.storage
    if storage.memory_only:
        return None

    directory = DataDirectory(storage.data_dir or default_data_directory())
    try:
        return NodeKeeper(directory, log)
    except BaseException:
        directory.close()
        raise


def build_node(config: Config, clock: Clock, log: Log, kept: Kept | None = None) -> Node:
    """Make the broker core as it was kept and as the configuration wants it.

    Raises:
        ConfigProblems: what only the core could find wrong.
        StoreError: what was kept cannot be brought back.

    """
    users = UserStore(
        loopback_only_users=config.auth.loopback_only_users,
        hashing_algorithm=PASSWORD_HASHING[config.auth.password_hashing],
    )
    anonymous = Credentials(config.auth.anonymous_user, config.auth.anonymous_password.reveal())
    settings = _settings_of(config)
    release = settings.release
    node = Node(
        settings,
        clock,
        users=users,
        mechanisms=build_mechanisms(
            [name for name in config.auth.mechanisms if name not in release.missing_mechanisms],
            anonymous=anonymous,
        ),
        random_bytes=os.urandom,
        log=log,
    )
    node.logins.guard = guard_of(config.auth.failed_logins)
    if kept is not None:
        kept.keeper.restore_users(users)
        kept.keeper.restore_vhosts(node)
        if kept.keeper.saved is not None:
            config = without_spent_defaults(config, kept.keeper.saved)

    configure_users(
        users,
        config,
        random_bytes=os.urandom,
        on_overruled=lambda user, what: log(
            "warning", "config.overrules", {"user": user, "what": what}
        ),
    )
    for entry in config.vhosts:
        node.add_vhost(entry.name)

    if kept is not None:
        # What is in the virtual hosts comes back before the configuration declares more.
        kept.logs.recover(node)

    apply_topology(config, node)
    if kept is not None:
        kept.logs.settle()
        kept.keeper.save_now(node)

    return node


class Kept:
    """What lies in the data directory of a broker.

    Args:
        keeper: users, rights and the list of virtual hosts.
        logs: what is in each of those.

    """

    def __init__(self, keeper: NodeKeeper, logs: VHostLogs) -> None:
        self.keeper = keeper
        self.logs = logs

    def abandon(self) -> None:
        """The start has failed: let go of everything as it is."""
        self.logs.abandon()
        self.keeper.abandon()

    async def close(self) -> None:
        """Write down what there is; nobody is connected any more."""
        self.logs.close()
        await self.keeper.close()


def _alarms_text(alarms: AlarmsConfig) -> str:
    memory = alarms.memory
    shown = "none"
    if memory.limit_fraction is not None:
        shown = f"{memory.limit_fraction:g} of what there is"
    elif memory.limit_bytes is not None:
        shown = f"{memory.limit_bytes} bytes"

    disk = alarms.disk.free_bytes_min
    fraction = alarms.descriptors.limit_fraction
    return (
        f"memory {shown}, disk {'none' if disk is None else f'{disk} bytes'}, file descriptors"
        f" {'none' if fraction is None else f'{fraction:g} of what there may be'}"
    )


def _try_out(config: Config) -> None:
    """Make everything that a configuration declares in a broker that nobody sees.

    Raises:
        ConfigProblems: the core refuses some of it.

    """
    build_node(config, SystemClock(), lambda _level, _event, _fields: None)


def _settings_of(config: Config) -> NodeSettings:
    limits = config.limits
    consumers_max = limits.consumers_per_channel_max
    release = RELEASES.get(config.compatibility.rabbitmq, NO_RELEASE)
    product = config.compatibility.product
    if release.name and not config.origin.names(("compatibility", "product")):
        product = "RabbitMQ"

    message_bytes_max = limits.message_max_bytes
    if release.message_bytes_max and not config.origin.names(("limits", "max_message_size")):
        message_bytes_max = release.message_bytes_max

    return NodeSettings(
        node_name=config.node.name,
        product=product,
        release=release,
        topic_hash_words_max=config.compatibility.topic_hash_words_max,
        has_event_exchange=config.compatibility.event_exchange,
        has_log_exchange=config.log.has_exchange,
        channel_max=limits.channel_max,
        frame_max=limits.frame_max_bytes,
        heartbeat_s=config.heartbeat_s,
        message_bytes_max=message_bytes_max,
        connections_max=limits.connections_max,
        consumers_per_channel_max=(
            CONSUMERS_PER_CHANNEL_MAX if consumers_max is None else consumers_max
        ),
        handshake_timeout_ms=round(limits.handshake_timeout_s * 1000),
        consumer_timeout_ms=round((limits.consumer_timeout_s or 0) * 1000),
    )


class Application:
    """One running broker in one event loop; made by :meth:`start`."""

    def __init__(
        self,
        node: Node,
        pump: Pump,
        reception: Reception,
        listeners: Listeners,
        kept: Kept | None,
        watches: list[Watch],
    ) -> None:
        # What the alarms go by, and what the configuration wants them to go by.
        self.alarms = AlarmsConfig()
        self._configured_alarms = self.alarms
        self.node = node
        self.pump = pump
        self.sampler = Sampler(node)
        self._sampling = Ticker(pump, SAMPLE_INTERVAL_S, self._sample)
        self.http_api: Door | None = None
        self.telemetry: Telemetry | None = None
        self.reloader: Reloader | None = None
        self._reception = reception
        self._listeners = listeners
        self.gate = Gate(listeners, reception, node.shutdown, node.log)
        # Ends the broker; None where that is for the program around it to do.
        self.on_stop_request: Callable[[], None] | None = None
        self._kept = kept
        self.watches = watches
        self.verifier: ThreadedVerifier | None = None
        # Certificates, and who waits to be known; None where no listener has to do with either.
        self.security: TransportSecurity | None = None
        # Done when the broker cannot go on, with the reason.
        self.failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(
        cls,
        config: Config,
        log: Log,
        clock: Clock | None = None,
        *,
        make_session: SessionFactory = Connection,
    ) -> Application:
        """Build a broker and accept connections in the running loop.

        Args:
            config: as it was read.
            log: told of everything.
            clock: where time comes from, if not from the machine.
            make_session: makes what stands between a socket and the core.

        Raises:
            ConfigProblems: what only the core could find wrong with the configuration.
            StartError: an address cannot be had.
            StoreError: the data directory cannot be used.

        """
        clock = clock or SystemClock()
        loop = asyncio.get_running_loop()
        kept: Kept | None = None
        security: TransportSecurity | None = None
        keeper = open_keeper(config, log)
        if keeper is not None:
            logs = VHostLogs(config.storage, keeper.make_directory, loop, log)
            logs.keep_space_back(keeper.directory.reserve_path)
            kept = Kept(keeper, logs)

        try:
            node = build_node(config, clock, log, kept)
            pump = Pump(node, clock, loop)
            verifier = ThreadedVerifier(loop, pump.run)
            node.logins.verifier = verifier
            security = _secure(config, loop, clock, log)
            listeners, reception = await _listen(config, node, pump, log, make_session, security)
        except BaseException:
            if security is not None:
                security.stop()

            if kept is not None:
                kept.abandon()

            raise

        data_dir = None if keeper is None else keeper.directory.path
        watches = start_watches(config.alarms, node, pump, data_dir, log)
        app = cls(node, pump, reception, listeners, kept, watches)
        app.alarms = app._configured_alarms = config.alarms
        app.verifier = verifier
        app.security = security
        if isinstance(log, EventLog):
            log.on_line = node.tell_of_line

        if kept is not None:
            kept.keeper.watch(node)
            kept.logs.watch(pump, app.fail)

        return app

    @property
    def data_directory(self) -> str | None:
        """Where it keeps what lasts; None where it keeps nothing."""
        return None if self._kept is None else self._kept.keeper.directory.path

    @property
    def disk_counts(self) -> DiskCounts | None:
        """What was done to the disk; None where nothing is kept."""
        return None if self._kept is None else self._kept.logs.counts

    def start_http_api(self, config: Config, log: Log) -> None:
        """Serve the HTTP API, if there is to be one, and `leveret ctl` in the data directory.

        Raises:
            StartError: the configuration names an address that cannot be had.

        """
        if config.management.is_enabled or self.data_directory is not None:
            from broker.http_door import open_http_door

            self.http_api = open_http_door(self, config, log)

    async def start_telemetry(self, config: Config, log: Log) -> None:
        """Start exporters and datagram listeners, where there are to be any.

        Raises:
            StartError: the configuration names an address that cannot be had.

        """
        metrics = config.metrics
        if metrics.prometheus.is_enabled or metrics.statsd.is_enabled or config.listeners.datagram:
            module = import_module("broker.telemetry")
            self.telemetry = await module.start_telemetry(self, config, log)

    @property
    def configured_alarms(self) -> AlarmsConfig:
        """What the configuration in force wants the alarms to go by."""
        return self._configured_alarms if self.reloader is None else self.reloader.config.alarms

    def set_alarms(self, alarms: AlarmsConfig) -> None:
        """Give the alarms other limits, until somebody does so again or the broker ends."""
        if alarms == self.alarms:
            return

        self.alarms = alarms
        for watch in self.watches:
            watch.stop()

        self.pump.advance()
        self.watches[:] = start_watches(
            alarms, self.node, self.pump, self.data_directory, self.node.log
        )
        self.pump.settle()
        self.node.log("info", "alarms.limits", {"alarms": _alarms_text(alarms)})

    def make_reloadable(self, config: Config, log: Log, load: Callable[[], Config] | None) -> None:
        """Let the configuration be read again.

        Args:
            config: in force.
            log: told of what changes.
            load: reads it as it was read at the start; None where there is no file.

        """
        module = import_module("broker.reload")
        around = module.Surroundings(
            self.node,
            self.pump,
            log,
            self.set_alarms,
            self.save,
            _settings_of,
            _try_out,
            self._take_on_security,
        )
        self.reloader = module.Reloader(around, config, load)

    def _take_on_security(self, config: Config) -> None:
        if self.security is not None:
            self.security.take_on(config)

    def _sample(self) -> None:
        self._go_on_sampling(self.sampler.steps(self.node.clock.monotonic()))

    def _go_on_sampling(self, steps: Iterator[None]) -> None:
        """One step, and the next one in the loop's next turn: others have theirs between."""
        if next(steps, _DONE) is not _DONE:
            self.pump.loop.call_soon(self._go_on_sampling, steps)

    async def save(self) -> None:
        """Wait until users, rights and the list of virtual hosts are on the disk.

        Raises:
            StoreError: they could not be saved; it is tried again.

        """
        if self._kept is not None:
            keeper = self._kept.keeper
            await keeper.flush()
            if keeper.failure:
                raise StoreError(f"the change is made, and could not be saved: {keeper.failure}")

    def fail(self, reason: str) -> None:
        """The disk cannot be trusted any more: nothing that is not safe may be called so."""
        if not self.failure.done():
            self.failure.set_result(reason)

        self.abort()

    @property
    def addresses(self) -> list[Address]:
        """Where it accepts connections."""
        return self._listeners.addresses

    async def stop(self, wait_s: float = STOP_WAIT_S) -> None:
        """Accept nobody, close every connection with 320 (rule C-78), wait, abort what is left."""
        self.gate.shut()
        self._sampling.stop()
        if self.telemetry is not None:
            await self.telemetry.stop()

        if self.http_api is not None:
            await self.http_api.stop()

        for watch in self.watches:
            watch.stop()

        await self.gate.empty(wait_s)
        self.pump.stop()
        if self.verifier is not None:
            self.verifier.stop()

        if self.security is not None:
            self.security.stop()

        if self._kept is not None:
            await self._kept.close()

    async def crash(self) -> None:
        """End as if killed: nobody is told anything, and nothing more is written."""
        self._reception.shut()
        self._listeners.close()
        if self.security is not None:
            self.security.stop()

        self._sampling.stop()
        for watch in self.watches:
            watch.stop()

        self.pump.let_go()
        if self._kept is not None:
            self._kept.abandon()

        self.abort()
        if self.telemetry is not None:
            await self.telemetry.stop()

        if self.http_api is not None:
            await self.http_api.stop()

        await self._reception.wait_empty()

    def abort(self) -> None:
        """Close every socket at once; a stop that waits for them goes on."""
        self._reception.abort_all()


def _secure(
    config: Config, loop: asyncio.AbstractEventLoop, clock: Clock, log: Log
) -> TransportSecurity | None:
    """Load the certificates, where there are any.

    Raises:
        StartError: one of them cannot be loaded.

    """
    listeners = (*config.listeners.amqp, *config.listeners.amqps)
    if not config.tls and all(one.proxies is None for one in listeners):
        return None

    made: TransportSecurity = import_module("broker.transport_security").TransportSecurity(
        config, loop, clock, log
    )
    return made


async def _listen(
    config: Config,
    node: Node,
    pump: Pump,
    log: Log,
    make_session: SessionFactory,
    security: TransportSecurity | None,
) -> tuple[Listeners, Reception]:
    def open_session(link: Link, peer: Peer) -> Session:
        return make_session(node, link, peer)

    limits = config.limits
    rules = TurnstileRules(
        limits.handshakes_max,
        limits.connections_per_source_max,
        limits.connection_rate_max,
        limits.connection_rate_per_source_max,
    )
    reception = Reception(pump, open_session, log, connections_max=sockets_max(), rules=rules)
    listeners = Listeners(reception, None if security is None else security.antechamber)
    if security is not None:
        security.serve(reception)

    try:
        for one in (*config.listeners.amqp, *config.listeners.amqps):
            terms = None if security is None else security.terms_of(one)
            await listeners.open(one.bind, one.port, one.backlog, terms)
    except BaseException:
        reception.shut()
        listeners.close()
        reception.abort_all()
        pump.stop()
        raise

    return listeners, reception


def sockets_max() -> int:
    """How many sockets this process may hold for clients."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return SOCKETS_MAX

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return SOCKETS_MAX

    return max(1, min(soft - SOCKETS_SPARED, SOCKETS_MAX))


def serve(
    config: Config,
    log: Log,
    *,
    load: Callable[[], Config] | None = None,
    loop_factory: LoopFactory | None = None,
    on_ready: Callable[[Application], None] | None = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; a second one does not wait for the clients.

    Args:
        config: as it was read.
        log: told of everything.
        load: reads it again when SIGHUP comes; without it SIGHUP ends the broker.
        loop_factory: of asyncio's kind of loop, or another.
        on_ready: called once everything accepts.

    Raises:
        ConfigProblems: what only the core could find wrong with the configuration.
        StartError: an address cannot be had.
        StoreError: the data directory cannot be used.

    """
    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(config, log, load, on_ready))


async def _serve(
    config: Config,
    log: Log,
    load: Callable[[], Config] | None,
    on_ready: Callable[[Application], None] | None,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: _log_loop_error(log, context))
    signals = _Signals(loop)
    app = await Application.start(config, log)
    if load is not None:
        app.make_reloadable(config, log, load)
        signals.on_hangup = _Hangup(app, log)

    _log_start(config, app, log)
    app.on_stop_request = signals.stop
    try:
        app.start_http_api(config, log)
        await app.start_telemetry(config, log)
    except BaseException:
        await app.stop()
        raise

    if on_ready is not None:
        on_ready(app)

    _tune_collector()
    keep_freed_memory()
    if app.security is not None:
        app.security.spare_memory()

    await asyncio.wait([signals.first, app.failure], return_when=asyncio.FIRST_COMPLETED)
    name = signals.first.result() if signals.first.done() else "none"
    log("info", "server.stopping", {"signal": name, "connections": len(app.node.connections)})
    signals.on_second = app.abort
    await app.stop()
    if app.failure.done():
        raise StoreError(f"stopped, since the log cannot be kept: {app.failure.result()}")

    log("info", "server.stopped", {})


STOP_SIGNALS: Final = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
]


class _Hangup:
    """What SIGHUP does where there is a file: the log is opened anew, and the file read again."""

    def __init__(self, app: Application, log: Log) -> None:
        self._app = app
        self._log = log
        self._task: asyncio.Task[object] | None = None

    def __call__(self) -> None:
        if isinstance(self._log, EventLog):
            try:
                self._log.reopen()
            except StartError as problem:
                self._log("error", "log.unavailable", {"reason": str(problem)})

        reloader = self._app.reloader
        if reloader is not None:
            self._task = asyncio.create_task(reloader.reload(), name="reload")


class _Signals:
    """Signals that end the broker: the first is a future, each later one calls ``on_second``.

    SIGHUP is one of them, where nothing is to be read again: it comes when the terminal closes, and
    says goodbye like the others.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first: asyncio.Future[str] = loop.create_future()
        self.on_second: Callable[[], None] | None = None
        self.on_hangup: Callable[[], None] | None = None
        for number in STOP_SIGNALS:
            try:
                loop.add_signal_handler(number, self._receive, number)
            except NotImplementedError:  # Windows
                signal.signal(
                    number,
                    lambda which, _frame: loop.call_soon_threadsafe(
                        self._receive, signal.Signals(which)
                    ),
                )

    def stop(self) -> None:
        """Somebody asks for it, who can send no signal."""
        if not self.first.done():
            self.first.set_result("ctl")

    def _receive(self, number: signal.Signals) -> None:
        if number.name == "SIGHUP" and self.on_hangup is not None:
            self.on_hangup()
        elif not self.first.done():
            self.first.set_result(number.name)
        elif self.on_second is not None:
            self.on_second()


def _raise_descriptor_limit() -> None:
    """Take all the file descriptors the system grants; each connection needs one."""
    try:
        import resource
    except ImportError:
        return

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else SOCKETS_MAX + SOCKETS_SPARED
    # Some systems grant less than they say.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _tune_collector() -> None:
    """Let the garbage collector look less often at messages, which are not part of cycles.

    Measured on the compiled build, CPU seconds per million messages, median of three: filling a
    queue 1.17 -> 0.70, manual ack 1.72 -> 1.42. Modules and configuration are never garbage. An
    embedded broker leaves the collector alone: it is the program's.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _log_start(config: Config, app: Application, log: Log) -> None:
    for warning in config.warnings:
        log("warning", "config.warning", {"warning": str(warning)})

    fields: dict[str, object] = {
        "version": __version__,
        "build": build_kind(),
        "python": sys.version.split()[0],
        "listening": " ".join(map(str, app.addresses)),
        "config": config.origin.path,
        "data_dir": app.data_directory,
        "sync": config.storage.sync if app.data_directory is not None else "memory only",
        "pid": os.getpid(),
    }
    log("info", "server.started", fields)


def _log_loop_error(log: Log, context: dict[str, object]) -> None:
    fields: dict[str, object] = {"message": context.get("message")}
    fault = context.get("exception")
    if isinstance(fault, BaseException):
        fields["traceback"] = "".join(traceback.format_exception(fault))

    log("error", "server.fault", fields)
