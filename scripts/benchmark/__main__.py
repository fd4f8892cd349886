"""Command line of ``scripts/bench``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.benchmark.brokers import ROOT, Broker, External, prepare_leveret
from scripts.benchmark.client import BrokerError
from scripts.benchmark.machine import ForeignWork
from scripts.benchmark.measurement import Options
from scripts.benchmark.report import Results, load_results, render_markdown, render_text
from scripts.benchmark.scenarios import SCENARIOS, Scenario, choose_scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 when a scenario failed, 2 when it asks amiss."""
    parser = _build_parser()
    given = parser.parse_args(arguments)
    if given.table:
        sys.stdout.write(render_markdown(load_results(given.table)))
        return 0

    if given.without_leveret and not given.against:
        parser.error("nothing to measure: --without-leveret needs --against")

    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as folder:
        try:
            scenarios = choose_scenarios(given.only.split(",") if given.only else [])
            brokers = _find_brokers(given, Path(folder))
        except (BrokerError, ValueError, OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"bench: {error}\n")
            return 2

        return _measure(given, scenarios, brokers)


def _find_brokers(given: argparse.Namespace, folder: Path) -> list[Broker]:
    builds = [] if given.without_leveret else dict.fromkeys(given.build or ["compiled"])
    brokers: list[Broker] = [prepare_leveret(given.python, build, folder) for build in builds]
    return brokers + [External(url) for url in given.against]


def _measure(
    given: argparse.Namespace, scenarios: Sequence[Scenario], brokers: Sequence[Broker]
) -> int:
    options = Options(given.seconds, given.connections, given.queues, given.messages)
    results = Results([broker.name for broker in brokers])
    results.describe(options, given.rounds, given.python)
    # A run that is told to end cleans up and shows what it has.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number in range(given.rounds):
            _run_round(number, scenarios, brokers, options, results)
            if given.json:
                results.save(given.json)
    except KeyboardInterrupt:
        results.errors.append("interrupted")

    sys.stdout.write(render_text(results) if results.series else "nothing measured\n")
    if given.json:
        results.save(given.json)

    return 1 if results.errors else 0


def _run_round(
    number: int,
    scenarios: Sequence[Scenario],
    brokers: Sequence[Broker],
    options: Options,
    results: Results,
) -> None:
    """Run each scenario on each broker; every other round the brokers come in reverse order."""
    order = list(reversed(brokers)) if number % 2 else list(brokers)
    for scenario in scenarios:
        for broker in order:
            sys.stderr.write(f"round {number + 1}: {scenario.name} on {broker.name} ")
            sys.stderr.flush()
            try:
                with broker.run() as running:
                    watch = ForeignWork(running.pids)
                    measurements = scenario.run(running, options)
                    if (cores := watch.cores()) is not None:
                        results.foreign_cores.append(cores)
            except (BrokerError, OSError) as error:
                results.errors.append(f"{scenario.name} on {broker.name}: {error}")
                sys.stderr.write(f"FAILED: {error}\n")
                continue

            for measurement in measurements:
                results.add(broker.name, measurement)

            figures = (f"{m.name} {m.value:,.0f} {m.unit}" for m in measurements)
            sys.stderr.write(", ".join(figures) + "\n")


def _build_parser() -> argparse.ArgumentParser:
    names = "\n".join(
        f"  {scenario.name:16}{'' if scenario.by_default else '(only when named) '}{scenario.title}"
        for scenario in SCENARIOS
    )
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Leveret, and other AMQP 0-9-1 brokers beside it.",
        epilog=f"scenarios:\n{names}",
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
    add("--only", metavar="NAME,...", help="these scenarios; 'all' for every one")
    add("--rounds", type=_positive, default=3, help="times each scenario runs (default: 3)")
    add("--seconds", type=float, default=5.0, help="length of a timed run (default: 5)")
    add("--connections", type=_positive, default=1000, help="of the scenario (default: 1000)")
    add("--queues", type=_positive, default=5000, help="of the scenario (default: 5000)")
    add("--messages", type=_positive, default=1_000_000, help="of 'ready' (default: 1000000)")
    add("--python", default=_default_python(), help="interpreter that runs Leveret")
    add("--json", type=Path, metavar="FILE", help="write the results there")
    add("--table", type=Path, metavar="FILE", help="print a Markdown table of saved results")
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
