"""Toolkit, tasks: which ticks of periodic tasks are due. No broker and no clock in here.

Invariant: a tick is fired when :meth:`BeatState.due` returns it, and never returned again by a
state that has seen it: states are merged by what was fired last.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from broker.client.checks import check_choice, shown
from broker.client.errors import InvalidSchedule, InvalidValue
from broker.client.schedule import Cron, Every, Schedule
from broker.tasks.options import Missed, Overlap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["BeatState", "Periodic", "Tick"]

LOG: Final = logging.getLogger("leveret.tasks")

LATE: Final = timedelta(seconds=10)
"""A tick that is no later than this is late, not missed: another worker had to take over first."""
TICKS_MAX: Final = 1000
"""How many missed ticks of one task are made up for at most."""
HOLD_MIN: Final = timedelta(hours=1)
"""How long a run without a timeout, of whose end nobody has heard, keeps the next from starting."""
HOLD_MAX: Final = timedelta(days=1)
"""How long at most, unless its timeout is longer."""
HOLD_TICKS: Final = 3
"""For so many intervals it does in any case, up to that."""
HOLD_SPARE: Final = timedelta(minutes=1)
"""What a run with a timeout has on top of that, for waiting in its queue."""


@dataclass(frozen=True, slots=True)
class Periodic:
    """When a task runs by itself."""

    schedule: Schedule
    overlap: Overlap = "allow"
    missed: Missed = "last"

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, Every | Cron):
            raise InvalidValue(f"{self.schedule!r} comes once; @every takes an Every or a Cron")

        for name, value, known in (
            ("overlap", self.overlap, get_args(Overlap)),
            ("missed", self.missed, get_args(Missed)),
        ):
            check_choice(name, value, known)

    @classmethod
    def of(
        cls,
        schedule: Schedule | timedelta | float | str,
        *,
        tz: str | tzinfo | None,
        overlap: Overlap,
        missed: Missed,
    ) -> Periodic:
        """Return what is meant: seconds, a cron expression, or a schedule."""
        if tz is not None and not isinstance(schedule, str):
            raise InvalidSchedule(
                f"tz is the time zone of a cron expression, and {shown(schedule)} is none: seconds "
                "are counted from 1970 whatever the zone, and a schedule says its own, "
                "Cron('0 6 * * *', 'Europe/Berlin') for instance"
            )

        if isinstance(schedule, str):
            schedule = Cron(schedule, "UTC" if tz is None else tz)
        elif not isinstance(schedule, Schedule):
            schedule = Every(schedule)

        return cls(schedule, overlap, missed)

    def ticks(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the ticks after one moment and not after another."""
        tick = self.next_after(after)
        while tick is not None and tick <= until:
            yield tick
            tick = self.next_after(tick)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first tick after a moment; None for never, as of a schedule that fails."""
        try:
            return self.schedule.next_after(moment)
        except Exception:
            # It may be a class of the user's: the other tasks have their ticks all the same.
            LOG.exception("%r has no next tick", self.schedule)
            return None

    def hold(self, since: datetime, run_s: float | None) -> timedelta:
        """Return for how long a run of which nothing is heard keeps the next from starting.

        Args:
            since: when it was fired.
            run_s: how many seconds it takes at most; None if nobody has said so.

        """
        run = HOLD_MIN if run_s is None else timedelta(seconds=run_s) + HOLD_SPARE
        tick = self.next_after(since)
        for _ in range(HOLD_TICKS - 1):
            tick = None if tick is None else self.next_after(tick)

        ticks = HOLD_MAX if tick is None else min(tick - since, HOLD_MAX)
        return max(run, ticks)


class Tick(NamedTuple):
    """A tick of a task that is to be fired."""

    name: str
    at: datetime

    @property
    def task_id(self) -> str:
        """The id of the task that it sends: the same, whoever sends it."""
        return f"{self.name}@{self.at.astimezone(UTC).isoformat(timespec='microseconds')}"


@dataclass(slots=True)
class BeatState:
    """What was fired last, and what still runs of it."""

    is_initial: bool = True
    """Whether it was made up by a worker that had not seen another one."""

    last: dict[str, datetime] = field(default_factory=dict)
    running: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    """Of tasks that must not overlap: the id of the run that was fired, and when."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "initial": self.is_initial,
            "last": {name: at.isoformat() for name, at in self.last.items()},
            "running": {name: [id_, at.isoformat()] for name, (id_, at) in self.running.items()},
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> BeatState:
        """Return what :meth:`as_dict` made plain values of."""
        return cls(
            bool(given["initial"]),
            {name: datetime.fromisoformat(at) for name, at in given["last"].items()},
            {
                name: (str(id_), datetime.fromisoformat(at))
                for name, (id_, at) in given["running"].items()
            },
        )

    def merge(self, other: BeatState) -> None:
        """Take over what another state knows better."""
        if other.is_initial:
            return

        if self.is_initial:
            self.is_initial = False
            self.last = dict(other.last)
            self.running = dict(other.running)
            return

        for name, at in other.last.items():
            if name not in self.last or self.last[name] < at:
                self.last[name] = at
                if name in other.running:
                    self.running[name] = other.running[name]

    def adopt(self, periodic: Mapping[str, Periodic], now: datetime) -> bool:
        """Begin with tasks that were not there before; say whether there were any."""
        new = [name for name in periodic if name not in self.last]
        for name in new:
            self.last[name] = now

        return bool(new)

    def done(self, task_id: str) -> bool:
        """A run has ended. Say whether that is news."""
        for name, (running, _) in self.running.items():
            if running == task_id:
                del self.running[name]
                return True

        return False

    def due(
        self,
        periodic: Mapping[str, Periodic],
        now: datetime,
        run_s: Mapping[str, float | None] | None = None,
    ) -> list[Tick]:
        """Return the ticks to fire now, and count them as fired.

        ``run_s`` says how many seconds a run of each task takes at most.
        """
        found = []
        longest = run_s or {}
        for name, one in periodic.items():
            for at in self._due_of(name, one, now):
                tick = Tick(name, at)
                if one.overlap == "skip":
                    held = self.running.get(name)
                    if held is not None and now - held[1] < one.hold(held[1], longest.get(name)):
                        LOG.info("%s still runs, so its tick of %s is skipped", name, at)
                        continue

                    self.running[name] = (tick.task_id, now)

                found.append(tick)

        return found

    def next_due(self, periodic: Mapping[str, Periodic], now: datetime) -> datetime | None:
        """Return when there will be something to fire; None for never."""
        ticks = [
            tick
            for name, one in periodic.items()
            if (tick := one.next_after(self.last.get(name, now))) is not None
        ]
        return min(ticks, default=None)

    def _due_of(self, name: str, one: Periodic, now: datetime) -> list[datetime]:
        after = self.last.get(name, now)
        ticks: list[datetime] = []
        for tick in one.ticks(after, now):
            ticks.append(tick)
            if len(ticks) > 2 * TICKS_MAX:
                del ticks[:TICKS_MAX]

        if not ticks:
            return []

        self.last[name] = ticks[-1]
        missed = [tick for tick in ticks if now - tick > LATE]
        late = ticks[len(missed) :]
        if one.missed == "all":
            return ticks[-TICKS_MAX:]

        if one.missed == "last" and not late:
            return missed[-1:]

        return late[-TICKS_MAX:]
