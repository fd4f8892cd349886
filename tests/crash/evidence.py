"""What the clients know of their messages, over all ends of the broker, and what must hold of it.

A publication goes to some *places*: each is one queue, or several of which just one has the message
at any time, since the broker moves it from one to the other in one step. That the broker has taken
an acknowledgement nobody tells, so a settled message may come again; a confirmed one must not be
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Evidence", "Key", "Publication"]

FAULTS_MAX = 20
"""As many are worth reading."""


class Key(NamedTuple):
    """Names a publication: its body begins with this."""

    publisher: str
    number: int


class Publication:
    """One publish.

    Attributes:
        places: where it must be, each any of some queues.
        era: how many unclean ends there were before.
        is_confirmed: the broker has said that it has it.

    """

    __slots__ = ("era", "is_confirmed", "places")

    def __init__(self, places: tuple[tuple[str, ...], ...], era: int) -> None:
        self.places = places
        self.era = era
        self.is_confirmed = False


class Evidence:
    """The book of all messages of one trial.

    Attributes:
        era: unclean ends so far.
        run: the broker's, the first is 0.
        faults: what must not have happened.
        unread: queues that nobody has consumed from yet.

    """

    def __init__(self, unread: set[str]) -> None:
        self.era = 0
        self.run = 0
        self.faults: list[str] = []
        self.unread = unread
        self.publications: dict[Key, Publication] = {}
        self.delivery_count = 0
        self._numbers: dict[str, int] = {}
        self._groups: list[tuple[list[Key], list[bool]]] = []
        # The run of the last delivery; and of that without redelivered.
        self._seen: dict[tuple[str, Key], int] = {}
        self._fresh: set[tuple[str, Key]] = set()
        self._settled: set[tuple[str, Key]] = set()
        self._finished: set[tuple[str, Key]] = set()
        self._left: dict[tuple[str, Key], int] = {}
        # By receiver and publisher: the number that came last for the first time.
        self._last: dict[tuple[object, str], int] = {}

    def _object(self, fault: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"run {self.run}, era {self.era}: {fault}")

    # -- what the clients do

    def publish(self, publisher: str, places: tuple[tuple[str, ...], ...], size: int) -> bytes:
        """Enter a publish; returns its body."""
        number = self._numbers.get(publisher, 0) + 1
        self._numbers[publisher] = number
        self.publications[Key(publisher, number)] = Publication(places, self.era)
        return f"{publisher} {number} ".encode().ljust(size, b".")

    def confirm(self, publisher: str, number: int, *, is_ack: bool = True) -> None:
        """The broker has answered a publish."""
        if is_ack:
            self.publications[Key(publisher, number)].is_confirmed = True
        else:
            self._object(f"{publisher} {number} got a nack")

    def group(self, keys: list[Key]) -> list[bool]:
        """Enter a transaction; append True to what is returned when it is committed."""
        answer: list[bool] = []
        self._groups.append((keys, answer))
        return answer

    def deliver(self, queue: str, body: bytes, receiver: object, *, redelivered: bool) -> Key:
        """Enter a delivery; receivers are what sees a publisher's messages in order."""
        self.delivery_count += 1
        publisher, number, _ = body.split(b" ", 2)
        key = Key(publisher.decode(), int(number))
        copy = (queue, key)
        publication = self.publications[key]
        name = f"{key.publisher} {key.number} of {queue}"
        if copy in self._finished:
            self._object(f"{name} came although it was settled for good")

        last = self._seen.get(copy)
        # What was given back by one connection may be read before what that one was sent.
        is_again = copy in self._fresh or (last is not None and last < self.run)
        if not redelivered:
            self._fresh.add(copy)
            if is_again:
                self._object(f"{name} came again without redelivered, after that in run {last}")

        if last is not None:
            self._seen[copy] = self.run
            return key

        self._seen[copy] = self.run
        is_safe = queue in self.unread and publication.era == self.era
        if is_safe and redelivered:
            self._object(f"{name} has redelivered, and it was never delivered")

        source = (receiver, key.publisher)
        if self._last.get(source, 0) > key.number:
            self._object(f"{name} came after {self._last[source]}")

        self._last[source] = max(self._last.get(source, 0), key.number)
        return key

    def settle(self, queue: str, key: Key) -> None:
        """A client has acknowledged a message."""
        self._settled.add((queue, key))

    def finish(self, queue: str, key: Key) -> None:
        """The broker has said that a message is settled."""
        self._finished.add((queue, key))

    def leave(self, queue: str, key: Key) -> None:
        """A message was there at the very end."""
        copy = (queue, key)
        self._left[copy] = self._left.get(copy, 0) + 1

    # -- what must hold at the end

    @property
    def confirmed_count(self) -> int:
        return sum(one.is_confirmed for one in self.publications.values())

    def check(self) -> None:
        """Everything was drained: look for what is missing and for what is there twice."""
        for key, publication in self.publications.items():
            for place in publication.places:
                self._check_place(key, publication, place)

        for keys, answer in self._groups:
            self._check_group(keys, is_committed=bool(answer))

        assert not self.faults, "\n".join(self.faults)

    def _check_place(self, key: Key, publication: Publication, place: tuple[str, ...]) -> None:
        copies = [(queue, key) for queue in place]
        count = sum(self._left.get(copy, 0) for copy in copies)
        name = f"{key.publisher} {key.number} of {' or '.join(place)}"
        if count > 1:
            self._object(f"{name} is there {count} times")

        is_known = count or any(copy in self._settled for copy in copies)
        if publication.is_confirmed and not is_known:
            self._object(f"{name} is lost, it was published in era {publication.era}")

    def _check_group(self, keys: list[Key], *, is_committed: bool) -> None:
        for queue in sorted(self._untouched(keys)):
            count = sum((queue, key) in self._left for key in keys)
            if count not in ({len(keys)} if is_committed else {0, len(keys)}):
                names = f"{keys[0].publisher} {keys[0].number}..{keys[-1].number}"
                self._object(f"of the transaction {names} {count} messages are in {queue}")

    def _untouched(self, keys: list[Key]) -> Iterator[str]:
        """The queues that show what became of a transaction, as nobody took anything out."""
        places = self.publications[keys[0]].places
        return (place[0] for place in places if len(place) == 1 and place[0] in self.unread)
