"""Mappings and lists of the configuration (configuration layer).

Invariant: as for all shapes, reading never raises and never stops at the first problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

from broker.config.shapes import JSON, Nullable, SecretText, Shape, near
from broker.config.tree import ListNode, MapNode, Node, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from broker.config.problems import Keys
    from broker.config.tree import Entry, Report

__all__ = ["Key", "ListOf", "NamedMap", "Record", "Values", "no_complaint"]

T_co = TypeVar("T_co", covariant=True)


class Key(NamedTuple, Generic[T_co]):
    """One key of a record."""

    name: str
    """As written in the file."""

    shape: Shape[T_co]
    default: T_co
    """What holds when the key is left out."""

    doc: str
    """Sentences for the documented default file and for editors."""

    written: str = ""
    """The default in YAML; empty where an example or the keys below say more."""

    example: str = ""
    """A value worth showing, in YAML."""

    is_required: bool = False
    """The key cannot be left out."""


class Values:
    """The values of one record that was read."""

    __slots__ = ("_values", "at", "report")

    def __init__(self, at: Keys, report: Report, values: dict[str, object]) -> None:
        self.at = at
        self.report = report
        self._values = values

    @property
    def name(self) -> str:
        """The key under which the record stands: the name of a queue, of a user, ..."""
        return self.at[-1]

    def __getitem__(self, key: Key[T_co]) -> T_co:
        return cast("T_co", self._values.get(key.name, key.default))

    def __contains__(self, key: Key[T_co]) -> bool:
        return key.name in self._values


class Record(Shape[T_co]):
    """A mapping with known keys.

    Args:
        what: completes "expected a mapping with the keys of ...".
        keys: the known keys, in the order of the documented default.
        build: makes the result.
        misnomers: what people write instead of a known key, and what to tell them.

    """

    def __init__(
        self,
        what: str,
        keys: Sequence[Key[object]],
        build: Callable[[Values], T_co],
        misnomers: Mapping[str, str] | None = None,
    ) -> None:
        # The fallback is never used: what is no mapping is read as one without keys.
        super().__init__(f"a mapping with the keys of {what}", cast("T_co", None))
        # What stands in its place may be anything, also a secret.
        self.is_shown = False
        self.what = what
        self.keys = {key.name: key for key in keys}
        self._build = build
        self._has_secrets = any(_is_secret(key.shape) for key in keys)
        self._misnomers = misnomers or {}

    def read(self, node: Node, at: Keys, report: Report) -> T_co:
        if isinstance(node, MapNode):
            return self._build(Values(at, report, self._read_keys(node, at, report)))

        if _is_nothing(node):
            # All keys are commented out, or left to their defaults.
            return self._build(Values(at, report, self._read_keys(MapNode(node.place), at, report)))

        hint = f"its keys are {', '.join(self.keys)}"
        if isinstance(node, Scalar) and node.text in self.keys:
            hint = f"a colon is missing after {node.text!r}"

        self.refuse(node, at, report, hint)
        return self._build(Values(at, report, {}))

    def json_schema(self) -> JSON:
        properties: JSON = {}
        for key in self.keys.values():
            properties[key.name] = {**key.shape.json_schema(), "description": key.doc}

        schema: JSON = {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": properties,
        }
        required = [key.name for key in self.keys.values() if key.is_required]
        if required:
            schema["required"] = required
            schema["type"] = "object"

        return schema

    def _read_keys(self, node: MapNode, at: Keys, report: Report) -> dict[str, object]:
        values: dict[str, object] = {}
        for entry in node.entries.values():
            key = self.keys.get(entry.key)
            if key is None:
                self._refuse_key(entry, at, report)
                continue

            keys = (*at, entry.key)
            # A scalar is pointed at itself, whatever has several lines at its key.
            is_scalar = isinstance(entry.value, Scalar)
            report.places[keys] = entry.value.place if is_scalar else entry.place
            values[entry.key] = key.shape.read(entry.value, keys, report)

        for key in self.keys.values():
            if key.is_required and key.name not in node.entries:
                report.add(
                    node.place,
                    (*at, key.name),
                    f"the key is missing - expected {key.shape.expected}",
                )

        return values

    def _refuse_key(self, entry: Entry, at: Keys, report: Report) -> None:
        name, colon, _ = entry.key.partition(":")
        if colon and name in self.keys and _is_nothing(entry.value):
            # What follows the colon may be a secret: it is not repeated.
            report.add(entry.place, (*at, name), f"a space is missing after the colon of {name!r}")
            return

        if self._has_secrets and _is_nothing(entry.value):
            # {password: a,b} makes a key of the rest of a password: it is not repeated either.
            message = "a key that is unknown and has no value - quote a text that contains a comma"
            report.add(entry.place, at, message)
            return

        report.add(entry.place, (*at, entry.key), f"unknown key{self._hint_for(entry.key)}")

    def _hint_for(self, name: str) -> str:
        told = self._misnomers.get(name) or self._misnomers.get(name.replace("-", "_"))
        if told:
            return f" - {told}"

        meant = near(name, self.keys)
        if meant:
            return meant

        if name.startswith("x-") and "arguments" in self.keys:
            return f" - it belongs under arguments: arguments: {{{name}: ...}}"

        return f" - {self.what} has {', '.join(self.keys)}"


class _Collection(Shape[tuple[T_co, ...]]):
    """Several of one shape."""

    def __init__(self, expected: str, item: Shape[T_co], *, null_is_empty: bool) -> None:
        super().__init__(expected, ())
        self.item = item
        self._null_is_empty = null_is_empty
        self.is_shown = False

    def is_empty(self, node: Node) -> bool:
        """Whether this is a key whose entries are all commented out."""
        return self._null_is_empty and isinstance(node, Scalar) and _is_nothing(node)


class ListOf(_Collection[T_co]):
    """A list."""

    def __init__(
        self, what: str, item: Shape[T_co], *, minimum: int = 0, null_is_empty: bool = False
    ) -> None:
        super().__init__(f"a list of {what}", item, null_is_empty=null_is_empty)
        self._minimum = minimum

    def read(self, node: Node, at: Keys, report: Report) -> tuple[T_co, ...]:
        if self.is_empty(node):
            return ()

        if isinstance(node, MapNode):
            return self.refuse(node, at, report, "begin each entry with '- '")

        if not isinstance(node, ListNode):
            hint = "write [] for none" if _is_nothing(node) and not self._minimum else ""
            return self.refuse(node, at, report, hint or "write it in brackets: [...]")

        if len(node.items) < self._minimum:
            report.add(node.place, at, f"expected at least {self._minimum} entry, got none")

        return tuple(self._read_items(node, at, report))

    def json_schema(self) -> JSON:
        kinds: object = ["array", "null"] if self._null_is_empty else "array"
        schema: JSON = {"type": kinds, "items": self.item.json_schema()}
        if self._minimum:
            schema["minItems"] = self._minimum

        return schema

    def _read_items(self, node: ListNode, at: Keys, report: Report) -> Iterator[T_co]:
        for index, item in enumerate(node.items):
            keys = (*at, str(index))
            report.places[keys] = item.place
            yield self.item.read(item, keys, report)


def no_complaint(_name: str) -> str:
    """All names will do."""
    return ""


class NamedMap(_Collection[T_co]):
    """A mapping of names to records of one kind.

    Args:
        what: completes "expected a mapping of ...".
        item: what stands under each name.
        complain: says what is wrong with a name, nothing if nothing is.
        null_is_empty: whether the key may stand there with nothing under it.

    """

    def __init__(
        self,
        what: str,
        item: Shape[T_co],
        complain: Callable[[str], str] = no_complaint,
        *,
        null_is_empty: bool = True,
    ) -> None:
        super().__init__(f"a mapping of {what}", item, null_is_empty=null_is_empty)
        self._complain = complain

    def read(self, node: Node, at: Keys, report: Report) -> tuple[T_co, ...]:
        if self.is_empty(node):
            return ()

        if isinstance(node, ListNode):
            return self.refuse(
                node, at, report, "write 'the name: {...}' instead of '- {name: the name, ...}'"
            )

        if not isinstance(node, MapNode):
            return self.refuse(node, at, report, "write {} for none")

        return tuple(self._read_entries(node, at, report))

    def json_schema(self) -> JSON:
        kinds: object = ["object", "null"] if self._null_is_empty else "object"
        return {"type": kinds, "additionalProperties": self.item.json_schema()}

    def _read_entries(self, node: MapNode, at: Keys, report: Report) -> Iterator[T_co]:
        for entry in node.entries.values():
            keys = (*at, entry.key)
            report.places[keys] = entry.place
            complaint = self._complain(entry.key)
            if complaint:
                report.add(entry.place, keys, complaint)

            yield self.item.read(entry.value, keys, report)


def _is_secret(shape: Shape[object]) -> bool:
    return isinstance(shape.inner if isinstance(shape, Nullable) else shape, SecretText)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None
