"""Cron: the next time is the first that matches, whatever the zone and the moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from broker.client.schedule import Cron

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
MINUTES = st.sampled_from(["*", "*/7", "0", "30", "5,59"])
HOURS = st.sampled_from(["*", "*/3", "2", "1-3", "23"])
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2029, 1, 1), timezones=st.just(UTC))


# A clock that goes forward by half an hour: the hour has minutes that are none.
@example("*", "2", "Australia/Lord_Howe", datetime(2024, 10, 4, 17, tzinfo=UTC))
@given(MINUTES, HOURS, st.sampled_from(ZONES), MOMENTS)
def test_each_answer_is_later_and_nothing_is_between(
    minute: str, hour: str, zone: str, moment: datetime
) -> None:
    cron = Cron(f"{minute} {hour} * * *", zone)
    first = cron.next_after(moment)
    assert first is not None
    assert first > moment

    between = moment + (first - moment) / 2
    assert cron.next_after(between) == first
    just_before = first.astimezone(UTC) - timedelta(microseconds=1)
    assert cron.next_after(just_before) == first


@given(MINUTES, st.sampled_from(ZONES), MOMENTS)
def test_what_is_meant_as_an_interval_is_never_far(
    minute: str, zone: str, moment: datetime
) -> None:
    found = Cron(f"{minute} * * * *", zone).next_after(moment)

    assert found is not None
    assert found - moment <= timedelta(hours=1, minutes=30)
