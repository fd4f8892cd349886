"""Prints transcripts of several brokers side by side."""

from __future__ import annotations

import difflib
import itertools
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["side_by_side"]

GAP: Final = " | "
EMPTY: Final = "-"


def side_by_side(transcripts: Mapping[str, Sequence[str]], width: int) -> Iterator[str]:
    """Yield the rows in which the transcripts differ, a column for each.

    Args:
        transcripts: the lines by the name of the broker; the first is what the others are laid
            against.
        width: how wide the whole may be.

    """
    names = list(transcripts)
    column = max(20, (width - len(GAP) * (len(names) - 1)) // len(names))
    yield GAP.join(name.ljust(column) for name in names).rstrip()
    yield GAP.join("-" * column for _ in names)
    for cells in _rows([list(lines) for lines in transcripts.values()]):
        if len(set(cells)) > 1:
            yield from _wrapped(cells, column)


def _rows(transcripts: list[list[str]]) -> Iterator[list[str]]:
    """Lay every transcript against the first; a row has one line of each, or a dash."""
    first = transcripts[0]
    places = [_placed(first, other) for other in transcripts[1:]]
    for index in range(len(first) + 1):
        # Lines that only others have come before the line they were found at.
        extra = [place.get((index, False), []) for place in places]
        for lines in itertools.zip_longest(*extra, fillvalue=EMPTY):
            yield [EMPTY, *lines]

        if index < len(first):
            yield [first[index]] + [place.get((index, True), [EMPTY])[0] for place in places]


def _placed(first: list[str], other: list[str]) -> dict[tuple[int, bool], list[str]]:
    placed: dict[tuple[int, bool], list[str]] = {}
    matcher = difflib.SequenceMatcher(a=first, b=other, autojunk=False)
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        for index, line in enumerate(other[other_start:other_end]):
            if start + index < end:
                placed[start + index, True] = [line]
            else:
                placed.setdefault((end, False), []).append(line)

    return placed


def _wrapped(cells: Sequence[str], column: int) -> Iterator[str]:
    wrapped = [textwrap.wrap(cell, column, subsequent_indent="  ") or [""] for cell in cells]
    for parts in itertools.zip_longest(*wrapped, fillvalue=""):
        yield GAP.join(part.ljust(column) for part in parts).rstrip()
