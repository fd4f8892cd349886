"""``leveret ping``: a health check without a password. Layer: cli."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click

from broker.cli.numbers import Seconds, Whole
from broker.cli.trust import Trust
from broker.errors import StartError
from broker.logs import escape
from broker.net.addresses import format_address
from broker.net.ping import ping as ping_broker

__all__ = ["ping"]

PORTS: Final = {"amqp": 5672, "amqps": 5671}


class _Target(NamedTuple):
    host: str
    port: int
    is_tls: bool


@click.command()
@click.argument("url", required=False, metavar="[URL]")
@click.option("--host", help="Where the broker listens; 127.0.0.1 if nothing says otherwise.")
@click.option("--port", type=Whole(1, 65535), help="5672, and with TLS 5671.")
@click.option(
    "--timeout", "timeout_s", type=Seconds(), default=3.0, show_default=True, metavar="SECONDS"
)
@click.option("--tls", "is_tls", is_flag=True, help="With TLS, as amqps:// says too.")
@click.option(
    "--ca", "--cacert", metavar="FILE", help="Who vouches for the broker, instead of the system's."
)
@click.option("--cert", metavar="FILE", help="A certificate to show, for brokers that want one.")
@click.option("--key", metavar="FILE", help="Its key, where that is another file.")
@click.option("--insecure", is_flag=True, help="Take whatever certificate the broker shows.")
def ping(
    url: str | None,
    host: str | None,
    port: int | None,
    timeout_s: float,
    is_tls: bool,
    **files: str | bool | None,
) -> None:
    """Ask a broker whether it answers; exit with 0 if so and with 1 if not.

    URL is amqp://host:port or amqps://host:port; what else it says does not count.
    """
    target = _target(url, is_tls=is_tls)
    target = target._replace(host=host or target.host, port=port or target.port)
    try:
        context = _trust(files).context() if target.is_tls else None
    except ValueError as problem:
        raise StartError(str(problem)) from None

    pong = ping_broker(target.host, target.port, timeout_s, context)
    who = escape(f"{pong.product} {pong.version}")
    where = format_address(target.host, target.port)
    how = f" with {pong.tls}" if pong.tls else ""
    click.echo(f"{who} answers at {where}{how} after {pong.elapsed_s * 1000:.1f} ms")


def _target(url: str | None, *, is_tls: bool) -> _Target:
    scheme = "amqps" if is_tls else "amqp"
    if url is None:
        return _Target("127.0.0.1", PORTS[scheme], is_tls)

    try:
        parts = urlsplit(url)
        named = parts.port
    except ValueError as problem:
        raise click.UsageError(f"{url!r} is no URL: {problem}") from None

    if parts.scheme not in PORTS or not parts.hostname:
        raise click.UsageError(f"{url!r} is not amqp://host:port, nor amqps://host:port")

    scheme = "amqps" if is_tls else parts.scheme
    return _Target(parts.hostname, named or PORTS[scheme], scheme == "amqps")


def _trust(files: dict[str, str | bool | None]) -> Trust:
    ca, cert, key = (str(files[name]) if files[name] else None for name in ("ca", "cert", "key"))
    return Trust(ca, cert, key, bool(files["insecure"]))
