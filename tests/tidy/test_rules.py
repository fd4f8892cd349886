"""Every rule that the broker keeps to is shown by a test, and docs/rules.md says by which."""

from __future__ import annotations

import functools
from typing import Final

import pytest

from scripts.support.rule_table import (
    CITATION,
    DOCUMENT,
    Rule,
    cited_in,
    citing_files,
    place_of,
    read_rules,
    updated,
)
from tests.tidy.source import PROJECT, python_sources

# Numbers that stand for no rule: the examples by which these tests are tested.
EXAMPLES: Final = {"tests/tidy/test_citations.py", "tests/tidy/test_rules.py"}

NUMBERS: Final = ["E-01", "E-02", "E-10", "F-03", "Q-29", "Q-29a", "Q-30"]


@functools.cache
def rules() -> tuple[Rule, ...]:
    return tuple(read_rules((PROJECT / DOCUMENT).read_text(encoding="utf-8")))


def numbers() -> list[str]:
    return [rule.number for rule in rules()]


def test_no_rule_is_there_twice() -> None:
    assert len(numbers()) == len(set(numbers()))


def test_rules_stand_in_their_sections_and_in_order() -> None:
    here = [rule for rule in rules() if rule.is_here]
    for section in {rule.section for rule in here}:
        listed = [rule.number for rule in here if rule.section == section]
        assert listed == sorted(listed, key=place_of)
        assert {number.partition("-")[0] for number in listed} == {section.partition(":")[0]}


def test_what_is_cited_is_a_rule() -> None:
    known = set(numbers())
    chapters = {number.partition("-")[0] for number in known}
    unknown = [
        f"{source.path}: {number}"
        for source in python_sources()
        for match in CITATION.finditer(source.text)
        for number in match.groups("")
        if number.partition("-")[0] in chapters
        and number not in known
        and source.path not in EXAMPLES
    ]

    assert not unknown, f"not in {DOCUMENT}: {unknown}"


def test_every_rule_is_shown_by_a_test() -> None:
    cited = citing_files(numbers())
    missing = [rule.number for rule in rules() if rule.is_here and rule.number not in cited]

    assert not missing, f"no test cites {', '.join(missing)}"


def test_the_index_is_up_to_date() -> None:
    text = (PROJECT / DOCUMENT).read_text(encoding="utf-8")

    assert text == updated(text), "run python -m scripts.support.rule_table"


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        pytest.param('"""Rules E-01..E-10."""\n', set(), id="the-modules-docstring"),
        pytest.param("# rule F-03\n", {"F-03"}, id="comment"),
        pytest.param('add("x", "E-02, F-03")\n', {"E-02", "F-03"}, id="scenario"),
        pytest.param("# rules E-02..E-10\n", {"E-02", "E-10"}, id="range"),
        pytest.param("# rules Q-29..Q-30\n", {"Q-29", "Q-29a", "Q-30"}, id="letter-in-a-range"),
        pytest.param("# rule E-77\n", {"E-77"}, id="unknown"),
        pytest.param("# UTF-8, ISO-8859-1, E-1\n", set(), id="no-rules"),
    ],
)
def test_citations_are_found(text: str, cited: set[str]) -> None:
    assert cited_in(text, NUMBERS) == cited


def test_the_column_is_made_from_nothing_but_citations() -> None:
    text = "## E: x\n\n| rule | what it says |\n|---|---|\n| E-00 | One \\| two. |\n\nEnd.\n"
    new = (
        "## E: x\n\n| rule | what it says | shown by |\n|---|---|---|\n"
        "| E-00 | One \\| two. | - |\n\nEnd.\n"
    )

    assert updated(text) == new
    assert updated(new) == new
    assert read_rules(new) == [Rule("E-00", "One \\| two.", "E: x")]
