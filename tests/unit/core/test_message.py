from __future__ import annotations

import pytest

from broker.core.message import (
    NO_DEADLINE,
    Address,
    Message,
    build_content,
    content_body,
    content_on_channel,
    content_with_properties,
)
from tests.helpers.core import raw_properties
from tests.helpers.session import body, header

PLAIN = b"\x00\x00"
CHANNEL_7 = b"\x00\x07"


@pytest.mark.parametrize(
    ("size", "payload_max", "frames"),
    [
        pytest.param(0, 100, 0, id="empty-has-no-body-frame"),
        pytest.param(1, 100, 1, id="one-byte"),
        pytest.param(100, 100, 1, id="just-fits"),
        pytest.param(101, 100, 2, id="one-byte-more"),
        pytest.param(250, 100, 3, id="several"),
        pytest.param(250, 0, 1, id="unlimited"),
    ],
)
def test_content_is_framed_as_rule_f03_says(size: int, payload_max: int, frames: int) -> None:
    """Rule F-03: bodies are split at the limit, and an empty one has no frame at all."""
    data = b"x" * size
    content = build_content(PLAIN, data, payload_max)
    assert content == header(0, size) + body(0, data, payload_max or 1_000)
    assert content.count(b"\x03\x00\x00") == frames
    assert content_body(content) == data


@pytest.mark.parametrize(
    ("size", "was", "is_now"),
    [
        pytest.param(0, 100, 50, id="empty"),
        pytest.param(40, 100, 50, id="fits"),
        pytest.param(100, 100, 50, id="split-in-two"),
        pytest.param(130, 100, 50, id="two-frames-split-each"),
        pytest.param(130, 50, 100, id="small-frames-stay"),
        pytest.param(130, 100, 0, id="unlimited"),
    ],
)
def test_content_goes_to_another_channel(size: int, was: int, is_now: int) -> None:
    """Every frame is on the new channel, none is too large, and the message is the same."""
    raw = raw_properties(message_id="m", headers={"a": 1})
    data = bytes(range(256))[:size]
    moved = content_on_channel(build_content(raw, data, was), CHANNEL_7, is_now)
    assert moved.startswith(header(7, size, raw))
    assert content_body(moved) == data
    position = 0
    while position < len(moved):
        payload = int.from_bytes(moved[position + 3 : position + 7], "big")
        assert moved[position + 1 : position + 3] == CHANNEL_7
        assert moved[position + 7 + payload] == 0xCE
        if moved[position] == 3 and is_now:
            assert payload <= is_now

        position += 8 + payload


def test_properties_are_replaced_and_the_body_stays() -> None:
    content = build_content(raw_properties(content_type="text/plain"), b"hare" * 100, 150)
    changed = content_with_properties(content, raw_properties(priority=3))
    assert changed == build_content(raw_properties(priority=3), b"hare" * 100, 150)


def test_properties_are_read_from_the_content() -> None:
    content = build_content(raw_properties(expiration="50", priority=3), b"hare")
    properties = Message(Address("", "q"), content, 4, False, 3).properties()
    assert properties.expiration == "50"
    assert properties.priority == 3


def test_a_copy_shares_everything_but_its_place() -> None:
    """Rule P-25: N queues get N messages, and one content."""
    message = Message(Address("x", "k"), b"content", 7, True, 5)
    message.position = 9
    message.deadline_ms = 1_000
    message.redelivered = True
    twin = message.copy()
    assert (twin.address, twin.content) == (message.address, message.content)
    assert (twin.body_size, twin.is_persistent, twin.priority) == (7, True, 5)
    assert (twin.position, twin.deadline_ms, twin.redelivered) == (0, NO_DEADLINE, False)


@pytest.mark.parametrize("text", ["", "k", "schlüssel", "\udcff", "x" * 255])
def test_an_address_has_the_names_as_they_came(text: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")[:255]
    name = raw.decode("utf-8", "surrogateescape")
    wire = bytes((len(raw),)) + raw
    address = Address(name, name)
    assert address.wire == wire + wire
    assert address.tail == b"\x00" + wire + wire + b"\xce"
    assert address.tail_redelivered == b"\x01" + wire + wire + b"\xce"
