"""Entry point of the command ``leveret``. Layer: cli; the only one that prints and exits.

Invariant: whatever goes wrong on purpose is told on standard error without a traceback, with the
exit status of its kind: 1 failed, 2 wrong usage, 78 unusable configuration (sysexits.h).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import click

from broker import __version__
from broker.build import build_kind
from broker.errors import BrokerError, ConfigError

__all__ = ["EXIT_CONFIG", "EXIT_FAILED", "cli", "main"]

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 78

COMMANDS: Final = {
    "serve": "broker.cli.serve:serve",
    "config": "broker.cli.config:config",
    "ping": "broker.cli.ping:ping",
    "ctl": "broker.cli.ctl.command:ctl",
    "store": "broker.cli.store:store",
    "worker": "broker.cli.worker:worker",
}


class LazyGroup(click.Group):
    """Imports a subcommand when it is called, or when help lists it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None

        module_name, _, attribute = target.partition(":")
        command: click.Command = getattr(import_module(module_name), attribute)
        return command


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        python = f"{sys.implementation.name} {sys.version.split()[0]}"
        click.echo(f"leveret {__version__} ({build_kind()}, {python})")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Say the version and which build runs.",
)
def cli() -> None:
    """Leveret, a message broker that speaks AMQP 0-9-1."""


def main() -> None:
    """Run the command line and exit."""
    try:
        cli(prog_name="leveret")
    except ConfigError as problem:
        click.echo(str(problem), err=True)
        sys.exit(EXIT_CONFIG)
    except BrokerError as problem:
        click.echo(f"leveret: {problem}", err=True)
        sys.exit(EXIT_FAILED)
