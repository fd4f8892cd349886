"""A whole broker inside your program or test. Layer: rim; public.

Invariant: brokers share nothing, so there may be many at once, each in a loop of its choice.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from broker.app import Application
from broker.config.loader import config_from_dict, load_config
from broker.config.schema import (
    DEFAULT_CONFIG,
    AMQPListenerConfig,
    Config,
    HTTPListenerConfig,
    ListenersConfig,
    LogConfig,
    MetricsListenerConfig,
)
from broker.core.node import BY_HAND
from broker.logs import LEVELS, Log
from broker.net.addresses import format_address

if TYPE_CHECKING:
    from types import TracebackType

    from broker.core.node import Node
    from broker.net.listeners import Address
    from broker.reload import Outcome

__all__ = ["Broker", "BrokerThread", "alarm_named", "url_of"]

STOP_WAIT_S: Final = 0.5
"""How long clients have to answer the close. A program that leaves the ``with`` block of a broker
with a blocking client still open cannot let that client answer, and should not wait long."""


PORT_MAX: Final = 65_535


class Broker:
    """An AMQP 0-9-1 broker in the caller's event loop.

    ::

        async with Broker() as broker:
            connection = await aio_pika.connect(broker.url)

    Args:
        config: a mapping as in the configuration file, the path of such a file, or None for
            guest/guest and the virtual host ``/``. Of its AMQP listeners only those with TLS
            are used, each on a free port unless it names one. Everything is kept in memory only,
            unless it names a directory: ``{"storage": {"data_dir": path}}``.
        host: where to listen.
        port: where to listen; 0 takes any free port.
        log_level: what to write to standard error: ``debug``, ``info``, ``warning`` or ``error``.

    Raises:
        ConfigProblems: what is wrong with the configuration.
        ValueError: another argument is none that there may be.

    """

    def __init__(
        self,
        config: Mapping[str, object] | str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "warning",
    ) -> None:
        _check(config, host, port, log_level)
        listener = AMQPListenerConfig(bind=host, port=port)
        self._read = partial(_load, config, listener, log_level)
        self._has_file = config is not None and not isinstance(config, Mapping)
        self._config = self._read()
        self._log = Log(log_level)
        self._app: Application | None = None

    @classmethod
    def in_thread(
        cls,
        config: Mapping[str, object] | str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "warning",
    ) -> BrokerThread:
        """A broker in a thread of its own, for programs without an event loop.

        ::

            with Broker.in_thread() as broker:
                connection = pika.BlockingConnection(pika.URLParameters(broker.url))

        ``broker.node`` belongs to that thread: look at it only while no client is at work.
        """
        return BrokerThread(cls(config, host=host, port=port, log_level=log_level))

    async def start(self) -> None:
        """Accept connections in the running loop. Whoever calls this must call :meth:`stop`.

        Raises:
            ConfigProblems: what only the core could find wrong with the configuration.
            StartError: the address cannot be had.
            StoreError: the data directory cannot be used.

        """
        if self._app is not None:
            raise RuntimeError("the broker has been started already")

        self._app = await self._start_application()
        if self._has_file:
            self._app.make_reloadable(self._config, self._log, self._read)

        try:
            self._app.start_http_api(self._config, self._log)
            await self._app.start_telemetry(self._config, self._log)
        except BaseException:
            await self.stop()
            raise

    async def _start_application(self) -> Application:
        return await Application.start(self._config, self._log)

    async def stop(self, wait_s: float = STOP_WAIT_S) -> None:
        """Close every connection and stop accepting; harmless when it is not running."""
        app, self._app = self._app, None
        if app is not None:
            await app.stop(wait_s)

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def node(self) -> Node:
        """The broker core, for tests that look inside."""
        return self._running.node

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._running.addresses[0].host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._running.addresses[0].port

    @property
    def url(self) -> str:
        """``amqp://user:password@host:port/vhost`` of the first user that can log in so."""
        return self._url("amqp", self._running.addresses[0])

    @property
    def tls_url(self) -> str:
        """``amqps://user:password@host:port/vhost``; empty where it does not listen with TLS."""
        found = [address for address in self._running.addresses if address.is_tls]
        return self._url("amqps", found[0]) if found else ""

    def _url(self, scheme: str, address: Address) -> str:
        return url_of(self._config, address, scheme)

    def sample(self) -> None:
        """Take the statistics of now, which happens every few seconds otherwise."""
        app = self._running
        app.pump.advance()
        app.sampler.sample(app.node.clock.monotonic())

    async def reload(self, *, prunes: bool = False, is_dry: bool = False) -> Outcome:
        """Read the file that this broker was made from again, and take it on as a whole, or not.

        Args:
            prunes: remove what the file named before and names no longer.
            is_dry: only tell what would happen.

        """
        reloader = self._running.reloader
        if reloader is None:
            raise RuntimeError("the broker was not made from a file")

        return await reloader.reload(prunes=prunes, is_dry=is_dry)

    def set_alarm(self, resource: str, *, is_on: bool = True) -> None:
        """Hold publishers back as when memory or disk run short, or let them go on.

        Args:
            resource: ``memory`` or ``disk``.
            is_on: whether they are held back.

        """
        app = self._running
        app.pump.run(partial(app.node.set_alarm, alarm_named(resource), is_on))

    @property
    def management_url(self) -> str:
        """``http://host:port``, where the HTTP API is; empty where it was not enabled."""
        api = self._running.http_api
        return _http_url(api.addresses[0]) if api is not None and api.addresses else ""

    @property
    def metrics_url(self) -> str:
        """``http://host:port``, where Prometheus may ask; empty where that was not enabled."""
        telemetry = self._running.telemetry
        return _http_url(telemetry.addresses[0]) if telemetry and telemetry.addresses else ""

    @property
    def datagram_ports(self) -> list[int]:
        """The ports that datagrams may be sent to."""
        telemetry = self._running.telemetry
        return [] if telemetry is None else [one.port for one in telemetry.datagrams]

    @property
    def _running(self) -> Application:
        if self._app is None:
            raise RuntimeError("the broker is not running: use `async with Broker() as broker`")

        return self._app


class BrokerThread:
    """Runs a :class:`Broker` in a thread of its own between ``__enter__`` and ``__exit__``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] | None = None

    def start(self) -> Broker:
        """Start the thread and the broker; raises what :meth:`Broker.start` raises."""
        if self._thread is not None:
            raise RuntimeError("the broker has been started already")

        started: Future[None] = Future()
        # A daemon, so that a program that forgets to stop it can end all the same.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(started)), name="leveret", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.stop()
            raise

        return self._broker

    def stop(self) -> None:
        """Stop the broker and end the thread; harmless when it has ended already."""
        thread, self._thread = self._thread, None
        if thread is None:
            return

        if self._end is not None:
            self._end()

        thread.join()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    async def _run(self, started: Future[None]) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            await self._broker.start()
        except BaseException as problem:
            started.set_exception(problem)
            return

        self._end = partial(loop.call_soon_threadsafe, ended.set)
        started.set_result(None)
        await ended.wait()
        await self._broker.stop()


def _check(config: object, host: object, port: object, log_level: object) -> None:
    """Refuse what nothing can be made of, before anything is."""
    if config is not None and not isinstance(config, Mapping | str | os.PathLike):
        raise ValueError(f"config is a mapping, the path of a file or None, not {config!r:.60}")

    if not isinstance(host, str) or not host:
        # An empty one would mean every address of the machine.
        raise ValueError(f'host is a name or an address, such as "127.0.0.1", not {host!r:.60}')

    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= PORT_MAX:
        raise ValueError(f"port is a number from 0 to {PORT_MAX}, not {port!r:.60}")

    if log_level not in LEVELS:
        raise ValueError(f"log_level is one of {', '.join(LEVELS)}, not {log_level!r:.60}")


def _load(
    config: Mapping[str, object] | str | os.PathLike[str] | None,
    listener: AMQPListenerConfig,
    log_level: str,
) -> Config:
    loaded = _load_as_written(config)
    listeners = _own_listeners(loaded, listener)
    # The log goes where the program's own errors go.
    log = LogConfig(
        level=log_level, has_access=loaded.log.has_access, has_exchange=loaded.log.has_exchange
    )
    loaded = loaded._replace(listeners=listeners, log=log)
    # Nothing is kept unless it was said where: two brokers would want the usual place.
    if loaded.storage.data_dir is None:
        loaded = loaded._replace(storage=loaded.storage._replace(memory_only=True))

    return _with_own_metrics(_with_own_management(loaded))


def _own_listeners(config: Config, listener: AMQPListenerConfig) -> ListenersConfig:
    """One without TLS, and those with TLS that are named, each on a free port unless one is."""
    listeners = config.listeners
    proxies = listeners.amqp[0].proxies if listeners.amqp else None
    secure = []
    for index, one in enumerate(listeners.amqps):
        keys = ("listeners", "amqps", str(index))
        secure.append(
            one._replace(
                bind=one.bind if config.origin.names((*keys, "bind")) else listener.bind,
                port=one.port if config.origin.names((*keys, "port")) else 0,
            )
        )

    own = listener._replace(proxies=proxies)
    return listeners._replace(amqp=(own,), amqps=tuple(secure))


def _http_url(address: Address) -> str:
    """With ``https`` where that is spoken."""
    scheme = "https" if address.is_tls else "http"
    return f"{scheme}://{format_address(address.host, address.port)}"


def _load_as_written(config: Mapping[str, object] | str | os.PathLike[str] | None) -> Config:
    if config is None:
        return DEFAULT_CONFIG

    if isinstance(config, Mapping):
        return config_from_dict(config)

    return load_config(os.fspath(config))


def _with_own_management(config: Config) -> Config:
    """No HTTP API but where it was asked for, and then on a free port unless one was named."""
    management = config.management
    if not config.origin.names(("management", "enabled")):
        management = management._replace(is_enabled=False)

    if not config.origin.names(("management", "listeners")):
        listener = HTTPListenerConfig(bind="127.0.0.1", port=0)
        management = management._replace(listeners=(listener,))

    return config._replace(management=management)


def _with_own_metrics(config: Config) -> Config:
    """No answers to Prometheus but where they were asked for, and then on a free port."""
    prometheus = config.metrics.prometheus
    if not config.origin.names(("metrics", "prometheus", "enabled")):
        prometheus = prometheus._replace(is_enabled=False)

    if not config.origin.names(("metrics", "prometheus", "listeners")):
        listener = MetricsListenerConfig(bind="127.0.0.1", port=0)
        prometheus = prometheus._replace(listeners=(listener,))

    return config._replace(metrics=config.metrics._replace(prometheus=prometheus))


def alarm_named(name: str) -> str:
    """The node's name of an alarm that is raised by hand.

    Raises:
        ValueError: there is none of that name.

    """
    if name not in BY_HAND:
        raise ValueError(f"there is no alarm {name!r}; there are {' and '.join(BY_HAND)}")

    return BY_HAND[name]


def url_of(config: Config, address: Address, scheme: str = "amqp") -> str:
    """``amqp://user:password@host:port/vhost`` of the first user that can log in so."""
    vhost, user, password = _account(config)
    credentials = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    path = "" if vhost == "/" else quote(vhost, safe="")
    return f"{scheme}://{credentials}{format_address(address.host, address.port)}/{path}"


def _account(config: Config) -> tuple[str, str, str]:
    """The virtual host, user and password of somebody who may enter."""
    passwords = {
        user.name: user.password.reveal() for user in config.users if user.password is not None
    }
    for vhost in config.vhosts:
        for permission in vhost.permissions:
            if permission.user in passwords:
                return vhost.name, permission.user, passwords[permission.user]

    return (config.vhosts[0].name if config.vhosts else "/"), "", ""
