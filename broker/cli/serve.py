"""``leveret serve``: run a broker in the foreground. Layer: cli."""

from __future__ import annotations

import gc
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import click

from broker.cli.numbers import Whole
from broker.errors import StartError
from broker.logs import FORMATS, LEVELS, Log, import_structlog_lightly

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.app import Application
    from broker.config.schema import Config

__all__ = ["serve", "storage_overrides"]

LOOPS = ("asyncio", "uvloop")


@click.command()
@click.argument("config", required=False, metavar="[CONFIG]")
@click.option("--host", help="Where to listen; replaces the listeners of the configuration.")
@click.option("--port", type=Whole(0, 65535), help="Likewise; 0 takes any free port.")
@click.option("--heartbeat", metavar="DURATION", help="Heartbeat to offer, such as 30s; 0 is none.")
@click.option("--data-dir", metavar="PATH", help="Where to keep what survives a restart.")
@click.option("--memory-only", is_flag=True, help="Keep nothing; replaces the data directory.")
@click.option(
    "--ephemeral",
    is_flag=True,
    help="For a test suite: keep nothing, take a free port and no other one, log only warnings.",
)
@click.option("--print-url", is_flag=True, help="Write the URL to standard output once it serves.")
@click.option("--log-level", type=click.Choice(LEVELS))
@click.option("--log-format", type=click.Choice(FORMATS))
@click.option(
    "--loop",
    "loop_name",
    type=click.Choice(LOOPS),
    default="asyncio",
    show_default=True,
    help="The event loop; uvloop must be installed.",
)
def serve(
    config: str | None,
    loop_name: str,
    memory_only: bool,
    ephemeral: bool,
    print_url: bool,
    **options: str | int | None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    CONFIG is a YAML file, which SIGHUP has read again; without one, guest/guest may log in from
    this machine.
    """
    # Modules are no garbage: the application looks for some once all are there (broker/app.py).
    gc.disable()
    from broker.config.loader import load_config

    overrides = _ephemeral_overrides(config) if ephemeral else {}
    overrides.update(_overrides(options))
    is_memory_only = memory_only or ephemeral
    overrides.update(storage_overrides(options["data_dir"], is_memory_only=is_memory_only))
    load = partial(load_config, config, overrides)
    loaded = load()
    import_structlog_lightly()
    from broker.app import serve as run

    log = Log.from_config(loaded.log)
    try:
        run(
            loaded,
            log,
            load=None if config is None else load,
            loop_factory=_loop_factory(loop_name),
            on_ready=partial(_print_url, loaded) if print_url else None,
        )
    finally:
        log.close()


def _ephemeral_overrides(config: str | None) -> dict[str, object]:
    """Nothing that two of them on one machine would want; what a file says stays."""
    if config is not None:
        return {}

    return {
        "listeners.amqp": [{"bind": "127.0.0.1", "port": 0}],
        "management.enabled": False,
        "metrics.prometheus.enabled": False,
        "log.level": "warning",
    }


def _print_url(config: Config, app: Application) -> None:
    from broker.embedded import url_of

    click.echo(url_of(config, app.addresses[0]))


def _overrides(options: dict[str, str | int | None]) -> dict[str, object]:
    overrides: dict[str, object] = {}
    for option, key in (
        ("heartbeat", "heartbeat"),
        ("log_level", "log.level"),
        ("log_format", "log.format"),
    ):
        if options[option] is not None:
            overrides[key] = options[option]

    listener = {
        key: options[option]
        for option, key in (("host", "bind"), ("port", "port"))
        if options[option] is not None
    }
    if listener:
        overrides["listeners.amqp"] = [listener]

    return overrides


def storage_overrides(data_dir: str | int | None, *, is_memory_only: bool) -> dict[str, object]:
    """What the two options say; each replaces what the configuration says of the other.

    Raises:
        UsageError: both are there.

    """
    if data_dir is not None and is_memory_only:
        raise click.UsageError("--data-dir and --memory-only exclude one another: use one of them")

    if data_dir is not None:
        return {"storage.data_dir": data_dir, "storage.memory_only": False}

    return {"storage.data_dir": None, "storage.memory_only": True} if is_memory_only else {}


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        from broker.net.eager import new_event_loop

        return new_event_loop

    try:
        uvloop = import_module("uvloop")
    except ImportError:
        raise StartError("--loop uvloop: uvloop is not installed (pip install uvloop)") from None

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
