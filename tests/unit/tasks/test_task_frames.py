"""Frames written by hand are what pamqp reads."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from broker.tasks.frames import ack_frame, nack_frame, publish_frames, template


def _frames(data: bytes) -> list[Any]:
    found: list[Any] = []
    while data:
        count, channel, one = frame.unmarshal(data)
        assert channel == 7
        found.append(one)
        data = data[count:]

    return found


@pytest.mark.parametrize("is_multiple", [False, True])
def test_an_acknowledgement(is_multiple: bool) -> None:
    (ack,) = _frames(ack_frame(7, 2**40, multiple=is_multiple))
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (2**40, is_multiple)


@pytest.mark.parametrize("is_requeued", [False, True])
def test_a_refusal(is_requeued: bool) -> None:
    (nack,) = _frames(nack_frame(7, 3, requeue=is_requeued))
    assert isinstance(nack, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple, nack.requeue) == (3, False, is_requeued)


def test_a_publish_with_all_properties() -> None:
    made = template(
        "application/json",
        "mail.send",
        priority=3,
        reply_to="answers",
        expiration_ms=1500,
    )
    publish, header, body = _frames(
        publish_frames(7, ("x", "key é", True), made.with_id("42"), b"[1]", 131072)
    )
    assert isinstance(publish, commands.Basic.Publish)
    assert (publish.exchange, publish.routing_key, publish.mandatory) == ("x", "key é", True)
    given = header.properties
    assert given.content_type == "application/json"
    assert given.message_type == "mail.send"
    assert given.message_id == "42"
    assert given.priority == 3
    assert given.reply_to == "answers"
    assert given.expiration == "1500"
    assert given.delivery_mode == 2
    assert body.value == b"[1]"


def test_what_is_not_said_is_not_sent() -> None:
    made = template("", "", is_persistent=False)
    _, header = _frames(publish_frames(7, ("", "q", False), made.with_id("1"), b"", 131072))
    given = header.properties
    assert header.body_size == 0
    assert given.delivery_mode == 1
    assert given.content_type is None
    assert given.message_type is None
    assert given.priority is None


@pytest.mark.parametrize("size", [4088, 4089, 20_000])
def test_a_body_is_cut_into_frames_that_fit(size: int) -> None:
    body = bytes(size % 251 for size in range(size))
    data = publish_frames(7, ("", "q", False), template("", "").with_id("1"), body, 4096)
    _, header, *pieces = _frames(data)
    assert header.body_size == size
    assert b"".join(piece.value for piece in pieces) == body
    assert all(len(piece.value) <= 4088 for piece in pieces)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="255 bytes"):
        template("", "").with_id("x" * 256)
