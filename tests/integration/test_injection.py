"""Names with line ends and terminal escapes: harmless in logs, tables and metrics."""

from __future__ import annotations

import csv
import io
import json
import socket
from typing import TYPE_CHECKING, Final

import pytest

from broker.cli.ctl.printing import FORMATS
from broker.config.schema import LogConfig
from broker.embedded import Broker
from broker.logs import Log
from tests.helpers.ctl import Ctl
from tests.helpers.session import World, handshake, method
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL: Final = (
    "q\r\n2026-01-01T00:00:00.000Z error   all.is.lost user=root"
    "\x1b[2J\x1b]0;title\x07\u202e\x00\x9b31m"
)
UNSAFE: Final = "\r\x1b\x07\u202e\x00\x9b"


def logged(log_format: str) -> str:
    """What is written when a client has such names in all the places there are."""
    stream = io.StringIO()
    log = Log("debug", log_format, stream)
    world = World()
    world.node.log = log
    evil = EVIL[:200]
    wrong = world.connect()
    wrong.feed(handshake(user=evil, password="x"))
    nowhere = world.connect()
    nowhere.feed(handshake(vhost=evil))
    session = world.open(1, 2)
    session.feed(method(1, "queue.declare", queue=evil, passive=True))
    session.feed(method(2, "exchange.declare", exchange="x", type=evil))
    world.node.log("warning", "access.request", {"path": f"/{evil}", "user": evil})
    return stream.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_makes_no_line_of_its_own_and_moves_no_cursor(log_format: str) -> None:
    text = logged(log_format)
    assert not set(UNSAFE) & set(text)
    lines = text.splitlines()
    assert len(lines) >= 5
    for line in lines:
        assert not line.startswith("2026-01-01"), "the client wrote this line"
        if log_format == "json":
            assert json.loads(line)["event"] != "all.is.lost"
        else:
            # The moment, the level and the event come from the broker.
            assert line[:2] == "20"
            assert "all.is.lost" not in line[:60]

    assert sum("all.is.lost" in line for line in lines) >= 4, "it is shown, and harmless"


def test_the_default_is_what_was_tried() -> None:
    assert LogConfig().format == "text"


# -- what ctl shows

NAME: Final = "q\nforged\trow\r\x1b[2J\x1b]0;title\x07\x7f\x9b31m\u202e\u2028end"
QUEUE: Final = NAME.replace("\r", "").replace("\n", "")
"""Queues and exchanges have no line ends in their names: they are taken out (rule CH-17)."""

UNSAFE_IN_TABLES: Final = "\r\x1b\x07\x7f\x9b\u202e\u2028"
LISTS: Final = (
    "list_queues name arguments",
    "list_exchanges name",
    "list_bindings source_name destination_name routing_key arguments",
    "list_consumers queue_name consumer_tag",
    "list_connections user client_properties",
    "list_policies",
    "list_vhosts name description",
)


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    """Of a broker where somebody chose such names wherever there is a choice."""
    directory = tmp_path_factory.mktemp("injection")
    config = {"storage": {"data_dir": str(directory)}, "management": {"enabled": True}}
    with Broker.in_thread(config, log_level="error") as broker:
        ctl = Ctl("--data-dir", str(directory))
        assert ctl("add_vhost", NAME, "--description", NAME).status == 0
        assert ctl("set_policy", NAME, ".*", '{"max-length": 9}').status == 0
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"connection_name": NAME}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, arguments={NAME: NAME})
            channel.exchange_declare(QUEUE)
            channel.queue_bind(QUEUE, QUEUE, NAME, {NAME: NAME})
            channel.basic_consume(QUEUE, lambda *_: None, consumer_tag=NAME)
            yield ctl


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("line", LISTS)
def test_a_name_is_one_cell_of_a_list_and_does_nothing_to_a_terminal(
    ctl: Ctl, line: str, form: str
) -> None:
    text = ctl.does(f"{line} --formatter {form}")
    assert not set(UNSAFE_IN_TABLES) & set(text)
    assert "forged" in text
    assert not any(one.startswith("forged") for one in text.splitlines())
    if form == "table":
        columns = {one.count("\t") for one in text.splitlines()[-2:]}
        assert len(columns) == 1, "a tab in a name makes a column"
    elif form == "csv":
        assert all(one.startswith('"') for one in text.splitlines())
        assert len({len(row) for row in csv.reader(io.StringIO(text))}) == 1


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")
def test_json_tells_the_name_as_it_is(ctl: Ctl) -> None:
    [row] = json.loads(ctl.does("list_queues name --formatter json"))
    assert row == {"name": QUEUE}
    rows = json.loads(ctl.does("list_vhosts name description --formatter json"))
    assert {"name": NAME, "description": NAME} in rows


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("report",), id="report"),
        pytest.param(("status",), id="status"),
        pytest.param(("list_queues", "-p", NAME), id="banner"),
        pytest.param(("delete_queue", QUEUE + "!"), id="error"),
        pytest.param(("set_permissions", QUEUE, ".*", ".*", ".*"), id="no-such-user"),
    ],
)
def test_what_else_is_said_is_harmless_too(ctl: Ctl, words: tuple[str, ...]) -> None:
    outcome = ctl(*words)
    text = outcome.out + outcome.err
    assert not set(UNSAFE_IN_TABLES) & set(text)
    assert not any(one.startswith("forged") for one in text.splitlines())
