"""docs/authorisation.md says what is so: everything is tried again, and compared."""

from __future__ import annotations

from scripts.support.authorisation import DOCUMENT, updated
from tests.helpers.authorisation import amqp_rows, role_rows
from tests.helpers.methods import CLIENT_METHODS

HANDSHAKE = {"connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.open"}


async def test_the_tables_are_what_is_found_out_by_trying() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.count("<!-- tried:") == 3
    assert await updated(text) == text, "run python -m scripts.support.authorisation"


def test_every_method_has_a_line() -> None:
    names = {name.split("`")[1] for name, _ in amqp_rows()}
    assert names == set(CLIENT_METHODS) - HANDSHAKE


def test_nobody_gets_anywhere_but_where_everybody_does() -> None:
    open_to_all = {row[0] for row in role_rows() if row[1] == "yes"}
    assert open_to_all == {
        "`GET /version`",
        "`POST /login`",
        "`DELETE /login`",
        "`GET /health/checks/is-in-service`",
        "`GET /health/checks/below-node-connection-limit`",
        "`GET /health/checks/ready-to-serve-clients`",
        "`GET /health/checks/reached-target-cluster-size`",
    }
