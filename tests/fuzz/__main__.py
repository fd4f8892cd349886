"""``python -m tests.fuzz TARGET``: look for octets that the broker cannot stand.

With atheris the search is guided by coverage, without it inputs are changed at random. An input
that a target fails on is written to .build/fuzz/TARGET/; mend the defect and keep the input in
tests/fuzz/corpus/TARGET/NAME.bin, which the tests replay.
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
INPUT_BYTES_MAX: Final = 8_192
STUCK_S: Final = 20
"""A single input that takes this long is a defect too."""


def main() -> int:
    options = _parse_options()
    home = ROOT / ".build" / "fuzz" / options.target
    home.mkdir(parents=True, exist_ok=True)
    if options.input is not None:
        target, _ = _load(options.target)
        target(options.input.read_bytes())
        return 0

    if options.engine == "atheris":
        return _with_atheris(options, home)

    return _with_mutation(options, home)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description=(__doc__ or "").partition(": ")[2].partition("\n")[0]
    )
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("input", nargs="?", type=Path, help="run this one input instead")
    parser.add_argument("--seconds", type=int, default=60, help="for how long (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the changes (%(default)s)")
    has_atheris = find_spec("atheris") is not None
    parser.add_argument(
        "--engine",
        choices=("atheris", "mutation"),
        default="atheris" if has_atheris else "mutation",
        help="what looks for inputs (%(default)s)",
    )
    return parser.parse_args()


def _load(name: str) -> tuple[Any, dict[str, bytes]]:
    """The target and its seeds; imported late, so that atheris can watch the import."""
    targets: Any = import_module("tests.fuzz.targets")
    seeds: Any = import_module("tests.fuzz.seeds")
    return targets.TARGETS[name], seeds.seeds_of(name)


def _with_mutation(options: argparse.Namespace, home: Path) -> int:
    target, seeds = _load(options.target)
    inputs = list(seeds.values())
    try:
        count = search(target, inputs, seed=options.seed, seconds=options.seconds)
    except Found as found:
        path = home / f"crash-{hashlib.sha1(found.data, usedforsecurity=False).hexdigest()}"
        path.write_bytes(found.data)
        traceback.print_exception(found.__cause__)
        sys.stderr.write(f"{options.target} fails on {path.relative_to(ROOT)}\n")
        return 1

    sys.stderr.write(f"{options.target}: {count} inputs in {options.seconds} s, none too bad\n")
    return 0


def _with_atheris(options: argparse.Namespace, home: Path) -> int:
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["broker"]):
        target, seeds = _load(options.target)

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
