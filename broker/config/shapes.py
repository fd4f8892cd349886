"""What a value of the configuration may look like: reading it, and describing it to editors
(configuration layer).

Invariant: ``read`` never raises; it reports what is wrong and returns a value of the right type, so
that everything independent of it is still checked. Whoever reads throws the result away when there
was a problem.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from broker.auth.permissions import compile_pattern
from broker.config.tree import Node, Report, Scalar, found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.config.problems import Keys

__all__ = [
    "JSON",
    "NAME_BYTES_MAX",
    "VARIABLE_SCHEMA",
    "Boolean",
    "Choice",
    "Integer",
    "Name",
    "Nullable",
    "Pattern",
    "SecretText",
    "Shape",
    "Text",
    "free_hint",
    "near",
    "number_hint",
    "octal_hint",
]

T_co = TypeVar("T_co", covariant=True)

JSON = dict[str, object]

NAME_BYTES_MAX: Final = 255
"""Names travel as short strings (AMQP 0-9-1 §4.2.5.3)."""

VARIABLE_SCHEMA: Final[JSON] = {"$ref": "#/definitions/variable"}
"""Any scalar may be taken from the environment, so editors must let it pass as text."""

_COMPARED_MAX: Final = 2000
"""Names a misspelt one is compared with: beyond, the hint would take longer than it saves."""

_BOOLEAN_WORDS: Final = frozenset({"yes", "no", "on", "off", "y", "n"})
_OCTAL_LOOKING: Final = re.compile(r"[-+]?0[0-9]+\Z")
_UNDERSCORED: Final = re.compile(r"[-+]?[0-9][0-9_]*\Z")


class Shape(Generic[T_co]):
    """What one kind of value looks like."""

    expected: str
    """Completes "expected ..."."""

    fallback: T_co
    """Returned where there is no better value."""

    is_shown = True
    """Whether an error may repeat what stands there."""

    def __init__(self, expected: str, fallback: T_co) -> None:
        self.expected = expected
        self.fallback = fallback

    def read(self, node: Node, at: Keys, report: Report) -> T_co:
        raise NotImplementedError

    def json_schema(self) -> JSON:
        raise NotImplementedError

    def refuse(self, node: Node, at: Keys, report: Report, hint: str = "") -> T_co:
        """Report that something else was expected."""
        if isinstance(node, Scalar):
            if node.is_broken:
                return self.fallback

            hint = hint or node.hint

        message = f"expected {self.expected}, got {found(node, is_shown=self.is_shown)}"
        report.add(node.place, at, f"{message} - {hint}" if hint else message)
        return self.fallback


class Boolean(Shape[bool]):
    def __init__(self) -> None:
        super().__init__("true or false", False)

    def read(self, node: Node, at: Keys, report: Report) -> bool:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value

        return self.refuse(node, at, report, self._hint(node))

    def json_schema(self) -> JSON:
        return {"anyOf": [{"type": "boolean"}, VARIABLE_SCHEMA]}

    def _hint(self, node: Node) -> str:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            if node.text.lower() in {"true", "false"}:
                return f"write {node.text.lower()}, without quotes and in lower case"

            if node.text.lower() in _BOOLEAN_WORDS:
                return "YAML 1.2 booleans are true and false"

        return ""


class Integer(Shape[int]):
    """A whole number within bounds."""

    def __init__(self, minimum: int, maximum: int, expected: str = "a whole number") -> None:
        bounds = f"from {minimum} to {maximum}" if minimum < maximum else str(minimum)
        super().__init__(f"{expected} {bounds}", minimum)
        self.minimum = minimum
        self.maximum = maximum

    def read(self, node: Node, at: Keys, report: Report) -> int:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool):
            return self.refuse(node, at, report, number_hint(node))

        if octal_hint(node):
            return self.refuse(node, at, report, octal_hint(node))

        if not self.minimum <= value <= self.maximum:
            return self.refuse(node, at, report)

        return value

    def json_schema(self) -> JSON:
        bounds: JSON = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {"anyOf": [bounds, VARIABLE_SCHEMA]}


class Nullable(Shape[T_co | None]):
    """A limit that ``null`` (and -1, as RabbitMQ writes it) takes away (rule PM-30)."""

    def __init__(self, inner: Shape[T_co], meaning: str = "no limit") -> None:
        super().__init__(f"{inner.expected}, or null for {meaning}", None)
        self.inner = inner
        inner.expected = self.expected

    def read(self, node: Node, at: Keys, report: Report) -> T_co | None:
        if isinstance(node, Scalar):
            is_minus_one = node.value == -1 and isinstance(self.inner, Integer)
            is_comment = bool(node.hint) and isinstance(self.inner, Text)
            if (node.value is None and not is_comment) or is_minus_one:
                return None

        return self.inner.read(node, at, report)

    def json_schema(self) -> JSON:
        minus_one: list[JSON] = [{"const": -1}] if isinstance(self.inner, Integer) else []
        return {"anyOf": [self.inner.json_schema(), *minus_one, {"type": "null"}]}


class Text(Shape[str]):
    """Text of bounded length."""

    def __init__(self, expected: str = "a text", *, bytes_max: int = 4096) -> None:
        super().__init__(expected, "")
        self.bytes_max = bytes_max

    def read(self, node: Node, at: Keys, report: Report) -> str:
        if not isinstance(node, Scalar) or not (isinstance(node.value, str) or node.variable):
            return self.refuse(node, at, report, quote_hint(node))

        try:
            size = len(node.text.encode("utf-8"))
        except UnicodeEncodeError:
            return self.refuse(node, at, report, "it holds half a surrogate pair")

        if size > self.bytes_max:
            report.add(
                node.place, at, f"expected at most {self.bytes_max} bytes of UTF-8, got {size}"
            )
            return self.fallback

        return self.accept(node, at, report)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        """Judge a text of the right length."""
        return node.text

    def json_schema(self) -> JSON:
        return {"type": "string", "maxLength": self.bytes_max}


class Name(Text):
    """The name of something: not empty, a short string on the wire."""

    def __init__(self, expected: str = "a name") -> None:
        super().__init__(expected, bytes_max=NAME_BYTES_MAX)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if not node.text:
            return self.refuse(node, at, report, "it must not be empty")

        return node.text

    def json_schema(self) -> JSON:
        return {"type": "string", "minLength": 1, "maxLength": self.bytes_max}


class Choice(Text):
    """One of a few words."""

    def __init__(self, *options: str, is_shown: bool = True) -> None:
        super().__init__(_one_of(options))
        self.options = options
        self.fallback = options[0]
        self.is_shown = is_shown

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if node.text in self.options:
            return node.text

        for option in self.options:
            if option.lower() == node.text.lower():
                return self.refuse(node, at, report, f"write {option}, upper and lower case count")

        hint = "" if node.variable else near(node.text, self.options).removeprefix(" - ")
        return self.refuse(node, at, report, hint)

    def json_schema(self) -> JSON:
        return {"anyOf": [{"enum": list(self.options)}, VARIABLE_SCHEMA]}


class Pattern(Text):
    """A regular expression."""

    def __init__(self) -> None:
        super().__init__("a regular expression as a text", bytes_max=4 * 4096)

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        try:
            compile_pattern(node.text)
        except ValueError as error:
            shown = found(node)
            report.add(node.place, at, f"{shown} is not a regular expression: {error}")
            return self.fallback

        return node.text

    def json_schema(self) -> JSON:
        return {"type": "string"}


class SecretText(Text):
    """Text that no error repeats."""

    is_shown = False

    def __init__(self, expected: str) -> None:
        super().__init__(expected)

    def json_schema(self) -> JSON:
        return {"type": "string", "minLength": 1}


def _one_of(options: tuple[str, ...]) -> str:
    if len(options) == 1:
        return options[0]

    return f"{', '.join(options[:-1])} or {options[-1]}"


def near(name: str, names: Iterable[str]) -> str:
    """Say which of the names was probably meant; begins with the dash, empty if none was."""
    # Imported when there is something to complain about: starting does not pay for it.
    from difflib import get_close_matches

    folded = {known.lower().replace("-", "_"): known for known in islice(names, _COMPARED_MAX)}
    asked = name[:NAME_BYTES_MAX].lower().replace("-", "_")
    matches = get_close_matches(asked, folded, n=1, cutoff=0.6)
    return f" - did you mean {folded[matches[0]]!r}?" if matches else ""


def quote_hint(node: Node) -> str:
    """For a number or a truth value where a text should be."""
    if isinstance(node, Scalar) and node.value is not None and not isinstance(node.value, str):
        return "put it in quotes to make it a text" if node.is_plain else "make it a str"

    return ""


def octal_hint(node: Node) -> str:
    """For a number that YAML 1.1 and YAML 1.2 read differently."""
    if isinstance(node, Scalar) and node.is_plain and _OCTAL_LOOKING.match(node.text):
        return (
            "with a leading zero it is octal to some readers of YAML and decimal to others"
            f" - write {int(node.text)}, or quote it if it is a text"
        )

    return ""


def number_hint(node: Node) -> str:
    """For a text that was meant to be a number."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return ""

    if node.text.isdecimal():
        return "remove the quotes" if not node.variable else ""

    if _UNDERSCORED.match(node.text):
        return f"YAML 1.2 numbers have no underscores: {node.text.replace('_', '')}"

    return ""


def free_hint(node: Node) -> str:
    """For a value whose type nothing but its looks decide."""
    if not isinstance(node, Scalar) or not node.is_plain:
        return ""

    if isinstance(node.value, str) and node.text.lower() in _BOOLEAN_WORDS - {"y", "n"}:
        return "write true or false, or quote it if it is a text"

    return octal_hint(node) or number_hint(node)
