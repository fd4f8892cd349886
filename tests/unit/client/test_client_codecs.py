"""Values to bytes and back, and what is not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest

from broker.client.codecs import BYTES, Codecs
from broker.client.errors import CodecError, DecodeError, EncodeError, InvalidValue


@dataclass
class Order:
    hares: int
    note: str = ""


class Shouting:
    """A codec of one's own."""

    content_type = "text/x-shouting"

    def encode(self, value: object) -> bytes:
        return str(value).upper().encode()

    def decode(self, data: bytes, into: Any) -> Any:
        return data.decode()


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
@pytest.mark.parametrize(
    "value",
    [None, True, 0, -5, 2**60, 1.5, "häre", [1, "a", None], {"a": {"b": [1]}}],
    ids=str,
)
def test_plain_values_come_back(codec: str, value: object) -> None:
    codecs = Codecs(codec)

    assert codecs.decode(*codecs.encode(value)) == value


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
def test_types_come_back_as_what_is_asked_for(codec: str) -> None:
    codecs = Codecs(codec)
    order = codecs.decode(*codecs.encode(Order(2)), Order)

    assert order == Order(2)


@pytest.mark.parametrize("value", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_are_sent_as_they_are(value: object) -> None:
    assert Codecs().encode(value) == (b"ab", BYTES)
    assert Codecs().decode(b"ab", BYTES) == b"ab"


@pytest.mark.parametrize(
    ("data", "content_type", "into", "value"),
    [
        pytest.param(b"5", None, None, b"5", id="says-nothing"),
        pytest.param(b"5", None, int, 5, id="says-nothing-but-a-type-is-asked-for"),
        pytest.param(b"5", BYTES, int, 5, id="says-bytes"),
        pytest.param(b"5", BYTES, bytes, b"5", id="bytes-are-asked-for"),
        pytest.param(b"5", "application/json; charset=utf-8", None, 5, id="parameters"),
        pytest.param(b"5", "Application/JSON", None, 5, id="capitals"),
        pytest.param("ü".encode(), "text/plain", None, "ü", id="text"),
        pytest.param("ü".encode(), "text/plain", str, "ü", id="text-typed"),
    ],
)
def test_messages_of_others_are_read(
    data: bytes, content_type: str | None, into: Any, value: object
) -> None:
    assert Codecs().decode(data, content_type, into) == value


@pytest.mark.parametrize(
    ("data", "content_type", "into"),
    [
        pytest.param(b"{", "application/json", None, id="broken"),
        pytest.param(b'{"hares": "two"}', "application/json", Order, id="other-type"),
        pytest.param(b"x", "application/x-python-pickle", None, id="pickle"),
        pytest.param(b"x", "image/png", None, id="picture"),
        pytest.param(b"\xff", "text/plain", None, id="no-text"),
        pytest.param(b"a", "text/plain", int, id="text-of-another-type"),
    ],
)
def test_what_cannot_be_read_says_so(data: bytes, content_type: str, into: Any) -> None:
    with pytest.raises(DecodeError):
        Codecs().decode(data, content_type, into)


def test_pickle_is_read_only_by_who_asks_for_it() -> None:
    data, content_type = Codecs("pickle").encode({1, 2})

    with pytest.raises(DecodeError, match="not accepted"):
        Codecs("json").decode(data, content_type)

    assert Codecs("json", accept=["pickle"]).decode(data, content_type) == {1, 2}
    with pytest.raises(DecodeError, match="not of Order"):
        Codecs("pickle").decode(data, content_type, Order)


def test_what_cannot_be_written_says_so() -> None:
    with pytest.raises(EncodeError, match="cannot write"):
        Codecs().encode(object())

    assert issubclass(EncodeError, CodecError)


def test_a_codec_of_ones_own_is_used() -> None:
    codecs = Codecs(Shouting())

    assert codecs.encode("hop") == (b"HOP", "text/x-shouting")
    assert codecs.decode(b"HOP", "text/x-shouting") == "HOP"


def test_a_struct_is_a_type_like_any_other() -> None:
    class Item(msgspec.Struct):
        n: int

    codecs = Codecs("msgpack")

    assert codecs.decode(*codecs.encode(Item(3)), Item) == Item(3)


def test_a_codec_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidValue, match="json, msgpack, pickle"):
        Codecs("yaml")


@dataclass
class Bill:
    hares: int


class Plain:
    """Something that only pickle makes."""


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    "into",
    [
        "Order",
        5,
        [int],
        {"a": int},
        Order | Bill,
        set[int] | list[int],
        Plain,
    ],
    ids=str,
)
def test_a_type_that_nothing_can_be_read_as_is_refused(codec: str, into: Any) -> None:
    """At once: else each message of the queue would be a dead letter."""
    with pytest.raises(InvalidValue, match=r"^type is what bodies are to be"):
        Codecs(codec).check_type(into)


@pytest.mark.parametrize(
    "into",
    [None, object, Any, int, bytes, Order, Order | None, list[int], Literal["a"], dict[str, Bill]],
    ids=str,
)
def test_a_type_that_something_can_be_read_as_is_taken(into: Any) -> None:
    assert Codecs().check_type(into) is into


def test_a_codec_that_makes_any_object_is_trusted_to_know_types() -> None:
    for codecs in (Codecs("pickle"), Codecs(accept=("pickle",)), Codecs(Shouting())):
        assert codecs.check_type(Plain) is Plain
        with pytest.raises(InvalidValue):
            codecs.check_type("Plain")
