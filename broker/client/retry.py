"""Toolkit: whether and when to try again. Used by consumers, pumps and tasks alike.

Invariant: nothing here touches a message, a clock or a broker; a policy is asked and answers.
"""

from __future__ import annotations

import logging
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from broker.client.calling import failure_of, is_of
from broker.client.checks import check_count, check_seconds, shown
from broker.client.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NO_RETRY", "Backoff", "Exponential", "Fixed", "Linear", "Retry", "check_backoff"]

logger: Final = logging.getLogger("leveret.client")

WAIT_S_MAX: Final = 49 * 86400.0
"""No message can wait longer."""

EXPONENT_MAX: Final = 1000
"""2.0 to the power of more than that is not a float any more."""


@runtime_checkable
class Backoff(Protocol):
    """How long to wait after the n-th failure, n from 1. Write your own if none here fits."""

    def wait(self, failures: int, chance: float) -> float:
        """Return seconds. ``chance`` is a random number from 0 up to but not including 1."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same wait each time."""

    delay: float = 1.0
    jitter: float = 0.0
    """A share of the wait by which it may be shorter or longer: 0.1 is ten percent either way."""

    def __post_init__(self) -> None:
        check_seconds("delay", self.delay, is_zero_ok=True)
        _check_share("jitter", self.jitter)

    def wait(self, failures: int, chance: float) -> float:
        """See :class:`Backoff`."""
        return _spread(self.delay, self.jitter, chance)


@dataclass(frozen=True, slots=True)
class Linear:
    """``first``, ``first + step``, ``first + 2 * step``... and never more than ``cap``."""

    first: float = 1.0
    step: float = 1.0
    cap: float = 60.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("first", "step", "cap"):
            check_seconds(name, getattr(self, name), is_zero_ok=True)

        _check_cap(self.first, self.cap)
        _check_share("jitter", self.jitter)

    def wait(self, failures: int, chance: float) -> float:
        """See :class:`Backoff`."""
        wanted = min(self.first + self.step * (max(failures, 1) - 1), self.cap)
        return min(_spread(wanted, self.jitter, chance), self.cap)


@dataclass(frozen=True, slots=True)
class Exponential:
    """``first``, ``first * factor``, ``first * factor ** 2``... and never more than ``cap``."""

    first: float = 1.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        for name in ("first", "cap"):
            check_seconds(name, getattr(self, name), is_zero_ok=True)

        is_number = isinstance(self.factor, int | float) and not isinstance(self.factor, bool)
        if not is_number or not 1 <= self.factor < math.inf:
            raise InvalidValue(f"factor is to be at least 1, not {shown(self.factor)}")

        _check_cap(self.first, self.cap)
        _check_share("jitter", self.jitter)

    def wait(self, failures: int, chance: float) -> float:
        """See :class:`Backoff`."""
        exponent = min(max(failures, 1) - 1, EXPONENT_MAX)
        try:
            wanted = min(self.first * self.factor**exponent, self.cap)
        except OverflowError:
            wanted = self.cap

        return min(_spread(wanted, self.jitter, chance), self.cap)


@dataclass(frozen=True, slots=True)
class Retry:
    """What to do when handling a message has failed.

    ``Retry(3, Fixed(10), on=(OSError,))`` handles a message at most three times, ten seconds apart,
    and gives up at once on anything but an :class:`OSError`.

    Args:
        attempts: how often a message is handled at most, the first time included. Three attempts
            are two retries: :meth:`retries` counts the other way.
        backoff: how long to wait in between.
        on: the exceptions that are worth another attempt.
        never: the exceptions that are not, even if they are of a class in ``on``.

    """

    attempts: int = 5
    backoff: Backoff = field(default_factory=Exponential)
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts)
        check_backoff(self.backoff)
        for name in ("on", "never"):
            object.__setattr__(self, name, _as_classes(name, getattr(self, name)))

    @classmethod
    def retries(cls, count: int, backoff: Backoff | None = None) -> Retry:
        """Return a policy of ``count`` attempts after the first one."""
        check_count("retries", count, low=0)
        return cls(count + 1, Exponential() if backoff is None else backoff)

    def allows(self, error: BaseException | None) -> bool:
        """Say whether this error is worth another attempt, however many there were.

        An error that is not known, None, is: somebody said "failed" without a reason.
        """
        if error is None:
            return True

        return is_of(error, self.on) and not is_of(error, self.never)

    def next_delay(
        self,
        attempt: int,
        error: BaseException | None = None,
        *,
        chance: Callable[[], float] = random.random,
    ) -> float | None:
        """Return the seconds to wait before the next attempt; None to give up.

        Args:
            attempt: which attempt has just failed, counted from 1.
            error: what it failed with.
            chance: where random numbers from 0 to 1 come from.

        """
        if attempt >= self.attempts or not self.allows(error):
            return None

        try:
            wait = float(self.backoff.wait(attempt, chance()))
        except BaseException as problem:
            # One of a user's own. Without an answer the message would be neither here nor there.
            logger.error(
                "%r does not say how long to wait, so this was the last attempt",
                self,
                exc_info=failure_of(problem),
            )
            return None

        return min(wait, WAIT_S_MAX) if wait > 0 else 0.0


def _spread(wait: float, jitter: float, chance: float) -> float:
    return wait * (1 + jitter * (2 * chance - 1))


def _check_cap(first: float, cap: float) -> None:
    """Refuse a first wait that would be cut to a cap, which by default nobody has thought of."""
    if first > cap:
        raise InvalidValue(f"first is {first:g} seconds, and no wait is longer than cap, {cap:g}")


def _check_share(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidValue(f"{name} is to be a share between 0 and 1, not {shown(value)}")


def check_backoff(value: object) -> None:
    """Refuse what does not say how long to wait."""
    if not isinstance(value, Backoff):
        raise InvalidValue(
            f"backoff is Fixed, Linear or Exponential, or has their wait(), not {shown(value)}"
        )


def _as_classes(name: str, value: object) -> tuple[type[BaseException], ...]:
    """Accept one class for a tuple of one: it is what one writes without thinking."""
    classes = value if isinstance(value, tuple) else (value,)
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidValue(f"{name} is to list classes of exceptions, not {shown(one)}")

    return classes


NO_RETRY: Final = Retry(attempts=1)
"""One attempt, and then it is dead."""
