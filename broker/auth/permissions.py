"""Permissions of a user in a virtual host (auth layer; rules PM-02, PM-20).

Invariant: a permission is immutable; a change replaces it. Verdicts may therefore be kept as long
as the permission is.

Patterns come from administrators and names from anybody. Patterns are bounded in length and
compiled once, and names have at most 255 bytes; but Python's ``re`` backtracks, and nothing here
can tell that a pattern such as ``^(a+)+$`` takes exponential time on a name made for it. Whoever
may write patterns can slow the broker down.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "PATTERN_LENGTH_MAX",
    "VERDICTS_MAX",
    "Permission",
    "TopicPermission",
    "compile_pattern",
    "repeats_a_repeat",
]

PATTERN_LENGTH_MAX: Final = 4096
"""Characters of one pattern: far above any real one, and quick to compile."""

VERDICTS_MAX: Final = 1024
"""Remembered verdicts of one pattern; beyond, all are forgotten and learnt again."""

_POSIX_CLASS: Final = re.compile(r"\[[^]]*\[:\^?[a-z]+:\]")
_ESCAPED: Final = re.compile(r"\\.|\[\^?\]?[^\]]*\]", re.DOTALL)
_INNERMOST: Final = re.compile(r"\((?:\?:|\?P<\w+>)?([^()]*)\)")
_ELASTIC: Final = re.compile(r".(?:[*+?]|\{\d*,?\d*\})[?+]?", re.DOTALL)
_ENDLESS: Final = re.compile(r"[*+]|\{\d*,\}")


def repeats_a_repeat(text: str) -> bool:
    """Whether something without a bound is repeated without a bound, as in ``(a+)+``.

    Python's engine backtracks: such a pattern takes time exponential in the length of a name that
    it does not match, and the name is a client's choice. A group with something fixed in it, as in
    ``([a-z]+\\.)+``, passes: what is fixed keeps its turns apart. This finds what people write by
    mistake, not every pattern that somebody could make up to be slow.
    """
    left = _ESCAPED.sub("x", text)
    while True:
        group = _INNERMOST.search(left)
        if group is None:
            return False

        is_elastic = any(
            _ENDLESS.search(part) is not None and not _ELASTIC.sub("", part).strip("^$")
            for part in group[1].split("|")
        )
        if is_elastic and _ENDLESS.match(left, group.end()) is not None:
            return True

        # For the groups around it, it is one letter: a repeated one, if that is all it is.
        left = left[: group.start()] + ("x+" if is_elastic else "x") + left[group.end() :]


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for unanchored search; an empty one means ``^$`` (rule PM-02).

    Raises:
        ValueError: saying what is wrong and, where known, what would be right.

    """
    if len(text) > PATTERN_LENGTH_MAX:
        raise ValueError(
            f"a pattern may have {PATTERN_LENGTH_MAX} characters, this has {len(text)}"
        )

    if _POSIX_CLASS.search(text):
        # Python would take it for a set of these letters, silently: refuse, do not guess.
        raise ValueError("POSIX classes are not supported - write [a-z] for [[:lower:]]")

    if repeats_a_repeat(text):
        raise ValueError(
            "a repeat within a repeat, as in (a+)+, can take for ever to fail: write it with one"
        )

    try:
        return re.compile(text or "^$")
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        raise ValueError(f"{error.msg}{place}{_pattern_hint(text)}") from None
    except (RecursionError, OverflowError):
        raise ValueError("the pattern is nested too deeply or counts too far") from None


def _pattern_hint(text: str) -> str:
    if text.startswith(("*", "+", "?")):
        return " - a pattern is a regular expression: .* matches everything"

    if "(?<" in text and "(?P<" not in text:
        return " - a named group is written (?P<name>...)"

    return ""


class _Verdicts:
    """One pattern with the names it was asked about."""

    __slots__ = ("_known", "_matches_all", "_search")

    def __init__(self, text: str) -> None:
        self._search = compile_pattern(text).search
        self._matches_all = text in {".*", "^.*"}
        self._known: dict[str, bool] = {}

    def allows(self, name: str) -> bool:
        if self._matches_all:
            return True

        known = self._known.get(name)
        if known is not None:
            return known

        verdict = self._search(name) is not None
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
