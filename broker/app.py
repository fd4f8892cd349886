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
from typing import TYPE_CHECKING, Final

from broker import __version__
from broker.auth.mechanisms import Credentials, build_mechanisms
from broker.auth.users import user_store_from_config
from broker.build import build_kind
from broker.clock import Clock, SystemClock
from broker.core.node import Node
from broker.core.settings import NodeSettings
from broker.limits import CONSUMERS_PER_CHANNEL_MAX, SOCKETS_MAX, SOCKETS_SPARED
from broker.net.listeners import Address, Listeners
from broker.net.memory import (
    MemoryWatch,
    available_bytes,
    keep_freed_memory,
    resident_bytes,
)
from broker.net.pump import Pump
from broker.net.reception import Reception
from broker.protocol.connection import Connection
from broker.topology import apply_topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.schema import Config
    from broker.protocol.link import Link, Peer

    Log = Callable[[str, str, dict[str, object]], None]

    LoopFactory = Callable[[], asyncio.AbstractEventLoop]

__all__ = ["STOP_WAIT_S", "Application", "build_node", "serve", "sockets_max"]

STOP_WAIT_S: Final = 5.0
"""How long clients have to answer the close at a stop. Container runtimes kill after ten."""

ABORT_WAIT_S: Final = 1.0
"""How long aborted sockets take to be reported lost; the loop does it within a turn or two."""

COLLECTOR_THRESHOLDS: Final = (50_000, 10, 10)
"""New containers before a young collection, and how many collections make one of the next kind."""


def build_node(config: Config, clock: Clock, log: Log) -> Node:
    """Make the broker core as the configuration wants it, with all that is declared there.

    Raises:
        ConfigProblems: what only the core could find wrong.

    """
    limits = config.limits
    consumers_max = limits.consumers_per_channel_max
    settings = NodeSettings(
        node_name=config.node.name,
        product=config.compatibility.product,
        topic_hash_words_max=config.compatibility.topic_hash_words_max,
        has_event_exchange=config.compatibility.event_exchange,
        channel_max=limits.channel_max,
        frame_max=limits.frame_max_bytes,
        heartbeat_s=config.heartbeat_s,
        message_bytes_max=limits.message_max_bytes,
        connections_max=limits.connections_max,
        consumers_per_channel_max=(
            CONSUMERS_PER_CHANNEL_MAX if consumers_max is None else consumers_max
        ),
        handshake_timeout_ms=round(limits.handshake_timeout_s * 1000),
        consumer_timeout_ms=round((limits.consumer_timeout_s or 0) * 1000),
    )
    anonymous = Credentials(config.auth.anonymous_user, config.auth.anonymous_password.reveal())
    node = Node(
        settings,
        clock,
        users=user_store_from_config(config, random_bytes=os.urandom),
        mechanisms=build_mechanisms(config.auth.mechanisms, anonymous=anonymous),
        random_bytes=os.urandom,
        log=log,
    )
    apply_topology(config, node)
    return node


class Application:
    """One running broker in one event loop; made by :meth:`start`."""

    def __init__(
        self,
        node: Node,
        pump: Pump,
        reception: Reception,
        listeners: Listeners,
        watch: MemoryWatch | None,
    ) -> None:
        self.node = node
        self._pump = pump
        self._reception = reception
        self._listeners = listeners
        self._watch = watch

    @classmethod
    async def start(cls, config: Config, log: Log, clock: Clock | None = None) -> Application:
        """Build a broker and accept connections in the running loop.

        Raises:
            ConfigProblems: what only the core could find wrong with the configuration.
            StartError: an address cannot be had.

        """
        clock = clock or SystemClock()
        node = build_node(config, clock, log)
        pump = Pump(node, clock, asyncio.get_running_loop())

        def open_session(link: Link, peer: Peer) -> Connection:
            return Connection(node, link, peer)

        reception = Reception(pump, open_session, log, connections_max=sockets_max())
        listeners = Listeners(reception)
        try:
            for listener in config.listeners.amqp:
                await listeners.open(listener.bind, listener.port, listener.backlog)
        except BaseException:
            reception.shut()
            listeners.close()
            reception.abort_all()
            pump.stop()
            raise

        return cls(node, pump, reception, listeners, _watch_memory(config, node, pump, log))

    @property
    def addresses(self) -> list[Address]:
        """Where it accepts connections."""
        return self._listeners.addresses

    async def stop(self, wait_s: float = STOP_WAIT_S) -> None:
        """Accept nobody, close every connection with 320 (rule C-78), wait, abort what is left."""
        self._reception.shut()
        self._listeners.close()
        if self._watch is not None:
            self._watch.stop()

        self._pump.run(self.node.shutdown)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._reception.wait_empty()

        self.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ABORT_WAIT_S):
                await self._reception.wait_empty()

        self._pump.stop()

    def abort(self) -> None:
        """Close every socket at once; a stop that waits for them goes on."""
        self._reception.abort_all()


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


def serve(config: Config, log: Log, *, loop_factory: LoopFactory | None = None) -> None:
    """Run a broker until SIGTERM or SIGINT; a second one does not wait for the clients.

    Raises:
        ConfigProblems: what only the core could find wrong with the configuration.
        StartError: an address cannot be had.

    """
    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(config, log))


async def _serve(config: Config, log: Log) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: _log_loop_error(log, context))
    signals = _Signals(loop)
    app = await Application.start(config, log)
    _log_start(config, app, log)
    _tune_collector()
    keep_freed_memory()
    name = await signals.first
    log("info", "server.stopping", {"signal": name, "connections": len(app.node.connections)})
    signals.on_second = app.abort
    await app.stop()
    log("info", "server.stopped", {})


STOP_SIGNALS: Final = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
]


class _Signals:
    """Signals that end the broker: the first is a future, each later one calls ``on_second``.

    SIGHUP is one of them: it comes when the terminal closes, and says goodbye like the others.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first: asyncio.Future[str] = loop.create_future()
        self.on_second: Callable[[], None] | None = None
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

    def _receive(self, number: signal.Signals) -> None:
        if not self.first.done():
            self.first.set_result(number.name)
        elif self.on_second is not None:
            self.on_second()


def _watch_memory(config: Config, node: Node, pump: Pump, log: Log) -> MemoryWatch | None:
    memory = config.alarms.memory
    limit = memory.limit_bytes
    if memory.limit_fraction is not None:
        available = available_bytes()
        limit = None if available is None else int(available * memory.limit_fraction)

    if limit is None:
        return None

    if resident_bytes() is None:
        log("warning", "memory.unknown", {"reason": "this system does not tell memory in use"})
        return None

    def tell(is_over: bool) -> None:
        if is_over:
            log("warning", "memory.over", {"used_bytes": resident_bytes(), "limit_bytes": limit})

        node.set_alarm("memory", is_over)

    watch = MemoryWatch(pump, tell, limit)
    watch.check()
    return watch


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
        "pid": os.getpid(),
    }
    log("info", "server.started", fields)


def _log_loop_error(log: Log, context: dict[str, object]) -> None:
    fields: dict[str, object] = {"message": context.get("message")}
    fault = context.get("exception")
    if isinstance(fault, BaseException):
        fields["traceback"] = "".join(traceback.format_exception(fault))

    log("error", "server.fault", fields)
