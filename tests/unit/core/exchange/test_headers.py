"""The headers exchange."""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker.errors import PreconditionFailed
from broker.wire.tables import Arguments, Field
from tests.helpers.topology import filter_of, make_exchange, make_queue, names_of, text

VOID = Field("V", None)


def takes(wanted: Arguments, headers: Arguments | None) -> bool:
    exchange = make_exchange("headers")
    exchange.validate_binding("", wanted)
    exchange.add_binding(make_queue(), "", wanted)
    return bool(exchange.match([""], headers))


def of(**headers: object) -> Arguments:
    return filter_of(None, **headers)


@pytest.mark.parametrize(
    ("wanted", "headers", "expected"),
    [
        # Rule E-90: all is the default.
        pytest.param(filter_of(None, a=1, b=2), of(a=1, b=2), True, id="default-all-met"),
        pytest.param(filter_of(None, a=1, b=2), of(a=1), False, id="default-one-missing"),
        pytest.param(filter_of("all", a=1, b=2), of(a=1, b=2, c=3), True, id="all-and-more"),
        pytest.param(filter_of("all", a=1, b=2), of(a=1, b=3), False, id="all-one-differs"),
        pytest.param(filter_of("all", a=1), None, False, id="all-without-headers"),
        pytest.param(filter_of("any", a=1, b=2), of(b=2), True, id="any-one-met"),
        pytest.param(filter_of("any", a=1, b=2), of(a=2, b=1), False, id="any-none-met"),
        pytest.param(filter_of("any", a=1), None, False, id="any-without-headers"),
        # Rule E-92: x- arguments count in the -with-x modes only.
        pytest.param(filter_of("all", a=1, x_b=2), of(a=1), True, id="all-ignores-x"),
        pytest.param(filter_of("any", a=1, x_b=2), of(x_b=2), False, id="any-ignores-x"),
        pytest.param(filter_of("all-with-x", a=1, x_b=2), of(a=1), False, id="with-x-missing"),
        pytest.param(filter_of("all-with-x", a=1, x_b=2), of(a=1, x_b=2), True, id="with-x-met"),
        pytest.param(filter_of("any-with-x", a=1, x_b=2), of(x_b=2), True, id="any-with-x"),
        pytest.param(filter_of("all-with-x", x_match_2=1), of(x_match_2=1), True, id="x-match-2"),
        # Rule E-94.
        pytest.param({}, of(a=1), True, id="nothing-wanted"),
        pytest.param({}, None, True, id="nothing-wanted-without-headers"),
        pytest.param(filter_of("all", x_b=1), {}, True, id="all-only-x"),
        pytest.param(filter_of("any"), of(a=1), False, id="any-of-nothing"),
        pytest.param(filter_of("any", x_b=1), of(x_b=1), False, id="any-only-x"),
        pytest.param(filter_of("all-with-x"), None, True, id="all-with-x-of-nothing"),
        pytest.param(filter_of("any-with-x"), of(x_match="any"), False, id="any-with-x-of-nothing"),
        # Rule E-93: void asks for presence.
        pytest.param(filter_of("all", a=VOID), of(a="text"), True, id="void-present"),
        pytest.param(filter_of("all", a=VOID), of(a=VOID), True, id="void-and-void"),
        pytest.param(filter_of("all", a=VOID), of(b=1), False, id="void-absent"),
        pytest.param(filter_of("any", a=VOID, b=1), of(a=0), True, id="any-void"),
        pytest.param(filter_of("all", a=1), of(a=VOID), False, id="void-header-is-no-value"),
        # Rule E-95.
        pytest.param(filter_of("all", CC="k"), of(CC="k"), True, id="cc-is-ordinary"),
        pytest.param(filter_of("any", BCC=VOID), of(BCC=["k"]), False, id="bcc-never"),
        pytest.param(filter_of("all", A=1), of(a=1), False, id="names-by-case"),
    ],
)
def test_modes(wanted: Arguments, headers: Arguments | None, expected: bool) -> None:
    """Rules E-90..E-95."""
    assert takes(wanted, headers) is expected


FIVES = [Field(kind, 5) for kind in "bBsuIilLT"]
VALUES: list[list[Field]] = [
    # Each row is equal among itself and to no other row; as a live RabbitMQ 4.3 has it.
    FIVES,
    [Field("d", 5.0), Field("f", 5.0)],
    [Field("I", 1)],
    [Field("t", True)],
    [Field("t", False)],
    [Field("I", 0)],
    [text("ab"), Field("x", b"ab")],
    [text("5")],
    [text("")],
    [text("true")],
    [text("\udcff"), Field("x", b"\xff")],
    [Field("D", Decimal("5"))],
    [Field("D", Decimal("5.0"))],
    [Field("F", {}), Field("A", [])],
    [Field("F", {"a": Field("l", 1)})],
    [Field("F", {"a": Field("I", 1)})],
    [Field("F", {"a": Field("I", 1), "b": Field("I", 2)})],
    [Field("F", {"b": Field("I", 2), "a": Field("I", 1)})],
    [Field("A", [Field("l", 1)])],
    [Field("A", [text("ab")])],
    [Field("A", [Field("x", b"ab")])],
]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_values_are_compared_without_their_types(mode: str) -> None:
    """Rule E-93."""
    for row, ours in enumerate(VALUES):
        for other_row, others in enumerate(VALUES):
            for wanted in ours:
                for header in others:
                    found = takes(filter_of(mode, h=wanted), {"h": header})
                    assert found is (row == other_row), (wanted, header)


@pytest.mark.parametrize(
    ("headers", "is_all", "is_any"),
    [
        pytest.param(of(h1="12345", h2="bar", h3="x"), True, True, id="all-three"),
        pytest.param(of(h1="12345"), False, True, id="h1"),
        pytest.param(of(h2="bar"), False, True, id="h2"),
        pytest.param(of(h3=5), False, True, id="h3"),
        pytest.param(of(h1="12345", h2="bar"), False, True, id="two"),
        pytest.param(of(h1="12345", h2="quux", h3="x"), False, True, id="one-differs"),
        pytest.param(of(h1="zot", h2="quux"), False, False, id="both-differ"),
        pytest.param(of(h1="12345", h2="bar", h3=VOID, h4="z"), True, True, id="one-more"),
        pytest.param({}, False, False, id="empty"),
        pytest.param(None, False, False, id="none"),
    ],
)
def test_one_queue_for_all_and_one_for_any(
    headers: Arguments | None, is_all: bool, is_any: bool
) -> None:
    """Rule E-97."""
    exchange = make_exchange("headers")
    for mode in ("all", "any"):
        wanted = filter_of(mode, h1="12345", h2="bar", h3=VOID, x_key_1="z")
        exchange.add_binding(make_queue(mode), "", wanted)

    expected = ["all"] * is_all + ["any"] * is_any
    assert names_of(exchange.match(["ignored"], headers)) == expected


@pytest.mark.parametrize("mode", ["all", "any", "all-with-x", "any-with-x"])
def test_modes_are_accepted(mode: str) -> None:
    """Rule E-90."""
    make_exchange("headers").validate_binding("", filter_of(mode))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (text("Any"), 'value <<"Any">>; expected all, any, all-with-x, or any-with-x'),
        (text(""), "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (Field("I", 5), "type signedint (value 5); expected longstr"),
        (Field("t", True), "type bool (value true); expected longstr"),
        (Field("x", b"all"), 'type binary (value <<"all">>); expected longstr'),
        (Field("F", {}), "type table (value []); expected longstr"),
        (Field("A", []), "type array (value []); expected longstr"),
        (VOID, "type void (value undefined); expected longstr"),
    ],
    ids=lambda value: value.kind if isinstance(value, Field) else "",
)
def test_other_modes_are_refused(mode: Field, expected: str) -> None:
    """Rule E-91; the texts are those of a live RabbitMQ 4.3."""
    with pytest.raises(PreconditionFailed) as caught:
        make_exchange("headers").validate_binding("", {"x-match": mode})

    assert caught.value.explanation == f"Invalid x-match field {expected}"


def test_bindings_that_share_pairs_come_and_go_one_by_one() -> None:
    exchange, queue, other = make_exchange("headers"), make_queue("q"), make_queue("other")
    rules = [
        (queue, filter_of("all", a=1, b=1)),
        (queue, filter_of("all", a=1, b=2)),
        (queue, filter_of("any", a=1, b=1)),
        (other, filter_of("all", a=1, b=1)),
        (other, filter_of("any", b=1)),
        (other, filter_of("all")),
    ]
    for destination, wanted in rules:
        assert exchange.add_binding(destination, "", wanted) is not None

    headers = of(a=1, b=1)
    expected = [["other", "q"]] * 2 + [["other"]] * 3 + [[]]
    for (destination, wanted), names in zip(rules, expected, strict=True):
        exchange.remove_binding(destination, "", wanted)
        assert names_of(exchange.match([""], headers)) == names


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("wanted", [of(a=1), {}], ids=["something", "nothing"])
def test_nothing_remains_of_dropped_bindings(mode: str, wanted: Arguments) -> None:
    exchange = make_exchange("headers")
    exchange.add_binding(make_queue("old"), "", filter_of(mode) | wanted)
    exchange.drop_all_bindings()
    exchange.add_binding(make_queue("new"), "", of(a=1))
    assert names_of(exchange.match([""], of(a=1))) == ["new"]
