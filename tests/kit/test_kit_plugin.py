"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.testing import Broker
from tests.helpers.kit_plugin import PLUGIN, set_path

if TYPE_CHECKING:
    from pytest import Pytester  # noqa: PT013 - a type

PROJECT = Path(__file__).resolve().parents[2]
OPTIONS = (*PLUGIN, "-p", "no:cacheprovider")


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """What a run within this one imports is forgotten with it; half of a package must not be."""
    with Broker({"version": 1}, durable=True, definitions={}):
        pass


@pytest.fixture
def run(pytester: Pytester) -> Pytester:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def test_importing_the_plugin_imports_nothing_of_the_broker() -> None:
    program = (
        "import sys, leveret_pytest\n"
        "print(sorted(name for name in sys.modules if name.startswith('broker')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", ["broker.py", "broker/__init__.py", "broker/testing/__init__.py"], ids=str
)
def test_a_program_may_have_a_broker_of_its_own(
    pytester: Pytester, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It runs as ever; who asks for a fixture all the same is told what is in the way."""
    own = pytester.path / path
    for folder in [one for one in own.parents if pytester.path in one.parents]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()

    own.write_text("")
    package = pytester.path / path.partition("/")[0]
    test = pytester.makepyfile(
        """
        def test_own():
            import broker

        def test_fixture(leveret):
            pass
        """
    )
    set_path(monkeypatch, str(pytester.path))

    result = pytester.runpytest_subprocess(*OPTIONS, test, timeout=30)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*but here `broker` is {package}*: rename that*"])


def test_the_entry_point_is_a_module_of_its_own_name() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    [name] = settings["project"]["entry-points"]["pytest11"].values()
    assert settings["tool"]["setuptools"]["py-modules"] == [name]
    assert (PROJECT / f"{name}.py").exists()


@pytest.mark.parametrize("isolation", ["broker", "vhost"])
def test_each_test_begins_with_nothing(run: Pytester, isolation: str) -> None:
    run.makepyfile(
        """
        import pika, pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(leveret, leveret_url, number):
            assert leveret.queues == []
            assert not leveret.history.events
            with pika.BlockingConnection(pika.URLParameters(leveret_url)) as connection:
                channel = connection.channel()
                channel.queue_declare("q", durable=True)
                channel.basic_publish("", "q", b"hare")
                leveret.wait_idle()
                leveret.queue("q").assert_published(1)
                leveret.faults.raise_alarm()
                leveret.clock.freeze()
            assert leveret.clock.is_frozen
        """
    )
    result = run.runpytest_inprocess(*OPTIONS, f"--leveret-isolation={isolation}")
    result.assert_outcomes(passed=3)


def test_virtual_hosts_share_a_broker_and_nothing_else(run: Pytester) -> None:
    run.makepyfile(
        """
        import pika

        def test_it(leveret, leveret_session):
            assert leveret.port == leveret_session.port
            assert leveret.url == leveret_session.url + leveret.vhost
            for broker in (leveret, leveret_session):
                with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                    connection.channel().basic_publish("", "nowhere", b"hare")
                    assert len(broker.connections) == (2 if broker is leveret_session else 1) - (
                        1 if broker is leveret_session else 0)
                    broker.wait_idle()
            assert len(leveret.history.published()) == 1
            assert len(leveret_session.history.published()) == 2
            assert leveret.faults.drop_connections() == 0
        """
    )
    result = run.runpytest_inprocess(*OPTIONS, "--leveret-isolation=vhost")
    result.assert_outcomes(passed=1)


def test_wider_scopes_keep_their_broker(run: Pytester) -> None:
    run.makepyfile(
        """
        seen = {}

        def test_first(leveret_module, leveret_session, leveret):
            seen.update(module=leveret_module.port, session=leveret_session.port)
            assert len({leveret.port, *seen.values()}) == 3

        def test_second(leveret_module, leveret_session):
            assert seen == dict(module=leveret_module.port, session=leveret_session.port)
        """
    )
    run.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=2)


def test_marks_are_options_and_the_nearest_one_wins(run: Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.leveret(compat="rabbitmq-4.3", definitions={
            "queues": [{"name": "given", "durable": True, "arguments": {}}],
        })

        def version_of(leveret):
            return leveret.stage.node.settings.release.name

        def test_module(leveret):
            assert (version_of(leveret), leveret.queues) == ("4.3", ["given"])

        @pytest.mark.leveret(compat="rabbitmq-3.10", durable=True)
        def test_function(leveret):
            assert version_of(leveret) == "3.10"
            leveret.faults.restart()
            assert leveret.queues == ["given"]

        @pytest.mark.leveret(config={"vhosts": {"/": {"queues": {"q": {}}}}}, definitions=None)
        def test_config(leveret):
            assert leveret.queues == ["q"]
        """
    )
    run.runpytest_inprocess(*OPTIONS, "--leveret-isolation=vhost").assert_outcomes(passed=3)


def test_a_release_for_all_tests_leaves_them_on_one_broker(run: Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        def test_alike(leveret, leveret_session):
            assert leveret.port == leveret_session.port
            assert leveret.stage.node.settings.release.name == "4.0"

        @pytest.mark.leveret(compat="rabbitmq-4.3")
        def test_other(leveret, leveret_session):
            assert leveret.port != leveret_session.port
        """
    )
    options = ("--leveret-isolation=vhost", "--leveret-compat=rabbitmq-4.0")
    run.runpytest_inprocess(*OPTIONS, *options).assert_outcomes(passed=2)


def test_options_come_from_the_configuration_too(run: Pytester) -> None:
    run.makefile(".yaml", production="queues:\n- {name: given, vhost: shop, durable: true}\n")
    run.makeini(
        "[pytest]\nleveret_compat = rabbitmq-4.0\nleveret_definitions = production.yaml\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    run.makepyfile(
        """
        def test_it(leveret):
            assert leveret.stage.node.settings.release.name == "4.0"
            assert leveret.queues == ["given"]
        """
    )
    run.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        pytest.param("durability=True", "durability is not an option", id="unknown"),
        pytest.param("'4.3'", "'4.3' is not an option", id="positional"),
        pytest.param("isolation='none'", "leveret_isolation is none", id="isolation"),
        pytest.param("compat='rabbitmq-9'", "rabbitmq", id="compat"),
        pytest.param("compat=4.3", "compat is a text such as", id="compat-float"),
        pytest.param(
            "config=[1]", "config is a mapping like a configuration, not [1]", id="config"
        ),
        pytest.param("definitions=['x']", "definitions is a path, or a mapping", id="definitions"),
        pytest.param("durable='no'", "durable is True or False, not 'no'", id="durable"),
    ],
)
def test_wrong_options_are_told(run: Pytester, mark: str, text: str) -> None:
    run.makepyfile(
        f"""
        import pytest

        @pytest.mark.leveret({mark})
        def test_it(leveret):
            pass
        """
    )
    result = run.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(errors=1)
    assert text in result.stdout.str()


@pytest.mark.parametrize("fixture", ["leveret_session", "leveret_module"])
def test_a_mark_that_nothing_heeds_is_an_error(run: Pytester, fixture: str) -> None:
    run.makepyfile(
        f"""
        import pytest

        @pytest.mark.leveret(compat="rabbitmq-4.3")
        def test_function({fixture}):
            pass

        @pytest.mark.leveret(compat="rabbitmq-4.3")
        class TestClass:
            def test_method(self, {fixture}):
                pass

            def test_other(self, {fixture}, leveret):
                pass
        """
    )
    result = run.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines([f"*test_function has no effect on {fixture}: use the fixture*"])


def test_a_test_that_fails_shows_the_story(run: Pytester) -> None:
    run.makepyfile(
        """
        import pika

        def test_it(leveret):
            with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
                connection.channel().basic_publish("", "nowhere", b"hare")
                leveret.wait_idle()
            assert 1 == 2
        """
    )
    result = run.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*leveret at amqp://guest:guest@127.0.0.1:*", "*unroutable*#1*"])


def test_asynchronous_tests_await_what_waits(run: Pytester) -> None:
    run.makepyfile(
        """
        import aio_pika, pytest

        @pytest.mark.asyncio
        async def test_it(leveret):
            connection = await aio_pika.connect(leveret.url)
            async with connection, connection.channel() as channel:
                queue = await channel.declare_queue("q")
                await channel.default_exchange.publish(aio_pika.Message(b"hare"), "q")
                message = await queue.get()
                with pytest.raises(AssertionError, match="not idle after 0.05 s"):
                    await leveret.wait_idle(timeout=0.05)
                await message.ack()
                await leveret.wait_idle()
                leveret.queue("q").assert_acked(1)
        """
    )
    run.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)


def test_what_is_not_awaited_is_told(run: Pytester) -> None:
    run.makepyfile(
        """
        import gc, pytest

        @pytest.mark.asyncio
        async def test_it(leveret):
            with pytest.warns(RuntimeWarning, match=r"write `await wait_idle\\(\\)`"):
                leveret.wait_idle()
                gc.collect()
        """
    )
    run.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1, errors=1)


def test_a_forgotten_await_is_an_error(run: Pytester) -> None:
    run.makepyfile(
        """
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.filterwarnings("ignore:.*was not awaited")
        async def test_it(leveret):
            leveret.wait_for(lambda: False, timeout=0.1)
            leveret.clock.advance(60)

        @pytest.mark.asyncio
        async def test_another(leveret):
            await leveret.clock.advance(60)
        """
    )
    result = run.runpytest(*OPTIONS)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*wait_for* was not awaited: write `await *wait_for*` in a coro*"])
