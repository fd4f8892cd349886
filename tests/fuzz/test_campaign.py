"""Several targets share a time, and what came of each is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.campaign import Outcome, Turn, outcome_of, run_campaign, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable

ATHERIS = """\
#8192\tpulse  cov: 3 ft: 3 corp: 1/1b exec/s: 4096 rss: 90Mb
Done 73500 runs in 11 second(s)
stat::number_of_executed_units: 73500
stat::average_exec_per_sec:     6681
"""
CRASH = """\
==12== ERROR: libFuzzer: fuzz target exited
artifact_prefix='/a/.build/fuzz/sasl/'; Test unit written to /a/.build/fuzz/sasl/crash-0a1b
stat::number_of_executed_units: 12
"""
OURS = "Traceback\nAssertionError\nyaml fails on .build/fuzz/yaml/crash-77\n"


@pytest.mark.parametrize(
    ("status", "text", "inputs", "findings"),
    [
        pytest.param(0, ATHERIS, 73500, (), id="atheris"),
        pytest.param(77, CRASH, 12, (".build/fuzz/sasl/crash-0a1b",), id="atheris-finds"),
        pytest.param(0, "tables: 512 inputs in 1 s, none too bad\n", 512, (), id="ours"),
        pytest.param(1, OURS, None, (".build/fuzz/yaml/crash-77",), id="ours-finds"),
        pytest.param(-9, "", None, (), id="killed"),
    ],
)
def test_what_an_engine_wrote_is_read(
    status: int, text: str, inputs: int | None, findings: tuple[str, ...]
) -> None:
    outcome = outcome_of("t", status, text, 1.0)
    assert (outcome.inputs, outcome.findings) == (inputs, findings)
    assert outcome.is_good is (status == 0)


def test_a_summary_has_a_line_for_each_target() -> None:
    outcomes = [
        Outcome("sasl", 12, 0.6, 77, (".build/fuzz/sasl/crash-0a1b",)),
        Outcome("handshake", 73_500, 600.2, 0, ()),
        Outcome("http", None, 3.0, -9, ()),
    ]
    assert summary_of(outcomes).splitlines() == [
        "sasl                 12 inputs       1 s  .build/fuzz/sasl/crash-0a1b",
        "handshake        73,500 inputs     600 s  no findings",
        "http           not told inputs       3 s  exit -9",
    ]


def test_time_that_a_target_leaves_goes_to_those_behind_it() -> None:
    turns: list[Turn] = []

    def run(turn: Turn) -> tuple[int, str]:
        turns.append(turn)
        return 0, ""

    outcomes = run_campaign(["a", "b", "c"], 600, seed=7, engine="mutation", run=run)
    assert [(one.target, one.seconds) for one in turns] == [("a", 200), ("b", 300), ("c", 600)]
    assert [one.target for one in outcomes] == ["a", "b", "c"]
    assert turns[0].command[1:] == [
        *("-m", "tests.fuzz", "a", "--seconds", "200"),
        *("--seed", "7", "--engine", "mutation"),
    ]


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        (["tables"], ["tables"]),
        (["http", "security"], ["http", "handshake", "sasl", "yaml", "proxy", "certificate"]),
        (["all"], list(fuzz.NAMES)),
    ],
)
def test_sets_are_targets_and_each_is_once(words: list[str], targets: list[str]) -> None:
    assert fuzz._targets_of(words) == targets


@pytest.fixture
def options_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    def parse(*words: str) -> object:
        monkeypatch.setattr(sys, "argv", ["fuzz", *words])
        found = fuzz._parse_options()
        return found.target, None if found.input is None else str(found.input)

    return parse


def test_a_file_may_stand_behind_one_target(options_of: Callable[..., object]) -> None:
    assert options_of("http", "a.bin") == (["http"], "a.bin")
    assert options_of("http", "yaml", "--seconds", "9") == (["http", "yaml"], None)
    for words in (["nothing"], ["security", "a.bin"], ["http", "yaml", "a.bin"]):
        with pytest.raises(SystemExit):
            options_of(*words)


def test_a_run_of_two_targets_tells_of_both_and_fails_with_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["fuzz", "methods", "tables", "--seconds", "2", "--engine", "mutation"]
    monkeypatch.setattr(sys, "argv", words)
    assert fuzz.main() == 0
    lines = capfd.readouterr().err.splitlines()[-2:]
    assert [line.split()[0] for line in lines] == ["methods", "tables"]
    assert all(line.endswith("no findings") for line in lines)
