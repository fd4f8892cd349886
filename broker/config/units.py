"""Times and sizes with their units (configuration layer).

Invariant: a number without a unit is never taken for a time, since seconds and milliseconds are
both common; for a size it means bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.config.shapes import JSON, VARIABLE_SCHEMA, Shape, number_hint, octal_hint
from broker.config.tree import Scalar

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Node, Report

__all__ = ["Duration", "Size"]


class Duration(Shape[float]):
    """A time with its unit."""

    _UNITS: Final[dict[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    _FORM: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?) ?([A-Za-z]+)\Z", re.ASCII)

    def __init__(self, minimum_s: float, maximum_s: float, *, is_whole: bool = False) -> None:
        kind = "whole seconds, as 60s or 1m," if is_whole else "a time as 500ms, 30s or 10m,"
        super().__init__(f"{kind} from {minimum_s:g}s to {maximum_s:g}s", minimum_s)
        self._minimum_s = minimum_s
        self._maximum_s = maximum_s
        self._is_whole = is_whole

    def read(self, node: Node, at: Keys, report: Report) -> float:
        if not isinstance(node, Scalar) or isinstance(node.value, bool):
            return self.refuse(node, at, report)

        # A command line and a variable give numbers as texts.
        if isinstance(node.value, int | float) or node.text.isdecimal():
            if node.text == "0" and self._minimum_s == 0:
                return 0.0

            also = "" if self._is_whole else f" or {node.text}ms"
            hint = "" if node.variable else f"say the unit: {node.text}s{also}"
            return self.refuse(node, at, report, hint)

        match = self._FORM.match(node.text) if isinstance(node.value, str) else None
        unit = self._UNITS.get(match[2]) if match else None
        if match is None or unit is None:
            return self.refuse(node, at, report, "the units are ms, s, m, h and d")

        seconds = float(match[1]) * unit
        if self._is_whole and seconds != int(seconds):
            return self.refuse(node, at, report)

        if not self._minimum_s <= seconds <= self._maximum_s:
            return self.refuse(node, at, report)

        return seconds

    def json_schema(self) -> JSON:
        text: JSON = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)$"}
        return {"anyOf": [text, {"const": 0}, VARIABLE_SCHEMA]}


class Size(Shape[int]):
    """Bytes, as a number or with a unit."""

    _UNITS: Final[dict[str, int]] = {
        "B": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    }
    _FORM: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]+)\Z", re.ASCII)

    def __init__(self, minimum: int, maximum: int, *, zero: str = "") -> None:
        also = f"0 for {zero}, or " if zero else ""
        super().__init__(
            f"{also}a size as 131072, 128KiB or 16MiB from {minimum} to {maximum} bytes", minimum
        )
        self._minimum = minimum
        self._maximum = maximum
        self._has_zero = bool(zero)

    def read(self, node: Node, at: Keys, report: Report) -> int:
        size = self.size_of(node)
        if size is None:
            return self.refuse(node, at, report, self.hint(node))

        if size == 0 and self._has_zero:
            return 0

        if not self._minimum <= size <= self._maximum:
            return self.refuse(node, at, report)

        return size

    def size_of(self, node: Node) -> int | None:
        """Bytes, None where it is no size at all."""
        if not isinstance(node, Scalar) or octal_hint(node):
            return None

        value = node.value
        if isinstance(value, int) and not isinstance(value, bool):
            return value

        match = self._FORM.match(node.text) if isinstance(value, str) else None
        unit = self._UNITS.get(match[2]) if match else None
        if match is None or unit is None:
            return None

        size = float(match[1]) * unit
        return int(size) if size == int(size) else None

    def hint(self, node: Node) -> str:
        """Say what was probably meant."""
        match = self._FORM.match(node.text) if isinstance(node, Scalar) else None
        letters = match[2].lower() if match else ""
        if match is None or letters in {unit.lower() for unit in ("B", "bytes")}:
            return number_hint(node)

        if letters[0] in "kmgt" and letters in {letters[0] + end for end in ("", "b", "i", "ib")}:
            big = letters[0].upper()
            small = "k" if big == "K" else big
            return f"write {match[1]}{big}iB (powers of 1024) or {match[1]}{small}B (of 1000)"

        return "the units are B, kB, MB, GB, KiB, MiB and GiB"

    def json_schema(self) -> JSON:
        text: JSON = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([KMGT]iB|[kMGT]?B)$"}
        number: JSON = {"type": "integer", "minimum": 0, "maximum": self._maximum}
        return {"anyOf": [number, text, VARIABLE_SCHEMA]}
