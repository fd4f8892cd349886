"""The index of the headers exchange finds what trying every binding finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.wire.tables import Arguments, Field
from tests.helpers.topology import make_exchange, make_queue, names_of

NAMES = st.sampled_from(["a", "b", "x-c", "BCC"])
VOID = Field("V", None)
VALUES = st.sampled_from(
    [Field("I", 1), Field("l", 1), Field("d", 1.0), Field("t", True), Field("S", "1"), VOID]
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=4)
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def is_equal(wanted: Field, header: Field) -> bool:
    """Equality of the few values used here (rule E-93)."""
    integers = ("I", "l")
    if wanted.kind in integers and header.kind in integers:
        return wanted.value == header.value

    return wanted == header


def takes(mode: str | None, wanted: Arguments, headers: Arguments) -> bool:
    """Match by the rules as they are written (E-90..E-95)."""
    visible = {name: field for name, field in headers.items() if name != "BCC"}
    verdicts = [
        name in visible and (field.kind == "V" or is_equal(field, visible[name]))
        for name, field in wanted.items()
        if not name.startswith("x-") or (mode or "").endswith("-with-x")
    ]
    return any(verdicts) if (mode or "all").startswith("any") else all(verdicts)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2), MODES, TABLES), max_size=25),
    st.lists(TABLES, min_size=1, max_size=3),
)
def test_the_index_finds_what_a_plain_matcher_finds(
    steps: list[tuple[bool, int, str | None, Arguments]], messages: list[Arguments]
) -> None:
    exchange = make_exchange("headers")
    queues = [make_queue(str(number)) for number in range(3)]
    bound: list[tuple[int, str | None, Arguments]] = []
    for is_bind, number, mode, wanted in steps:
        arguments = dict(wanted) if mode is None else {"x-match": Field("S", mode), **wanted}
        rule = (number, mode, wanted)
        if is_bind:
            exchange.add_binding(queues[number], "", arguments)
            bound += [rule] if rule not in bound else []
        else:
            exchange.remove_binding(queues[number], "", arguments)
            bound = [other for other in bound if other != rule]

        for headers in messages:
            expected = {str(n) for n, mode, wanted in bound if takes(mode, wanted, headers)}
            assert names_of(exchange.match([""], headers)) == sorted(expected)
