"""``leveret worker``: run tasks. Layer: cli. The toolkit's side of the command line."""

from __future__ import annotations

import sys
from typing import Any

import click

from broker.cli.numbers import Seconds, Whole

__all__ = ["worker"]

PREFETCH_MAX = 65_535
"""AMQP has two octets for it."""

GUARANTEES = ("at_most_once", "at_least_once", "effectively_once", "exactly_once")


@click.command()
@click.argument("app", required=False, metavar="APP")
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--broker", "broker_app", metavar="MODULE:VAR", help="The same as APP.")
@click.option("--tasks", "task_modules", multiple=True, metavar="MODULE", help="As MODULE.")
@click.option("-w", "--workers", default="auto", help="How many; auto is one per core, up to 8.")
@click.option(
    "-c",
    "--concurrency",
    type=Whole(1),
    default=10,
    help="Tasks at once in each worker.",
)
@click.option(
    "--prefetch",
    type=Whole(1, PREFETCH_MAX),
    help="Tasks taken from the broker before others can.",
)
@click.option("-Q", "--queue", "queues", multiple=True, help="Only this queue; can be repeated.")
@click.option("-g", "--guarantee", type=click.Choice(GUARANTEES), help="Replaces that of APP.")
@click.option(
    "-e",
    "-m",
    "--mode",
    "--execution-mode",
    default="auto",
    type=click.Choice(("auto", "processes", "threads", "async", "threaded")),
    help="What a worker is; auto is a process, or a thread where Python is free-threaded.",
)
@click.option(
    "--grace",
    type=Seconds(may_be_none=True),
    default=30.0,
    help="Seconds that running tasks have when it is stopped.",
)
@click.option(
    "--lease",
    type=Seconds(),
    default=15.0,
    help="Seconds until a dead worker's tasks are others'.",
)
@click.option("--url", help="The broker; replaces that of APP.")
@click.option("--live/--no-live", default=None, help="Draw what runs; by default on a terminal.")
@click.option(
    "-l",
    "--log-level",
    default="info",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
)
def worker(**given: Any) -> None:
    """Run the tasks of APP until SIGTERM or SIGINT.

    APP is module:variable, such as app:tasks; MODULEs are imported as well, for the tasks they
    have. The first signal lets running tasks end, and hands back the others; the second one does
    not wait.
    """
    try:
        from broker.client.errors import ToolkitError
        from broker.tasks.fleet import Fleet, leave
        from broker.tasks.log import set_up_log
    except ImportError as problem:
        raise click.ClickException(
            f"{problem.name} is not installed: pip install 'leveret[client]'"
        ) from problem

    set_up_log(given["log_level"])
    try:
        Fleet(_plan(given), _view(given["live"])).run()
    except ToolkitError as problem:
        raise click.ClickException(str(problem)) from problem

    leave()


def _plan(given: dict[str, Any]) -> Any:
    from broker.tasks.fleet import Plan
    from broker.tasks.mode import chosen_mode, chosen_workers
    from broker.tasks.options import checked_guarantee

    app = given["app"] or given["broker_app"]
    if app is None:
        raise click.UsageError("say which application: leveret worker app:tasks")

    modules = list(given["modules"])
    if given["app"] and given["broker_app"]:
        # dmq's way to say it has the modules where we have the application.
        modules, app = [given["app"], *modules], given["broker_app"]

    guarantee = given["guarantee"]
    return Plan(
        app=app,
        modules=(*given["task_modules"], *modules),
        workers=chosen_workers(given["workers"]),
        mode=chosen_mode(given["mode"]),
        concurrency=given["concurrency"],
        prefetch=given["prefetch"],
        queues=given["queues"] or None,
        guarantee=guarantee and checked_guarantee(guarantee),
        grace=given["grace"],
        lease=given["lease"],
        url=given["url"],
        log_level=given["log_level"],
    )


def _view(is_live: bool | None) -> Any:
    from broker.tasks.view import LiveView, ProgressLines

    if is_live is None:
        is_live = sys.stderr.isatty()

    return LiveView(sys.stderr) if is_live else ProgressLines(sys.stderr)
