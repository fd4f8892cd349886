"""YAML text to a tree (configuration layer).

Invariant: nothing is constructed but text, numbers, truth values, lists and mappings; scalars mean
what YAML 1.2 says, whatever the parser beneath thinks; and hostile text costs bounded time and
memory, since events are counted as they come and aliases where they are used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

import yaml

from broker.config.problems import ConfigProblems, Keys, Place, Problem, dotted
from broker.config.tree import DEPTH_MAX, NODES_MAX, Entry, ListNode, MapNode, Node, Report, Scalar
from broker.config.yaml_errors import explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TEXT_BYTES_MAX", "resolve_plain", "tree_from_yaml"]

TEXT_BYTES_MAX: Final = 8 * 1024 * 1024
"""A file of a hundred thousand queues has about six."""

_INTEGER: Final = re.compile(r"[-+]?[0-9]+\Z")
_BASED: Final = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL: Final = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_DIGITS_MAX: Final = 64
"""Longer numbers are text: converting them takes quadratic time."""

_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}

_FORBIDDEN: Final = re.compile(
    r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_VARIABLE: Final = re.compile(r"\$(\$\{)|\$\{([^}]*)\}?")
_VARIABLE_FORM: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?\Z", re.DOTALL)

_TAG_TEXT: Final = "tag:yaml.org,2002:str"


def resolve_plain(text: str) -> object:
    """Give an unquoted scalar the type of YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]

    if len(text) > _DIGITS_MAX:
        return text

    if _INTEGER.match(text):
        return int(text)

    if _BASED.match(text):
        return int(text, 0)

    if _FLOAT.match(text):
        return float(text)

    if _SPECIAL.match(text):
        return float(text.replace(".", "", 1))

    return text


def tree_from_yaml(raw: bytes, report: Report, environ: Mapping[str, str]) -> Node | None:
    """Parse a file's bytes.

    Args:
        raw: the whole file, not longer than :data:`TEXT_BYTES_MAX` (the caller sees to it).
        report: gets what is wrong without keeping the rest from being read.
        environ: for ``${NAME}`` and ``${NAME:-default}``.

    Returns:
        The tree, None of an empty file.

    Raises:
        ConfigProblems: the text is not YAML, or too much of it: nothing more can be said.

    """
    text = _decode(raw, report.path)
    builder = _Builder(report, environ, text)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise ConfigProblems([*report.problems, explain(error, report.path, text)]) from None
    except yaml.YAMLError:
        message = "not valid YAML: a character that YAML does not allow"
        raise ConfigProblems([*report.problems, Problem(report.path, 0, 0, "", message)]) from None

    builder.finish()
    return builder.root


def _events(text: str) -> Iterator[yaml.Event]:
    # Composing and constructing are not used at all: no recursion, no tags, no objects.
    loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
    return yaml.parse(text, Loader=loader)


def _decode(raw: bytes, path: str) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigProblems([Problem(path, 1, 1, "", "the file is UTF-16 - save it as UTF-8")])

    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        message = f"the byte 0x{raw[error.start]:02x} is not UTF-8 - save the file as UTF-8"
        raise ConfigProblems([Problem(path, line, column, "", message)]) from None

    bad = _FORBIDDEN.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        message = (
            f"the control character U+{ord(bad[0]):04X} cannot stand in YAML"
            ' - in double quotes write it as an escape, "\\x07"'
        )
        raise ConfigProblems([Problem(path, line, column, "", message)])

    return text


class _Level:
    """A list or mapping that is being read."""

    __slots__ = ("anchor", "key", "key_place", "keys", "merges", "node", "size_before")

    def __init__(self, node: ListNode | MapNode, keys: Keys, anchor: str, size_before: int) -> None:
        self.node = node
        self.keys = keys
        self.anchor = anchor
        self.size_before = size_before
        self.key: str | None = None
        self.key_place = node.place
        self.merges: list[Node] = []


class _Builder:
    """Turns events into a tree; a stack of its own instead of recursion."""

    __slots__ = (
        "_anchors",
        "_documents",
        "_environ",
        "_levels",
        "_lines",
        "_nodes",
        "_report",
        "_run_on",
        "_substituted",
        "root",
    )

    def __init__(self, report: Report, environ: Mapping[str, str], text: str) -> None:
        self.root: Node | None = None
        self._report = report
        self._environ = environ
        self._lines = text.splitlines()
        self._levels: list[_Level] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._nodes = 0
        self._documents = 0
        self._substituted = 0
        self._run_on: list[tuple[Scalar, Keys]] = []

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin(MapNode(self._place(event)), event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(ListNode(self._place(event)), event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(self._place(event), "a second document begins here - one file is one")

    def finish(self) -> None:
        """Report what would only repeat a syntax error, had there been one."""
        for scalar, keys in self._run_on:
            scalar.is_broken = True
            self._report.add(
                scalar.place,
                keys,
                "this text runs on over several lines - indent the next line less or put a space"
                " after its colon; quote the text if it is meant so",
            )

    # Values

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        place = self._place(event)
        self._count(1, place)
        level = self._levels[-1] if self._levels else None
        if level is not None and isinstance(level.node, MapNode) and level.key is None:
            self._take_key(level, event.value, place)
            return

        scalar = self._scalar(event, place)
        if event.anchor:
            self._anchors[event.anchor] = (scalar, 1)

        self._add(scalar)

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> Scalar:
        text = str(event.value)
        tag = str(event.tag or "")
        is_plain = not event.style and tag not in {"!", _TAG_TEXT}
        value = resolve_plain(text) if is_plain else text
        scalar = Scalar(place, value, text=text, is_plain=is_plain)
        scalar.is_broken = not self._accepts_tag(tag, place)
        if "${" in text:
            self._substitute(scalar)
            return scalar

        start, end = event.start_mark, event.end_mark
        if is_plain and text and start and end and end.line > start.line:
            self._run_on.append((scalar, self._keys_here()))
        elif is_plain and not text and self._has_comment(place):
            scalar.hint = "a # after a space begins a comment, quote a text that begins with #"

        return scalar

    def _substitute(self, scalar: Scalar) -> None:
        # The pieces are put in once: what a variable holds is not looked into again.
        parts: list[str] = []
        pos = 0
        for match in _VARIABLE.finditer(scalar.text):
            parts.append(scalar.text[pos : match.start()])
            parts.append(match[1] or self._variable(scalar, match))
            pos = match.end()

        parts.append(scalar.text[pos:])
        scalar.text = "".join(parts)
        scalar.value = scalar.text
        if scalar.variable:
            scalar.value = resolve_plain(scalar.text)
            scalar.is_plain = False

    def _variable(self, scalar: Scalar, match: re.Match[str]) -> str:
        form = _VARIABLE_FORM.match(match[2])
        if form is None or not match[0].endswith("}"):
            message = "expected ${NAME} or ${NAME:-default} - write $${ for a literal ${"
            self._break(scalar, message)
            return ""

        scalar.variable = form[1]
        value = self._environ.get(form[1]) or form[2]
        if value is None:
            # A password may hold ${...} by chance: then its parts are not shown.
            is_secret = "password" in "".join(self._keys_here()[-1:])
            name = "NAME" if is_secret else form[1]
            self._break(
                scalar,
                f"the environment variable{'' if is_secret else ' ' + name} is not set or empty"
                f" - set it, or give a default: ${{{name}:-default}}",
            )
            return ""

        self._substituted += len(value)
        if self._substituted > TEXT_BYTES_MAX:
            self._stop(scalar.place, f"variables put in more than {TEXT_BYTES_MAX} characters")

        return value

    def _break(self, scalar: Scalar, message: str) -> None:
        scalar.is_broken = True
        self._report.add(scalar.place, self._keys_here(), message)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        place = self._place(event)
        name = event.anchor or ""
        known = self._anchors.get(name)
        if known is None:
            is_inside = any(level.anchor == name for level in self._levels)
            why = "stands inside what it names" if is_inside else "names no anchor before it"
            self._stop(place, f"this alias {why} - quote a text that begins with *")

        node, size = known
        self._count(size, place)
        if self._levels and isinstance(self._levels[-1].node, MapNode):
            level = self._levels[-1]
            if level.key is None:
                self._stop(place, "a key must be a text, not an alias")

        self._add(node)

    # Lists and mappings

    def _begin(self, node: ListNode | MapNode, event: yaml.CollectionStartEvent) -> None:
        level = self._levels[-1] if self._levels else None
        if level is not None and isinstance(level.node, MapNode) and level.key is None:
            self._stop(node.place, "a key must be a text - quote a text that begins with { or [")

        if len(self._levels) >= DEPTH_MAX:
            self._stop(node.place, f"nested deeper than {DEPTH_MAX} levels")

        self._accepts_tag(str(event.tag or ""), node.place)
        self._count(1, node.place)
        self._levels.append(_Level(node, self._keys_here(), event.anchor or "", self._nodes - 1))

    def _end(self) -> None:
        level = self._levels.pop()
        if isinstance(level.node, MapNode) and level.merges:
            self._merge(level, level.node)

        if level.anchor:
            self._anchors[level.anchor] = (level.node, self._nodes - level.size_before)

        self._add(level.node)

    def _take_key(self, level: _Level, key: str, place: Place) -> None:
        level.key = key
        level.key_place = place

    def _add(self, node: Node) -> None:
        if not self._levels:
            self.root = node
            return

        level = self._levels[-1]
        if isinstance(level.node, ListNode):
            level.node.items.append(node)
            return

        key = level.key or ""
        level.key = None
        if key == "<<":
            level.merges.append(node)
            return

        first = level.node.entries.get(key)
        if first is None:
            level.node.entries[key] = Entry(key, level.key_place, node)
            return

        self._report.add(
            level.key_place,
            (*level.keys, key),
            f"the key is there twice, first in line {first.place.line} - keep one of them",
        )

    def _merge(self, level: _Level, target: MapNode) -> None:
        # `<<: *name` and `<<: [*one, *two]`: what is written out wins, then the earlier.
        for merge in level.merges:
            for source in merge.items if isinstance(merge, ListNode) else [merge]:
                if not isinstance(source, MapNode):
                    self._report.add(source.place, level.keys, "<< takes a mapping, as *name")
                    continue

                self._count(len(source.entries), source.place)
                for key, entry in source.entries.items():
                    target.entries.setdefault(key, entry)

    # Helpers

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        if mark is None:
            return Place(self._report.path)

        return Place(self._report.path, mark.line + 1, mark.column + 1)

    def _keys_here(self) -> Keys:
        if not self._levels:
            return ()

        level = self._levels[-1]
        if isinstance(level.node, ListNode):
            return (*level.keys, str(len(level.node.items)))

        return level.keys if level.key is None else (*level.keys, level.key)

    def _count(self, nodes: int, place: Place) -> None:
        self._nodes += nodes
        if self._nodes > NODES_MAX:
            self._stop(
                place, f"more than {NODES_MAX} values, aliases counted each time they are used"
            )

    def _accepts_tag(self, tag: str, place: Place) -> bool:
        if tag in {"", "!", _TAG_TEXT}:
            return True

        self._report.add(
            place, self._keys_here(), "tags are not supported - quote a text that begins with !"
        )
        return False

    def _has_comment(self, place: Place) -> bool:
        line = self._lines[place.line - 1] if place.line <= len(self._lines) else ""
        return line[max(place.column - 1, 0) :].lstrip().startswith("#")

    def _stop(self, place: Place, message: str) -> NoReturn:
        problem = Problem(*place, dotted(self._keys_here()), message)
        raise ConfigProblems([*self._report.problems, problem])
