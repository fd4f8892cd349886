"""Medians, ratios, verdicts, charts, and the way to a file and back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from scripts.benchmark.charts import Panel, bar_chart, line_panels
from scripts.benchmark.measurement import Measurement
from scripts.benchmark.page import charts_of, updated_page
from scripts.benchmark.report import render_markdown, render_text
from scripts.benchmark.results import Results, load_results
from scripts.benchmark.scenarios import GROUPS, SCENARIOS, choose_scenarios
from scripts.benchmark.targets import growth_of, verdict_of

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


def test_a_figure_that_one_broker_lacks_has_no_ratio_and_one_measured_once_no_spread() -> None:
    assert "| start | ms | 200 | - | - |" in render_markdown(make_results())


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


def make_curve(costs: dict[int, float]) -> Results:
    results = Results(["Leveret compiled"])
    for size, cost in costs.items():
        point = Measurement("queues-used", cost * 2, "us", cost, size=size)
        results.add("Leveret compiled", point, "flat")

    return results


@pytest.mark.parametrize(
    ("costs", "growth"),
    [
        pytest.param([], 0.0, id="nothing"),
        pytest.param([2.0], 0.0, id="one-point"),
        pytest.param([2.0, 2.2, 2.4], 0.2, id="slowly-up"),
        pytest.param([9.0, 2.0, 3.0], 0.5, id="a-dear-start-excuses-nothing"),
        pytest.param([2.0, 3.0, 1.0], 0.5, id="a-hump"),
        pytest.param([3.0, 2.0, 1.0], 0.0, id="down"),
    ],
)
def test_growth_is_against_the_cheapest_smaller_size(costs: list[float], growth: float) -> None:
    assert growth_of(costs) == pytest.approx(growth)


def test_a_curve_is_flat_within_a_fifth() -> None:
    flat, steep = make_curve({1: 1.0, 100: 1.19}), make_curve({1: 1.0, 100: 1.21})
    assert flat.curves["queues-used"]["Leveret compiled"].is_flat
    assert not steep.curves["queues-used"]["Leveret compiled"].is_flat
    assert "| +21% | NO |" in render_markdown(steep)


def test_curves_read_back_alike(tmp_path: Path) -> None:
    path = tmp_path / "flat.json"
    results = make_curve({1: 1.0, 100: 1.1, 10_000: 1.5})
    results.save(path)
    assert load_results(path).curves == results.curves


@pytest.mark.parametrize(
    ("name", "medians", "verdict"),
    [
        ("auto-ack", {"Leveret compiled": 13.0, "RabbitMQ 3.10.8": 1.0}, "compiled ≥ 12 yes"),
        ("auto-ack", {"Leveret plain": 2.0, "RabbitMQ 3.10.8": 1.0}, "plain ≥ 2.5 NO"),
        ("auto-ack", {"Leveret plain": 2.0, "RabbitMQ 4.3.6": 1.0}, ""),
        ("durable-100", {"Leveret compiled quorum": 9.0, "RabbitMQ 3.10.8": 1.0}, ""),
        ("auto-ack cpu", {"Leveret compiled": 0.05, "RabbitMQ 3.10.8": 1.0}, "compiled ≤ 0.06 yes"),
        ("queue-memory", {"Leveret compiled": 3.5}, "compiled ≤ 3 NO"),
        ("idle-memory", {"RabbitMQ 3.10.8": 200.0}, ""),
    ],
)
def test_a_verdict_says_which_targets_are_met(
    name: str, medians: dict[str, float], verdict: str
) -> None:
    assert verdict_of(name, medians) == verdict


def test_a_variant_of_a_broker_is_a_column_beside_it() -> None:
    results = Results(["Leveret", "Other"])
    results.add("Leveret", Measurement("durable-100", 10.0, "msg/s"), "durable", "quorum")
    results.add("Other", Measurement("durable-100", 5.0, "msg/s"), "durable")
    assert results.brokers == ["Leveret", "Leveret quorum", "Other"]
    assert "| durable-100 | msg/s | 10 | 5 | 2.00 |" in render_markdown(results)


def test_each_group_has_a_table_of_its_own() -> None:
    results = make_results()
    results.add("Leveret", Measurement("idle-memory", 30.0, "MB"), "memory")
    memory = render_markdown(results, "memory")
    assert "idle-memory" in memory
    assert "auto-ack |" not in memory


def test_standard_scenarios_are_those_that_are_quick() -> None:
    groups = {scenario.group for scenario in choose_scenarios([])}
    assert groups == {"throughput", "durable", "latency", "start", "memory"}


def test_scenarios_are_chosen_by_name_and_by_group() -> None:
    assert {one.name for one in choose_scenarios(["fill", "start"])} == {
        *("backlog", "start", "import", "embedded")
    }
    assert len(choose_scenarios(["all"])) == len(SCENARIOS)
    assert {one.group for one in SCENARIOS} == set(GROUPS)
    with pytest.raises(ValueError, match="no scenario nonsense"):
        choose_scenarios(["nonsense"])


def test_charts_are_well_formed_and_escape_what_they_show() -> None:
    bars = bar_chart("<&>", ["a", "b"], {"one": {"a": 1.0, "b": 0.0}, "two": {"b": 5e6}})
    lines = line_panels("x", [Panel("p", {"c": {1: 1.0, 10: 3.0}, "d": {1: 1.0}})], 1.2)
    assert ElementTree.fromstring(bars).tag.endswith("svg")  # noqa: S314 - it is our own
    assert ElementTree.fromstring(lines).tag.endswith("svg")  # noqa: S314
    assert "5 M" in bars


def test_a_page_gets_the_tables_that_there_are_results_for() -> None:
    page = (
        "<!-- generated: flat -->\nold\n<!-- end -->\n<!-- generated: micro -->\nkept\n<!-- end -->"
    )
    results = make_curve({1: 1.0, 100: 1.1})
    filled = updated_page(page, [results])
    assert "| queues-used |" in filled
    assert "![flat.svg](figures/flat.svg)" in filled
    assert "old" not in filled
    assert "kept" in filled
    assert set(charts_of(results)) == {"flat.svg"}
    assert updated_page(filled, [results]) == filled
