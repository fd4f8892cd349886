"""Patterns say what Python's engine says, and none of them can run away."""

from __future__ import annotations

import contextlib
import re
from time import process_time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.auth import patterns
from broker.auth.pattern_tree import parse
from broker.auth.patterns import STEPS_MAX, Pattern, PatternError

BOMBS: Final = [
    "^(a+)+$",
    "(a|a)*b",
    "(a|ab)*c",
    "a*a*a*a*a*b",
    "([a-z]+)*!",
    "(.*)*x",
    "(x+x+)+y",
    "(a*)*b",
    ".*.*.*.*=",
    "a?" * 30 + "a" * 30 + "!",
    "(a?){50}a{50}!",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(?=.*a)(?=.*b).*c.*d",
    "((?=.*z).)*q",
    "(?:(?:a+)+)+!",
    "^(?:.*,){11}P",
    "(a+b+c+){60}!",
]
NAMES: Final = ["a" * 255, "x" * 255, "ab" * 127, "foo" * 85, "," * 255, "a" * 250 + "!\n"]


@pytest.mark.parametrize("text", BOMBS)
def test_a_bomb_takes_no_more_steps_than_there_are(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own engine is not asked where there are many ways; the machine counts its steps."""
    budgets: list[patterns._Budget] = []

    class Watched(patterns._Budget):
        def __init__(self) -> None:
            super().__init__()
            budgets.append(self)

    monkeypatch.setattr(patterns, "_Budget", Watched)
    pattern = Pattern(text)
    assert pattern._quick_up_to < 255
    for name in NAMES:
        pattern.matches(name)

    assert len(budgets) == len(NAMES)
    assert all(0 <= budget.left < STEPS_MAX for budget in budgets)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(a+)+(?:){99999999}b", id="nothing-very-often"),
        pytest.param("(a+)+(((?:){999}){999}){999}b", id="nothing-in-nests"),
        pytest.param("(a+)+" + "(?!" * 9 + "x" + "){60}" * 9 + "b", id="looks-in-looks"),
        pytest.param("(a+)+" + "(?!x{900})" * 300 + "b", id="many-large-looks"),
    ],
)
def test_what_is_repeated_is_counted_before_it_is_made(text: str) -> None:
    """Fuzzing found a pattern of 200 characters that took five seconds to be made."""
    began = process_time()
    with contextlib.suppress(PatternError):
        Pattern(text).matches("a" * 255)

    assert process_time() - began < 2


def test_a_look_that_is_repeated_is_one() -> None:
    """Else the parts of it would count for each time, and this would be too many."""
    pattern = Pattern("(x+x+)+(?:(?!" + "ab?" * 100 + "c)[a-z]){90}!")
    assert pattern.matches("xx" + "q" * 90 + "!")
    assert not pattern.matches("xx" + "q" * 89 + "!")


def test_what_takes_too_many_steps_matches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = Pattern("(a|a)*b")
    assert pattern.matches("a" * 50 + "b")
    monkeypatch.setattr(patterns, "STEPS_MAX", 20)
    assert not pattern.matches("a" * 50 + "b")


@pytest.mark.parametrize(
    "text",
    [
        ".*",
        "^(orders|invoices)\\..*$",
        r"^(?!amq\.).*",
        r"^.*(?<!\.dlq)$",
        "[a-z]+-[0-9]+",
        "^(a|b|c)$",
        "^app-[^.]*\\.[^.]*$",
    ],
)
def test_what_people_write_is_left_to_the_quick_engine(text: str) -> None:
    assert Pattern(text)._quick_up_to >= 255 or Pattern(text)._quick_up_to > 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("(", "missing ), unterminated subpattern", id="no-pattern"),
        pytest.param(r"(a)\1", "references back are not supported", id="reference"),
        pytest.param("(?P<x>a)(?P=x)", "this kind of group is not supported", id="by-name"),
        pytest.param("(?>a*)b", "this kind of group is not supported", id="atomic"),
        pytest.param("a*+b", "repeats that give nothing back are not supported", id="possessive"),
        pytest.param("[[ab]", "possible nested set", id="nested-set"),
        pytest.param("[a||b]", "possible set union", id="set-union"),
        pytest.param("(?m)^a", "this kind of group is not supported", id="many-lines"),
        pytest.param("(" * 101 + ")" * 101, "groups more than 100 deep", id="deep"),
        pytest.param("a" * 4097, "a pattern may have 4096 characters, this has 4097", id="long"),
        pytest.param("(a{1,100}){1,100}b", "too many parts", id="many-parts"),
        pytest.param("a{99999999999}", "counts too far", id="overflow"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(text: str, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)):
        Pattern(text)


_LETTERS: Final = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\.",
        r"\b",
        r"\B",
        "^",
        "$",
        r"\Z",
        "[]a]",
        r"\x61",
        "{",
    ]
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sign = st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{,2}", "{1,}", "{}"])
    group = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?i:", "(?#x)("])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(group, inner).map(lambda pair: f"{pair[0]}{pair[1]})"),
        st.tuples(st.just("(?:"), inner, st.just(")"), sign).map("".join),
    )


@given(
    st.recursive(_LETTERS, _grown, max_leaves=8),
    st.text("aAb.c\n", max_size=9),
)
def test_the_machine_says_what_the_quick_engine_says(text: str, name: str) -> None:
    try:
        wanted = re.compile(text).search(name) is not None
    except (re.error, FutureWarning):
        return

    pattern = Pattern(text)
    assert pattern.matches(name) is wanted
    machine = patterns._assemble(parse(text, re.NOFLAG))
    assert machine.finds(name) is wanted
