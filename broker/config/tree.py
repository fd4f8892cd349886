"""A configuration as written: scalars, lists and mappings with their places (configuration layer).

Invariant: a tree is finite, free of cycles and within the bounds below, whatever it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.config.problems import NOWHERE, Keys, Origin, Place, Problem, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DEPTH_MAX",
    "NODES_MAX",
    "PROBLEMS_MAX",
    "Entry",
    "ListNode",
    "MapNode",
    "Node",
    "Report",
    "Scalar",
    "apply_override",
    "found",
    "tree_from_plain",
]

DEPTH_MAX: Final = 32
"""Levels inside one another. The schema has seven, arguments hold a few more."""

NODES_MAX: Final = 500_000
"""Values in one configuration, each alias counted as often as it is used: room for a hundred
thousand queues, and the end of an alias bomb."""

PROBLEMS_MAX: Final = 200
"""Problems reported at once; whoever has more mends these first."""

_SHOWN_MAX: Final = 40


class Node:
    """A value and where it was written."""

    __slots__ = ("place",)

    def __init__(self, place: Place) -> None:
        self.place = place


class Scalar(Node):
    """Text, number, true or false, or nothing."""

    __slots__ = ("hint", "is_broken", "is_plain", "text", "value", "variable")

    def __init__(self, place: Place, value: object, *, text: str, is_plain: bool) -> None:
        super().__init__(place)
        self.value = value
        self.text = text
        """As written, quotes removed."""

        self.is_plain = is_plain
        """Written without quotes, so that its looks decided the type."""

        self.variable = ""
        """Name of the environment variable it was taken from: then it is shown to nobody, and its
        looks decide the type only where no text is expected."""

        self.is_broken = False
        """Reported already: nobody else complains of it."""

        self.hint = ""
        """What the source text tells of a likely slip."""


class ListNode(Node):
    __slots__ = ("items",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.items: list[Node] = []


class Entry(NamedTuple):
    key: str
    place: Place
    value: Node


class MapNode(Node):
    __slots__ = ("entries",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.entries: dict[str, Entry] = {}


class Report:
    """Collects problems, and remembers where everything was written."""

    __slots__ = ("_damaged", "path", "places", "problems", "problems_count", "warnings")

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.problems_count = 0
        """All there were, also those beyond :data:`PROBLEMS_MAX`."""

        self.warnings: list[Problem] = []
        self.places: dict[Keys, Place] = {}
        self._damaged: set[Keys] = set()

    def add(self, place: Place, keys: Keys, message: str) -> None:
        """Report what is wrong at that place; the value there counts as damaged."""
        self._damaged.add(keys)
        self.problems_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(*place, dotted(keys), message))

    def add_at(self, keys: Keys, message: str) -> None:
        """Report what is wrong with the value at these keys."""
        self._damaged.add(keys)
        self.problems_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Origin(self.path, self.places).problem(keys, message))

    def warn_at(self, keys: Keys, message: str) -> None:
        """Note what is allowed and probably not meant."""
        if len(self.warnings) < PROBLEMS_MAX:
            self.warnings.append(Origin(self.path, self.places).problem(keys, message))

    def is_sound(self, keys: Keys) -> bool:
        """Tell whether nothing was wrong with this value nor with one around it."""
        return not any(keys[:size] in self._damaged for size in range(len(keys) + 1))


def found(node: Node, *, is_shown: bool = True) -> str:
    """Say what stands there instead of what was expected.

    Args:
        node: what stands there.
        is_shown: False where it might be a secret: then only its kind is told.

    """
    if isinstance(node, MapNode):
        return "a mapping"

    if not isinstance(node, Scalar):
        return "a list"

    value = node.value
    if value is None:
        return "nothing"

    if node.variable:
        return f"the value of the environment variable {node.variable}"

    if isinstance(value, bool):
        return "true" if value else "false"

    kind = "the text" if isinstance(value, str) else "the number"
    if not is_shown:
        return kind.replace("the", "a")

    shown = node.text if len(node.text) <= _SHOWN_MAX else node.text[:_SHOWN_MAX] + "..."
    return f"{kind} {shown!r}" if isinstance(value, str) else f"{kind} {shown}"


def tree_from_plain(data: object, report: Report, place: Place = NOWHERE, keys: Keys = ()) -> Node:
    """Make a tree of Python values, as an embedding program gives them.

    Args:
        data: dicts, lists or tuples, and scalars.
        report: gets what is none of these.
        place: where the values come from.
        keys: what leads to the values.

    """
    return _PlainReader(report, place).read(data, keys)


class _PlainReader:
    __slots__ = ("_nodes", "_place", "_report")

    def __init__(self, report: Report, place: Place) -> None:
        self._report = report
        self._place = place
        self._nodes = 0

    def read(self, data: object, keys: Keys) -> Node:
        self._nodes += 1
        if len(keys) > DEPTH_MAX or self._nodes > NODES_MAX:
            self._report.add(self._place, keys[:DEPTH_MAX], _too_much(len(keys) > DEPTH_MAX))
            return self._broken()

        if isinstance(data, dict):
            return self._read_map(data, keys)

        if isinstance(data, list | tuple):
            node = ListNode(self._place)
            node.items = [self.read(item, (*keys, str(at))) for at, item in enumerate(data)]
            return node

        if data is not None and not isinstance(data, bool | int | float | str):
            self._report.add(
                self._place,
                keys,
                "expected a dict, list, str, int, float, bool or None,"
                f" got an object of type {type(data).__name__}",
            )
            return self._broken()

        return Scalar(self._place, data, text=str(data), is_plain=False)

    def _broken(self) -> Scalar:
        scalar = Scalar(self._place, None, text="", is_plain=False)
        scalar.is_broken = True
        return scalar

    def _read_map(self, data: Mapping[object, object], keys: Keys) -> MapNode:
        node = MapNode(self._place)
        for key, value in data.items():
            if not isinstance(key, str):
                self._report.add(
                    self._place, keys, f"expected keys of type str, got {type(key).__name__}"
                )
                continue

            node.entries[key] = Entry(key, self._place, self.read(value, (*keys, key)))

        return node


def _too_much(is_depth: bool) -> str:
    if is_depth:
        return f"nested deeper than {DEPTH_MAX} levels"

    return f"more than {NODES_MAX} values, aliases counted each time they are used"


def apply_override(root: MapNode, dotted_key: str, value: object, report: Report) -> None:
    """Put a value into the tree, making what is missing on the way.

    Args:
        root: the tree that is changed.
        dotted_key: ``log.level``; numbers count the places of a list: ``listeners.amqp.0.port``.
        value: Python value, read as ``tree_from_plain`` reads.
        report: gets what is wrong with the key.

    """
    place = Place("overrides")
    keys = tuple(dotted_key.split("."))
    node: Node = root
    for at, key in enumerate(keys[:-1]):
        child = _child_of(node, key)
        if child is None or (isinstance(child, Scalar) and child.value is None):
            child = ListNode(place) if keys[at + 1].isdecimal() else MapNode(place)
            if not _put(node, key, child):
                break

        node = child

    if not _put(node, keys[-1], tree_from_plain(value, report, place, keys)):
        report.add(place, keys, "there is no such place: what is around it is neither list nor map")


def _child_of(node: Node, key: str) -> Node | None:
    if isinstance(node, MapNode):
        entry = node.entries.get(key)
        return None if entry is None else entry.value

    if isinstance(node, ListNode) and key.isdecimal() and int(key) < len(node.items):
        return node.items[int(key)]

    return None


def _put(node: Node, key: str, child: Node) -> bool:
    if isinstance(node, MapNode):
        node.entries[key] = Entry(key, child.place, child)
        return True

    if not isinstance(node, ListNode) or not key.isdecimal() or int(key) > len(node.items):
        return False

    if int(key) == len(node.items):
        node.items.append(child)
    else:
        node.items[int(key)] = child

    return True
