"""How many may come in at a time, how fast, and how long the unknown may stand about. Layer: net.

A socket that has not logged in costs its client nothing. So only so many of them may be open, and
when there is one more, the one goes that has been there for longest: a client that means it has
logged in long before, however many others only hold the door.

Invariant: bounded, whoever comes. Time is passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from broker.auth.guard import ENTRIES_MAX, network_of

if TYPE_CHECKING:
    from broker.protocol.link import Peer

__all__ = ["Turnstile", "TurnstileRules"]

BURST_S: Final = 2
"""So many seconds' worth may come at once, where nobody came before: all the clients of a machine
that has been cut off."""

DISGRACE_COST: Final = 20
"""A connection that comes to nothing before the login counts as so many of its address: it costs
the broker as much as any other, and by this no source has more than ten of them a second."""

T = TypeVar("T")


class TurnstileRules(NamedTuple):
    """What holds; None is no limit.

    Attributes:
        handshakes_max: who has not logged in, at a time.
        per_source_max: connections from one address, at a time.
        rate_max: new connections a second of one listener.
        rate_per_source_max: new connections a second from one address.

    """

    handshakes_max: int = 2_048
    per_source_max: int | None = None
    rate_max: int | None = None
    rate_per_source_max: int | None = 200


class _Rate:
    """So many in a second, for each name.

    Args:
        most: of these, for some time; a few times as many may come at once.

    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int | None) -> None:
        self._most = most
        # Oldest first: how many more may come, and when that was.
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, name: str, now_s: float) -> bool:
        """Count one more; False where it is one too many."""
        if self._most is None:
            return True

        left = self._take(name, now_s)
        self._keep(name, left - 1 if left >= 1 else left, now_s)
        return left >= 1

    def charge(self, name: str, cost: int, now_s: float) -> None:
        """Count some more that were not asked about; a debt is no more than one second's worth."""
        if self._most is not None:
            left = self._take(name, now_s) - cost
            self._keep(name, max(left, -float(self._most)), now_s)

    def _take(self, name: str, now_s: float) -> float:
        """How many more may come."""
        most = self._most or 0
        burst = float(most * BURST_S)
        left, at_s = self._left.pop(name, (burst, now_s))
        return min(burst, left + (now_s - at_s) * most)

    def _keep(self, name: str, left: float, now_s: float) -> None:
        if len(self._left) >= ENTRIES_MAX:
            del self._left[next(iter(self._left))]

        self._left[name] = (left, now_s)

    def __len__(self) -> int:
        return len(self._left)


class Turnstile(Generic[T]):
    """Counts who comes and goes.

    Args:
        rules: what holds.

    """

    __slots__ = ("_by_source", "_rate", "_rate_by_source", "_rules", "_sources", "_unknown")

    def __init__(self, rules: TurnstileRules) -> None:
        self._rules: Final = rules
        self._rate = _Rate(rules.rate_max)
        self._rate_by_source = _Rate(rules.rate_per_source_max)
        # Who has not logged in, the longest there first; and how many there are of each address.
        self._unknown: dict[T, None] = {}
        self._sources: dict[T, str] = {}
        self._by_source: dict[str, int] = {}

    def haste(self, host: str, listener: str, now_s: float) -> str:
        """Why somebody from that address may not come in yet at that listener; empty otherwise."""
        if not self._rate.allows(listener, now_s):
            return "too many new connections in a second (limits.connection_rate)"

        source = network_of(host)
        if source and not self._rate_by_source.allows(source, now_s):
            return (
                "too many new connections from its address in a second"
                " (limits.connection_rate_per_source)"
            )

        return ""

    def charge(self, host: str, now_s: float) -> None:
        """A connection from that address has come to nothing."""
        source = network_of(host)
        if source:
            self._rate_by_source.charge(source, DISGRACE_COST - 1, now_s)

    def refusal(self, peer: Peer) -> str:
        """Why a newcomer may not come in, however slowly; empty where it may."""
        source = network_of(peer.host)
        most = self._rules.per_source_max
        if source and most is not None and self._by_source.get(source, 0) >= most:
            return "too many connections from its address (limits.connections_per_source)"

        return ""

    def enter(self, who: T, peer: Peer) -> T | None:
        """Somebody is in whom nobody knows yet; returns who has to go for that."""
        source = network_of(peer.host)
        if source and self._rules.per_source_max is not None:
            self._sources[who] = source
            self._by_source[source] = self._by_source.get(source, 0) + 1

        self._unknown[who] = None
        if len(self._unknown) <= self._rules.handshakes_max:
            return None

        oldest = next(iter(self._unknown))
        del self._unknown[oldest]
        return oldest

    def settled(self, who: T) -> None:
        """Somebody has logged in."""
        self._unknown.pop(who, None)

    def leave(self, who: T) -> None:
        """Somebody is gone."""
        self._unknown.pop(who, None)
        source = self._sources.pop(who, None)
        if source is None:
            return

        count = self._by_source[source] - 1
        if count:
            self._by_source[source] = count
        else:
            del self._by_source[source]

    @property
    def unknown_count(self) -> int:
        """How many have not logged in."""
        return len(self._unknown)
