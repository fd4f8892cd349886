"""Section E, continued: how a headers exchange matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import add
from interop.compare.fields import Typed

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

Table = Mapping[str, object] | Sequence[tuple[str, object]]

SPEC: Final[dict[str, object]] = {"h1": "12345", "h2": "bar", "h3": None, "x-key-1": "v"}
FULL: Final[dict[str, object]] = {"h1": "12345", "h2": "bar", "h3": "any"}

# What is bound, and the headers of the messages; None is a message without headers.
MATCHES: Final[dict[str, tuple[str, Table, Sequence[Table | None]]]] = {
    "all": ("E-90, E-92, E-97", {"x-match": "all", **SPEC},
        [FULL, {**FULL, "more": 1}, {**FULL, "x-key-1": "other"}, {"h1": "12345"}, {}, None]),
    "all-by-default": ("E-90", SPEC, [FULL, {"h1": "12345"}]),
    "any": ("E-90, E-92, E-97", {"x-match": "any", **SPEC},
        [{"h1": "12345"}, {"h2": "bar"}, {"h3": 7}, {"h1": "other"}, {"x-key-1": "v"}, {}, None]),
    "all-with-x": ("E-90, E-92, E-95", {"x-match": "all-with-x", "x-key": "v"},
        [{"x-key": "v"}, {"x-key": "w"}, {"x-match": "all-with-x", "x-key": "v"}, {}]),
    "any-with-x": ("E-90, E-92, E-95", {"x-match": "any-with-x", "x-key": "v", "h": 1},
        [{"x-key": "v"}, {"h": 1}, {"h": 2}, {}]),
    "all-of-nothing": ("E-94", {"x-match": "all"}, [{}, None, {"h": 1}]),
    "no-arguments": ("E-94", {}, [{}, None, {"h": 1}]),
    "any-of-nothing": ("E-94", {"x-match": "any"}, [{}, None, {"h": 1}]),
    "all-of-x-arguments": ("E-92, E-94", {"x-match": "all", "x-key": "v"}, [{}, {"x-key": "w"}]),
    "any-of-x-arguments": ("E-92, E-94", {"x-match": "any", "x-key": "v"}, [{}, {"x-key": "v"}]),
    "presence": ("E-93", {"x-match": "all", "h": None},
        [{"h": None}, {"h": "x"}, {"h": []}, {"H": 1}, {}]),
    "integers-of-all-widths": ("E-93", {"x-match": "all", "h": 5},
        [{"h": Typed(kind, 5)} for kind in "bBsuIilL"] + [{"h": "5"}, {"h": 6}]),
    "long-strings-and-bytes": ("E-93", {"x-match": "all", "h": "abc"},
        [{"h": "abc"}, {"h": Typed("x", b"abc")}, {"h": "ABC"}, {"h": "abcd"}]),
    "numbers-by-value": ("E-93", {"x-match": "all", "h": 5},
        [{"h": 5.0}, {"h": Typed("f", 5.0)}, {"h": Typed("D", (0, 5))}, {"h": Typed("T", 5)}]),
    "booleans": ("E-93", {"x-match": "all", "h": True},
        [{"h": True}, {"h": False}, {"h": 1}, {"h": "true"}]),
    "tables-and-arrays": ("E-93", {"x-match": "all", "h": {"a": 1}},
        [{"h": {"a": 1}}, {"h": {"a": Typed("l", 1)}}, {"h": {"a": 2}}, {"h": []}]),
    "empty-table-and-array": ("E-93", {"x-match": "all", "h": {}},
        [{"h": {}}, {"h": []}, {"h": ""}]),
    "header-given-twice": ("E-93", {"x-match": "all", "h": 1},
        [[("h", 1), ("h", 2)], [("h", 2), ("h", 1)]]),
    "argument-given-twice-any": ("E-93", [("x-match", "any"), ("h", 1), ("h", 2)],
        [{"h": 1}, {"h": 2}]),
    "argument-given-twice-all": ("E-93", [("x-match", "all"), ("h", 1), ("h", 2)],
        [{"h": 1}, {"h": 2}]),
    "x-match-given-twice": ("E-93", [("x-match", "any"), ("x-match", "all"), ("h", 1), ("g", 2)],
        [{"h": 1}, {"h": 1, "g": 2}]),
    "times": ("E-93", {"x-match": "all", "h": Typed("T", 1000)},
        [{"h": Typed("l", 1000)}, {"h": Typed("T", 1001)}]),
    "cc-is-a-header": ("E-95", {"x-match": "any", "CC": None}, [{"CC": ["x"]}, {"BCC": ["x"]}]),
}  # fmt: skip

REFUSED: Final[dict[str, object]] = {
    "unknown-word": "foo", "upper-case": "ALL", "empty": "", "integer": 23, "boolean": True,
    "void": None, "table": {}, "full-table": {"a": 1}, "array": [], "bytes": Typed("x", b"all"),
    "float": 1.5, "unprintable": b"\x01\x02",
}  # fmt: skip


def matches(arguments: Table, messages: Sequence[Table | None], session: Session) -> None:
    """What does not match is returned."""
    queue = session.queue()
    exchange = session.exchange("headers")
    channel = session.channel()
    channel.call("queue.bind", queue=queue, exchange=exchange, arguments=arguments)
    for number, headers in enumerate(messages):
        body = f"message {number}".encode()
        if headers is None:
            channel.publish(exchange, "ignored", body, mandatory=True)
        else:
            channel.publish(exchange, "ignored", body, mandatory=True, headers=headers)

    channel.sync()


def refuses(value: object, session: Session) -> None:
    queue = session.queue()
    arguments = {"x-match": value}
    session.channel().call("queue.bind", queue=queue, exchange="amq.headers", arguments=arguments)


for case, (rules, arguments, messages) in MATCHES.items():
    add(f"E/headers-match-{case}", rules, partial(matches, arguments, messages))

for case, value in REFUSED.items():
    add(f"E/headers-x-match-{case}", "E-91, B-03", partial(refuses, value))
