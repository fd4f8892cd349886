"""The topic tree finds what a plain matcher finds that tries every binding."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.topology import make_exchange, make_queue, names_of

PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "a#", "**"]), max_size=7).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#", "a#"]), max_size=7).map(".".join)


def takes(pattern: str, key: str) -> bool:
    """Match by the rules as they are written (E-80..E-84), without regard to cost."""

    def words_of(text: str) -> tuple[str, ...]:
        return tuple(text.split(".")) if text else ()

    def rest_takes(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
        if not pattern:
            return not words
        if pattern[0] == "#":
            return any(rest_takes(pattern[1:], words[skip:]) for skip in range(len(words) + 1))

        is_taken = bool(words) and pattern[0] in ("*", words[0])
        return is_taken and rest_takes(pattern[1:], words[1:])

    return rest_takes(words_of(pattern), words_of(key))


@given(st.lists(PATTERNS, max_size=20, unique=True), st.lists(KEYS, min_size=1, max_size=4))
def test_the_tree_finds_what_a_plain_matcher_finds(patterns: list[str], keys: list[str]) -> None:
    exchange = make_exchange("topic")
    for pattern in patterns:
        exchange.add_binding(make_queue(pattern), pattern, {})

    for key in keys:
        expected = sorted(pattern for pattern in patterns if takes(pattern, key))
        assert names_of(exchange.match([key], None)) == expected

    union = sorted(p for p in patterns if any(takes(p, key) for key in keys))
    assert names_of(exchange.match(keys, None)) == union


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2), PATTERNS), max_size=40),
    st.lists(KEYS, min_size=1, max_size=3),
)
def test_the_tree_stays_right_while_bindings_come_and_go(
    steps: list[tuple[bool, int, str]], keys: list[str]
) -> None:
    exchange = make_exchange("topic")
    queues = [make_queue(str(number)) for number in range(3)]
    bound: set[tuple[int, str]] = set()
    for is_bind, number, pattern in steps:
        if is_bind:
            is_new = exchange.add_binding(queues[number], pattern, {}) is not None
            assert is_new is ((number, pattern) not in bound)
            bound.add((number, pattern))
        else:
            was_there = exchange.remove_binding(queues[number], pattern, {}) is not None
            assert was_there is ((number, pattern) in bound)
            bound.discard((number, pattern))

        for key in keys:
            expected = {str(number) for number, pattern in bound if takes(pattern, key)}
            assert names_of(exchange.match([key], None)) == sorted(expected)


@given(PATTERNS, KEYS)
def test_the_plain_matcher_agrees_with_a_regular_expression(pattern: str, key: str) -> None:
    """The reference is checked too, in other words: each word of a key ends with a dot."""
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = pattern.split(".") if pattern else []
    expression = "".join(parts.get(word, re.escape(word) + r"\.") for word in words)
    dotted = key + "." if key else ""
    assert takes(pattern, key) is (re.fullmatch(expression, dotted) is not None)
