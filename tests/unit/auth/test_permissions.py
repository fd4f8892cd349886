"""Permissions: unanchored patterns on names and routing keys (rules PM-02, PM-20)."""

from __future__ import annotations

import pytest

from broker.auth.patterns import PATTERN_LENGTH_MAX
from broker.auth.permissions import (
    VERDICTS_MAX,
    Permission,
    TopicPermission,
    compile_pattern,
)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        pytest.param(".*", "anything", True, id="everything"),
        pytest.param(".*", "", True, id="everything includes the empty name"),
        pytest.param("", "", True, id="empty pattern matches the empty name"),
        pytest.param("", "a", False, id="empty pattern matches no other"),
        pytest.param("rder", "orders", True, id="unanchored"),
        pytest.param("^rder", "orders", False, id="anchored at the start"),
        pytest.param("^orders$", "orders.in", False, id="anchored at the end"),
        pytest.param("^(a|b)\\.", "b.c", True, id="alternation"),
        pytest.param("^Orders", "orders", False, id="case counts"),
        pytest.param("(?i)^Orders", "orders", True, id="unless it does not"),
        pytest.param("^amq\\.default$", "amq.default", True, id="the default exchange's name"),
    ],
)
def test_a_pattern_is_searched_for_in_the_name(pattern: str, name: str, expected: bool) -> None:
    """Rule PM-02."""
    permission = Permission(pattern, "^$", "^$")

    assert permission.allows("configure", name) is expected
    assert permission.allows("configure", name) is expected, "the remembered verdict"


def test_each_operation_has_its_own_pattern() -> None:
    permission = Permission("^c", "^w", "^r")
    verdicts = {
        operation: [name for name in ("c", "w", "r") if permission.allows(operation, name)]
        for operation in ("configure", "write", "read")
    }

    assert verdicts == {"configure": ["c"], "write": ["w"], "read": ["r"]}


def test_more_names_than_are_remembered_still_get_the_right_verdict() -> None:
    permission = Permission("", "5$", "")
    for _ in range(2):
        for number in range(VERDICTS_MAX + 10):
            expected = number % 10 == 5
            assert permission.allows("write", str(number)) is expected


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        pytest.param("(", "missing \\)", id="open group"),
        pytest.param("*", "\\.\\* matches everything", id="glob"),
        pytest.param("(?<x>a)", "\\(\\?P<name>", id="pcre group name"),
        pytest.param("[[:alpha:]]", "POSIX", id="posix class"),
        pytest.param("a" * (PATTERN_LENGTH_MAX + 1), "4096 characters", id="too long"),
        pytest.param("a{99999999999999999999}", "counts too far|too large", id="absurd count"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        compile_pattern(pattern)


def test_topic_patterns_stand_for_names_taken_literally() -> None:
    permission = TopicPermission(
        "x",
        write="^{username}\\.{vhost}\\.[a-z]{2,3}$",
        read="",
        variables={"username": "a.b", "vhost": "{username}"},
    )

    assert permission.allows("write", "a.b.{username}.abc")
    assert not permission.allows("write", "aXb.{username}.abc"), "the dot of a name is a dot"
    assert not permission.allows("write", "a.b.a.b.abc"), "a name is not expanded again"
    assert permission.allows("read", "")
    assert not permission.allows("read", "a")
