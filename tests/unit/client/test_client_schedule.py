"""When things happen: delays, moments, intervals and cron expressions, on any clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from broker.client.errors import InvalidSchedule
from broker.client.schedule import At, Cron, Delay, Every, Schedule, as_schedule, seconds_until

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
NAIVE = datetime(2026, 3, 2, 12, 0)


def texts(schedule: Schedule, start: datetime, count: int) -> list[str]:
    found: list[str] = []
    moment: datetime | None = start
    for _ in range(count):
        assert moment is not None
        moment = schedule.next_after(moment)
        assert moment is not None
        found.append(moment.isoformat(sep=" "))

    return found


@pytest.mark.parametrize(
    ("schedule", "moment"),
    [
        pytest.param(Delay(90), NOON + timedelta(seconds=90), id="delay"),
        pytest.param(Delay(timedelta(hours=1)), NOON + timedelta(hours=1), id="delay-timedelta"),
        pytest.param(At(NOON + timedelta(1)), NOON + timedelta(1), id="at"),
        pytest.param(At(NOON - timedelta(1)), NOON, id="at-that-has-passed"),
        pytest.param(Every(3600), NOON + timedelta(hours=1), id="every"),
        pytest.param(Schedule.delay(1), NOON + timedelta(seconds=1), id="by-the-other-name"),
        pytest.param(Schedule.at(NOON), NOON, id="at-by-the-other-name"),
        pytest.param(Schedule.every(7), datetime(2026, 3, 2, 12, 0, 1, tzinfo=UTC), id="ticks"),
        pytest.param(Schedule.cron("1 12 * * *"), NOON + timedelta(minutes=1), id="cron"),
    ],
)
def test_the_next_time(schedule: Schedule, moment: datetime) -> None:
    assert schedule.next_after(NOON) == moment


def test_everybody_counts_the_same_ticks() -> None:
    ticks = texts(Every(2.5), NOON, 3)

    assert ticks == texts(Every(2.5), NOON + timedelta(seconds=0.4), 3)


@pytest.mark.parametrize(
    ("expression", "start", "times"),
    [
        pytest.param("*/20 * * * *", NOON, ["12:20:00", "12:40:00", "13:00:00"], id="step"),
        pytest.param("5,10 * * * *", NOON, ["12:05:00", "12:10:00", "13:05:00"], id="list"),
        pytest.param("0-1 * * * *", NOON, ["12:01:00", "13:00:00", "13:01:00"], id="range"),
        pytest.param("10/25 * * * *", NOON, ["12:10:00", "12:35:00", "13:10:00"], id="from-step"),
        pytest.param("@hourly", NOON, ["13:00:00", "14:00:00", "15:00:00"], id="nickname"),
        pytest.param("0 12 * * * */30", NOON, ["12:00:30"], id="seconds-stand-last"),
        pytest.param("0 22-2 * * *", NOON, ["22:00:00", "23:00:00"], id="over-midnight"),
    ],
)
def test_cron_names_times_of_a_day(expression: str, start: datetime, times: list[str]) -> None:
    found = [text[11:19] for text in texts(Cron(expression), start, len(times))]

    assert found == times


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        pytest.param("0 0 15 * *", ["2026-03-15", "2026-04-15"], id="day"),
        pytest.param("0 0 * * fri", ["2026-03-06", "2026-03-13"], id="weekday"),
        pytest.param("0 0 * * 0", ["2026-03-08", "2026-03-15"], id="sunday-is-0"),
        pytest.param("0 0 * * 7", ["2026-03-08", "2026-03-15"], id="and-7"),
        pytest.param("0 0 * * fri-mon", ["2026-03-06", "2026-03-07"], id="weekend"),
        pytest.param("0 0 10 * fri", ["2026-03-06", "2026-03-10"], id="day-or-weekday"),
        pytest.param("0 0 L * *", ["2026-03-31", "2026-04-30"], id="last-day"),
        pytest.param("0 0 15,L * *", ["2026-03-15", "2026-03-31"], id="fifteenth-and-last"),
        pytest.param("0 0 * * fri#2", ["2026-03-13", "2026-04-10"], id="second-friday"),
        pytest.param("0 0 * * friL", ["2026-03-27", "2026-04-24"], id="last-friday"),
        pytest.param("0 0 1 jan *", ["2027-01-01", "2028-01-01"], id="month"),
        pytest.param("0 0 31 * *", ["2026-03-31", "2026-05-31"], id="not-every-month-has-31"),
        pytest.param("0 0 29 2 *", ["2028-02-29", "2032-02-29"], id="leap-years"),
        pytest.param("@weekly", ["2026-03-08", "2026-03-15"], id="weekly"),
        pytest.param("0 0 1 1 * 0 2030", ["2030-01-01"], id="years-stand-last"),
    ],
)
def test_cron_names_days(expression: str, days: list[str]) -> None:
    assert [text[:10] for text in texts(Cron(expression), NOON, len(days))] == days


def test_after_its_last_year_a_cron_expression_has_no_time() -> None:
    assert Cron("0 0 1 1 * 0 2020").next_after(NOON) is None


@pytest.mark.parametrize(
    ("expression", "start", "times"),
    [
        pytest.param(
            "30 2 * * *",
            datetime(2026, 3, 28, 12, tzinfo=UTC),
            ["2026-03-29 03:30:00+02:00", "2026-03-30 02:30:00+02:00"],
            id="an-hour-that-is-not-there-is-an-hour-later",
        ),
        pytest.param(
            "30 2 * * *",
            datetime(2026, 10, 24, 12, tzinfo=UTC),
            ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"],
            id="an-hour-that-is-there-twice-counts-once",
        ),
        pytest.param(
            "*/30 * * * *",
            datetime(2026, 10, 25, 0, 0, tzinfo=UTC),
            [
                "2026-10-25 02:30:00+02:00",
                "2026-10-25 02:00:00+01:00",
                "2026-10-25 02:30:00+01:00",
                "2026-10-25 03:00:00+01:00",
            ],
            id="intervals-go-on-when-clocks-go-back",
        ),
        pytest.param(
            "*/30 * * * *",
            datetime(2026, 3, 29, 0, 30, tzinfo=UTC),
            ["2026-03-29 03:00:00+02:00", "2026-03-29 03:30:00+02:00"],
            id="and-when-they-go-forward",
        ),
        pytest.param(
            "0 9 * * *",
            datetime(2026, 3, 28, 9, 0, tzinfo=UTC),
            ["2026-03-29 09:00:00+02:00", "2026-03-30 09:00:00+02:00"],
            id="nine-is-nine",
        ),
    ],
)
def test_cron_follows_the_clocks_of_a_zone(
    expression: str, start: datetime, times: list[str]
) -> None:
    assert texts(Cron(expression, "Europe/Berlin"), start, len(times)) == times


def test_a_zone_may_be_one() -> None:
    zones: list[str | tzinfo] = [
        "Europe/Berlin",
        ZoneInfo("Europe/Berlin"),
        timezone(timedelta(hours=1)),
    ]

    assert {Cron("0 9 * * *", tz).next_after(NOON) for tz in zones} == {
        datetime(2026, 3, 3, 8, 0, tzinfo=UTC)
    }


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("* * *", "5 fields", id="too-few"),
        pytest.param("* * * * * * * *", "5 fields", id="too-many"),
        pytest.param("60 * * * *", "'60' is no minute", id="minute"),
        pytest.param("* 24 * * *", "'24' is no hour", id="hour"),
        pytest.param("* * 0 * *", "'0' is no day", id="day"),
        pytest.param("* * * 13 *", "'13' is no month", id="month"),
        pytest.param("* * * foo *", "'foo' is no month", id="name"),
        pytest.param("* * * * 8", "'8' is no weekday", id="weekday"),
        pytest.param("*/0 * * * *", "no step", id="step"),
        pytest.param("1,,2 * * * *", "is no minute", id="empty"),
        pytest.param(", * * * *", "is no minute", id="comma"),
        pytest.param("٣ * * * *", "is no minute", id="other-digits"),
        pytest.param("* * * * fri#6", "fifth", id="sixth-friday"),
        pytest.param("0 0 30 2 *", "no day is ever", id="never"),
        pytest.param("@yesterday", "5 fields", id="nickname"),
    ],
)
def test_expressions_that_are_none_are_refused(expression: str, text: str) -> None:
    with pytest.raises(InvalidSchedule, match=text):
        Cron(expression)


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", ""])
def test_zones_that_are_none_are_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="time zone"):
        Cron("* * * * *", zone)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), True, "5", 1e11])
def test_delays_that_make_no_sense_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidSchedule):
        Delay(seconds)


@pytest.mark.parametrize("seconds", [0, -1, 1e-9])
def test_intervals_that_make_no_sense_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidSchedule):
        Every(seconds)


def test_a_moment_without_a_zone_is_refused() -> None:
    """dmq takes it for local time, without a word."""
    with pytest.raises(InvalidSchedule, match="no time zone"):
        At(NAIVE)

    with pytest.raises(InvalidSchedule, match="no time zone"):
        Delay(1).next_after(NAIVE)


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        pytest.param(1.5, 1.5, id="number"),
        pytest.param(timedelta(minutes=1), 60, id="timedelta"),
        pytest.param(NOON + timedelta(seconds=3), 3, id="moment"),
        pytest.param(NOON - timedelta(seconds=3), 0, id="moment-that-has-passed"),
        pytest.param(Cron("1 12 * * *"), 60, id="schedule"),
    ],
)
def test_what_one_says_for_a_time_is_understood(
    when: Schedule | float | timedelta | datetime, seconds: float
) -> None:
    assert seconds_until(when, NOON) == seconds
    assert isinstance(as_schedule(when), Schedule)


def test_what_never_happens_cannot_be_waited_for() -> None:
    with pytest.raises(InvalidSchedule, match="no time after"):
        seconds_until(Cron("0 0 1 1 * 0 2020"), NOON)
