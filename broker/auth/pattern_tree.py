"""Takes regular expressions apart (auth layer).

Only the structure is read here: what repeats, what is a choice, what looks around. Whether one
character fits a class such as ``[a-z]`` or ``\\w`` is for Python's own engine to say, so that it
means the same. A text comes here after that engine has compiled it: it is sound.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Alternatives",
    "Edge",
    "Letter",
    "Look",
    "Node",
    "Repeat",
    "Sequence",
    "Unsupported",
    "parse",
    "width_of",
]

DEPTH_MAX: Final = 100
"""Groups within one another."""

KNOWN_MAX: Final = 1024
"""Characters that a class remembers its verdict of."""

_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[0-3][0-7]{2}|.)",
    re.DOTALL,
)
_REFERENCE: Final = re.compile(r"\\[1-9]\d?\Z")
_COUNT: Final = re.compile(r"\{(?!\})(\d*)(?:(,)(\d*))?\}")
_NAME: Final = re.compile(r"\?P<\w+>")
_FLAGS: Final = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_COMMENT: Final = re.compile(r"\?#[^)]*\)")
_EDGES: Final = frozenset({"\\A", "\\Z", "\\b", "\\B"})
_LOOKS: Final = {
    "?=": (True, False),
    "?!": (False, False),
    "?<=": (True, True),
    "?<!": (False, True),
}
_FLAG_LETTERS: Final = {"i": re.IGNORECASE, "s": re.DOTALL, "u": re.NOFLAG}


class Unsupported(Exception):
    """A part of a pattern that cannot be searched for in bounded time."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(f"{what} not supported")
        self.position = position


class Letter:
    """One character out of some."""

    __slots__ = ("_flags", "_known", "_match", "_source")

    def __init__(self, source: str, flags: re.RegexFlag) -> None:
        self._source = source
        self._flags = flags
        # Compiled when it is asked for: most patterns never are, and a thousand take a while.
        self._match: Callable[[str], re.Match[str] | None] | None = None
        self._known: dict[str, bool] = {}

    def is_met_by(self, character: str) -> bool:
        known = self._known.get(character)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()

            if self._match is None:
                self._match = re.compile(self._source, self._flags).fullmatch

            known = self._known[character] = self._match(character) is not None

        return known


class Edge:
    """A place: the begin, the end, or where a word begins or ends."""

    __slots__ = ("_match", "is_begin")

    def __init__(self, source: str) -> None:
        self._match = re.compile(source).match
        self.is_begin = source in ("^", "\\A")

    def is_at(self, name: str, place: int) -> bool:
        return self._match(name, place) is not None


class Sequence(NamedTuple):
    """One after the other."""

    parts: tuple[Node, ...]


class Alternatives(NamedTuple):
    """One of these."""

    choices: tuple[Node, ...]


class Repeat(NamedTuple):
    """The same several times; without an end where there is no most."""

    body: Node
    least: int
    most: int | None


class Look(NamedTuple):
    """What has to be there, or must not be, ahead or so many characters behind."""

    body: Node
    is_wanted: bool
    behind: int | None


Node = Letter | Edge | Sequence | Alternatives | Repeat | Look


def parse(text: str, flags: re.RegexFlag) -> Node:
    """Take a pattern apart.

    Raises:
        Unsupported: it has a part that cannot be searched for in bounded time.

    """
    parser = _Parser(text)
    tree = parser.alternatives(flags, 0)
    assert parser.at == len(text), "the pattern was sound"
    return tree


def width_of(node: Node) -> int | None:
    """How many characters it takes, at least and at most; None where that differs."""
    if isinstance(node, Letter):
        return 1

    if isinstance(node, Edge | Look):
        return 0

    if isinstance(node, Repeat):
        width = width_of(node.body)
        return width * node.least if width is not None and node.least == node.most else None

    widths = [width_of(part) for part in (node.parts if isinstance(node, Sequence) else node[0])]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        return None

    if isinstance(node, Sequence):
        return sum(known)

    return known[0] if len(set(known)) == 1 else None


class _Parser:
    """Reads from left to right.

    Attributes:
        at: the next character.

    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def alternatives(self, flags: re.RegexFlag, depth: int) -> Node:
        """Everything up to the bracket that closes, or the end."""
        if depth > DEPTH_MAX:
            raise Unsupported(f"groups more than {DEPTH_MAX} deep are", self.at)

        choices: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self._text) and self._text[self.at] != ")":
            if self._text[self.at] == "|":
                self.at += 1
                choices.append(Sequence(tuple(parts)))
                parts = []
                continue

            node, flags = self._atom(flags, depth)
            if node is not None:
                parts.append(self._repeated(node))

        last = Sequence(tuple(parts))
        return Alternatives((*choices, last)) if choices else last

    def _atom(self, flags: re.RegexFlag, depth: int) -> tuple[Node | None, re.RegexFlag]:
        """One thing that may be repeated; None where it is only a flag or a comment."""
        text = self._text
        letter = text[self.at]
        if letter == "(":
            return self._group(flags, depth)

        if letter in "^$":
            self.at += 1
            return Edge(letter), flags

        if letter == "[":
            source = self._take(_CLASS)
        elif letter == "\\":
            source = self._take(_ESCAPE)
            if source in _EDGES:
                return Edge(source), flags

            if _REFERENCE.match(source):
                raise Unsupported("references back are", self.at)
        else:
            self.at += 1
            source = "." if letter == "." else re.escape(letter)

        return Letter(source, flags), flags

    def _take(self, form: re.Pattern[str]) -> str:
        match = form.match(self._text, self.at)
        assert match is not None, "the pattern was sound"
        self.at = match.end()
        return match[0]

    def _group(self, flags: re.RegexFlag, depth: int) -> tuple[Node | None, re.RegexFlag]:
        begin = self.at
        self.at += 1
        text = self._text
        if _COMMENT.match(text, self.at):
            self._take(_COMMENT)
            return None, flags

        inner = flags
        look = next((sign for sign in _LOOKS if text.startswith(sign, self.at)), None)
        if look is not None:
            self.at += len(look)
        elif _NAME.match(text, self.at):
            self._take(_NAME)
        elif text.startswith("?", self.at):
            inner, is_whole = self._flags(flags, begin)
            if is_whole:
                return None, inner

        body = self.alternatives(inner, depth + 1)
        self.at += 1
        if look is None:
            return body, flags

        is_wanted, is_behind = _LOOKS[look]
        return Look(body, is_wanted, width_of(body) if is_behind else None), flags

    def _flags(self, flags: re.RegexFlag, begin: int) -> tuple[re.RegexFlag, bool]:
        match = _FLAGS.match(self._text, self.at)
        if match is None or not set(match[1] + (match[2] or "")) <= _FLAG_LETTERS.keys():
            raise Unsupported("this kind of group is", begin)

        self.at = match.end()
        for letter in match[1]:
            flags |= _FLAG_LETTERS[letter]

        for letter in match[2] or "":
            flags &= ~_FLAG_LETTERS[letter]

        return flags, match[3] == ")"

    def _repeated(self, node: Node) -> Node:
        text = self._text
        most: int | None
        count = _COUNT.match(text, self.at)
        sign = text[self.at : self.at + 1]
        if sign and sign in "*+?":
            self.at += 1
            least = 1 if sign == "+" else 0
            most = 1 if sign == "?" else None
        elif count is not None:
            self.at = count.end()
            least = int(count[1] or 0)
            upper = count[3] if count[2] else count[1]
            most = int(upper) if upper else None
        else:
            return node

        sign = text[self.at : self.at + 1]
        if sign == "+":
            raise Unsupported("repeats that give nothing back are", self.at)

        if sign == "?":
            # Whether it prefers less is all the same to whether it matches.
            self.at += 1

        return Repeat(node, least, most)
