"""Names with line ends and terminal escapes: harmless in logs, tables and metrics."""

from __future__ import annotations

import io
import json
from typing import Final

import pytest

from broker.config.schema import LogConfig
from broker.logs import Log
from tests.helpers.session import World, handshake, method

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
