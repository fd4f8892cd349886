"""Command line of ``scripts/bench``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.benchmark.brokers import ROOT, Broker, External, prepare_leveret
from scripts.benchmark.client import BrokerError
from scripts.benchmark.measurement import Options
from scripts.benchmark.page import write_page
from scripts.benchmark.report import render_markdown, render_text
from scripts.benchmark.results import Results, load_results
from scripts.benchmark.runner import Runner
from scripts.benchmark.scenarios import GROUPS, SCENARIOS, Scenario, choose_scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

STANDARD_MINUTES: Final = 12.0
MINUTES: Final = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 when a scenario failed, 2 when it asks amiss."""
    parser = _build_parser()
    given = parser.parse_args(arguments)
    if given.table:
        sys.stdout.write(render_markdown(load_results(given.table)))
        return 0

    if given.docs:
        for path in write_page():
            sys.stdout.write(f"{path}\n")

        return 0

    if given.without_leveret and not given.against:
        parser.error("nothing to measure: --without-leveret needs --against")

    # Whatever goes wrong, what was started ends and what was written is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as folder:
            scenarios = choose_scenarios(given.only.split(",") if given.only else [])
            brokers = _find_brokers(given, Path(folder))
            return _measure(given, scenarios, brokers)
    except (BrokerError, ValueError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2


def _find_brokers(given: argparse.Namespace, folder: Path) -> list[Broker]:
    builds = [] if given.without_leveret else dict.fromkeys(given.build or ["compiled"])
    brokers: list[Broker] = [prepare_leveret(given.python, build, folder) for build in builds]
    return brokers + [External(url) for url in given.against]


def _measure(
    given: argparse.Namespace, scenarios: Sequence[Scenario], brokers: Sequence[Broker]
) -> int:
    options = Options(
        given.seconds,
        given.connections,
        given.queues,
        given.messages,
        given.persistent_messages,
        given.scale,
    )
    results = Results([broker.name for broker in brokers])
    results.describe(options, given.rounds, given.python)
    minutes = given.minutes or (MINUTES if given.only else STANDARD_MINUTES)
    runner = Runner(scenarios, brokers, options, results, minutes * 60)
    try:
        for number in range(given.rounds):
            runner.run_round(number)
            if given.json:
                results.save(given.json)
    except KeyboardInterrupt:
        results.errors.append("interrupted")

    runner.end()
    has_figures = results.series or results.curves
    sys.stdout.write(render_text(results) if has_figures else "nothing measured\n")
    if given.json:
        results.save(given.json)

    return 1 if results.errors else 0


def _build_parser() -> argparse.ArgumentParser:
    lines: list[str] = []
    for group, title in GROUPS.items():
        lines.append(f"  {group}: {title}")
        titles = {one.name: one.title for one in SCENARIOS if one.group == group}
        lines += [f"      {name:24}{title}" for name, title in titles.items()]

    names = "\n".join(lines)
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Leveret, and other AMQP 0-9-1 brokers beside it.",
        epilog=f"groups and their scenarios:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--plain", dest="build", action="append_const", const="plain", help="measure plain Python")
    add(
        "--compiled",
        dest="build",
        action="append_const",
        const="compiled",
        help="measure the compiled build (the default; with --plain: both)",
    )
    add("--without-leveret", action="store_true", help="measure only the brokers of --against")
    add("--against", action="append", default=[], metavar="URL", help="amqp://user:pass@host:port/")
    add("--only", metavar="NAME,...", help="these scenarios or groups; 'all' for every one")
    add("--rounds", type=_positive, default=2, help="times each scenario runs (default: 2)")
    add("--seconds", type=float, default=2.0, help="length of a timed run (default: 2)")
    add(
        "--minutes",
        type=float,
        help=f"begin nothing after so many ({STANDARD_MINUTES:g}; with --only {MINUTES:g})",
    )
    add("--scale", type=float, default=1.0, help="multiplies sizes in 'flat' and 'micro'")
    add("--connections", type=_positive, default=10_000, help="of 'connections' (default: 10000)")
    add("--queues", type=_positive, default=100_000, help="of 'queues' (default: 100000)")
    add("--messages", type=_positive, default=1_000_000, help="of 'ready' (default: 1000000)")
    add(
        "--persistent-messages",
        type=_positive,
        default=10_000_000,
        help="of 'persistent' (default: 10000000)",
    )
    add("--python", default=_default_python(), help="interpreter that runs Leveret")
    add("--json", type=Path, metavar="FILE", help="write the results there")
    add("--table", type=Path, metavar="FILE", help="print a Markdown table of saved results")
    add(
        "--docs",
        action="store_true",
        help="draw the charts and tables of docs/performance.md from docs/figures/*.json",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)

    return value


def _default_python() -> str:
    python = ROOT / ".venv" / "bin" / "python"
    return str(python) if os.access(python, os.X_OK) else sys.executable


if __name__ == "__main__":
    sys.exit(main())
