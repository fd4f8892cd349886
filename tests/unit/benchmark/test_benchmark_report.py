"""Medians, ratios and the way to a file and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.benchmark.measurement import Measurement
from scripts.benchmark.report import Results, load_results, render_markdown, render_text

if TYPE_CHECKING:
    from pathlib import Path


def make_results() -> Results:
    results = Results(["Leveret", "Other"])
    for ours, theirs in ((900.0, 100.0), (1000.0, 90.0), (1200.0, 110.0)):
        results.add("Leveret", Measurement("auto-ack", ours, "msg/s", 0.5, 0.2))
        results.add("Other", Measurement("auto-ack", theirs, "msg/s", 10.0, 0.7))

    results.add("Leveret", Measurement("start", 200.0, "ms"))
    return results


def test_a_row_shows_medians_spread_and_ratio() -> None:
    row = "| auto-ack | msg/s | 1,000 ±15% | 100 ±10% | 10.00 |"
    assert row in render_markdown(make_results())


def test_a_figure_of_which_less_is_better_is_marked() -> None:
    assert "| auto-ack cpu | s/M | 0.5 ±0% | 10 ±0% | 0.05 ↓ |" in render_markdown(make_results())


def test_a_figure_that_one_broker_lacks_has_no_ratio() -> None:
    assert "| start | ms | 200 ±0% | - | - |" in render_markdown(make_results())


def test_a_busy_load_generator_is_named() -> None:
    text = render_text(make_results())
    assert "Cores taken by the load generator: auto-ack on Other (0.70)." in text


def test_a_failed_scenario_is_shown() -> None:
    results = make_results()
    results.errors.append("fanout on Leveret: messages lost")
    assert "ERROR fanout on Leveret: messages lost" in render_text(results)


def test_saved_results_read_back_alike(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = make_results()
    results.facts = {"commit": "abc", "cpu": "a fast one"}
    results.save(path)
    assert render_markdown(load_results(path)) == render_markdown(results)


def test_a_disturbed_run_is_called_so() -> None:
    results = make_results()
    results.foreign_cores = [0.0, 0.5, 0.9]
    assert "DISTURBED: other processes took 0.50 cores" in render_text(results)
