"""``python -m tests.fuzz TARGET...``: look for octets that the broker cannot stand.

With atheris the search is guided by coverage, without it inputs are changed at random. An input
that a target fails on is written to .build/fuzz/TARGET/; mend the defect and keep the input in
tests/fuzz/corpus/TARGET/NAME.bin, which the tests replay. Several targets, or a set of them, share
the time; a line for each tells at the end what came of it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.fuzz.campaign import run_campaign, summary_of
from tests.fuzz.mutation import Found, search

ROOT: Final = Path(__file__).resolve().parents[2]
NAMES: Final = (
    "frames",
    "tables",
    "properties",
    "methods",
    "handshake",
    "sessions",
    "contents",
    "sasl",
    "http",
    "yaml",
    "proxy",
    "certificate",
)
SETS: Final = {
    "all": NAMES,
    "security": ("handshake", "sasl", "http", "yaml", "proxy", "certificate"),
}
"""Targets that go together: security is what comes before a login, and from who sets it up."""

INPUT_BYTES_MAX: Final = 8_192
STUCK_S: Final = 20
"""A single input that takes this long is a defect too."""


def main() -> int:
    options = _parse_options()
    targets = _targets_of(options.target)
    if len(targets) > 1:
        outcomes = run_campaign(targets, options.seconds, seed=options.seed, engine=options.engine)
        sys.stderr.write(summary_of(outcomes))
        return 0 if all(one.is_good for one in outcomes) else 1

    name = targets[0]
    home = ROOT / ".build" / "fuzz" / name
    home.mkdir(parents=True, exist_ok=True)
    if options.input is not None:
        target, _ = _load(name)
        target(options.input.read_bytes())
        return 0

    if options.engine == "atheris":
        return _with_atheris(name, options, home)

    return _with_mutation(name, options, home)


def _targets_of(words: list[str]) -> list[str]:
    """Targets that are named, alone or by a set, each once."""
    return list(dict.fromkeys(name for word in words for name in SETS.get(word, (word,))))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=(__doc__ or "").partition(": ")[2].partition("\n")[0]
    )
    parser.add_argument(
        "target",
        nargs="+",
        metavar="TARGET",
        help=f"{', '.join(NAMES)}; or a set of them: {', '.join(SETS)};"
        " behind one target a FILE: run this one input instead",
    )
    parser.add_argument(
        "--seconds", type=int, default=60, help="for how long, all together (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the changes (%(default)s)")
    has_atheris = find_spec("atheris") is not None
    parser.add_argument(
        "--engine",
        choices=("atheris", "mutation"),
        default="atheris" if has_atheris else "mutation",
        help="what looks for inputs (%(default)s)",
    )
    options = parser.parse_args()
    known = {*NAMES, *SETS}
    options.input = None
    if len(options.target) == 2 and options.target[1] not in known:
        options.input = Path(options.target.pop())

    unknown = [word for word in options.target if word not in known]
    if unknown or (options.input is not None and options.target[0] in SETS):
        parser.error(f"no target {(unknown or options.target)[0]!r}: one of {', '.join(NAMES)}")

    return options


def _load(name: str) -> tuple[Any, dict[str, bytes]]:
    """The target and its seeds; imported late, so that atheris can watch the import."""
    targets: Any = import_module("tests.fuzz.targets")
    seeds: Any = import_module("tests.fuzz.seeds")
    return targets.TARGETS[name], seeds.seeds_of(name)


def _with_mutation(name: str, options: argparse.Namespace, home: Path) -> int:
    target, seeds = _load(name)
    inputs = list(seeds.values())
    try:
        count = search(target, inputs, seed=options.seed, seconds=options.seconds)
    except Found as found:
        path = home / f"crash-{hashlib.sha1(found.data, usedforsecurity=False).hexdigest()}"
        path.write_bytes(found.data)
        traceback.print_exception(found.__cause__)
        sys.stderr.write(f"{name} fails on {path.relative_to(ROOT)}\n")
        return 1

    sys.stderr.write(f"{name}: {count} inputs in {options.seconds} s, none too bad\n")
    return 0


def _with_atheris(name: str, options: argparse.Namespace, home: Path) -> int:
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["broker"]):
        target, seeds = _load(name)

    found, begin = home / "corpus", home / "seeds"
    for folder in (found, begin):
        folder.mkdir(exist_ok=True)

    for name, data in seeds.items():
        (begin / name).write_bytes(data)

    arguments = [
        sys.argv[0],
        f"-max_total_time={options.seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={STUCK_S}",
        f"-seed={options.seed}",
        f"-artifact_prefix={home}/",
        "-print_final_stats=1",
        "-close_fd_mask=1",
        str(found),
        str(begin),
    ]
    atheris.Setup(arguments, target)
    # Ends the process: with 0 when the time is over, with 77 when the target failed.
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
