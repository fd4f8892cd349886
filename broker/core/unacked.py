"""The deliveries of one channel that wait for their settlement, in the order of their tags.

A list in tag order with a moving head. Without gaps the place of a tag is the distance from the
head's tag, so single acks in any order cost the same; gaps (deliveries without ack take tags too,
rule CO-09) are found by bisection. An entry settled out of order leaves its bare tag behind as a
hole; holes are swept out when they are the majority, so memory follows what is really unacked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import Message

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["Unacked"]

SWEEP_MIN: Final = 64
"""Settled entries below this number are not worth a sweep."""


class Unacked:
    """Messages by delivery tag. Every tag added must be greater than all before it."""

    __slots__ = ("_entries", "_head", "count")

    def __init__(self) -> None:
        # A Message, or the int tag of one that has been settled out of order.
        self._entries: list[object] = []
        self._head: i64 = 0
        self.count: i64 = 0

    def add(self, message: Message) -> None:
        """Remember a delivery under ``message.delivery_tag``."""
        self._entries.append(message)
        self.count += 1

    def take(self, tag: i64) -> Message | None:
        """Remove and return the delivery with this tag; None when it is not unacked."""
        entries = self._entries
        head: i64 = self._head
        size: i64 = len(entries)
        if head == size:
            return None

        entry = entries[head]
        assert isinstance(entry, Message)
        if entry.delivery_tag == tag:
            self._advance(head + 1)
            self.count -= 1
            return entry

        place: i64 = self._find(tag)
        if place < 0:
            return None

        found = entries[place]
        assert isinstance(found, Message)
        entries[place] = int(tag)
        self.count -= 1
        self._sweep()
        return found

    def take_until(self, tag: i64) -> list[Message] | None:
        """Remove and return all deliveries up to this tag; None when it is not unacked itself.

        Rule A-01: the tag named by a multiple ack must be unacked, those below it need not be.

        """
        place: i64 = self._find(tag)
        if place < 0:
            return None

        taken = self._messages(self._head, place + 1)
        self.count -= len(taken)
        self._advance(place + 1)
        return taken

    def take_all(self) -> list[Message]:
        """Remove and return everything, in order (rule A-02, and the end of a channel)."""
        taken = self._messages(self._head, len(self._entries))
        self._entries = []
        self._head = 0
        self.count = 0
        return taken

    def peek(self, tag: i64, multiple: bool) -> list[Message]:
        """What a settlement of this tag would take, left where it is."""
        if multiple and tag != 0 and self._find(tag) < 0:
            return []

        everything = self.messages()
        if multiple:
            return [one for one in everything if tag == 0 or one.delivery_tag <= tag]

        return [one for one in everything if one.delivery_tag == tag]

    def messages(self) -> list[Message]:
        """Everything, in order, left where it is."""
        return self._messages(self._head, len(self._entries))

    def part(self, tag: i64, count: i64) -> list[Message]:
        """The first so many from this tag on, in order, left where they are."""
        entries = self._entries
        place: i64 = self._place_from(tag, self._head, len(entries))
        found: list[Message] = []
        while place < len(entries) and len(found) < count:
            entry = entries[place]
            if isinstance(entry, Message):
                found.append(entry)

            place += 1

        return found

    def restore(self, messages: list[Message]) -> None:
        """Put back deliveries taken before, under their old tags (rule TX-06)."""
        current = self._messages(self._head, len(self._entries))
        merged = sorted(current + messages, key=_tag_of)
        entries: list[object] = []
        entries.extend(merged)
        self._entries = entries
        self._head = 0
        self.count = len(merged)

    def oldest(self) -> Message | None:
        """The delivery that has waited longest (rule MA-10)."""
        if self._head == len(self._entries):
            return None

        entry = self._entries[self._head]
        assert isinstance(entry, Message)
        return entry

    def _messages(self, start: i64, stop: i64) -> list[Message]:
        found: list[Message] = []
        entries = self._entries
        place: i64 = start
        while place < stop:
            entry = entries[place]
            if isinstance(entry, Message):
                found.append(entry)

            place += 1

        return found

    def _advance(self, head: i64) -> None:
        """Move the head to the first entry from ``head`` on that is unacked."""
        entries = self._entries
        size: i64 = len(entries)
        while head < size and not isinstance(entries[head], Message):
            head += 1

        if head == size:
            entries.clear()
            self._head = 0
        elif head >= SWEEP_MIN and head * 2 >= size:
            del entries[:head]
            self._head = 0
        else:
            self._head = head

    def _find(self, tag: i64) -> i64:
        """The place of an unacked tag, or -1."""
        entries = self._entries
        low: i64 = self._head
        high: i64 = len(entries)
        if low == high:
            return -1

        guess: i64 = low + tag - _tag_at(entries, low)
        if low <= guess < high and _tag_at(entries, guess) == tag:
            return guess if isinstance(entries[guess], Message) else -1

        low = self._place_from(tag, low, high)
        if low < len(entries):
            entry = entries[low]
            if isinstance(entry, Message) and entry.delivery_tag == tag:
                return low

        return -1

    def _place_from(self, tag: i64, low: i64, high: i64) -> i64:
        """The first place from ``low`` to ``high`` whose tag is not below this one."""
        entries = self._entries
        while low < high:
            middle: i64 = (low + high) // 2
            if _tag_at(entries, middle) < tag:
                low = middle + 1
            else:
                high = middle

        return low

    def _sweep(self) -> None:
        """Drop the holes once they are the majority."""
        entries = self._entries
        span: i64 = len(entries) - self._head
        if span - self.count < SWEEP_MIN or span < self.count * 2:
            return

        kept: list[object] = []
        kept.extend(self._messages(self._head, len(entries)))
        self._entries = kept
        self._head = 0


def _tag_at(entries: list[object], place: i64) -> i64:
    entry = entries[place]
    if isinstance(entry, Message):
        return entry.delivery_tag

    assert isinstance(entry, int)
    return entry


def _tag_of(message: Message) -> int:
    return message.delivery_tag
