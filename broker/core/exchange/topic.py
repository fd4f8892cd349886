"""Core: the topic exchange (rules E-80..E-87).

**How a key is matched.** Binding keys are split into words and kept in a tree: each node stands for
a prefix of binding keys, its children for the words that follow, with ``*`` and ``#`` in places of
their own. A routing key is read word by word, holding the *live* nodes: those whose prefix takes
the words read so far. A word leads from each live node to its child of that very word and to its
child ``*``. A ``#`` takes any number of words, also none, so a ``#`` node is live as soon as its
parent and stays so to the end. After the last word the live nodes hold the matched bindings. ::

    bindings stock.*              key stock.usd.nyse    live: words taken | # to the end
             stock.#.nyse         ---------------------------------------------------------
                                  (start)                     (root)      |
    (root)── stock ─┬─ *          stock                       stock       | stock.#
                    └─ # ── nyse  usd                         stock.*     | stock.#
                                  nyse                        stock.#.nyse| stock.#

**What it costs.** A node is live at most once at a time, so the work is at most the words of the
key times the nodes that take a prefix of it, whatever the patterns: ``#.#.#.a`` and ``#.a.#.a``
cannot make it explode. Bindings that have nothing in common with the key are never looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import (
    DestinationCounts,
    Exchange,
    add_destination,
    discard_destination,
)
from broker.errors import PreconditionFailed
from broker.limits import TOPIC_CACHED_DESTINATIONS_MAX, TOPIC_CACHED_KEYS_MAX

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.core.vhost import VirtualHost
    from broker.wire.tables import Arguments

__all__ = ["TopicExchange"]

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"


class TopicExchange(Exchange):
    """Matches words of the routing key against patterns with ``*`` and ``#``.

    Attributes:
        hash_words_max: how many ``#`` one binding key may have; 0 sets no bound (rule E-85).

    """

    __slots__ = ("_cache", "_cached_count", "_root", "hash_words_max")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self.hash_words_max: int = 0
        self._root: _Node = _Node()
        self._cache: dict[str, list[Destination]] = {}
        """Routing key to its destinations, until the next change of a binding."""
        self._cached_count: int = 0
        """Lengths of all lists in `_cache` together."""

    def attach(self, vhost: VirtualHost) -> None:
        self.hash_words_max = vhost.topic_hash_words_max

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        count = _split(routing_key).count(ANY_WORDS)
        if self.hash_words_max and count > self.hash_words_max:
            raise PreconditionFailed(
                f"Topic binding key '{routing_key}' uses {count} '#' wildcards, "
                f"at most {self.hash_words_max} are allowed"
            )

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        if len(routing_keys) == 1:
            return self._match_key(routing_keys[0])

        matched: dict[Destination, None] = {}
        for key in routing_keys:
            for destination in self._match_key(key):
                matched[destination] = None

        return list(matched)

    def _match_key(self, key: str) -> list[Destination]:
        cached = self._cache.get(key)
        if cached is not None:
            return cached

        destinations = _destinations_of(_matching_nodes(self._root, _split(key)))
        self._remember(key, destinations)
        return destinations

    def _remember(self, key: str, destinations: list[Destination]) -> None:
        count = len(destinations)
        if count > TOPIC_CACHED_DESTINATIONS_MAX:
            return

        is_full = len(self._cache) >= TOPIC_CACHED_KEYS_MAX
        if is_full or self._cached_count + count > TOPIC_CACHED_DESTINATIONS_MAX:
            self._forget_matches()

        self._cache[key] = destinations
        self._cached_count += count

    def _forget_matches(self) -> None:
        self._cache.clear()
        self._cached_count = 0

    def _index(self, binding: Binding) -> None:
        self._forget_matches()
        node = self._root
        for word in _split(binding.routing_key):
            node = node.child_for(word)

        add_destination(node.destinations, binding.destination)

    def _unindex(self, binding: Binding) -> None:
        self._forget_matches()
        words = _split(binding.routing_key)
        path = [self._root]
        for word in words:
            path.append(path[-1].child_for(word))

        discard_destination(path[-1].destinations, binding.destination)
        # Cut off what no binding needs any more, from the leaf up.
        for depth in range(len(words), 0, -1):
            if path[depth].is_needed():
                break

            path[depth - 1].remove_child(words[depth - 1])

    def _clear_index(self) -> None:
        self._forget_matches()
        self._root = _Node()


class _Node:
    """One prefix of binding keys.

    Attributes:
        literals: the children by word, without ``*`` and ``#``; a routing key's ``*`` is an
            ordinary word and must not find the wildcard here (rule E-87).
        destinations: of the bindings that end here.

    """

    __slots__ = ("any_words", "destinations", "literals", "one_word")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None
        self.destinations: DestinationCounts = {}

    def child_for(self, word: str) -> _Node:
        """Return the child for a word of a binding key, made if need be."""
        if word == ONE_WORD:
            if self.one_word is None:
                self.one_word = _Node()

            return self.one_word

        if word == ANY_WORDS:
            if self.any_words is None:
                self.any_words = _Node()

            return self.any_words

        child = self.literals.get(word)
        if child is None:
            child = self.literals[word] = _Node()

        return child

    def remove_child(self, word: str) -> None:
        """Forget the child for a word of a binding key."""
        if word == ONE_WORD:
            self.one_word = None
        elif word == ANY_WORDS:
            self.any_words = None
        else:
            del self.literals[word]

    def is_needed(self) -> bool:
        """Whether a binding ends here or further on."""
        has_wildcard = self.one_word is not None or self.any_words is not None
        return has_wildcard or bool(self.destinations) or bool(self.literals)


def _split(key: str) -> list[str]:
    """Return the words of a key; an empty key has none (rule E-80)."""
    return key.split(".") if key else []


def _matching_nodes(root: _Node, words: list[str]) -> list[_Node]:
    """Return the nodes whose whole prefix takes all the words; see the module's docstring."""
    live = [root]
    hash_nodes: dict[_Node, None] = {}
    _add_hash_nodes(root, hash_nodes)
    for word in words:
        reached: list[_Node] = []
        for node in live:
            _take_word(node, word, reached)

        for node in hash_nodes:
            _take_word(node, word, reached)

        for node in reached:
            _add_hash_nodes(node, hash_nodes)

        live = reached

    live.extend(hash_nodes)
    return live


def _take_word(node: _Node, word: str, reached: list[_Node]) -> None:
    """Add the children that one word of a routing key leads to."""
    child = node.literals.get(word)
    if child is not None:
        reached.append(child)

    if node.one_word is not None:
        reached.append(node.one_word)


def _add_hash_nodes(node: _Node, hash_nodes: dict[_Node, None]) -> None:
    """Add the ``#`` that follows a live node, and the ``#`` that follows that, and so on."""
    child = node.any_words
    while child is not None and child not in hash_nodes:
        hash_nodes[child] = None
        child = child.any_words


def _destinations_of(nodes: list[_Node]) -> list[Destination]:
    """Return the destinations of several nodes, each once (rule E-86)."""
    if len(nodes) == 1:
        return list(nodes[0].destinations)

    merged: dict[Destination, None] = {}
    for node in nodes:
        for destination in node.destinations:
            merged[destination] = None

    return list(merged)
