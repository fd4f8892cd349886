"""``leveret config``: look at configurations without running them. Layer: cli."""

from __future__ import annotations

import click

__all__ = ["config"]


@click.group()
def config() -> None:
    """Check configurations, or show the default one."""


@config.command()
@click.argument("path", metavar="FILE")
def check(path: str) -> None:
    """Read FILE as `leveret serve` would; exit with 0 if it would start and with 78 if not."""
    import os

    from broker.app import build_node
    from broker.clock import SystemClock
    from broker.config.loader import load_config

    loaded = load_config(path)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)

    # Half of the rules are the core's: only declaring what is in the file tells.
    build_node(loaded, SystemClock(), lambda _level, _event, _fields: None)
    click.echo(f"{os.fspath(path)}: all right")


@config.command("show-default")
def show_default() -> None:
    """Print the configuration that is in force when there is none."""
    from broker.config.default_file import default_file_text

    click.echo(default_file_text(), nl=False)
