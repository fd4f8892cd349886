"""What the outside of a broker can know of its messages, and what must never be seen there.

Every message carries a number of its own. A *copy* is a message in one queue after certain deaths;
the ledger follows each copy through deliveries and settlements. It learns of a settlement when the
client sends it, which is earlier than the broker can know; and of a delivery when the broker writes
it, which is later. So whatever it objects to is a fault, however reads and writes are delayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.topology import QueueKind

__all__ = ["Copy", "CopyState", "Ledger", "Publication"]


class Copy(NamedTuple):
    """One message in one queue; each death on the way there makes it another copy.

    Attributes:
        number: of the message.
        queue: where it is.
        trail: its deaths: queue, reason and count of each.

    """

    number: int
    queue: str
    trail: tuple[str, ...] = ()


class Publication:
    """One publish, as its client knows it.

    Attributes:
        queues: the permanent queues it is routed to.
        source: the channel it came on, and ``order`` its place there.
        perishable: whether a time to live may end it.
        is_certain: the broker must have taken it.
        is_confirmed: it has said so.
        is_void: the broker must not have taken it: rolled back, or never committed.
        is_refused: a queue that was full did not take it.
        returns: how often it came back.

    """

    def __init__(
        self, queues: frozenset[str], source: object, order: int, *, perishable: bool, priority: int
    ) -> None:
        self.queues = queues
        self.source = source
        self.order = order
        self.perishable = perishable
        self.priority = priority
        self.is_certain = False
        self.is_confirmed = False
        self.is_void = False
        self.is_refused = False
        self.returns = 0


class CopyState:
    """Where a copy is.

    Attributes:
        holder: who has it unacked, as far as the ledger knows: channel and delivery tag.
        deliveries: how often it was delivered.
        is_done: it was certainly settled for good.
        may_be_done: a settlement was sent that the broker may not have seen.
        was_rejected: that was a rejection, which makes a dead letter.

    """

    def __init__(self) -> None:
        self.holder: tuple[object, int] | None = None
        self.deliveries = 0
        self.is_done = False
        self.may_be_done = False
        self.was_rejected = False


class Ledger:
    """The book of all messages of one simulation."""

    def __init__(self) -> None:
        self.publications: list[Publication] = []
        self.copies: dict[Copy, CopyState] = {}
        # The order of the last first delivery, by receiver, queue, source and priority.
        self._last_orders: dict[tuple[object, str, object, int], int] = {}

    def publish(self, publication: Publication) -> int:
        """Enter a publish; returns its number, which its body must carry."""
        self.publications.append(publication)
        return len(self.publications) - 1

    def state_of(self, copy: Copy) -> CopyState:
        return self.copies.setdefault(copy, CopyState())

    def deliver(
        self, copy: Copy, channel: object, tag: int, *, redelivered: bool, is_closed: bool
    ) -> None:
        """A copy was written to a channel; ``is_closed`` says it ended in the same moment."""
        publication = self.publications[copy.number]
        assert not publication.is_void, f"{copy} was never committed"
        assert not publication.is_refused, f"{copy} was refused"
        state = self.state_of(copy)
        assert not state.is_done, f"{copy} was settled and came again"
        if not is_closed:
            assert state.holder is None, f"{copy} is held by {state.holder} and came to {channel}"
            state.holder = (channel, tag)

        assert redelivered == (state.deliveries > 0), f"{copy} came with redelivered={redelivered}"
        state.deliveries += 1

    def check_order(self, copy: Copy, channel: object) -> None:
        """First deliveries of a queue to one channel are in their publisher's order (OR-01)."""
        publication = self.publications[copy.number]
        if copy.trail:
            return

        line = (channel, copy.queue, publication.source, publication.priority)
        last = self._last_orders.get(line, -1)
        assert publication.order > last, f"{copy} came after {last} of {line}"
        self._last_orders[line] = publication.order

    def release(self, copy: Copy, channel: object) -> None:
        """The copy may come again: given back, or its channel is closing."""
        state = self.state_of(copy)
        if state.holder is not None and state.holder[0] is channel:
            state.holder = None

    def hold_again(self, copy: Copy, channel: object, tag: int) -> None:
        """A rollback undoes what was done with the copy (rule TX-06)."""
        state = self.copies[copy]
        state.holder = (channel, tag)
        state.may_be_done = False

    def settle(self, copy: Copy, channel: object) -> None:
        """The client has sent an ack or a rejection for good."""
        self.release(copy, channel)
        self.copies[copy].may_be_done = True

    def finish(self, copy: Copy, *, is_rejection: bool) -> None:
        """The broker has certainly taken the settlement, or it delivered without ack."""
        state = self.copies[copy]
        state.is_done = True
        state.was_rejected = is_rejection

    # -- the end

    def check_rest(self, queue: str, kind: QueueKind, rest: dict[str, list[Copy]]) -> None:
        """What is left of a permanent queue when everybody is gone.

        Args:
            queue: its name.
            kind: what it is.
            rest: what is left, by queue.

        """
        grave = kind.dead_letters_to
        ready = rest[queue]
        graved = set(rest[grave]) if grave else set()
        left = set(ready)
        assert len(left) == len(ready), f"a copy is in '{queue}' twice"
        for copy in ready:
            publication = self.publications[copy.number]
            assert not publication.is_void, f"{copy} is there and was never committed"
            assert not publication.is_refused, f"{copy} is there and was refused"
            assert not self.state_of(copy).is_done, f"{copy} was settled"

        for number, publication in enumerate(self.publications):
            if queue not in publication.queues or publication.perishable or kind.is_lossy:
                continue

            copy = Copy(number, queue)
            state = self.state_of(copy)
            is_owed = publication.is_confirmed if kind.may_refuse else publication.is_certain
            if is_owed and not state.may_be_done and not state.is_done:
                assert copy in left, f"{copy} is lost"

            if state.was_rejected and grave:
                heir = Copy(number, grave, (f"{queue} rejected 1",))
                assert heir in graved or heir in self.copies, f"{copy} made no dead letter"
