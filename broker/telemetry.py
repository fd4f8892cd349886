"""Starts what tells of the broker and what it is told by datagrams. Layer: composition root.

aiohttp comes in when Prometheus asks for the first time (net/door.py); StatsD and datagrams when
the configuration names them. A start waits for none of them.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from broker.errors import StartError
from broker.machine import read_disk, read_machine
from broker.metrics.snapshot import CertificateReading, DatagramReading, read_node, read_rows
from broker.net.door import Door, Server, open_all
from broker.tls.names import distinguished_name

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from broker.config.schema import Config
    from broker.core.node import Node
    from broker.exporters.statsd import StatsDExporter
    from broker.management.server import ManagementServer
    from broker.metrics.sampler import Sampler
    from broker.metrics.snapshot import Rows, Snapshot
    from broker.net.datagrams import DatagramListener
    from broker.net.listeners import Address
    from broker.net.pump import Pump
    from broker.store.counted import DiskCounts
    from broker.transport_security import TransportSecurity
    from broker.watches import Watch

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["Telemetry", "start_telemetry"]


class Host(Protocol):
    """The running broker."""

    node: Node
    pump: Pump
    watches: list[Watch]
    sampler: Sampler
    security: TransportSecurity | None

    @property
    def data_directory(self) -> str | None: ...

    @property
    def disk_counts(self) -> DiskCounts | None: ...


class Telemetry:
    """Exporters and datagram listeners of one broker.

    Attributes:
        addresses: where Prometheus may ask.
        datagrams: the listeners.

    """

    def __init__(self, app: Host) -> None:
        self._app = app
        self._door: Door | None = None
        self._statsd: StatsDExporter | None = None
        self.addresses: list[Address] = []
        self.datagrams: list[DatagramListener] = []

    async def start(self, config: Config, log: Log) -> None:
        """Start what the configuration asks for.

        Raises:
            StartError: an address that it names cannot be had.

        """
        if config.listeners.datagram:
            await self._open_datagrams(config, log)

        if config.metrics.statsd.is_enabled:
            from broker.exporters.statsd import StatsDExporter

            self._statsd = StatsDExporter(config.metrics.statsd, self._read_both, log)

        if config.metrics.prometheus.is_enabled:
            self._open_prometheus(config, log)

    async def _open_datagrams(self, config: Config, log: Log) -> None:
        from broker.net.datagrams import DatagramListener

        app = self._app
        for listener in config.listeners.datagram:
            opened = await DatagramListener.open(listener, app.node, app.pump, log)
            self.datagrams.append(opened)
            log("info", "datagrams.listening", {"listener": opened.name, "format": listener.format})

    def _open_prometheus(self, config: Config, log: Log) -> None:
        try:
            listeners = config.metrics.prometheus.listeners
            opened = open_all((one.bind, one.port, one.tls) for one in listeners)
        except StartError as problem:
            if config.origin.names(("metrics", "prometheus", "listeners")):
                raise

            log("warning", "metrics.unavailable", {"reason": str(problem)})
            return

        async def serve(sockets: list[socket.socket], _addresses: list[Address]) -> Server:
            # Connections are served meanwhile.
            scrape = await asyncio.to_thread(import_module, "broker.exporters.scrape")
            module = await asyncio.to_thread(import_module, "broker.management.server")
            api = await asyncio.to_thread(import_module, "broker.http_api")
            application = scrape.build_scrape_application(self.read, self.read_rows)
            access_log = log if config.log.has_access else None
            security = self._app.security
            entrances = None if security is None else partial(security.open_entrance, opened)
            server: ManagementServer = module.ManagementServer(
                application, sockets, access_log, entrances
            )
            # Behind what the server puts before the application.
            application.middlewares.append(api.guard_of(self._app.node, config))
            await server.start()
            return server

        self._door = Door(opened, serve)
        self.addresses = self._door.addresses
        log("info", "metrics.started", {"listening": " ".join(map(str, self.addresses))})

    async def read(self) -> Snapshot:
        """A snapshot of now."""
        app = self._app
        await self._add_up()
        app.pump.advance()
        snapshot = read_node(
            app.node,
            read_machine(app.watches, app.data_directory),
            read_disk(app.disk_counts),
        )
        readings = tuple(
            DatagramReading(
                one.name,
                one.receiver.received,
                one.receiver.published,
                tuple(one.receiver.dropped.items()),
            )
            for one in self.datagrams
        )
        return snapshot._replace(
            datagrams=readings,
            certificates=self._certificates(),
            unacked_bytes=app.sampler.unacked.total,
        )

    async def _add_up(self) -> None:
        app = self._app
        for _ in app.sampler.unacked.steps(app.node.clock.monotonic()):
            await asyncio.sleep(0)

    def _certificates(self) -> tuple[CertificateReading, ...]:
        security = self._app.security
        facts = () if security is None else security.certificates
        return tuple(
            CertificateReading(
                fact.profile,
                fact.server_name,
                fact.purpose,
                distinguished_name(fact.certificate.subject),
                fact.certificate.not_after_s,
            )
            for fact in facts
        )

    async def read_rows(self, vhost_names: frozenset[str] | None) -> Rows:
        """Everything one by one, in these virtual hosts; None is all."""
        await self._add_up()
        return read_rows(self._app.node, self._app.sampler.unacked, vhost_names)

    async def _read_both(self, has_rows: bool) -> tuple[Snapshot, Rows | None]:
        return await self.read(), await self.read_rows(None) if has_rows else None

    async def stop(self) -> None:
        """Stop everything; harmless when it is stopped."""
        for listener in self.datagrams:
            await listener.stop()

        self.datagrams.clear()
        if self._statsd is not None:
            await self._statsd.stop()
            self._statsd = None

        if self._door is not None:
            await self._door.stop()
            self._door = None


async def start_telemetry(app: Host, config: Config, log: Log) -> Telemetry:
    """Start what the configuration asks for; nothing is left behind where that fails.

    Raises:
        StartError: an address that it names cannot be had.

    """
    telemetry = Telemetry(app)
    try:
        await telemetry.start(config, log)
    except BaseException:
        await telemetry.stop()
        raise

    return telemetry
