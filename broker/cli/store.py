"""``leveret store``: look after data directories. Layer: cli."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from broker.cli.tables import age_text, size_text, table_lines
from broker.logs import escape

if TYPE_CHECKING:
    from broker.upkeep.check import CheckReport
    from broker.upkeep.stats import LogStats

__all__ = ["store"]

FORMATS = ("text", "json")

format_option = click.option(
    "--format", "output", type=click.Choice(FORMATS), default="text", show_default=True
)
directory_argument = click.argument("directory", metavar="DIR")


@click.group()
def store() -> None:
    """Check, mend, copy, and export data directories."""


@store.command()
@directory_argument
@format_option
def check(directory: str, output: str) -> None:
    """Read all of DIR, change nothing; exit with 0 if it is sound and with 1 if it is damaged.

    A broker may be using it. A batch that was cut short by a crash is told as torn: nobody was told
    that it is safe, and the next start drops it.
    """
    from broker.upkeep.check import check_directory

    report = check_directory(directory)
    if output == "json":
        _echo_json({**report._asdict(), "is_sound": report.is_sound})
    else:
        _echo_check(report)

    if not report.is_sound:
        sys.exit(1)


def _echo_check(report: CheckReport) -> None:
    used_by = f", in use by {report.used_by}" if report.used_by else ""
    users = "no list of users yet" if report.users is None else f"users: {report.users}"
    click.echo(f"{report.path}: format {report.format or 'unknown'}, {users}{used_by}")
    rows = [
        [
            escape(log.vhost) or "?",
            str(log.number),
            "-" if log.checkpoint is None else str(log.checkpoint),
            str(log.segments),
            size_text(log.bytes),
            str(log.batches),
            str(log.records),
            *(["?"] * 3 if log.contents is None else map(str, log.contents[1:])),
        ]
        for log in report.logs
    ]
    heads = "vhost no checkpoint segments size batches records queues bindings messages"
    for line in table_lines(heads.split(), rows):
        click.echo(line)

    for finding in report.findings:
        click.echo(escape(str(finding)))

    click.echo("sound" if report.is_sound else "DAMAGED: see `leveret store repair`")


@store.command()
@directory_argument
@format_option
def stats(directory: str, output: str) -> None:
    """Say what takes space in DIR. A broker may be using it."""
    import time

    from broker.upkeep.stats import directory_stats

    found = directory_stats(directory, time.time())
    if output == "json":
        logs = [{**log._asdict(), "dead_share": log.dead_share} for log in found.logs]
        _echo_json({**found._asdict(), "logs": logs})
        return

    used_by = f", in use by {found.used_by}" if found.used_by else ""
    click.echo(f"{found.path}{used_by}")
    for log in found.logs:
        _echo_stats(log)


def _echo_stats(log: LogStats) -> None:
    checkpoint = "none"
    if log.checkpoint_age_s is not None:
        size = size_text(log.checkpoint_bytes)
        checkpoint = f"{log.checkpoint} ({size}, {age_text(log.checkpoint_age_s)} old)"

    click.echo("")
    click.echo(
        f"vhost {escape(log.vhost)} ({log.number}): {size_text(log.bytes)}, checkpoint"
        f" {checkpoint}, {log.dead_share:.0%} of the segments dead"
    )
    rows = [
        [
            str(one.number),
            size_text(one.bytes),
            size_text(one.live_bytes),
            str(one.live_messages),
            str(one.total_messages),
        ]
        for one in log.segments
    ]
    for line in table_lines(["segment", "size", "live", "live messages", "of"], rows):
        click.echo(line)

    queues = [
        [escape(one.name), one.type, str(one.messages), size_text(one.bytes)] for one in log.queues
    ]
    for line in table_lines(["queue", "type", "messages", "bodies"], queues):
        click.echo(line)


@store.command()
@directory_argument
@click.option("--no-backup", is_flag=True, help="Do not keep DIR as it was in DIR.broken-<time>.")
def repair(directory: str, no_backup: bool) -> None:
    """Mend DIR: keep what can be read, and say what is lost and what may come back.

    No broker may be using it. The result starts.
    """
    from broker.upkeep.repair import repair_directory

    report = repair_directory(directory, has_backup=not no_backup)
    if not report.before.findings:
        click.echo(f"{report.path} is sound: there is nothing to mend")
        return

    for line in [*map(str, report.before.findings), *report.lines]:
        click.echo(escape(line))

    for finding in report.after.findings:
        click.echo(escape(f"still {finding}"))

    click.echo("sound" if report.after.is_sound else "DAMAGED still: please report this")
    if not report.after.is_sound:
        sys.exit(1)


@store.command()
@directory_argument
@click.option("--from", "source", required=True, metavar="DATA", help="The directory to copy.")
@click.option("--no-check", is_flag=True, help="Do not read the copy again to check it.")
def snapshot(directory: str, source: str, no_check: bool) -> None:
    """Copy the data directory DATA to DIR, in use or not; a broker can start with the copy.

    DIR must be empty, or not be there yet. A broker that uses DATA is not disturbed.
    """
    from broker.store.snapshot import take_snapshot

    taken = take_snapshot(source, directory)
    cut = f", {taken.cut_bytes} bytes that were being written left out" if taken.cut_bytes else ""
    click.echo(f"{taken.path}: {taken.files} files, {size_text(taken.bytes)}{cut}")
    if no_check:
        return

    from broker.upkeep.check import check_directory

    report = check_directory(taken.path)
    for finding in report.findings:
        click.echo(escape(str(finding)))

    click.echo("sound" if report.is_sound else "DAMAGED, as what it was copied from")
    if not report.is_sound:
        sys.exit(1)


@store.command()
@directory_argument
@click.option("--vhost", help="Export this virtual host alone, without users.")
@click.option("--definitions-only", is_flag=True, help="Leave out the messages.")
def export(directory: str, vhost: str | None, definitions_only: bool) -> None:
    """Write what is in DIR to standard output: definitions and messages, one JSON object a line.

    No broker may be using DIR; of one that does, take a snapshot and export that.
    """
    from broker.upkeep.export import export_lines

    lines = export_lines(directory, only_vhost=vhost, has_messages=not definitions_only)
    for line in lines:
        click.echo(line)


@store.command("import")
@directory_argument
def import_(directory: str) -> None:
    """Read lines of `leveret store export` from standard input into DIR, which is made if need be.

    What is there already stays, what is declared otherwise ends the import; each message is
    enqueued once more. A line counts as a
    whole or not at all. No broker may be using DIR.
    """
    from broker.upkeep.importing import ImportFault, import_lines
    from broker.upkeep.offline import OpenDirectory

    with OpenDirectory(directory) as opened:
        try:
            taken = import_lines(opened, sys.stdin.buffer)
        except ImportFault as fault:
            click.echo(
                f"{opened.path}: the lines before {fault.number} are in it, the rest is not: mend"
                f" the line, and go on with `tail -n +{fault.number}`",
                err=True,
            )
            raise

    for kind, count in taken.counts.items():
        click.echo(f"{kind}: {count}")

    if taken.has_default_user:
        click.echo("there was no user: guest/guest may log in from this machine")


def _echo_json(value: object) -> None:
    click.echo(json.dumps(_plain(value), indent=2))


def _plain(value: object) -> object:
    """Named tuples as objects."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())

    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}

    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]

    return value
