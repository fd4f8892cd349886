"""Settings for all tests. Timeouts, strictness and asyncio's debug mode are in pyproject.toml."""

from __future__ import annotations

import gc
import os
import warnings
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from broker.build import build_kind

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.helpers.certificates import CertificateFiles

pytest.register_assert_rewrite("tests.helpers")

# Where Leveret is not installed, nobody finds its plugin.
_IS_INSTALLED = any(one.name == "leveret" for one in entry_points(group="pytest11"))
pytest_plugins = ["pytester"] if _IS_INSTALLED else ["pytester", "leveret_pytest"]

# Shared, loaded machines make deadlines lie: an example that hangs is caught by the test's timeout.
_BASE = settings(
    deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

# The same change says the same twice; whoever searches for something new takes `long`.
for _name, _max_examples in {"quick": 25, "ci": 100}.items():
    settings.register_profile(_name, _BASE, max_examples=_max_examples)

settings.register_profile("long", _BASE, max_examples=5_000, derandomize=False)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test another build than the one that was asked for."""
    expected = os.environ.get("LEVERET_EXPECT_BUILD", build_kind())
    if build_kind() != expected:
        raise pytest.UsageError(f"expected the {expected} build, found the {build_kind()} one")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever searches for long has time."""
    if _PROFILE == "long":
        for item in items:
            item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_report_header() -> str:
    return f"leveret: {build_kind()} build"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    """Certificates for all tests of a run: to make them takes a while."""
    from tests.helpers.certificates import CertificateFiles

    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Take the garbage out after a module that expects warnings.

    Client libraries leave sockets to the garbage collector. Collected later, in the middle of some
    other module's test, their warnings would fail that one.
    """
    result = yield
    is_last_of_module = nextitem is None or nextitem.path != item.path
    if is_last_of_module and item.get_closest_marker("filterwarnings") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()

    return result
