"""Rule CF-05 by example; tests/property/test_confirms.py has the general case."""

from __future__ import annotations

import pytest

from tests.helpers.core import Confirmed, CoreWorld


@pytest.mark.parametrize(
    ("acts", "sent"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("a", [("ack", 1, False)], id="a-single-ack-is-not-multiple"),
        pytest.param("aaa", [("ack", 3, True)], id="acks-go-as-one"),
        pytest.param("r", [("nack", 1, True)], id="a-single-nack-is-multiple"),
        pytest.param("rr", [("nack", 2, True)], id="nacks-go-as-one"),
        pytest.param("aar", [("ack", 2, True), ("nack", 3, False)], id="acks-below-a-nack"),
        pytest.param(
            "ara", [("ack", 1, True), ("ack", 3, False), ("nack", 2, False)], id="a-nack-between"
        ),
        pytest.param("raa", [("ack", 2, False), ("ack", 3, False), ("nack", 1, True)], id="first"),
        pytest.param("h", [], id="held"),
        pytest.param("ha", [("ack", 2, False)], id="above-a-held-one"),
        pytest.param("haa", [("ack", 2, False), ("ack", 3, False)], id="two-above-a-held-one"),
        pytest.param("aha", [("ack", 1, True), ("ack", 3, False)], id="on-both-sides"),
        pytest.param("aa/aa", [("ack", 2, True), ("ack", 4, True)], id="two-flushes"),
        pytest.param("a/r", [("ack", 1, False), ("nack", 2, True)], id="nack-after-all-is-known"),
    ],
)
def test_answers(acts: str, sent: list[tuple[str, int, bool]]) -> None:
    """``a`` is accepted, ``r`` refused, ``h`` held, ``/`` a flush."""
    client = CoreWorld().client()
    confirms = client.confirm_select()
    found: list[Confirmed] = []
    for act in acts:
        if act == "a":
            confirms.accept()
        elif act == "r":
            confirms.refuse()
        elif act == "h":
            confirms.hold()
        else:
            found += client.confirmed()

    assert [*found, *client.confirmed()] == sent


def test_a_nack_has_the_requeue_bit() -> None:
    """Rule CF-10: meaningless, but as RabbitMQ sends it."""
    client = CoreWorld().client()
    client.confirm_select().refuse()
    [heard] = client.heard()
    assert heard.arguments == {"delivery_tag": 1, "multiple": True, "requeue": True}


def test_a_released_number_is_acked() -> None:
    client = CoreWorld().client()
    confirms = client.confirm_select()
    number = confirms.hold()
    confirms.accept()
    assert client.confirmed() == [("ack", 2, False)]
    confirms.release(number)
    assert client.confirmed() == [("ack", 1, False)]
    assert confirms.unconfirmed == 0
