"""Every scenario of interop/compare, played against a node and compared with what RabbitMQ did.

A difference is a failure unless interop/compare/accepted.py names the scenario with a reason.
"""

from __future__ import annotations

import pytest

from interop.compare import recordings, scenarios
from interop.compare.accepted import ACCEPTED
from interop.compare.catalogue import SCENARIOS, Scenario
from interop.compare.session import Target, run_scenario
from tests.helpers.wires import embedded_target

assert scenarios.__all__, "importing them fills the catalogue"

RECORDED = {
    label: recordings.load(label).transcripts
    for label in (recordings.NEW, recordings.OLD, recordings.OWN)
}


@pytest.fixture(scope="module")
def target() -> Target:
    return embedded_target()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_scenario_goes_as_recorded(scenario: Scenario, target: Target) -> None:
    accepted = ACCEPTED.get(scenario.name)
    label = accepted.like if accepted else recordings.NEW

    assert run_scenario(scenario, target) == RECORDED[label][scenario.name]


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_difference_is_one(name: str) -> None:
    expected = RECORDED[ACCEPTED[name].like][name]

    assert expected != RECORDED[recordings.NEW][name]
    if ACCEPTED[name].like == recordings.OWN:
        assert expected != RECORDED[recordings.OLD][name], "then it is a difference of versions"


@pytest.mark.parametrize("version", [recordings.NEW, recordings.OLD])
def test_every_scenario_is_recorded(version: str) -> None:
    assert RECORDED[version].keys() == SCENARIOS.keys()


def test_own_record_has_only_accepted_differences() -> None:
    own = {name for name, difference in ACCEPTED.items() if difference.like == recordings.OWN}

    assert RECORDED[recordings.OWN].keys() == own
