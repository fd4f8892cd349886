"""scripts/interop compare: the same scenarios against the broker and RabbitMQ, side by side.

Without a RabbitMQ to connect to, its recorded answers take its place.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from interop.compare import recordings, scenarios
from interop.compare.accepted import ACCEPTED
from interop.compare.catalogue import SCENARIOS, Scenario
from interop.compare.control_tool import ControlTool
from interop.compare.management_api import ManagementAPI
from interop.compare.network import SocketNetwork
from interop.compare.recordings import Recording
from interop.compare.report import side_by_side
from interop.compare.runner import Runs
from interop.compare.session import Session, Target
from interop.support.process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parents[2]
LIVE_VARIABLE: Final = "INTEROP_RABBITMQ"
CONTROL_VARIABLE: Final = "INTEROP_RABBITMQCTL"
QUIET_S: Final = 0.08
"""How long RabbitMQ, whose parts run at once, must be silent to have nothing more to say."""

MANAGEMENT_AFTER: Final = 10_000
"""How far RabbitMQ's management port is from the one for AMQP."""

VERSIONS: Final = (recordings.NEW, recordings.OLD)


def main(words: Sequence[str] | None = None) -> int:
    """Run the comparison; the status is 1 when there is a difference that is not accepted."""
    options = _options(words)
    chosen = _chosen(options.only)
    if options.list:
        _list(chosen)
        return 0

    targets = _live_targets(options.live, options.control)
    live = {version: _play(target, version, chosen, options.record) for version, target
            in targets}  # fmt: skip
    if options.record:
        _record(live, bool(options.only) or not options.control)

    others = {version: live.get(version) or recordings.load(version) for version in VERSIONS}
    own = _play_own(options, chosen)
    chosen = [scenario for scenario in chosen if scenario.name in own.transcripts]
    if options.record:
        _record_own(own, bool(options.only))

    return _report(chosen, own.transcripts, others)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/interop compare", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="SECTION[/NAME]", help="only these"
    )
    parser.add_argument(
        "--live",
        action="append",
        default=os.environ.get(LIVE_VARIABLE, "").split(),
        metavar="URL",
        help=f"a RabbitMQ to ask anew; also taken from {LIVE_VARIABLE}",
    )
    parser.add_argument(
        "--control",
        default=os.environ.get(CONTROL_VARIABLE, ""),
        metavar="COMMAND",
        help="rabbitmqctl of a live one, with {version} where 3.10 or 4.3 goes, for the scenarios "
        f"that raise alarms; also taken from {CONTROL_VARIABLE}",
    )
    parser.add_argument("--record", action="store_true", help="keep the answers in the tree")
    parser.add_argument("--list", action="store_true", help="print the scenarios with their rules")
    parser.add_argument("--url", help="the broker to compare; one is started otherwise")
    parser.add_argument(
        "--management", default="", metavar="URL", help="the management API of the one at --url"
    )
    serve = shlex.quote(str(ROOT / "scripts" / "serve"))
    parser.add_argument(
        "--command",
        default=f"env LEVERET_PURE=1 {serve} --port {{port}}",
        help="the command that serves, with {port} where the port goes (%(default)s)",
    )
    return parser.parse_args(words)


def _chosen(only: Sequence[str]) -> list[Scenario]:
    assert scenarios.__all__, "importing them fills the catalogue"
    wanted = [
        scenario
        for scenario in SCENARIOS.values()
        if not only or scenario.section in only or scenario.name.startswith(tuple(only))
    ]
    return sorted(wanted, key=lambda scenario: scenario.section)


def _list(chosen: Sequence[Scenario]) -> None:
    counts: dict[str, int] = {}
    for scenario in chosen:
        counts[scenario.section] = counts.get(scenario.section, 0) + 1
        _say(f"{scenario.name:<60} {scenario.rules}")

    _say(f"{len(chosen)}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))


def _target(url: str, quiet_s: float, management: str = "") -> Target:
    parts = urlsplit(url)
    network = SocketNetwork(parts.hostname or "127.0.0.1", parts.port or 5672)
    administration = ManagementAPI(management) if management else None
    return Target(network, quiet_s, administration=administration)


def _management_of(url: str) -> str:
    """Where RabbitMQ has its management API, unless it was told otherwise."""
    parts = urlsplit(url)
    return f"http://{parts.hostname or '127.0.0.1'}:{(parts.port or 5672) + MANAGEMENT_AFTER}"


def _live_targets(urls: Sequence[str], control: str) -> list[tuple[str, Target]]:
    found = []
    for url in urls:
        target = _target(url, QUIET_S)
        version = _product_version(target).rpartition(".")[0]
        if version not in VERSIONS:
            raise SystemExit(f"{url} is version {version}; known are {', '.join(VERSIONS)}")

        tool = ControlTool(control.replace("{version}", version)) if control else None
        administration = ManagementAPI(_management_of(url), tool)
        found.append((version, target._replace(administration=administration)))

    return found


def _play_own(options: argparse.Namespace, chosen: Sequence[Scenario]) -> Recording:
    """Play all that can be played against the broker that is compared."""
    plain = [scenario for scenario in chosen if not scenario.is_administered]
    administered = [scenario for scenario in chosen if scenario.is_administered]
    with contextlib.ExitStack() as stack:
        if options.url:
            target = _target(options.url, 0.0, options.management)
        else:
            target = _target(stack.enter_context(BrokerProcess(options.command)).url, 0.0)

        if target.administration is not None:
            return _play(target, recordings.OWN, chosen, False)

        own = _play(target, recordings.OWN, plain, False)
        if administered and not options.url:
            embedded = _embedded_target(stack)
            if embedded is not None:
                more = _play(embedded, recordings.OWN, administered, False)
                return Recording(own.product, own.transcripts | more.transcripts)

    if administered:
        _say(f"{len(administered)} scenarios that need an administration are left out")

    return own


def _embedded_target(stack: contextlib.ExitStack) -> Target | None:
    """A broker in this process, whose core does what an administration asks; None when this
    Python has not what the broker needs."""
    try:
        from interop.compare.node_administration import embedded_target
    except ImportError as error:
        _say(f"no broker in this process: {error}; .venv/bin/python has what it needs")
        return None

    return stack.enter_context(embedded_target())


def _product_version(target: Target) -> str:
    """The version that the broker's server-properties name."""
    session = Session(target)
    link = session.raw_link()
    link.start()
    properties = link.inbox[0].arguments["server_properties"]
    session.close()
    match = re.search(r"\('version', Typed\(kind='S', value='([^']+)'\)\)", repr(properties))
    return match.group(1) if match else ""


def _play(target: Target, label: str, chosen: Sequence[Scenario], is_checked: bool) -> Recording:
    """Play all against a broker; when checked, twice: what is not the same again is no record."""
    rounds = []
    administration = target.administration
    if administration is not None and not administration.has_control:
        left_out = sum(scenario.is_alone for scenario in chosen)
        chosen = [scenario for scenario in chosen if not scenario.is_alone]
        if left_out:
            _say(f"{left_out} scenarios that need --control are left out with {label}")

    for _ in range(2 if is_checked else 1):
        runs = Runs(target, chosen, is_waiting=target.quiet_s > 0)
        rounds.append({scenario.name: runs.transcript(scenario) for scenario in chosen})
        runs.close()

    for name in rounds[0]:
        if rounds[0][name] != rounds[-1][name]:
            _say(f"\n{name} is not the same twice with {label}")
            _show({"once": rounds[0][name], "again": rounds[-1][name]})

    return Recording(_product_version(target), rounds[-1])


def _record(live: dict[str, Recording], is_partial: bool) -> None:
    # Read all before writing any: the old version's recording rests on that of the new one.
    known = {version: recordings.load(version).transcripts if is_partial else {}
             for version in live}  # fmt: skip
    for version in VERSIONS:
        if version in live:
            merged = known[version] | live[version].transcripts
            recordings.save(version, Recording(live[version].product, merged))


def _record_own(own: Recording, is_partial: bool) -> None:
    known = recordings.load(recordings.OWN).transcripts if is_partial else {}
    differing = {
        name: lines
        for name, lines in own.transcripts.items()
        if name in ACCEPTED and ACCEPTED[name].like == recordings.OWN
    }
    recordings.save(recordings.OWN, Recording("leveret", known | differing))


def _report(
    chosen: Sequence[Scenario],
    own: dict[str, list[str]],
    others: dict[str, Recording],
) -> int:
    unexplained = 0
    explained = 0
    for scenario in chosen:
        name = scenario.name
        shown = {"leveret": own[name]}
        shown |= {f"RabbitMQ {version}": recording.transcripts[name] for version, recording
                  in others.items() if name in recording.transcripts}  # fmt: skip
        reference = others[recordings.NEW].transcripts.get(name)
        if own[name] == reference:
            continue

        accepted = ACCEPTED.get(name)
        explained += accepted is not None
        unexplained += accepted is None
        reason = f"{accepted.kind}: {accepted.reason}" if accepted else "NOT ACCEPTED"
        _say(f"\n{name} (rules {scenario.rules}) {reason}")
        _show(shown)

    same = len(chosen) - explained - unexplained
    _say(
        f"\n{len(chosen)} scenarios: {same} as RabbitMQ {recordings.NEW}, "
        f"{explained} differ with a reason, {unexplained} without"
    )
    return int(unexplained > 0)


def _show(transcripts: dict[str, list[str]]) -> None:
    width = shutil.get_terminal_size((160, 40)).columns
    for line in side_by_side(transcripts, width):
        _say("  " + line)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
