"""What a broker with a log must be: a plain model of queues, in lists, without any log.

The model says what is in every queue after each step, in which order, and with what history; and
what of that has to be there after a crash (`Picture`). Of time it knows the wall's alone.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "BOUND_EXCHANGES",
    "CLASSIC",
    "KINDS",
    "POLICIES",
    "QUORUM",
    "RANKED",
    "Copy",
    "Kind",
    "Model",
    "ModelQueue",
    "Picture",
    "QueuePicture",
    "Row",
]

CLASSIC: Final = "classic"
RANKED: Final = "ranked"
QUORUM: Final = "quorum"
PRIORITY_MAX: Final = 5
QUORUM_ABSENT: Final = 4
QUORUM_MAX: Final = 31


class Kind(NamedTuple):
    """What a queue is declared as.

    Attributes:
        type: CLASSIC, RANKED (with priorities) or QUORUM.
        ttl_ms: of its messages.
        grave: the queue that its dead letters go to.
        length_max: messages.
        refuses: what is too much is refused, not dropped at the head.
        delivery_limit: returns of a message that are survived.
        durable: it outlives the broker.
        for_consumers: whether anybody may subscribe to it; otherwise they get.
        anywhere: its messages expire in any place.
        is_ordered: whether it is known in which order messages come to it.

    """

    type: str = CLASSIC
    ttl_ms: int | None = None
    grave: str | None = None
    length_max: int | None = None
    refuses: bool = False
    delivery_limit: int | None = None
    durable: bool = True
    for_consumers: bool = True
    anywhere: bool = False
    is_ordered: bool = True

    def arguments(self) -> dict[str, object]:
        """As they are declared."""
        pairs: dict[str, object | None] = {
            "x-queue-type": "quorum" if self.type == QUORUM else None,
            "x-max-priority": PRIORITY_MAX if self.type == RANKED else None,
            "x-message-ttl": self.ttl_ms,
            "x-dead-letter-exchange": None if self.grave is None else "",
            "x-dead-letter-routing-key": self.grave,
            "x-max-length": self.length_max,
            "x-overflow": "reject-publish" if self.refuses else None,
            "x-delivery-limit": self.delivery_limit,
            "x-ttl-anywhere": self.anywhere or None,
        }
        return {key: value for key, value in pairs.items() if value is not None}


KINDS: Final = {
    "plain": Kind(),
    "work": Kind(grave="wait"),
    "wait": Kind(ttl_ms=70, grave="work", for_consumers=False),
    "ranked": Kind(type=RANKED),
    "brief": Kind(ttl_ms=170, grave="grave-of-brief"),
    "anywhere": Kind(type=RANKED, ttl_ms=570, grave="grave-of-anywhere", anywhere=True),
    "short": Kind(length_max=6, grave="grave-of-short", for_consumers=False),
    "narrow": Kind(length_max=5, refuses=True, for_consumers=False),
    "quorum": Kind(type=QUORUM, delivery_limit=2, grave="grave-of-quorum"),
    "fleeting": Kind(durable=False),
    "grave-of-brief": Kind(for_consumers=False),
    "grave-of-anywhere": Kind(for_consumers=False, is_ordered=False),
    "grave-of-short": Kind(type=QUORUM, for_consumers=False),
    # Of messages of several levels that are over time at once, nobody says which goes first.
    "grave-of-quorum": Kind(for_consumers=False, is_ordered=False),
    "grave-of-plain": Kind(for_consumers=False),
}
"""Every queue that dies of time has a grave of its own: which of two goes first is nobody's
business."""

POLICIES: Final[dict[str, dict[str, object]]] = {
    "short-lived": {"message-ttl": 270},
    "buried": {
        "message-ttl": 270,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "grave-of-plain",
    },
    "bounded": {
        "max-length": 8,
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "grave-of-plain",
    },
}
"""By name; all of them are for the queue "plain", and one is set at a time, under one name."""

BOUND_EXCHANGES: Final = {"fan": "fanout", "dir": "direct", "late": "x-delayed-message"}


class Copy:
    """One message in one queue, or one that waits in an exchange.

    Attributes:
        number: what its body begins with.
        persistent: its delivery mode.
        priority: its property; -1 is none.
        deadline: when its time is over, on the wall, in milliseconds; 0 is never.
        trail: its deaths, newest first: queue, reason, count.
        first: its first death: queue and reason.
        returns: how often it was given back, where that is counted.
        position: in the queue.
        step: when it came to where it is.

    """

    __slots__ = (
        "_row",
        "deadline",
        "first",
        "number",
        "persistent",
        "position",
        "priority",
        "redelivered",
        "returns",
        "size",
        "step",
        "trail",
    )

    def __init__(self, number: int, size: int, *, persistent: bool, priority: int) -> None:
        self.number = number
        self.size = size
        self.persistent = persistent
        self.priority = priority
        self.deadline = 0
        self.trail: tuple[tuple[str, str, int], ...] = ()
        self.first: tuple[str, str] | None = None
        self.returns = 0
        self.redelivered = False
        self.position = 0
        self.step = 0
        self._row: Row | None = None

    def twin(self) -> Copy:
        """The same for another queue."""
        twin = Copy(self.number, self.size, persistent=self.persistent, priority=self.priority)
        twin.trail = self.trail
        twin.first = self.first
        return twin

    def row(self) -> Row:
        """What of it has to be there again; it has come to where it is."""
        row = self._row
        if row is None:
            row = Row(
                self.number,
                self.size,
                self.persistent,
                self.priority,
                self.deadline,
                self.trail,
                self.first,
            )
            self._row = row

        return row

    def die(self, queue: str, reason: str) -> None:
        """Add a death to the trail (rule DL-06)."""
        times = 1
        rest = []
        for entry in self.trail:
            if entry[:2] == (queue, reason):
                times += entry[2]
            else:
                rest.append(entry)

        self.trail = ((queue, reason, times), *rest)
        if self.first is None:
            self.first = (queue, reason)


class Row(NamedTuple):
    """A message as it outlives the broker."""

    number: int
    size: int
    persistent: bool
    priority: int
    deadline: int
    trail: tuple[tuple[str, str, int], ...]
    first: tuple[str, str] | None

    def copy(self) -> Copy:
        """It, back in a queue."""
        copy = Copy(self.number, self.size, persistent=self.persistent, priority=self.priority)
        copy.deadline = self.deadline
        copy.trail = self.trail
        copy.first = self.first
        return copy


class QueuePicture(NamedTuple):
    """A queue as it outlives the broker.

    Attributes:
        kind: as declared.
        levels: the messages that were never counted as given back, in order, by level.
        marks: which of these were delivered before, if the broker stops in good order.
        front: those that were given back and are ready, with their counts, in order.
        held: those that were given back, and are with somebody again, with their counts.

    """

    kind: Kind
    levels: dict[int, tuple[Row, ...]]
    marks: dict[int, tuple[bool, ...]]
    front: tuple[tuple[Row, int], ...]
    held: frozenset[tuple[Row, int]]


class Picture(NamedTuple):
    """All that outlives the broker."""

    queues: dict[str, QueuePicture]
    exchanges: frozenset[str]
    bindings: frozenset[tuple[str, str, str]]
    policy: str | None
    delayed: tuple[tuple[int, str, Row], ...]


class Delayed(NamedTuple):
    """A message that waits in an exchange: since when it is due on the wall, and its number."""

    due: int
    number: int
    key: str
    copy: Copy
    batch: int


class ModelQueue:
    """A queue: what is ready, and what somebody has."""

    def __init__(self, model: Model, name: str, kind: Kind) -> None:
        self.model = model
        self.name = name
        self.kind = kind
        self.levels: dict[int, list[Copy]] = {}
        self.back: list[Copy] = []
        self.unacked: dict[Copy, None] = {}
        self.is_deleted = False
        self._position = 0
        # The last one, while nothing has changed since.
        self._picture: QueuePicture | None = None

    # -- settings

    def _policy(self) -> dict[str, object]:
        policy = self.model.policy
        return POLICIES[policy] if self.name == "plain" and policy is not None else {}

    @property
    def ttl_ms(self) -> int | None:
        policy = self._policy().get("message-ttl")
        assert policy is None or isinstance(policy, int)
        return self.kind.ttl_ms if policy is None else policy

    @property
    def length_max(self) -> int | None:
        policy = self._policy().get("max-length")
        assert policy is None or isinstance(policy, int)
        return self.kind.length_max if policy is None else policy

    @property
    def grave(self) -> str | None:
        policy = self._policy().get("dead-letter-routing-key")
        assert policy is None or isinstance(policy, str)
        return self.kind.grave if policy is None else policy

    # -- order

    def level_of(self, copy: Copy) -> int:
        if self.kind.type == RANKED:
            return min(max(copy.priority, 0), PRIORITY_MAX)

        if self.kind.type == QUORUM:
            return min(copy.priority if copy.priority >= 0 else QUORUM_ABSENT, QUORUM_MAX)

        return 0

    def ready(self) -> list[Copy]:
        """In serving order."""
        found = list(self.back)
        for level in sorted(self.levels, reverse=True):
            found += self.levels[level]

        return found

    def _head(self) -> Copy | None:
        if self.back:
            return self.back[0]

        filled = [level for level, copies in self.levels.items() if copies]
        return self.levels[max(filled)][0] if filled else None

    def _remove(self, copy: Copy) -> None:
        self._picture = None
        if copy in self.back:
            self.back.remove(copy)
        else:
            self.levels[self.level_of(copy)].remove(copy)

    def is_kept(self, copy: Copy) -> bool:
        """Whether the copy is to be there after a crash."""
        return self.kind.durable and (copy.persistent or self.kind.type == QUORUM)

    # -- what happens

    def enqueue(self, copy: Copy, ttl_ms: int | None) -> bool:
        """Take a message in; False when it is refused."""
        length_max = self.length_max
        count = len(self.ready())
        if self.kind.refuses and length_max is not None and count + 1 > length_max:
            return False

        own = self.ttl_ms
        if own is not None and (ttl_ms is None or own < ttl_ms):
            ttl_ms = own

        if ttl_ms is not None:
            copy.deadline = self.model.now + ttl_ms

        self._picture = None
        self._position += 1
        copy.position = self._position
        copy.step = self.model.step
        self.levels.setdefault(self.level_of(copy), []).append(copy)
        self.model.touched |= self.is_kept(copy)
        self.expire()
        self._drop()
        return True

    def _drop(self) -> None:
        length_max = self.length_max
        if length_max is None or self.kind.refuses or len(self.ready()) <= length_max:
            return

        while len(self.ready()) > length_max:
            head = self._head()
            assert head is not None
            self._remove(head)
            self.bury(head, "maxlen")

        # What was hidden behind that may be over time.
        self.expire()

    def settings_changed(self) -> None:
        self._drop()

    def bury(self, copy: Copy, reason: str) -> None:
        """A copy has left; it goes to its grave, if there is one."""
        self.model.touched |= self.is_kept(copy)
        grave = self.model.queues.get(self.grave or "")
        if grave is None:
            return

        letter = copy.twin()
        letter.die(self.name, reason)
        if reason == "rejected" or not _is_cycle(letter.trail, grave.name):
            grave.enqueue(letter, None)

    def take(self, number: int) -> Copy:
        """A delivery: it must be that of the head, but for what came in the same step."""
        for copy in self.ready():
            if copy.number == number:
                self._remove(copy)
                return copy

            is_free = copy.step == self.model.step or not self.kind.is_ordered
            assert is_free, f"{number} overtakes {copy.number} in {self.name}"

        raise AssertionError(f"{number} is delivered from {self.name}, and is not there")

    def hold(self, copy: Copy) -> None:
        """Somebody has it now."""
        self._picture = None
        self.unacked[copy] = None

    def give_back(self, copies: list[Copy]) -> None:
        """Some were given back: each to its place, or (quorum) in front of all."""
        self._picture = None
        for copy in copies:
            del self.unacked[copy]
            if self.is_deleted:
                continue

            copy.redelivered = True
            copy.step = self.model.step
            if self.kind.type != QUORUM:
                insort(self.levels.setdefault(self.level_of(copy), []), copy, key=_position_of)
                continue

            copy.returns += 1
            limit = self.kind.delivery_limit
            if copy.returns > (20 if limit is None else limit):
                self.bury(copy, "delivery_limit")
            else:
                self.back.append(copy)
                self.model.touched = True

        if not self.is_deleted:
            self.expire()
            self._drop()

    def settle(self, copy: Copy, *, is_rejected: bool) -> None:
        """Somebody who had it is done with it."""
        self._picture = None
        del self.unacked[copy]
        if self.is_deleted:
            return

        self.model.touched |= self.is_kept(copy)
        if is_rejected:
            self.bury(copy, "rejected")

    def expire(self) -> None:
        """Bury what is over time, where it can be seen."""
        now = self.model.now
        if self.kind.anywhere:
            over = [one for one in self.ready() if 0 < one.deadline <= now]
            for copy in sorted(over, key=_lifetime_of):
                self._remove(copy)
                self.bury(copy, "expired")

            return

        if self.kind.type == QUORUM:
            for copies in (self.back, *self.levels.values()):
                while copies and 0 < copies[0].deadline <= now:
                    self._picture = None
                    self.bury(copies.pop(0), "expired")

            return

        head = self._head()
        while head is not None and 0 < head.deadline <= now:
            self._remove(head)
            self.bury(head, "expired")
            head = self._head()

    def purge(self) -> int:
        self._picture = None
        count = len(self.ready())
        self.model.touched |= self.kind.durable and count > 0
        self.levels.clear()
        self.back.clear()
        return count

    # -- pictures

    def picture(self) -> QueuePicture:
        """What of it has to be there if the broker dies now."""
        if self._picture is None:
            self._picture = self._new_picture()

        return self._picture

    def _new_picture(self) -> QueuePicture:
        found: dict[int, list[Copy]] = {}
        front: list[tuple[Row, int]] = []
        held: list[tuple[Row, int]] = []
        for copy in [*self.ready(), *self.unacked]:
            if not self.is_kept(copy):
                continue

            if copy.returns:
                kind = held if copy in self.unacked else front
                kind.append((copy.row(), copy.returns))
            else:
                found.setdefault(self.level_of(copy), []).append(copy)

        levels: dict[int, tuple[Row, ...]] = {}
        marks: dict[int, tuple[bool, ...]] = {}
        for level, copies in found.items():
            copies.sort(key=_position_of)
            levels[level] = tuple(copy.row() for copy in copies)
            marks[level] = tuple(copy.redelivered or copy in self.unacked for copy in copies)

        return QueuePicture(self.kind, levels, marks, tuple(front), frozenset(held))

    def restore(self, picture: QueuePicture, order: list[int], *, is_clean: bool) -> None:
        """Have what was in a picture.

        Args:
            picture: the one.
            order: the numbers of the messages that were given back, as they are to be served now:
                those that were held may have come between the others.
            is_clean: whether it is known which others were delivered before.

        """
        for level, rows in picture.levels.items():
            copies = self.levels.setdefault(level, [])
            for row, mark in zip(rows, picture.marks[level], strict=True):
                copy = row.copy()
                copy.redelivered = mark or not is_clean
                self._position += 1
                copy.position = self._position
                copies.append(copy)

        returned = {row.number: (row, count) for row, count in (*picture.front, *picture.held)}
        assert set(order) <= set(returned), f"{self.name}: {order} were given back"
        # Those whose time was over by then have come and gone.
        order = [*(number for number in returned if number not in order), *order]
        front = [row.number for row, _ in picture.front]
        assert [number for number in order if number in front] == front, f"{self.name}: order"
        for number in order:
            row, count = returned[number]
            copy = row.copy()
            copy.redelivered = True
            copy.returns = count
            self._position += 1
            copy.position = self._position
            self.back.append(copy)


def _lifetime_of(copy: Copy) -> tuple[int, int]:
    return (copy.deadline, copy.position)


def _position_of(copy: Copy) -> int:
    return copy.position


def _is_cycle(trail: Iterable[tuple[str, str, int]], target: str) -> bool:
    """Rule DL-11."""
    for queue, reason, _ in trail:
        if reason == "rejected":
            return False

        if queue == target:
            return True

    return False


class Model:
    """A virtual host.

    Attributes:
        now: on the wall, in milliseconds.
        step: counts what the simulation does.
        touched: in this step something changed that outlives the broker.
        safe: the last batch that the broker knows to be safe.

    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.step = 0
        self.touched = False
        self.queues: dict[str, ModelQueue] = {}
        self.exchanges: set[str] = set()
        # Times that one with delays was deleted: what was published to it before is lost.
        self.lives: int = 0
        self.bindings: set[tuple[str, str, str]] = set()
        self.policy: str | None = None
        self.safe = 0
        self.delayed: list[Delayed] = []
        self._delayed_count = 0

    # -- declarations

    def declare(self, name: str, kind: Kind) -> None:
        if name not in self.queues:
            self.queues[name] = ModelQueue(self, name, kind)
            self.touched |= kind.durable

    def delete(self, name: str) -> None:
        queue = self.queues.pop(name)
        queue.is_deleted = True
        self.touched |= queue.kind.durable
        self.bindings = {one for one in self.bindings if one[1] != name}

    def declare_exchange(self, name: str) -> None:
        self.touched |= name not in self.exchanges
        self.exchanges.add(name)

    def delete_exchange(self, name: str) -> None:
        self.touched |= name in self.exchanges
        self.exchanges.discard(name)
        self.bindings = {one for one in self.bindings if one[0] != name}
        if name == "late":
            self.delayed.clear()
            self.lives += 1

    def bind(self, exchange: str, queue: str, key: str) -> None:
        binding = (exchange, queue, key)
        self.touched |= binding not in self.bindings and self.queues[queue].kind.durable
        self.bindings.add(binding)

    def unbind(self, exchange: str, queue: str, key: str) -> None:
        binding = (exchange, queue, key)
        self.touched |= binding in self.bindings and self.queues[queue].kind.durable
        self.bindings.discard(binding)

    def set_policy(self, name: str | None) -> None:
        self.touched |= name is not None or self.policy is not None
        self.policy = name
        if "plain" in self.queues:
            self.queues["plain"].settings_changed()

    # -- messages

    def route(self, exchange: str, key: str) -> list[ModelQueue]:
        """Which queues a message to that address reaches."""
        if exchange == "":
            names = [key]
        elif BOUND_EXCHANGES[exchange] == "fanout":
            names = [queue for source, queue, _ in self.bindings if source == exchange]
        else:
            names = [one[1] for one in self.bindings if one[::2] == (exchange, key)]

        return [self.queues[name] for name in sorted({*names}) if name in self.queues]

    def publish(self, copy: Copy, targets: Iterable[ModelQueue], ttl_ms: int | None) -> bool:
        """Put a message into queues; False when one refused it."""
        is_taken = True
        for queue in targets:
            if not queue.is_deleted and not queue.enqueue(copy.twin(), ttl_ms):
                is_taken = False

        return is_taken

    def delay(self, copy: Copy, key: str, delay_ms: int, batch: int) -> None:
        """Let a message wait in its exchange, but not less long than for its batch."""
        self._delayed_count += 1
        copy.deadline = self.now + delay_ms
        self.delayed.append(Delayed(copy.deadline, self._delayed_count, key, copy, batch))
        self.delayed.sort()
        self.touched = True

    def tick(self) -> None:
        """Time has come to something."""
        due = [one for one in self.delayed if one.due <= self.now and one.batch <= self.safe]
        for one in due:
            self.delayed.remove(one)
            self.touched = True
            self.publish(one.copy, self.route("late", one.key), None)

        for queue in list(self.queues.values()):
            queue.expire()

    def copies(self, number: int) -> Iterator[Copy]:
        """The copies of a message that have to be there after a crash."""
        for queue in self.queues.values():
            for copy in [*queue.ready(), *queue.unacked]:
                if copy.number == number and queue.is_kept(copy):
                    yield copy

        yield from (one.copy for one in self.delayed if one.copy.number == number)

    # -- pictures

    def picture(self) -> Picture:
        """What has to be there if the broker dies now."""
        durable = {name for name, queue in self.queues.items() if queue.kind.durable}
        return Picture(
            {name: self.queues[name].picture() for name in self.queues if name in durable},
            frozenset(self.exchanges),
            frozenset(one for one in self.bindings if one[1] in durable),
            self.policy,
            tuple((one.due, one.key, one.copy.row()) for one in self.delayed),
        )

    def restore(self, picture: Picture, orders: dict[str, list[int]], *, is_clean: bool) -> None:
        """Be what a broker is that has found all that again; its queues in that order."""
        assert set(orders) == set(picture.queues), "durable queues"
        self.exchanges = set(picture.exchanges)
        self.bindings = set(picture.bindings)
        self.policy = picture.policy
        for name, order in orders.items():
            queue_picture = picture.queues[name]
            queue = ModelQueue(self, name, queue_picture.kind)
            queue.restore(queue_picture, order, is_clean=is_clean)
            self.queues[name] = queue

        for due, key, row in picture.delayed:
            self._delayed_count += 1
            self.delayed.append(Delayed(due, self._delayed_count, key, row.copy(), 0))

    def settle_down(self) -> None:
        """Time went on while nobody was there."""
        for queue in list(self.queues.values()):
            queue.expire()
            queue.settings_changed()
