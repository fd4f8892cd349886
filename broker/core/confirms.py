"""Publisher confirms of one channel (rules CF-01..CF-11).

Numbers are handed out by ``next_number``; each is answered exactly once, by an ack or a nack. While
nothing is outstanding and nothing was refused, which is nearly always, the answer of a whole read
cycle is one ``basic.ack(multiple)`` and the state is two integers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.output import Output

__all__ = ["ConfirmSet", "Confirms"]


class ConfirmSet:
    """The channels whose publishers wait for an answer at the end of this cycle."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[Confirms] = []

    def flush(self) -> None:
        """Send what became ready since the last flush."""
        waiting = self.waiting
        if waiting:
            self.waiting = []
            for confirms in waiting:
                confirms.flush()


class Confirms:
    """The publish numbers of one channel in confirm mode.

    ``accept()`` counts a publish whose queues have it; ``refuse()`` one that a queue rejected
    (rule CF-07); ``hold()`` one that must wait until the log has it: ``release(number)`` says that
    it has everything held up to that number.

    Attributes:
        is_gathering: something held waits for the batch that gathers.
        last_held: the last number that was held.

    """

    __slots__ = (
        "_channel",
        "_confirm_set",
        "_held",
        "_is_waiting",
        "_output",
        "_ready",
        "_refused",
        "_run_end",
        "_run_start",
        "is_closed",
        "is_gathering",
        "last_held",
        "last_number",
        "refused_count",
    )

    def __init__(self, confirm_set: ConfirmSet, output: Output, channel: bytes) -> None:
        self._confirm_set = confirm_set
        self._output = output
        self._channel = channel
        self.last_number: i64 = 0
        # Ready to be acked: the run [start, end), and single numbers where runs broke.
        self._run_start: i64 = 1
        self._run_end: i64 = 1
        self._ready: list[int] = []
        self._refused: list[int] = []
        # Runs of numbers that are held, ascending: first and last.
        self._held: deque[tuple[int, int]] = deque()
        self._is_waiting = False
        self.is_closed = False
        self.is_gathering = False
        self.last_held: i64 = 0
        self.refused_count: i64 = 0

    def accept(self) -> None:
        """Count the next publish, to be acked at the end of the cycle."""
        number: i64 = self.last_number + 1
        self.last_number = number
        self._mark_ready(number)

    def refuse(self) -> None:
        """Count the next publish, to be nacked at the end of the cycle."""
        number: i64 = self.last_number + 1
        self.last_number = number
        self._refused.append(int(number))
        self.refused_count += 1
        self._wait()

    def hold(self) -> i64:
        """Count the next publish and keep its answer back; returns its number."""
        number: i64 = self.last_number + 1
        self.last_number = number
        held = self._held
        if self.last_held == number - 1 and held:
            held[len(held) - 1] = (held[len(held) - 1][0], int(number))
        else:
            held.append((int(number), int(number)))

        self.last_held = number
        return number

    def release(self, number: i64) -> None:
        """All that was held up to this number is to be acked."""
        held = self._held
        while held and held[0][0] <= number:
            first, last = held.popleft()
            if last > number:
                held.appendleft((int(number) + 1, last))
                last = int(number)

            self._mark_run_ready(first, last)

    def _mark_run_ready(self, first: i64, last: i64) -> None:
        if self._run_start == self._run_end:
            self._run_start = first
            self._run_end = last + 1
        elif first == self._run_end:
            self._run_end = last + 1
        else:
            self._ready.extend(range(int(first), int(last) + 1))

        self._wait()

    @property
    def unconfirmed(self) -> int:
        """How many publishes have no answer yet."""
        run: i64 = self._run_end - self._run_start
        held = sum([last - first + 1 for first, last in self._held])
        return int(run) + len(self._ready) + len(self._refused) + held

    @property
    def confirmed(self) -> int:
        """How many publishes were acked."""
        open_count = self.unconfirmed - len(self._refused)
        return int(self.last_number - self.refused_count) - open_count

    def _mark_ready(self, number: i64) -> None:
        if number == self._run_end:
            self._run_end = number + 1
        elif self._run_start == self._run_end:
            self._run_start = number
            self._run_end = number + 1
        else:
            self._ready.append(int(number))

        if not self._is_waiting:
            self._wait()

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._confirm_set.waiting.append(self)

    def flush(self) -> None:
        """Send acks, then nacks, batched as rule CF-05 says."""
        self._is_waiting = False
        if self.is_closed:
            # Rule CF-09: with the channel closed, nobody is told any more.
            return

        start: i64 = self._run_start
        end: i64 = self._run_end
        self._run_start = end
        if not self._ready and not self._refused and not self._held:
            if end - start == 1:
                self._send(80, start, 0)
            elif end > start:
                self._send(80, end - 1, 1)

            return

        ready = sorted([*self._ready, *range(start, end)])
        refused = self._refused
        self._ready = []
        self._refused = []
        if len(ready) == 1:
            self._send(80, ready[0], 0)
        else:
            self._send_batch(80, ready, refused)

        self._send_batch(120, refused, ready)

    def _send_batch(self, method: i64, numbers: list[int], others: list[int]) -> None:
        """One method for all numbers below whatever is not answered alike, single ones after."""
        if not numbers:
            return

        cutoff = self._held[0][0] if self._held else numbers[-1] + 1
        if others and others[0] < cutoff:
            cutoff = others[0]

        count = 0
        while count < len(numbers) and numbers[count] < cutoff:
            count += 1

        if count:
            self._send(method, numbers[count - 1], 1)

        for number in numbers[count:]:
            self._send(method, number, 0)

    def _send(self, method: i64, number: i64, multiple: i64) -> None:
        # RabbitMQ sets the requeue bit of its nacks, meaningless as it is (rule CF-10).
        bits: i64 = multiple if method == 80 else multiple | 2
        payload = bytes((0, 60, 0, method)) + int(number).to_bytes(8, "big") + bytes((bits,))
        self._output.send_method(self._channel, payload)
