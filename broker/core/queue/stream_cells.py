"""Core: entries of a stream that were read back from the log, for all its readers, within bounds.

They are kept in cells of neighbours, so that a reader who goes on finds the next ones there. The
cells used last stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queue.stream_segment import Entry, StreamSegment
from broker.limits import STREAM_CELLS_BYTES_MAX

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.binding import Destination
    from broker.core.journal import Journal

__all__ = ["StreamCells"]

CELL_BITS: Final = 8
CELL_COUNT: Final = 1 << CELL_BITS


class _Cell:
    __slots__ = ("entries", "size_bytes")

    def __init__(self) -> None:
        # By the lower bits of their offsets; what was not read is not there.
        self.entries: dict[int, Entry] = {}
        self.size_bytes: i64 = 0


class StreamCells:
    """What was read back of one stream.

    Args:
        journal: reads.
        holder: the stream.

    Attributes:
        size_bytes: of everything here.
        bytes_max: of it; the cell used last may be larger.

    """

    __slots__ = ("_cells", "_holder", "_journal", "_newest", "bytes_max", "size_bytes")

    def __init__(self, journal: Journal, holder: Destination) -> None:
        self._journal = journal
        self._holder = holder
        # By the upper bits of their offsets, the one used last at the end.
        self._cells: dict[int, _Cell] = {}
        self._newest: i64 = -1
        self.size_bytes: i64 = 0
        self.bytes_max: i64 = STREAM_CELLS_BYTES_MAX

    def entry_at(self, segment: StreamSegment, offset: i64) -> Entry:
        """An entry that is not in memory otherwise.

        Raises:
            StoreError: it cannot be read.

        """
        number: i64 = offset >> CELL_BITS
        cell = self._cells.get(int(number))
        if cell is None:
            cell = _Cell()
            self._cells[int(number)] = cell
        elif number != self._newest:
            self._cells[int(number)] = self._cells.pop(int(number))

        self._newest = number
        entry = cell.entries.get(int(offset & (CELL_COUNT - 1)))
        if entry is None:
            self._read(cell, segment, offset)
            self._shrink()
            entry = cell.entries[int(offset & (CELL_COUNT - 1))]

        return entry

    def _read(self, cell: _Cell, segment: StreamSegment, offset: i64) -> None:
        """Read that entry and some behind it, as many of the cell as are small together."""
        start: i64 = offset - segment.base
        cell_end: i64 = ((offset >> CELL_BITS) + 1) << CELL_BITS
        stop: i64 = min(cell_end - segment.base, segment.cold_count)
        slot: i64 = offset & (CELL_COUNT - 1)
        for message in self._journal.load(self._holder, segment.places(start, stop)):
            if int(slot) not in cell.entries:
                entry = Entry(message, None)
                cell.entries[int(slot)] = entry
                cell.size_bytes += entry.size_bytes
                self.size_bytes += entry.size_bytes

            slot += 1

    def _shrink(self) -> None:
        """Let go of the cells that were not used for longest; the one just used stays."""
        while self.size_bytes > self.bytes_max and len(self._cells) > 1:
            oldest = next(iter(self._cells))
            self.size_bytes -= self._cells.pop(oldest).size_bytes

    def clear(self) -> None:
        """Let go of everything."""
        self._cells.clear()
        self._newest = -1
        self.size_bytes = 0
