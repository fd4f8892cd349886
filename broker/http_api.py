"""Starts the HTTP API of a running broker. Layer: composition root.

Importing this brings in aiohttp, which takes longer than everything else together: see http_door.
"""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.logs import LEVELS
from broker.logs import Log as EventLog
from broker.machine import read_disk, read_machine
from broker.management.app import build_application
from broker.management.call import is_local
from broker.management.doorkeeper import Rules
from broker.management.metrics_guard import guard_metrics
from broker.management.server import ManagementServer
from broker.management.site import (
    CertificateView,
    ListenerFact,
    LogControl,
    Operator,
    ReloadReport,
    Site,
    Surroundings,
)
from broker.management.threshold import Threshold
from broker.net.doorway import Doorway
from broker.net.memory import available_bytes
from broker.net.turnstile import Turnstile, TurnstileRules
from broker.tls.names import distinguished_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.typedefs import Middleware

    from broker.config.schema import AlarmsConfig, Config
    from broker.core.node import Node
    from broker.management.server import Closable, OpenEntrance
    from broker.metrics.sampler import Sampler
    from broker.net.gate import Gate
    from broker.net.keyring import CertificateFact
    from broker.net.listeners import Address
    from broker.net.pump import Pump
    from broker.reload import Reloader
    from broker.store.counted import DiskCounts
    from broker.transport_security import TransportSecurity
    from broker.watches import Watch

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["HTTPAPI", "HTTPListening", "Host", "guard_of", "rules_of", "start_http_api"]


class Host(Protocol):
    """The running broker."""

    node: Node
    pump: Pump
    sampler: Sampler
    watches: list[Watch]
    alarms: AlarmsConfig
    reloader: Reloader | None
    security: TransportSecurity | None

    @property
    def addresses(self) -> list[Address]: ...

    @property
    def data_directory(self) -> str | None: ...

    @property
    def gate(self) -> Gate: ...

    @property
    def on_stop_request(self) -> Callable[[], None] | None: ...

    @property
    def disk_counts(self) -> DiskCounts | None: ...

    @property
    def configured_alarms(self) -> AlarmsConfig: ...

    def set_alarms(self, alarms: AlarmsConfig) -> None: ...

    async def save(self) -> None: ...


class HTTPAPI:
    """The API of one broker."""

    def __init__(self, server: ManagementServer) -> None:
        self._server = server

    async def stop(self) -> None:
        """Answer no more."""
        await self._server.stop()


class HTTPListening(NamedTuple):
    """Where the API is served.

    Attributes:
        sockets: that listen.
        addresses: of these.
        open_entrance: accepts at those that are for TLS; None where none is.

    """

    sockets: list[socket.socket]
    addresses: list[Address]
    open_entrance: OpenEntrance | None


def _entrance_of(where: HTTPListening, config: Config) -> OpenEntrance:
    """Who comes in, a few at a time, and not too fast from one address."""
    loop = asyncio.get_running_loop()
    rules = TurnstileRules(rate_per_source_max=config.limits.connection_rate_per_source_max)
    turnstile = Turnstile[object](rules)

    def may_enter(host: str, listener: str) -> bool:
        return not turnstile.haste(host, listener, loop.time())

    def open_entrance(
        listening: socket.socket, answerer: Callable[[], asyncio.BaseProtocol]
    ) -> Closable | None:
        if where.open_entrance is not None:
            entrance = where.open_entrance(listening, answerer)
            if entrance is not None:
                return entrance

        if is_local(listening.getsockname()):
            return None

        try:
            return Doorway(loop, listening, answerer, may_enter)
        except NotImplementedError:  # Windows: a listening socket cannot be watched
            return None

    return open_entrance


def rules_of(config: Config) -> Rules:
    """What holds at the door of everything that is asked by HTTP."""
    management = config.management
    return Rules(
        management.cors_origins,
        management.session_timeout_s,
        management.has_open_health_checks,
        management.body_bytes_max,
        (*management.hosts, socket.gethostname(), *(one.bind for one in management.listeners)),
    )


async def start_http_api(app: Host, where: HTTPListening, config: Config, log: Log) -> HTTPAPI:
    """Serve the API of a broker on sockets that listen."""
    site = _site_of(app, where.addresses, config.origin.path, log)
    access_log = log if config.log.has_access else None
    management = config.management
    server = ManagementServer(
        build_application(site, rules_of(config)),
        where.sockets,
        access_log,
        _entrance_of(where, config),
        Threshold(management.connections_max, management.request_timeout_s),
    )
    await server.start()
    return HTTPAPI(server)


def guard_of(node: Node, config: Config) -> Middleware:
    """What stands before the metrics that Prometheus asks for."""
    wants_login = config.metrics.prometheus.wants_login
    return guard_metrics(node, rules_of(config), wants_login=wants_login)


def _site_of(app: Host, addresses: list[Address], config_path: str, log: Log) -> Site:
    def listeners() -> list[ListenerFact]:
        accepting = app.addresses if app.gate.is_accepting else []
        amqp = [
            ListenerFact("amqp/ssl" if address.is_tls else "amqp", *address)
            for address in accepting
        ]
        return amqp + [
            ListenerFact("https" if address.is_tls else "http", *address) for address in addresses
        ]

    around = Surroundings(
        listeners=listeners,
        machine=lambda: read_machine(app.watches, app.data_directory),
        disk=lambda: read_disk(app.disk_counts),
        memory_bytes=lambda: available_bytes() or 0,
        operator=_operator_of(app, log),
        gate=app.gate,
        request_stop=app.on_stop_request,
        save=app.save,
        data_directory=app.data_directory,
        config_files=(config_path,) if os.path.isfile(config_path) else (),
        certificates=lambda: [] if app.security is None else _views(app.security.certificates),
    )
    return Site(app.node, app.pump, app.sampler, around)


def _views(facts: list[CertificateFact]) -> list[CertificateView]:
    return [
        CertificateView(
            tls=fact.profile,
            server_name=fact.server_name,
            purpose=fact.purpose,
            path=fact.path,
            subject=distinguished_name(fact.certificate.subject),
            issuer=distinguished_name(fact.certificate.issuer),
            serial=fact.certificate.serial,
            names=tuple(text for _, text in fact.certificate.alternative_names),
            not_before_s=fact.certificate.not_before_s,
            not_after_s=fact.certificate.not_after_s,
        )
        for fact in facts
    ]


def _operator_of(app: Host, log: Log) -> Operator:
    reloader = app.reloader
    reload: Callable[[bool, bool], Awaitable[ReloadReport]] | None = None
    if reloader is not None and reloader.can_reload:
        reload = partial(_reload, reloader)

    return Operator(
        alarms=lambda: app.alarms,
        configured_alarms=lambda: app.configured_alarms,
        set_alarms=app.set_alarms,
        reload=reload,
        log=_log_control(log) if isinstance(log, EventLog) else None,
    )


async def _reload(reloader: Reloader, prunes: bool, is_dry: bool) -> ReloadReport:
    outcome = await reloader.reload(prunes=prunes, is_dry=is_dry)
    changes = tuple((one.action, one.key, one.text) for one in outcome.plan.changes)
    return ReloadReport(outcome.is_applied, outcome.problems, changes, outcome.pruned)


def _log_control(log: EventLog) -> LogControl:
    return LogControl(LEVELS, lambda: log.config, log.configure, log.reopen)
