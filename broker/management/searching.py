"""Searching many names for a pattern, a little at a time (management layer).

A pattern that could run away is searched for by a machine that takes up to a fifth of a second for
one name. Where there are thousands, others get their turn in between, and there is an end.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from broker.management.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.auth.patterns import KnowingPattern
    from broker.core.vhost import VirtualHost

__all__ = ["SEARCH_S", "SEARCH_TURN_S", "SearchTurn", "names_in", "search_ahead"]

SEARCH_TURN_S: Final = 0.002
"""How long names are searched for a pattern until others have their turn."""

SEARCH_S: Final = 2.0
"""Of the loop's time that one request may search. A hundred thousand names and a usual pattern take
a twentieth; what was found out is remembered, so who asks again gets further."""


class SearchTurn:
    """Looks at the time a search takes."""

    __slots__ = ("_began_s", "_spent_s")

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._spent_s = 0.0

    def is_over(self) -> bool:
        """Whether it is somebody else's turn."""
        return time.perf_counter() - self._began_s > SEARCH_TURN_S

    async def give(self) -> None:
        """Let others have theirs.

        Raises:
            BadRequest: it took too long already.

        """
        self._spent_s += time.perf_counter() - self._began_s
        if self._spent_s > SEARCH_S:
            raise BadRequest("the pattern takes too long on names that there are")

        await asyncio.sleep(0)
        self._began_s = time.perf_counter()


def names_in(vhost: VirtualHost) -> list[str]:
    """What policies may be about."""
    return [*vhost.queues, *vhost.exchanges]


async def search_ahead(regex: KnowingPattern, names: Iterable[str]) -> None:
    """Have the pattern of a policy know of names, before the policy is set in one go.

    Those that are told quickly are left for then; usual patterns cost nothing here.

    Raises:
        BadRequest: it takes too long.

    """
    if regex.is_quick():
        return

    turn = SearchTurn()
    for name in names:
        if not regex.is_quick(name):
            regex.matches(name)
            if turn.is_over():
                await turn.give()
