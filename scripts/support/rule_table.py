"""Writes which tests show each rule into docs/rules.md, the index of the rules.

Run ``python -m scripts.support.rule_table`` in the project. With ``--check`` it writes nothing and
its exit status is 1 when the page is out of date. A rule is a row of a table::

    | E-71 | Each exchange is visited once. | `test_routing`, `compare/exchanges` |

The last column is made from the citations in the tests and in the scenarios of interop/compare.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "DOCUMENT",
    "NOT_YET",
    "Rule",
    "cited_in",
    "citing_files",
    "expanded",
    "main",
    "place_of",
    "read_rules",
    "updated",
]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = "docs/rules.md"

NOT_YET: Final = "Not yet"
"""The heading of the rules that nothing has to show."""

PLACES: Final = (
    ("tests/protocol", "test_*.py"),
    ("tests/integration", "test_*.py"),
    ("interop/compare/scenarios", "*.py"),
    ("tests/property", "test_*.py"),
    ("tests/simulation", "*.py"),
    ("tests/unit", "test_*.py"),
)
"""Where citations count, those first that speak to the broker as clients do."""

NAMES_MAX: Final = 5
"""Files named for one rule; of further ones only the number is said."""

NUMBER: Final = r"[A-Z]{1,3}-\d{2,3}[a-z]?"
CITATION: Final = re.compile(rf"(?<![\w-])({NUMBER})(?:\.\.({NUMBER}))?(?![\w-])")
HEADING: Final = re.compile(r"^## (.*)$")
ROW: Final = re.compile(rf"^\| ({NUMBER}) \| (.*?) \|(?: (.*?) \|)?$")
HEAD: Final = re.compile(r"^\| rule \| what it says \|.*\n\|[-|]+\|$", re.MULTILINE)


class Rule(NamedTuple):
    """A row of the index."""

    number: str
    text: str
    section: str
    """The heading above it."""

    @property
    def is_here(self) -> bool:
        """Whether the broker keeps to it, so that a test has to show it."""
        return self.section != NOT_YET


def read_rules(text: str) -> list[Rule]:
    """The rules of the index, in its order."""
    found: list[Rule] = []
    section = ""
    for line in text.splitlines():
        heading = HEADING.match(line)
        row = ROW.match(line)
        if heading is not None:
            section = heading[1]
        elif row is not None:
            found.append(Rule(row[1], row[2], section))

    return found


def place_of(number: str) -> tuple[str, int, str]:
    """Where a rule stands in the order of its section: 29, 29a, 30, 100."""
    chapter, _, rest = number.partition("-")
    digits = rest.rstrip("abcdefghijklmnopqrstuvwxyz")
    return chapter, int(digits), rest[len(digits) :]


def expanded(first: str, last: str, numbers: Iterable[str]) -> list[str]:
    """The rules of a range that there are."""
    start = place_of(first)
    end = place_of(last)
    return [number for number in numbers if start <= place_of(number) <= end]


def cited_in(source: str, numbers: Sequence[str]) -> set[str]:
    """The rules that a module of tests cites, whether or not there are such.

    What stands in the module's docstring says what the file is about, and shows nothing.
    """
    found: set[str] = set()
    for match in CITATION.finditer(_without_docstring(source)):
        first, last = match.groups()
        found |= {first} if last is None else {first, last, *expanded(first, last, numbers)}

    return found


def _without_docstring(source: str) -> str:
    module = ast.parse(source)
    if ast.get_docstring(module) is None:
        return source

    return "\n".join(source.splitlines()[module.body[0].end_lineno :])


def _sources() -> Iterator[tuple[str, Path]]:
    """Every file whose citations count, with the name it has in the table."""
    for folder, pattern in PLACES:
        prefix = "compare/" if folder.startswith("interop") else ""
        for path in sorted((ROOT / folder).rglob(pattern)):
            yield prefix + path.stem, path


def citing_files(numbers: Sequence[str]) -> dict[str, list[str]]:
    """The files that cite each rule, by the rule."""
    found: dict[str, list[str]] = {}
    for name, path in _sources():
        for number in cited_in(path.read_text(encoding="utf-8"), numbers):
            found.setdefault(number, []).append(name)

    return found


def _cell(names: Sequence[str]) -> str:
    if not names:
        return "-"

    shown = ", ".join(f"`{name}`" for name in names[:NAMES_MAX])
    left = len(names) - NAMES_MAX
    return f"{shown} and {left} more" if left > 0 else shown


def updated(text: str) -> str:
    """The text of the index with its column of tests as it is now."""
    files = citing_files([rule.number for rule in read_rules(text)])
    lines = []
    for line in HEAD.sub("| rule | what it says | shown by |\n|---|---|---|", text).splitlines():
        row = ROW.match(line)
        if row is None:
            lines.append(line)
        else:
            lines.append(f"| {row[1]} | {row[2]} | {_cell(files.get(row[1], []))} |")

    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the column, or with ``--check`` see whether it is written."""
    path = ROOT / DOCUMENT
    old = path.read_text(encoding="utf-8")
    new = updated(old)
    if old == new:
        return 0

    if "--check" in arguments:
        sys.stderr.write(f"{DOCUMENT} is out of date: run python -m scripts.support.rule_table\n")
        return 1

    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
