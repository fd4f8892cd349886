"""Mappings whose keys nobody here knows: arguments and policy definitions (configuration layer).

Invariant: a value whose type only its looks decide must look unmistakable; whether the key exists
and the value suits it is for the core to judge.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from broker.config.shapes import JSON, Shape, free_hint
from broker.config.tree import ListNode, MapNode, Node, Report, Scalar, found
from broker.wire.tables import table_from_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.config.problems import Keys
    from broker.wire.tables import Arguments

__all__ = ["Plain", "Table"]

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class Plain(Shape[dict[str, object]]):
    """A mapping of anything, as JSON would hold it (rule DE-11)."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected, {})

    def read(self, node: Node, at: Keys, report: Report) -> dict[str, object]:
        if isinstance(node, Scalar) and node.value is None:
            return {}

        if not isinstance(node, MapNode):
            return self.refuse(node, at, report)

        return {
            key: self._value(entry.value, (*at, key), report) for key, entry in node.entries.items()
        }

    def json_schema(self) -> JSON:
        return {"type": ["object", "null"]}

    def _value(self, node: Node, at: Keys, report: Report) -> object:
        if isinstance(node, MapNode):
            return {
                key: self._value(entry.value, (*at, key), report)
                for key, entry in node.entries.items()
            }

        if isinstance(node, ListNode):
            return [
                self._value(item, (*at, str(index)), report)
                for index, item in enumerate(node.items)
            ]

        value = node.value if isinstance(node, Scalar) else None
        hint = free_hint(node)
        if hint:
            report.add(node.place, at, f"{found(node)} is ambiguous - {hint}")
        elif value is None or (isinstance(value, float) and not math.isfinite(value)):
            hint = node.hint if isinstance(node, Scalar) else ""
            message = f"expected a value, got {found(node)}"
            report.add(node.place, at, f"{message} - {hint or 'leave the key out'}")
        elif isinstance(value, int) and not _INT64_MIN <= value <= _INT64_MAX:
            report.add(node.place, at, f"{found(node)} does not fit 64 bits")

        return value


class Table(Shape["Arguments"]):
    """Arguments of an exchange, queue or binding (rule DE-11)."""

    def __init__(self) -> None:
        super().__init__("a mapping of argument names to values", {})
        self._plain = Plain(self.expected)

    def read(self, node: Node, at: Keys, report: Report) -> Arguments:
        count = report.problems_count
        plain: Mapping[str, object] = self._plain.read(node, at, report)
        if report.problems_count != count:
            return {}

        try:
            return table_from_plain(plain)
        except ValueError as error:
            report.add(node.place, at, f"cannot become an AMQP table: {error}")
            return {}

    def json_schema(self) -> JSON:
        return self._plain.json_schema()
