"""Processes or threads: what an interpreter that has no global lock says of itself is made up."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from broker.tasks import fleet
from broker.tasks.fleet import Fleet, Plan
from broker.tasks.mode import WORKERS_MAX, chosen_mode, chosen_workers, is_free_threaded

if TYPE_CHECKING:
    from collections.abc import Callable

NO_SUCH_QUESTION = None


@pytest.mark.parametrize(
    ("has_lock", "mode"),
    [
        pytest.param(NO_SUCH_QUESTION, "processes", id="before-3.13"),
        pytest.param(lambda: True, "processes", id="with-the-lock"),
        pytest.param(lambda: False, "threads", id="without-it"),
    ],
)
def test_workers_are_threads_where_those_compute_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, has_lock: Callable[[], bool] | None, mode: str
) -> None:
    if has_lock is None:
        monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    else:
        monkeypatch.setattr(sys, "_is_gil_enabled", has_lock, raising=False)

    assert is_free_threaded() is (mode == "threads")
    assert chosen_mode("auto") == mode
    assert chosen_mode("processes") == chosen_mode("async") == "processes"
    assert chosen_mode("threads") == chosen_mode("threaded") == "threads"


@pytest.mark.parametrize("cores", [1, 3, WORKERS_MAX, WORKERS_MAX + 1])
def test_there_is_a_worker_for_each_core_that_is_ours(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert chosen_workers("auto") == min(cores, WORKERS_MAX)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert chosen_workers("auto") == min(cores, WORKERS_MAX)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert chosen_workers("auto") == 1


@pytest.mark.parametrize(
    ("workers", "mode", "is_in_threads"),
    [(1, "processes", True), (2, "processes", False), (1, "threads", True), (2, "threads", True)],
)
def test_a_fleet_runs_its_workers_as_its_plan_says(
    monkeypatch: pytest.MonkeyPatch, workers: int, mode: str, is_in_threads: bool
) -> None:
    """One alone needs no process of its own, whatever it is to be."""
    ran: list[bool] = []

    async def checked(*_: object) -> None:
        return

    monkeypatch.setattr(Plan, "load", lambda _: None)
    monkeypatch.setattr(fleet, "_checked", checked)
    monkeypatch.setattr(Fleet, "_run_threads", lambda *_: ran.append(True))
    monkeypatch.setattr(Fleet, "_run_processes", lambda *_: ran.append(False))
    Fleet(Plan(app="app:tasks", workers=workers, mode=chosen_mode(mode))).run()
    assert ran == [is_in_threads]
