"""Toolkit: cron expressions: which days and times they name.

Invariant: everything here is about local times without a zone; ``schedule`` makes moments of them.

An expression has five fields, ``minute hour day month weekday``; a sixth is the second, a seventh
the year. Names of months and weekdays, lists, ranges, steps, ``L`` for the last day of the month,
``fri#2`` for the second Friday and ``friL`` for the last one, and ``@hourly`` and the like. As in
every cron, a day matches that matches the day or the weekday, when both are restricted.
"""

from __future__ import annotations

import calendar
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.client.checks import shown
from broker.client.errors import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CronTimes", "parse_cron"]

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
WEEKDAYS: Final = {
    name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}
DAYS_AHEAD_MAX: Final = 366 * 41
"""How far to look for a day that matches. The 29th of February as a given weekday of a given count
comes within forty years; an expression that names no day at all is found out by then."""


class Field(NamedTuple):
    name: str
    low: int
    high: int
    names: dict[str, int]


FIELDS: Final = (
    Field("minute", 0, 59, {}),
    Field("hour", 0, 23, {}),
    Field("day", 1, 31, {}),
    Field("month", 1, 12, MONTHS),
    Field("weekday", 0, 7, WEEKDAYS),
    Field("second", 0, 59, {}),
    Field("year", 1970, 2199, {}),
)
DAY: Final = 2
WEEKDAY: Final = 4


class CronTimes(NamedTuple):
    """What an expression names, as sets of numbers."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    years: frozenset[int] | None
    has_last_day: bool
    nth_weekdays: frozenset[tuple[int, int]]
    """Weekday and which one of the month; -1 is the last one."""

    is_day_free: bool
    is_weekday_free: bool
    is_hour_free: bool
    """Every hour, or every n-th: meant as an interval, so that it goes on when clocks go back."""

    def local_times_from(self, start: datetime) -> Iterator[datetime]:
        """Yield the times named, from ``start`` on, in order."""
        for day in self._days_from(start.date()):
            earliest = start.time() if day == start.date() else time.min
            for moment in self._times_of_day(earliest):
                yield datetime.combine(day, moment)

    def _days_from(self, first: date) -> Iterator[date]:
        day, empty_days = first, 0
        while empty_days < DAYS_AHEAD_MAX and day.year < date.max.year:
            if self.has_day(day):
                empty_days = 0
                yield day
            else:
                empty_days += 1

            day += timedelta(days=1)

    def _times_of_day(self, earliest: time) -> Iterator[time]:
        for hour in self.hours:
            if hour < earliest.hour:
                continue

            for minute in self.minutes:
                if (hour, minute) < (earliest.hour, earliest.minute):
                    continue

                for second in self.seconds:
                    moment = time(hour, minute, second)
                    if moment >= earliest:
                        yield moment

    def has_day(self, day: date) -> bool:
        """Say whether anything happens on that day."""
        if day.month not in self.months or (self.years is not None and day.year not in self.years):
            return False

        if self.is_day_free and self.is_weekday_free:
            return True

        if self.is_day_free:
            return self._has_weekday(day)

        if self.is_weekday_free:
            return self._has_day_of_month(day)

        return self._has_day_of_month(day) or self._has_weekday(day)

    def _has_day_of_month(self, day: date) -> bool:
        return day.day in self.days or (self.has_last_day and day.day == _length_of_month(day))

    def _has_weekday(self, day: date) -> bool:
        weekday = day.isoweekday() % 7
        if weekday in self.weekdays or (weekday, (day.day + 6) // 7) in self.nth_weekdays:
            return True

        is_last = day.day + 7 > _length_of_month(day)
        return is_last and (weekday, -1) in self.nth_weekdays


def parse_cron(expression: str) -> CronTimes:
    """Read an expression.

    Raises:
        InvalidSchedule: it is none, and the text says which field is wrong.

    """
    if not isinstance(expression, str):
        raise InvalidSchedule(f"a cron expression is a text, not {shown(expression)}")

    words = NICKNAMES.get(expression.strip().lower(), expression).lower().split()
    if not 5 <= len(words) <= 7:
        raise InvalidSchedule(
            f"a cron expression has 5 fields (minute hour day month weekday), or 6 with seconds or "
            f"7 with seconds and years at the end; {expression!r} has {len(words)}"
        )

    words += ["0", "*"][len(words) - 5 :]
    try:
        return _times_of(words)
    except ValueError as problem:
        raise InvalidSchedule(f"{problem}, in the cron expression {expression!r}") from None


def _times_of(words: list[str]) -> CronTimes:
    has_last_day, day_word = _without_last_day(words[DAY])
    nth_weekdays, weekday_word = _without_nth(words[WEEKDAY])
    sets = [
        _numbers(word, field)
        for word, field in zip(
            [*words[:DAY], day_word, words[3], weekday_word, *words[5:]], FIELDS, strict=True
        )
    ]
    minutes, hours, days, months, weekdays, seconds, years = sets
    return CronTimes(
        seconds=tuple(sorted(seconds)),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(number % 7 for number in weekdays),
        years=None if words[6] == "*" else frozenset(years),
        has_last_day=has_last_day,
        nth_weekdays=nth_weekdays,
        is_day_free=words[DAY] in ("*", "?"),
        is_weekday_free=words[WEEKDAY] in ("*", "?"),
        is_hour_free=words[1].startswith("*"),
    )


def _without_last_day(word: str) -> tuple[bool, str]:
    parts = word.split(",")
    kept = [part for part in parts if part != "l"]
    return len(kept) < len(parts), ",".join(kept)


def _without_nth(word: str) -> tuple[frozenset[tuple[int, int]], str]:
    nth, kept = set(), []
    for part in word.split(","):
        name, mark, count = part.partition("#")
        if mark:
            nth.add((_number(name, FIELDS[WEEKDAY]) % 7, _ordinal(count)))
        elif len(part) > 1 and part.endswith("l"):
            nth.add((_number(part[:-1], FIELDS[WEEKDAY]) % 7, -1))
        else:
            kept.append(part)

    return frozenset(nth), ",".join(kept)


def _ordinal(text: str) -> int:
    if text not in {"1", "2", "3", "4", "5"}:
        raise ValueError(f"a month has a first to a fifth weekday, not #{text}")

    return int(text)


def _numbers(word: str, field: Field) -> set[int]:
    found: set[int] = set()
    for part in filter(None, [word] if word == "" else word.split(",")):
        found |= _range(part, field)

    if (word and not found) or ",," in word or word.strip(",") != word:
        raise ValueError(f"{word!r} is no {field.name}")

    return found


def _range(part: str, field: Field) -> set[int]:
    span, slash, step_text = part.partition("/")
    if slash and not (step_text.isascii() and step_text.isdigit() and int(step_text) > 0):
        raise ValueError(f"{part!r} has no step for its {field.name}")

    step = int(step_text) if slash else 1
    if span in ("*", "?"):
        high = 6 if field.name == "weekday" else field.high
        return set(range(field.low, high + 1, step))

    first, dash, last = span.partition("-")
    low = _number(first, field)
    high = _number(last, field) if dash else field.high if slash else low
    if high < low:
        # fri-mon and 22-2 are what people mean by them.
        return set(range(low, field.high + 1, step)) | set(range(field.low, high + 1, step))

    return set(range(low, high + 1, step))


def _number(text: str, field: Field) -> int:
    if text in field.names:
        return field.names[text]

    if not (text.isascii() and text.isdigit() and field.low <= int(text) <= field.high):
        raise ValueError(f"{text!r} is no {field.name} ({field.low} to {field.high})")

    return int(text)


def _length_of_month(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]
