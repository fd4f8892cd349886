"""The load generator must count right: a figure over lost messages would be worthless."""

from __future__ import annotations

import struct

import pytest

from scripts.benchmark.client import BrokerError, parse_target
from scripts.benchmark.consumer import DeliveryCounter
from scripts.benchmark.frames import CHANNEL, frame, measure_delivery, method, publish, short_string
from scripts.benchmark.publisher import ConfirmCounter, ConfirmDelays


def confirm(tag: int, *, multiple: bool = False, method_id: int = 80) -> bytes:
    return method(CHANNEL, 60, method_id, struct.pack(">QB", tag, multiple))


def delivery(tag: int, body: bytes = b"x" * 100, pieces: int = 1) -> bytes:
    arguments = short_string("c000") + struct.pack(">QB", tag, 0) + short_string("") * 2
    step = len(body) // pieces
    bodies = [
        frame(3, CHANNEL, body[start : start + step]) for start in range(0, len(body), step or 1)
    ]
    header = frame(2, CHANNEL, struct.pack(">HHQH", 60, 0, len(body), 0))
    return method(CHANNEL, 60, 60, arguments) + header + b"".join(bodies)


@pytest.mark.parametrize(
    ("acks", "confirmed"),
    [
        pytest.param([(1, False), (2, False), (3, False)], 3, id="singles-in-order"),
        pytest.param([(5, True)], 5, id="one-multiple"),
        pytest.param([(5, True), (5, True)], 5, id="a-repeated-multiple-counts-once"),
        pytest.param([(3, False), (7, False)], 2, id="singles-ahead"),
        pytest.param([(3, False), (2, True)], 3, id="a-multiple-meets-a-single-ahead"),
        pytest.param([(3, False), (4, True)], 4, id="a-multiple-swallows-a-single"),
        pytest.param([(2, False), (1, False), (3, False)], 3, id="a-gap-is-filled"),
        pytest.param([(4, True), (6, False), (5, False)], 6, id="a-gap-above-a-multiple"),
    ],
)
def test_each_message_is_confirmed_once_however_acks_are_grouped(
    acks: list[tuple[int, bool]], confirmed: int
) -> None:
    data = b"".join(confirm(tag, multiple=multiple) for tag, multiple in acks)
    whole, byte_by_byte = ConfirmCounter(), ConfirmCounter()
    whole.feed(data)
    for place in range(len(data)):
        byte_by_byte.feed(data[place : place + 1])

    assert whole.confirmed == confirmed
    assert byte_by_byte.confirmed == confirmed


def test_a_nack_is_an_error() -> None:
    with pytest.raises(BrokerError, match="something other than an ack"):
        ConfirmCounter().feed(confirm(1) + confirm(2, method_id=120))


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_a_delivery_is_measured_when_it_is_whole_and_not_before(pieces: int) -> None:
    whole = delivery(1, pieces=pieces)
    assert measure_delivery(whole + delivery(2)) == len(whole)
    assert {measure_delivery(whole[:end]) for end in range(len(whole))} == {0}


@pytest.mark.parametrize("step", [1, 7, 100, 1000, 100_000])
def test_deliveries_are_counted_in_reads_of_any_size(step: int) -> None:
    data = b"".join(delivery(tag) for tag in range(1, 101))
    counter = DeliveryCounter("c000")
    for start in range(0, len(data), step):
        counter.feed(memoryview(data)[start : start + step])

    assert counter.deliveries == 100
    assert counter.is_between_deliveries


def test_a_missing_delivery_is_an_error() -> None:
    counter = DeliveryCounter("c000")
    counter.feed(memoryview(delivery(1) + delivery(2)))
    with pytest.raises(BrokerError, match=r"delivery 3 .*tag 4"):
        counter.feed(memoryview(delivery(4)))


def test_a_delivery_of_another_size_is_an_error() -> None:
    counter = DeliveryCounter("c000")
    counter.feed(memoryview(delivery(1) + delivery(2, b"longer" * 20)))
    with pytest.raises(BrokerError, match="not where it should be"):
        counter.feed(memoryview(delivery(3) * 2))


def test_half_a_delivery_is_not_counted_and_not_forgotten() -> None:
    counter = DeliveryCounter("c000")
    counter.feed(memoryview(delivery(1) + delivery(2)[:50]))
    assert counter.deliveries == 1
    assert not counter.is_between_deliveries


def test_large_bodies_are_split_at_the_frame_limit() -> None:
    message = publish("", "key", bytes(10_000), is_persistent=True, frame_bytes_max=4096)
    assert message.count(b"\x03\x00\x01\x00\x00\x0f\xf8") == 2
    assert measure_delivery(message) == len(message)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://localhost", ("localhost", 5672, "guest", "guest", "/")),
        ("amqp://a:b%40c@h:1/", ("h", 1, "a", "b@c", "/")),
        ("amqp://h:1/%2fx", ("h", 1, "guest", "guest", "/x")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: tuple[str, int, str, str, str]) -> None:
    assert parse_target(url) == expected


def test_confirm_delays_are_those_of_the_oldest_messages() -> None:
    delays = ConfirmDelays()
    delays.sent(10, 1.0)
    delays.sent(100, 2.0)
    delays.confirmed(50, 3.0)
    delays.confirmed(100, 10.0)
    # Ten took two seconds, forty one, fifty eight.
    assert delays.percentile(0.3) == pytest.approx(1.0)
    assert delays.percentile(0.5) == pytest.approx(2.0)
    assert delays.percentile(0.99) == pytest.approx(8.0)


def test_without_confirms_there_is_no_delay() -> None:
    assert ConfirmDelays().percentile(0.5) == 0.0
