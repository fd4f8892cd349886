"""Comments cite the rules of the broker's semantics in one form, so that they can be searched for.

One rule is ``rule E-71``; several are ``rules E-71, Q-03`` or ``rules E-80..E-87``.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.tidy.source import Source, python_sources

PREFIXES: Final = (
    "A|B|CF|CH|CO|C|DE|DL|DR|DU|E|F|G|K|MA|MG|OR|PM|PO|P|QQ|QS|Q|S|ST|TTL|TX|T|UTF|VD|X"
)
RULE: Final = rf"(?:{PREFIXES})-\d{{2,3}}[a-z]?"
WELL_FORMED: Final = re.compile(rf"(?:{PREFIXES})-\d{{2,3}}[a-z]?(?![\w-])")
LOOKS_CITED: Final = re.compile(r"\brules?\s+([A-Z]{1,3}-\w+)", re.IGNORECASE)
RANGE: Final = re.compile(rf"({RULE})(\s*\.{{2,3}}\s*|\s*-\s*)({RULE})")


def faults(text: str) -> list[str]:
    found = [
        f"{match.group()}: not a rule"
        for match in LOOKS_CITED.finditer(text)
        if not WELL_FORMED.fullmatch(match.group(1))
    ]
    for match in RANGE.finditer(text):
        first, link, last = match.groups()
        first_prefix, _, first_number = first.partition("-")
        last_prefix, _, last_number = last.partition("-")
        if link != "..":
            found.append(f"{match.group()}: a range is written {first}..{last}")
        elif first_prefix != last_prefix or first_number >= last_number:
            found.append(f"{match.group()}: not a range")

    return found


@pytest.mark.parametrize("source", python_sources(), ids=lambda source: source.path)
def test_citations_are_well_formed(source: Source) -> None:
    if source.path != "tests/tidy/test_citations.py":
        assert not faults(source.text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("rule E-71", 0, id="one"),
        pytest.param("rules E-80..E-87, Q-03", 0, id="range-and-list"),
        pytest.param("rule E-7", 1, id="one-digit"),
        pytest.param("rule ZZ-07", 1, id="unknown-chapter"),
        pytest.param("rules E-80 - E-87", 1, id="range-with-a-dash"),
        pytest.param("rules E-87..E-80", 1, id="range-backwards"),
        pytest.param("rules E-80..Q-87", 1, id="range-across-chapters"),
    ],
)
def test_faults_are_found(text: str, count: int) -> None:
    assert len(faults(text)) == count
