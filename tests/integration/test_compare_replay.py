"""Every scenario of interop/compare, played against an embedded broker and compared with RabbitMQ.

A difference is a failure unless interop/compare/accepted.py names the scenario with a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.embedded import Broker
from interop.compare import recordings, scenarios
from interop.compare.accepted import ACCEPTED, DEFAULT_VERSION
from interop.compare.catalogue import SCENARIOS, Scenario
from interop.compare.runner import Runs
from interop.compare.session import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

assert scenarios.__all__, "importing them fills the catalogue"

RECORDED = {label: recordings.load(label).transcripts for label in ("3.10", "4.3", recordings.OWN)}


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    config = {"version": 1, "limits": {"max_message_size": "1MiB"}}
    with Broker.in_thread(config, log_level="error") as broker:
        begun = Runs(Target(broker.host, broker.port), SCENARIOS.values())
        yield begun
        begun.close()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_scenario_goes_as_recorded(scenario: Scenario, runs: Runs) -> None:
    accepted = ACCEPTED.get(scenario.name)
    label = accepted.like if accepted else DEFAULT_VERSION

    assert runs.transcript(scenario) == RECORDED[label][scenario.name]


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_difference_is_one(name: str) -> None:
    expected = RECORDED[ACCEPTED[name].like][name]

    assert expected != RECORDED[DEFAULT_VERSION][name]
    if ACCEPTED[name].like == recordings.OWN:
        assert expected != RECORDED["3.10"][name], "then it is a difference of versions"


@pytest.mark.parametrize("version", ["3.10", "4.3"])
def test_every_scenario_is_recorded(version: str) -> None:
    assert RECORDED[version].keys() == SCENARIOS.keys()


def test_own_record_has_only_accepted_differences() -> None:
    own = {name for name, difference in ACCEPTED.items() if difference.like == recordings.OWN}

    assert RECORDED[recordings.OWN].keys() == own
