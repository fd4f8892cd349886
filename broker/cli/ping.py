"""``leveret ping``: a health check without a password. Layer: cli."""

from __future__ import annotations

import click

from broker.logs import escape
from broker.net.addresses import format_address
from broker.net.ping import ping as ping_broker

__all__ = ["ping"]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the broker listens.")
@click.option("--port", default=5672, show_default=True, type=click.IntRange(1, 65535))
@click.option("--timeout", "timeout_s", default=3.0, show_default=True, metavar="SECONDS")
def ping(host: str, port: int, timeout_s: float) -> None:
    """Ask a broker whether it answers; exit with 0 if so and with 1 if not."""
    pong = ping_broker(host, port, timeout_s)
    who = escape(f"{pong.product} {pong.version}")
    where = format_address(host, port)
    click.echo(f"{who} answers at {where} after {pong.elapsed_s * 1000:.1f} ms")
