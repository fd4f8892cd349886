"""Permissions of a user in a virtual host (auth layer; rules PM-02, PM-20).

Invariant: a permission is immutable; a change replaces it. Verdicts may therefore be kept as long
as the permission is.
"""

from __future__ import annotations

import re
from typing import Final

from broker.auth.patterns import Pattern, PatternError

__all__ = [
    "VERDICTS_MAX",
    "Permission",
    "TopicPermission",
    "compile_pattern",
]

VERDICTS_MAX: Final = 1024
"""Remembered verdicts of one pattern; beyond, all are forgotten and learnt again."""

_POSIX_CLASS: Final = re.compile(r"\[[^]]*\[:\^?[a-z]+:\]")


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern for unanchored search; an empty one means ``^$`` (rule PM-02).

    Raises:
        ValueError: saying what is wrong and, where known, what would be right.

    """
    if _POSIX_CLASS.search(text):
        # Python would take it for a set of these letters, silently: refuse, do not guess.
        raise ValueError("POSIX classes are not supported - write [a-z] for [[:lower:]]")

    try:
        return Pattern(text or "^$")
    except PatternError as error:
        place = "" if error.position is None else f" at character {error.position + 1}"
        raise ValueError(f"{error.message}{place}{_pattern_hint(text)}") from None


def _pattern_hint(text: str) -> str:
    if text.startswith(("*", "+", "?")):
        return " - a pattern is a regular expression: .* matches everything"

    if "(?<" in text and "(?P<" not in text:
        return " - a named group is written (?P<name>...)"

    return ""


class _Verdicts:
    """One pattern with the names it was asked about."""

    __slots__ = ("_known", "_matches", "_matches_all")

    def __init__(self, text: str) -> None:
        self._matches = compile_pattern(text).matches
        self._matches_all = text in {".*", "^.*"}
        self._known: dict[str, bool] = {}

    def allows(self, name: str) -> bool:
        if self._matches_all:
            return True

        known = self._known.get(name)
        if known is not None:
            return known

        verdict = self._matches(name)
        if len(self._known) >= VERDICTS_MAX:
            self._known.clear()

        self._known[name] = verdict
        return verdict


class Permission:
    """What one user may do with the exchanges and queues of one virtual host (rule PM-02)."""

    __slots__ = ("_verdicts", "configure", "read", "write")

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure: Final = configure
        self.write: Final = write
        self.read: Final = read
        self._verdicts: Final = {
            "configure": _Verdicts(configure),
            "write": _Verdicts(write),
            "read": _Verdicts(read),
        }

    def allows(self, operation: str, name: str) -> bool:
        """Tell whether ``configure``, ``write`` or ``read`` is allowed on a resource of that name.

        The default exchange goes by ``amq.default`` (rule PM-10): that is for the caller to say.
        """
        return self._verdicts[operation].allows(name)


class TopicPermission:
    """Which routing keys one user may use with one topic exchange (rule PM-20).

    ``{username}`` and ``{vhost}`` in a pattern stand for the names themselves, taken literally.
    """

    __slots__ = ("_verdicts", "exchange", "read", "write")

    def __init__(self, exchange: str, *, write: str, read: str, variables: dict[str, str]) -> None:
        self.exchange: Final = exchange
        self.write: Final = write
        self.read: Final = read
        self._verdicts: Final = {
            "write": _Verdicts(_substitute(write, variables)),
            "read": _Verdicts(_substitute(read, variables)),
        }

    def allows(self, operation: str, routing_key: str) -> bool:
        """Tell whether ``write`` or ``read`` is allowed with that routing key."""
        return self._verdicts[operation].allows(routing_key)


def _substitute(pattern: str, variables: dict[str, str]) -> str:
    # In one pass: a name that itself reads {vhost} is not expanded again.
    return re.sub(r"\{(username|vhost)\}", lambda match: re.escape(variables[match[1]]), pattern)
