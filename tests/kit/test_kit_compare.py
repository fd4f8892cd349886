"""What programs count on holds here, and not in kombu's memory transport (docs/testing.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.support.kit_compare import BEHAVIOURS, Bench, a_binding_can_be_taken_back, holds

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.testing import Broker

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_it_holds_here(leveret_module: Broker, behaviour: Callable[[Bench], bool]) -> None:
    assert holds(behaviour, leveret_module.url)


def test_little_of_it_holds_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.support.kit_compare.TIMEOUT_S", 0.01)
    found = [one for one in BEHAVIOURS if holds(one, "memory://")]
    assert found == [a_binding_can_be_taken_back]
