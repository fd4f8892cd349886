"""What a verb shows, in the form that was asked for (cli layer).

Results go to standard output, what went wrong and how far something is to standard error.
"""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.cli.ctl.terms import as_cell, as_erlang, as_json, compact_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["FORMATS", "Done", "Facts", "Lines", "Printer", "Result", "Rows", "Value"]

FORMATS: Final = ("table", "json", "csv", "pretty_table", "erlang")
BARE_FORMATS: Final = frozenset({"json", "csv"})
"""Forms for programs, which have nothing but the result on standard output."""


class Rows(NamedTuple):
    """A table.

    Attributes:
        columns: their names.
        rows: values in that order; read once.
        is_blank_shown: whether a table without rows is an empty line.
        has_header: whether the names are shown at all.

    """

    columns: Sequence[str]
    rows: Iterable[Sequence[object]]
    is_blank_shown: bool = False
    has_header: bool = True


class Facts(NamedTuple):
    """What programs see as an object, and people as text."""

    value: dict[str, object]
    text: str


class Value(NamedTuple):
    """A text that is the result."""

    text: str


class Done(NamedTuple):
    """It is done.

    Attributes:
        text: what there is to say of it; may be empty.
        is_hushed: whether --quiet leaves it out.

    """

    text: str = ""
    is_hushed: bool = False


class Lines(NamedTuple):
    """Lines that are shown as they come, whatever the form."""

    lines: Iterable[str]


Result = Rows | Facts | Value | Done | Lines


class Printer:
    """Writes in one form.

    Args:
        form: one of FORMATS.
        is_quiet: no word but the result.
        has_headers: whether tables have their first line.

    """

    def __init__(self, form: str = "table", *, is_quiet: bool = False, has_headers: bool = True):
        self.form = form
        self.is_quiet = is_quiet
        self.has_headers = has_headers

    @property
    def is_hushed(self) -> bool:
        """Whether there is no word but the result."""
        return self.is_quiet or self.form in BARE_FORMATS

    def say(self, text: str) -> None:
        """A line for people: what is being done."""
        if not self.is_hushed:
            self._write(text)

    def warn(self, text: str) -> None:
        """A line for people that is no part of the result, and no error."""
        if not self.is_hushed:
            sys.stdout.flush()
            sys.stderr.write(f"Warning: {printable(text)}\n")

    def show(self, result: Result) -> None:
        """The result, in its form."""
        if isinstance(result, Rows):
            self._show_rows(result)
        elif isinstance(result, Lines):
            for line in result.lines:
                self._write(line)
        elif isinstance(result, Facts):
            self._show_facts(result)
        else:
            self._show_text(result)

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{printable(text)}\n")

    def _show_text(self, result: Value | Done) -> None:
        if self.form == "json":
            facts = {"message": result.text} if result.text else {}
            self._write(compact_json({**facts, "result": "ok"}))
        elif isinstance(result, Value) or (
            result.text and not (self.is_quiet and result.is_hushed)
        ):
            self._write(result.text)

    def _show_facts(self, facts: Facts) -> None:
        if self.form == "json":
            self._write(compact_json(facts.value))
        elif self.form == "erlang":
            self._write(as_erlang(facts.value))
        else:
            self._write(facts.text)

    def _show_rows(self, table: Rows) -> None:
        if self.form == "json":
            self._show_json(table)
        elif self.form == "csv":
            self._show_csv(table)
        elif self.form == "erlang":
            self._show_erlang(table)
        elif self.form == "pretty_table":
            self._show_boxes(table)
        else:
            self._show_table(table)

    def _show_table(self, table: Rows) -> None:
        is_first = True
        for row in table.rows:
            if is_first and table.has_header and self.has_headers:
                self._write("\t".join(table.columns))

            is_first = False
            self._write("\t".join(map(as_cell, row)))

        if is_first and table.is_blank_shown:
            self._write("")

    def _show_json(self, table: Rows) -> None:
        lead = ""
        self._write("[")
        for row in table.rows:
            facts = dict(zip(table.columns, map(as_json, row), strict=True))
            self._write(f"{lead}{compact_json(facts)}")
            lead = ","

        self._write("]")

    def _show_csv(self, table: Rows) -> None:
        is_first = True
        for row in table.rows:
            if is_first and self.has_headers:
                self._write(_csv_line(table.columns))

            is_first = False
            self._write(_csv_line([_csv_value(value) for value in row]))

    def _show_erlang(self, table: Rows) -> None:
        lines = [
            ",".join(
                f"{{{name.replace('-', '_')},{as_erlang(value)}}}"
                for name, value in zip(table.columns, row, strict=True)
            )
            for row in table.rows
        ]
        joined = "],\n [".join(lines)
        self._write(f"[[{joined}]]" if lines else "[]")

    def _show_boxes(self, table: Rows) -> None:
        cells = [[as_cell(value).expandtabs() for value in row] for row in table.rows]
        if not cells:
            return

        heads = [list(table.columns)] if self.has_headers else []
        widths = [max(map(len, column)) for column in zip(*heads, *cells, strict=True)]
        bars = ["─" * (width + 2) for width in widths]
        lines = [
            "│" + "│".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True))
            for row in (*heads, *cells)
        ]
        between = f"├{'┼'.join(bars)}┤"
        self._write(f"┌{'┬'.join(bars)}┐")
        for number, line in enumerate(lines):
            if number:
                self._write(between)

            self._write(f"{line}│")

        self._write(f"└{'┴'.join(bars)}┘")


def _csv_value(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else as_cell(value)


def _csv_line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_NONNUMERIC, lineterminator="").writerow(values)
    return line.getvalue()
