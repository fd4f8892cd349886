"""Settings for all tests. Timeouts, strictness and asyncio's debug mode are in pyproject.toml."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from broker.build import build_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("tests.helpers")

# Shared, loaded machines make deadlines lie: an example that hangs is caught by the test's timeout.
_BASE = settings(
    deadline=None, derandomize=False, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)

for _name, _max_examples in {"quick": 25, "dev": 100, "ci": 100, "long": 5_000}.items():
    settings.register_profile(_name, _BASE, max_examples=_max_examples)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test another build than the one that was asked for."""
    expected = os.environ.get("LEVERET_EXPECT_BUILD", build_kind())
    if build_kind() != expected:
        raise pytest.UsageError(f"expected the {expected} build, found the {build_kind()} one")


def pytest_report_header() -> str:
    return f"leveret: {build_kind()} build"


@pytest.fixture(autouse=True, scope="module")
def _garbage_is_held_against_those_who_left_it(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect while the filters of a module that expects warnings still hold.

    Client libraries leave sockets to the garbage collector. Collected later, in the middle of some
    other module's test, their warnings would fail that one.
    """
    yield
    if request.node.get_closest_marker("filterwarnings") is not None:
        gc.collect()
