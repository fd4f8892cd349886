"""Toolkit: when something is to happen. One vocabulary for messages, tasks and periodic tasks.

Invariant: nothing here reads a clock; the moment is passed in, and moments know their time zone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from broker.client.checks import shown
from broker.client.cron import CronTimes, parse_cron
from broker.client.errors import InvalidSchedule

__all__ = ["At", "Cron", "Delay", "Every", "Schedule", "When", "as_schedule", "seconds_until"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHIFT_MAX: Final = timedelta(hours=3)
"""No clock is put back by more."""


class Schedule(ABC):
    """When something is to happen: :class:`Delay`, :class:`At`, :class:`Every` or :class:`Cron`.

    The classes may be used as they are, or by way of these names::

        Schedule.delay(30)
        Schedule.at(datetime(2030, 1, 1, tzinfo=UTC))
        Schedule.every(300)
        Schedule.cron("0 6 * * mon-fri", tz="Europe/Berlin")
    """

    __slots__ = ()

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after ``moment``, which has to have a time zone; None for never.

        Whoever schedules one thing calls this once, with the present. Whoever schedules something
        periodic calls it again with each answer.
        """

    @staticmethod
    def delay(seconds: float | timedelta) -> Delay:
        """Once, so many seconds after the moment that is asked about."""
        return Delay(seconds)

    @staticmethod
    def at(moment: datetime) -> At:
        """Once, at this moment; at once, if it has passed."""
        return At(moment)

    @staticmethod
    def every(seconds: float | timedelta) -> Every:
        """Again and again, so many seconds apart."""
        return Every(seconds)

    @staticmethod
    def cron(expression: str, tz: str | tzinfo = "UTC") -> Cron:
        """At the times that a cron expression names, on the clocks of a time zone."""
        return Cron(expression, tz)


@dataclass(frozen=True, slots=True)
class Delay(Schedule):
    """Once, so many seconds later."""

    seconds: float | timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _as_seconds("a delay", self.seconds, is_zero_ok=True))

    def next_after(self, moment: datetime) -> datetime:
        """Return ``moment`` and the delay."""
        return _aware(moment) + _as_timedelta(self.seconds)


@dataclass(frozen=True, slots=True)
class At(Schedule):
    """Once, at a moment, which has to have a time zone. A moment that has passed is now."""

    moment: datetime

    def __post_init__(self) -> None:
        _aware(self.moment)

    def next_after(self, moment: datetime) -> datetime:
        """Return the moment; ``moment`` itself if that is later."""
        return max(_aware(moment), self.moment)


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """Again and again, ``seconds`` apart, counted from 1970: so everybody counts the same ticks."""

    seconds: float | timedelta

    def __post_init__(self) -> None:
        seconds = _as_seconds("an interval", self.seconds, is_zero_ok=False)
        if seconds < 0.001:
            raise InvalidSchedule("an interval is to be at least a millisecond")

        object.__setattr__(self, "seconds", seconds)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after ``moment``."""
        interval = _as_timedelta(self.seconds)
        ticks = (_aware(moment) - EPOCH) // interval
        return EPOCH + (ticks + 1) * interval


@dataclass(frozen=True, slots=True)
class Cron(Schedule):
    """At the times that a cron expression names; see :mod:`broker.client.cron` for what it may say.

    When clocks are put forward, what falls into the hour that is not there happens an hour later.
    When they are put back, what is to happen at a given hour happens once, in the first of the two;
    what is to happen every hour, or every few minutes, goes on through both.

    Args:
        expression: five fields, or more.
        tz: the name of a time zone, such as ``Europe/Berlin``, or one.

    """

    expression: str
    tz: str | tzinfo = "UTC"
    _times: CronTimes = field(init=False, repr=False, compare=False)
    _zone: tzinfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_times", parse_cron(self.expression))
        object.__setattr__(self, "_zone", _zone_of(self.tz))
        if self._times.years is None and self.next_after(EPOCH) is None:
            raise InvalidSchedule(f"no day is ever one of {self.expression!r}")

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after ``moment``, on the clocks of the zone."""
        moment = _aware(moment).astimezone(UTC)
        local = moment.astimezone(self._zone).replace(tzinfo=None, microsecond=0)
        start = local - SHIFT_MAX if self._is_shift_near(moment) else local
        best: datetime | None = None
        limit = datetime.max
        for named in self._times.local_times_from(start):
            if named > limit:
                break

            later = [found for found in self._moments_of(named) if found > moment]
            if later and (best is None or min(later) < best):
                best = min(later)
                # Around a shift a later local time can be an earlier moment, so look on a little.
                limit = min(limit, named + SHIFT_MAX if self._is_shift_near(best) else named)

        return None if best is None else best.astimezone(self._zone)

    def _is_shift_near(self, moment: datetime) -> bool:
        if isinstance(self._zone, timezone):
            return False

        offsets = {
            (moment + distance).astimezone(self._zone).utcoffset()
            for distance in (-SHIFT_MAX, timedelta(0), SHIFT_MAX)
        }
        return len(offsets) > 1

    def _moments_of(self, named: datetime) -> list[datetime]:
        first = named.replace(tzinfo=self._zone, fold=0).astimezone(UTC)
        second = named.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
        if first == second:
            return [first]

        is_there = first.astimezone(self._zone).replace(tzinfo=None) == named
        if not is_there:
            # With the offset of before the shift, half past two that is not is half past three.
            return [] if self._times.is_hour_free else [max(first, second)]

        return [first, second] if self._times.is_hour_free else [first]


When = Schedule | float | int | timedelta | datetime
"""What may be said for a time: a schedule, seconds from now, or a moment."""


def as_schedule(when: When) -> Schedule:
    """Return the schedule that is meant: a number is a delay, a moment is that moment."""
    if isinstance(when, Schedule):
        return when

    return At(when) if isinstance(when, datetime) else Delay(when)


def seconds_until(when: When, now: datetime) -> float:
    """Return how many seconds from ``now`` it is to happen first, 0 for at once.

    Raises:
        InvalidSchedule: it will never happen.

    """
    moment = as_schedule(when).next_after(now)
    if moment is None:
        raise InvalidSchedule(f"{when!r} has no time after {now.isoformat()}")

    return max(0.0, (moment - now).total_seconds())


def _as_seconds(what: str, value: float | timedelta, *, is_zero_ok: bool) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not math.isfinite(seconds) or seconds < 0 or seconds > 1e10:
        raise InvalidSchedule(f"{what} is to be a number of seconds from 0 on, not {shown(value)}")

    if seconds == 0 and not is_zero_ok:
        raise InvalidSchedule(f"{what} is to be more than 0 seconds")

    return float(seconds)


def _as_timedelta(seconds: float | timedelta) -> timedelta:
    return seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)


def _aware(moment: datetime) -> datetime:
    if not isinstance(moment, datetime):
        raise InvalidSchedule(f"a moment is a datetime with a time zone, not {shown(moment)}")

    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidSchedule(
            f"{moment.isoformat()} has no time zone: say datetime(..., tzinfo=UTC), or "
            "datetime.now(UTC)"
        )

    return moment


@lru_cache(maxsize=64)
def _named_zone(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidSchedule(
            f"there is no time zone {name!r} (names are like Europe/Berlin; where the system has "
            "none at all, install tzdata)"
        ) from None


def _zone_of(tz: str | tzinfo) -> tzinfo:
    if isinstance(tz, str):
        return _named_zone(tz)

    if not isinstance(tz, tzinfo):
        raise InvalidSchedule(f"a time zone is a name, such as Europe/Berlin, not {shown(tz)}")

    return tz
