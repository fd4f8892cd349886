"""What an idempotency store does. Layer: tasks; knows no broker and no task.

Invariant: of all that claim one key, one at a time holds it, and once a key is done nobody gets it
again until its time to live is over. Whoever lost a claim (its lease ran out while it was stopped,
and another took it) cannot complete it: :meth:`IdempotencyStore.complete` answers False and undoes
the effects that came with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.checks import check_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Claim", "ClaimState", "Effect", "IdempotencyStore"]

TTL_S: Final = 7 * 86400.0


class ClaimState(Enum):
    """What became of a claim."""

    OURS = "ours"
    HELD = "held"
    DONE = "done"


class Claim(NamedTuple):
    """The answer to a claim."""

    state: ClaimState
    outcome: bytes = b""
    """What was recorded when it was done."""
    wait_s: float = 0.0
    """How long whoever holds it may still take until the lease is over."""


class Effect(NamedTuple):
    """Something to be done together with the mark that a task is done, or not at all."""

    statement: str
    """SQL, or the name of a Redis command."""
    arguments: tuple[object, ...] = ()


class IdempotencyStore(ABC):
    """Remembers what has been done, for ``ttl`` seconds.

    An owner is one run of one worker. A lease is for how long an owner that is not heard of keeps
    what it claimed: a worker renews it while it lives.
    """

    is_shared: bool = True
    """Whether other processes see what is remembered."""

    has_effects: bool = False
    """Whether effects can be recorded together with the mark."""

    def __init__(self, *, ttl: float = TTL_S) -> None:
        check_seconds("ttl", ttl)
        self.ttl_s = float(ttl)

    @abstractmethod
    async def claim(self, key: str, owner: str, *, lease_s: float) -> Claim:
        """Claim ``key`` for ``owner``, unless it is done or somebody else's."""

    @abstractmethod
    async def complete(
        self, key: str, owner: str, outcome: bytes, effects: Sequence[Effect] = ()
    ) -> bool:
        """Mark as done what ``owner`` claimed; if it is not theirs, do nothing, answer False."""

    @abstractmethod
    async def release(self, key: str, owner: str) -> None:
        """Give back what ``owner`` claimed and did not complete."""

    @abstractmethod
    async def release_owner(self, owner: str) -> None:
        """Give back all that an owner that is gone claimed and did not complete."""

    @abstractmethod
    async def renew(self, owner: str, *, lease_s: float) -> None:
        """Say that ``owner`` lives, and keeps what it claimed for ``lease_s`` more seconds."""

    @abstractmethod
    async def forget(self, key: str) -> None:
        """Forget ``key``, done or not."""

    def is_away(self, problem: Exception) -> bool:
        """Say whether an error means that the store cannot be reached, for a while perhaps."""
        return isinstance(problem, OSError | TimeoutError)

    async def close(self) -> None:
        """Let go of connections and files."""
        return

    def refuse_effects(self, effects: Sequence[Effect]) -> None:
        """Raise when there are effects and this store can record none."""
        if effects and not self.has_effects:
            name = type(self).__name__
            raise TypeError(
                f"{name} cannot commit effects together with a task; Sqlite, Redis "
                "and Postgres stores can"
            )
