"""The topic exchange: patterns, several bindings, change, and what hostile patterns cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from broker.errors import PreconditionFailed
from broker.limits import TOPIC_CACHED_DESTINATIONS_MAX, TOPIC_CACHED_KEYS_MAX
from tests.helpers.topology import make_exchange, make_queue, names_of

if TYPE_CHECKING:
    from broker.core.exchange.topic import TopicExchange

KEY_BYTES_MAX = 255


def topic() -> TopicExchange:
    return cast("TopicExchange", make_exchange("topic"))


def bound(*patterns: str) -> TopicExchange:
    """An exchange with one queue for each pattern, named like it."""
    exchange = topic()
    for pattern in patterns:
        exchange.add_binding(make_queue(pattern), pattern, {})

    return exchange


# Rules E-80..E-84, E-87 and scenario S-039.
TABLE = [
    ("#", "", True),
    ("#", "a", True),
    ("#", "a.b", True),
    ("#", ".", True),
    ("*", "", False),
    ("*", "a", True),
    ("*", "a.b", False),
    ("*", ".", False),
    ("", "", True),
    ("", "a", False),
    ("", ".", False),
    (".", ".", True),
    (".", "", False),
    ("*.*", ".", True),
    ("*.*", "a.b.c", False),
    ("a.*", "a", False),
    ("a.*", "a.", True),
    ("*.a", ".a", True),
    ("a.#", "a", True),
    ("a.#", "a.", True),
    ("a.#", "a.b.c.d", True),
    ("a.#", "ab", False),
    ("#.a", "a", True),
    ("#.a", "b.c.a", True),
    ("#.a", "a.b", False),
    ("#.a", "a.b.a", True),
    ("a.#.b", "a.b", True),
    ("a.#.b", "a.x.b", True),
    ("a.#.b", "a.b.b", True),
    ("a.#.b", "a.b.c", False),
    ("a.*.b", "a..b", True),
    ("a.*.b", "a.b", False),
    ("a..b", "a..b", True),
    ("a..b", "a.b", False),
    ("*.#", "", False),
    ("*.#", "a", True),
    ("#.*", "", False),
    ("#.*", "a.b", True),
    ("#.#", "", True),
    ("#.#", "a", True),
    ("#.*.#", "", False),
    ("#.*.#.*", "a", False),
    ("#.*.#.*", "a.b", True),
    ("#.a.#.a", "a", False),
    ("#.a.#.a", "b.a.b.a", True),
    ("a#", "ab", False),
    ("a#", "a#", True),
    ("a*", "ab", False),
    ("##", "a", False),
    ("##", "##", True),
    ("*.x#", "a.x", False),
    ("*.x#", "a.x#", True),
    ("*", "*", True),
    ("a.b", "a.*", False),
    ("a.b", "#", False),
    ("#", "#", True),
    ("A", "a", False),
    ("a.b", "a-b", False),
    ("\udcff.*", "\udcff.x", True),
]


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [pytest.param(*row, id=f"{row[0]!a}-{row[1]!a}") for row in TABLE],
)
def test_a_pattern_takes_a_key(pattern: str, key: str, expected: bool) -> None:
    """Rules E-80..E-84, E-87."""
    assert names_of(bound(pattern).match([key], None)) == ([pattern] if expected else [])


def test_patterns_do_not_disturb_one_another() -> None:
    """The whole table in one exchange gives what each pattern gives alone."""
    patterns = sorted({pattern for pattern, _, _ in TABLE})
    together = bound(*patterns)
    for key in sorted({key for _, key, _ in TABLE}):
        alone = [pattern for pattern in patterns if bound(pattern).match([key], None)]
        assert names_of(together.match([key], None)) == alone, key


@pytest.mark.parametrize("key", ["x.x", "x", "x.y.x"])
def test_a_queue_matched_by_several_bindings_gets_one_copy(key: str) -> None:
    """Rule E-86."""
    exchange, queue = topic(), make_queue()
    for pattern in ("x.#", "#.x", "#"):
        exchange.add_binding(queue, pattern, {})

    assert exchange.match([key], None) == [queue]


def test_several_keys_give_the_union() -> None:
    """Rule E-70."""
    exchange = bound("a.*", "b.#", "#.c", "d")
    assert names_of(exchange.match(["a.c", "b"], None)) == ["#.c", "a.*", "b.#"]


def test_unbinding_leaves_longer_shorter_and_sibling_patterns() -> None:
    patterns = ["a", "a.b", "a.b.c", "a.*", "a.#", "a.*.c", "a.#.c", "#", ""]
    for gone in patterns:
        exchange = topic()
        queues = {pattern: make_queue(pattern) for pattern in patterns}
        for pattern, queue in queues.items():
            exchange.add_binding(queue, pattern, {})

        exchange.remove_binding(queues[gone], gone, {})
        rest = bound(*[pattern for pattern in patterns if pattern != gone])
        for key in ("", "a", "a.b", "a.b.c", "a.x", "a.x.c", "z"):
            assert names_of(exchange.match([key], None)) == names_of(rest.match([key], None))


def test_nothing_remains_of_patterns_that_were_unbound() -> None:
    """Programs that bind a key per session for years must not fill the memory."""
    exchange, queue = topic(), make_queue()
    patterns = sorted({pattern for pattern, _, _ in TABLE})
    for pattern in patterns:
        exchange.add_binding(queue, pattern, {})

    for pattern in reversed(patterns):
        assert exchange._root.is_needed()
        exchange.remove_binding(queue, pattern, {})

    assert not exchange._root.is_needed()


def test_a_repeated_key_sees_every_change_of_bindings() -> None:
    exchange, queue, other = topic(), make_queue("q"), make_queue("other")
    assert exchange.match(["a"], None) == []
    exchange.add_binding(queue, "*", {})
    assert exchange.match(["a"], None) == [queue]
    exchange.add_binding(other, "a", {})
    assert names_of(exchange.match(["a"], None)) == ["other", "q"]
    exchange.remove_binding(queue, "*", {})
    assert exchange.match(["a"], None) == [other]
    exchange.drop_all_bindings()
    assert exchange.match(["a"], None) == []


def test_more_keys_than_are_remembered_are_still_matched() -> None:
    exchange = bound("#", "5.*")
    for _ in range(2):
        for number in range(TOPIC_CACHED_KEYS_MAX + 10):
            expected = ["#", "5.*"] if number == 5 else ["#"]
            assert names_of(exchange.match([f"{number}.x"], None)) == expected


def test_remembered_destinations_are_bounded_in_all() -> None:
    exchange = topic()
    queues = [make_queue(str(number)) for number in range(1_000)]
    for queue in queues:
        exchange.add_binding(queue, "#", {})

    most = TOPIC_CACHED_DESTINATIONS_MAX // len(queues)
    for number in range(most + 10):
        assert exchange.match([str(number)], None) == queues
        assert sum(map(len, exchange._cache.values())) <= TOPIC_CACHED_DESTINATIONS_MAX

    assert len(exchange._cache) == 10
    assert exchange.match(["0"], None) == queues


def test_a_list_longer_than_what_may_be_remembered_is_found_every_time() -> None:
    exchange = topic()
    exchange.add_binding(make_queue("other"), "other", {})
    exchange.match(["other"], None)
    exchange._remember("long", [make_queue()] * (TOPIC_CACHED_DESTINATIONS_MAX + 1))
    assert list(exchange._cache) == ["other"]


@pytest.mark.parametrize(("pattern", "count"), [("#.a.#.#", 3), ("#.#.#", 3), ("a.#.b.#.#.#", 4)])
def test_too_many_hash_words_are_refused_where_a_bound_is_set(pattern: str, count: int) -> None:
    """Rule E-85."""
    exchange = topic()
    exchange.validate_binding(pattern, {})
    exchange.hash_words_max = 2
    with pytest.raises(PreconditionFailed) as caught:
        exchange.validate_binding(pattern, {})

    assert caught.value.explanation == (
        f"Topic binding key '{pattern}' uses {count} '#' wildcards, at most 2 are allowed"
    )


@pytest.mark.parametrize("pattern", ["", "#", "#.a.#", "##.##.##", "*.*.*", "a#.#b.#.#"])
def test_as_many_hash_words_as_the_bound_allows_are_accepted(pattern: str) -> None:
    """Rule E-85: only whole words count."""
    exchange = topic()
    exchange.hash_words_max = 2
    exchange.validate_binding(pattern, {})


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        pytest.param(".".join(["#"] * 127 + ["z"]), ".".join("a" * 128), id="hashes-then-word"),
        pytest.param(".".join(["#", "a"] * 63 + ["z"]), ".".join("a" * 128), id="hash-word-pairs"),
        pytest.param(".".join(["#", "*"] * 63 + ["z"]), ".".join("a" * 128), id="hash-star-pairs"),
        pytest.param(".".join(["*", "#"] * 63 + ["z"]), "." * KEY_BYTES_MAX, id="empty-words"),
    ],
)
def test_hostile_patterns_end_soon(pattern: str, key: str) -> None:
    """Tried one way after the other, each would outlast the test's timeout by ages."""
    assert len(pattern) <= KEY_BYTES_MAX
    exchange = bound(pattern, "#")
    assert names_of(exchange.match([key], None)) == ["#"]
    assert names_of(exchange.match([key[:-1] + "z"], None))[0] == "#"
