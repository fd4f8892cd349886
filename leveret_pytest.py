"""The pytest plugin: fixtures, options, and the story of a test that fails.

pytest loads this with every run where Leveret is installed. Invariant: until a test asks for one of
the fixtures, nothing of the broker is imported, and nothing else is done. It stands beside the
package, because a program under test may well have a module of its own that is called broker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import UnionType

    from broker.testing.broker import Broker

    Definitions = Mapping[str, object] | str | os.PathLike[str]

__all__ = ["leveret", "leveret_module", "leveret_session", "leveret_url"]

MARKER: Final = (
    "leveret(isolation, compat, durable, definitions, config): options of the broker that the"
    " fixtures `leveret` and `leveret_url` give"
)
OPTIONS: Final = frozenset({"isolation", "compat", "durable", "definitions", "config"})
OWN_BROKER: Final = ("compat", "durable", "config")
"""Options that a virtual host on a broker of others cannot have."""

KINDS: Final[dict[str, tuple[type | UnionType, str]]] = {
    "compat": (str, 'a text such as "rabbitmq-4.3"'),
    "config": (Mapping, "a mapping like a configuration"),
    "definitions": (Mapping | str | os.PathLike, "a path, or a mapping of exported definitions"),
    "durable": (bool, "True or False"),
}

BROKER: Final = "broker"
VHOST: Final = "vhost"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("leveret", "Leveret, an AMQP broker inside the tests")
    group.addoption(
        "--leveret-isolation",
        choices=(BROKER, VHOST),
        help="what each test gets fresh; overrides leveret_isolation of the configuration",
    )
    group.addoption(
        "--leveret-compat",
        metavar="RELEASE",
        help="be as strict as rabbitmq-3.10, rabbitmq-4.0, rabbitmq-4.3, ...",
    )
    parser.addini(
        "leveret_isolation",
        "what each test gets fresh: `broker`, or `vhost` on a broker that all tests share",
        default=BROKER,
    )
    parser.addini("leveret_compat", "the release of RabbitMQ to be as strict as", default="")
    parser.addini("leveret_definitions", "exported definitions to begin with, a path", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when == "call":
        for broker in _brokers_of(item):
            report.sections.append((f"leveret at {broker.url}", broker.history.story()))

    return report


def _brokers_of(item: pytest.Item) -> list[Broker]:
    """The brokers that a test has got; none, without an import, where none was ever made."""
    kind = getattr(sys.modules.get("broker.testing.broker"), "Broker", None)
    funcargs: dict[str, object] = getattr(item, "funcargs", {})
    if not isinstance(kind, type) or not hasattr(kind, "fresh_vhost"):
        return []

    found = [value for value in funcargs.values() if isinstance(value, kind)]
    return [broker for broker in cast("list[Broker]", found) if broker.stage.is_running]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a mark that nothing heeds: brokers of several tests are not made for one of them."""
    names = set(getattr(item, "fixturenames", ()))
    wider = names & {"leveret_module", "leveret_session"}
    if not wider or "leveret" in names:
        return

    for node, _ in item.iter_markers_with_node("leveret"):
        if isinstance(node, pytest.Item | pytest.Class):
            raise pytest.UsageError(
                f"pytest.mark.leveret at {node.name} has no effect on"
                f" {' and '.join(sorted(wider))}: use the fixture `leveret`, or mark the module for"
                " `leveret_module`"
            )


@pytest.fixture
def leveret(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of the test's own, or a virtual host of its own (leveret_isolation)."""
    options = _options_of(request)
    if options["isolation"] == VHOST and not _needs_own_broker(request, options):
        shared: Broker = request.getfixturevalue("leveret_session")
        broker = shared.fresh_vhost(definitions=_definitions_in(options))
    else:
        broker = _new_broker(options)

    with broker:
        yield broker
        forgotten = broker.stage.forgotten
        if forgotten:
            # What was not waited for was not asserted either: a test that says so must not pass.
            texts = list(dict.fromkeys(forgotten))
            forgotten.clear()
            pytest.fail("\n".join(texts), pytrace=False)


def _needs_own_broker(request: pytest.FixtureRequest, options: dict[str, object]) -> bool:
    """Whether the broker of all tests cannot be as this test wants it."""
    shared = _options_of(request, of=request.session)
    return any(options.get(name) != shared.get(name) for name in OWN_BROKER)


@pytest.fixture
def leveret_url(leveret: Broker) -> str:
    """Where the test's broker is: ``amqp://guest:guest@127.0.0.1:<port>/``."""
    return leveret.url


@pytest.fixture(scope="module")
def leveret_module(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for all tests of a module."""
    with _new_broker(_options_of(request)) as broker:
        yield broker


@pytest.fixture(scope="session")
def leveret_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for all tests of the run (under xdist, of the worker process)."""
    with _new_broker(_options_of(request)) as broker:
        yield broker


def _options_of(
    request: pytest.FixtureRequest, of: pytest.Item | pytest.Collector | None = None
) -> dict[str, object]:
    """The options of whom a fixture is for, or of another one."""
    config = request.config
    options: dict[str, object] = {
        "isolation": config.getoption("--leveret-isolation") or config.getini("leveret_isolation"),
        "compat": config.getoption("--leveret-compat") or config.getini("leveret_compat") or None,
    }
    definitions = str(config.getini("leveret_definitions"))
    if definitions:
        options["definitions"] = str(config.rootpath / definitions)

    for mark in reversed(list((of or request.node).iter_markers("leveret"))):
        unknown = set(mark.kwargs) - OPTIONS
        if unknown or mark.args:
            wrong = min(unknown) if unknown else repr(mark.args[0])
            raise pytest.UsageError(f"pytest.mark.leveret: {wrong} is not an option; {MARKER}")

        options.update(mark.kwargs)

    if options["isolation"] not in (BROKER, VHOST):
        raise pytest.UsageError(f"leveret_isolation is {options['isolation']}: broker or vhost?")

    for name, (kind, what) in KINDS.items():
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            raise pytest.UsageError(f"pytest.mark.leveret: {name} is {what}, not {value!r}")

    return options


def _new_broker(options: dict[str, object]) -> Broker:
    config = options.get("config")
    compat = options.get("compat")
    assert config is None or isinstance(config, Mapping)
    assert compat is None or isinstance(compat, str)
    make = _broker_class()
    return make(
        config,
        compat=compat,
        durable=bool(options.get("durable")),
        definitions=_definitions_in(options),
    )


def _broker_class() -> type[Broker]:
    """Leveret's, where ``broker`` is Leveret."""
    try:
        from broker.testing.broker import Broker
    except ModuleNotFoundError as problem:
        if problem.name not in ("broker", "broker.testing", "broker.testing.broker"):
            raise

        other = sys.modules.get("broker")
        pytest.fail(
            f"the fixtures of Leveret need its package `broker`, but here `broker` is"
            f" {getattr(other, '__file__', None) or other}: rename that, or keep it from being"
            " found first (pytest's --import-mode=importlib puts no folder of tests on sys.path)",
            pytrace=False,
        )

    return Broker


def _definitions_in(options: dict[str, object]) -> Definitions | None:
    definitions = options.get("definitions")
    assert definitions is None or isinstance(definitions, Mapping | str | os.PathLike)
    return definitions
