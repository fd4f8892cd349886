"""The identity of bindings and their names in the HTTP API."""

from __future__ import annotations

import pytest

from broker.core.binding import Binding, binding_key
from broker.wire.tables import Arguments, Field
from tests.helpers.topology import make_exchange, make_queue, text

ONE = Field("I", 1)


def test_order_of_arguments_is_no_part_of_the_identity() -> None:
    """Rule B-01."""
    queue = make_queue()
    assert binding_key(queue, "k", {"a": ONE, "b": text("t")}) == binding_key(
        queue, "k", {"b": text("t"), "a": ONE}
    )


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        pytest.param("other", {"a": ONE}, id="key"),
        pytest.param("k", {}, id="no-arguments"),
        pytest.param("k", {"a": Field("I", 2)}, id="value"),
        pytest.param("k", {"a": Field("l", 1)}, id="type"),
        pytest.param("k", {"a": Field("t", True)}, id="bool-is-no-number"),
        pytest.param("k", {"b": ONE}, id="name"),
        pytest.param("k", {"a": ONE, "b": ONE}, id="one-more"),
    ],
)
def test_key_and_arguments_tell_bindings_apart(key: str, arguments: Arguments) -> None:
    """Rule B-01."""
    queue = make_queue()
    assert binding_key(queue, key, arguments) != binding_key(queue, "k", {"a": ONE})


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    """Rule B-01: the kind of the destination counts."""
    assert binding_key(make_queue("n"), "k", {}) != binding_key(
        make_exchange("direct", "n"), "k", {}
    )


@pytest.mark.parametrize(
    ("is_source_durable", "is_queue_durable", "expected"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_binding_is_durable_when_both_ends_are(
    is_source_durable: bool, is_queue_durable: bool, expected: bool
) -> None:
    """Rule B-09."""
    source = make_exchange("direct", durable=is_source_durable)
    binding = Binding(source, make_queue(durable=is_queue_durable), "k", {})
    assert binding.durable is expected


@pytest.mark.parametrize(
    ("routing_key", "expected"),
    [
        pytest.param("", "~", id="empty"),
        pytest.param("a.b_c-d", "a.b_c-d", id="unreserved"),
        pytest.param("a b", "a+b", id="space"),
        pytest.param("a/b", "a%2Fb", id="slash"),
        pytest.param("~", "%7E", id="tilde"),
        pytest.param("#.*", "%23.%2A", id="wildcards"),
        pytest.param("%41+", "%2541%2B", id="percent"),
        pytest.param("é", "%C3%A9", id="utf-8"),
        pytest.param("\udce9", "%E9", id="not-utf-8"),
    ],
)
def test_properties_key_quotes_the_routing_key(routing_key: str, expected: str) -> None:
    """Rule B-10; the texts are those of a live RabbitMQ."""
    binding = Binding(make_exchange("topic"), make_queue(), routing_key, {})
    assert binding.properties_key == expected


def test_properties_key_tells_arguments_apart() -> None:
    """Rule B-10."""
    source, queue = make_exchange("topic"), make_queue()
    tables: list[Arguments] = [{}, {"a": ONE}, {"a": Field("I", 2)}, {"b": ONE}]
    keys = [Binding(source, queue, key, table).properties_key for key in "k~" for table in tables]
    assert len(set(keys)) == len(keys)
    assert keys[1].startswith("k~")
    assert Binding(source, queue, "", {"a": ONE}).properties_key.startswith("~")
