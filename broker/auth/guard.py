"""Holds back whoever tries passwords (auth layer).

Each failed login is a drop in two buckets, that of the address it came from and that of the user it
was for, and both leak. Who asks while a bucket is full is refused without a look at the password,
in the same words. A user's bucket does not hold back an address from which that user came in
before: to lock somebody out of where they work takes more than failing in their name.

Clients of this machine are not held back by address, and wait for nothing: all of them have one.

Invariant: bounded, whoever knocks. Time is passed in.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

__all__ = ["ENTRIES_MAX", "LoginGuard", "network_of"]

ENTRIES_MAX: Final = 10_000
"""Addresses, and users, whose failures are remembered; beyond, those go that failed longest ago.
A megabyte or two."""

NETWORKS_KEPT_MAX: Final = 1_024
"""Addresses whose network is remembered: to find it takes as long as to close a socket unheard."""

_IPV6_PREFIX: Final = 64
"""What one household or machine has: it may choose any address in it."""


class _Buckets:
    """One bucket a name.

    Args:
        most: failures that fill one; None for no bound.
        period_ms: in which a full one leaks dry.

    """

    __slots__ = ("_levels", "_most", "_period_ms")

    def __init__(self, most: int | None, period_ms: int) -> None:
        self._most = most
        self._period_ms = period_ms
        # Oldest first: how full, and when that was.
        self._levels: dict[str, tuple[float, int]] = {}

    def level(self, name: str, now_ms: int) -> float:
        found = self._levels.get(name)
        if found is None or self._most is None:
            return 0.0

        level, at_ms = found
        return max(0.0, level - self._most * (now_ms - at_ms) / self._period_ms)

    def is_full(self, name: str, now_ms: int) -> bool:
        return self._most is not None and self.level(name, now_ms) > self._most - 1

    def add(self, name: str, now_ms: int) -> None:
        if self._most is None:
            return

        level = self.level(name, now_ms) + 1
        self._levels.pop(name, None)
        if len(self._levels) >= ENTRIES_MAX:
            del self._levels[next(iter(self._levels))]

        self._levels[name] = (level, now_ms)

    def __len__(self) -> int:
        return len(self._levels)


class LoginGuard:
    """Counts failed logins.

    Args:
        per_source_max: failures of one address in a period; None for no bound.
        per_user_max: failures for one user in a period, from wherever; None for no bound.
        period_ms: how long it takes until they are forgotten.
        delay_ms: how long an answer to a failed login takes at least.

    """

    __slots__ = ("_known", "_sources", "_users", "delay_ms")

    def __init__(
        self,
        *,
        per_source_max: int | None = None,
        per_user_max: int | None = None,
        period_ms: int = 60_000,
        delay_ms: int = 0,
    ) -> None:
        self.delay_ms: Final = delay_ms
        self._sources = _Buckets(per_source_max, period_ms)
        self._users = _Buckets(per_user_max, period_ms)
        # Who came in from where, the longest ago first.
        self._known: dict[tuple[str, str], None] = {}

    def refusal(self, source: str, user: str, now_ms: int) -> str:
        """Why nobody looks at the password; empty where somebody does."""
        network = network_of(source)
        if network and self._sources.is_full(network, now_ms):
            return "too many failed logins from this address (auth.failed_logins_per_source)"

        if (network, user) not in self._known and self._users.is_full(user, now_ms):
            return "too many failed logins of this user (auth.failed_logins_per_user)"

        return ""

    def failed(self, source: str, user: str, now_ms: int) -> None:
        """A password was wrong, or there is no such user."""
        network = network_of(source)
        if network:
            self._sources.add(network, now_ms)

        if (network, user) not in self._known:
            self._users.add(user, now_ms)

    def succeeded(self, source: str, user: str) -> None:
        """Somebody came in."""
        pair = (network_of(source), user)
        self._known.pop(pair, None)
        if len(self._known) >= ENTRIES_MAX:
            del self._known[next(iter(self._known))]

        self._known[pair] = None

    def delay_of(self, source: str) -> int:
        """How many milliseconds an answer takes at least that is no."""
        return self.delay_ms if network_of(source) else 0

    def __len__(self) -> int:
        return len(self._sources) + len(self._users) + len(self._known)


@lru_cache(maxsize=NETWORKS_KEPT_MAX)
def network_of(source: str) -> str:
    """Whom an address counts for: an IPv4 address alone, an IPv6 network; nothing for loopback."""
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source

    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))

    return "" if address.is_loopback else str(address)
