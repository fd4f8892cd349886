"""Core: the headers exchange (rules E-90..E-97).

**How a message is matched.** What a binding asks for is a list of *pairs*: a header's name and the
value it must have, in a form in which equal means equal to this exchange (:func:`_form_of`); or its
name and :data:`PRESENT`. A message has a pair for each of its headers, and one more that says that
it is there. Then

- ``any`` takes a message that has one of the binding's pairs: it is filed under each of them;
- ``all`` takes a message that has all of them: it is filed under the one that fewest others are
  filed under, and looked at only when the message has that one.

So a message looks at bindings that share a pair with it, not at all there are, and headers that no
binding asks for cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_field
from broker.core.exchange.base import (
    DestinationCounts,
    Exchange,
    add_destination,
    discard_destination,
)
from broker.errors import PreconditionFailed
from broker.wire.tables import TYPE_NAMES, encode_field

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.wire.tables import Arguments, Field

__all__ = ["HeadersExchange"]

MODE_ARGUMENT: Final = "x-match"
MODES: Final = ("all", "any", "all-with-x", "any-with-x")

Pair = tuple[str, Hashable]
"""The name of a header, and the form of its value or PRESENT."""

PRESENT: Final = ("present",)

INTEGER_KINDS: Final = "bBsuIilLT"


class HeadersExchange(Exchange):
    """Matches the headers of the message; the key plays no part.

    ``all`` with nothing to ask for takes every message, ``any`` none (rule E-94).
    """

    __slots__ = ("_all", "_always", "_any", "_asked_for", "_filed_under")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self.depends_on_headers = True
        self._any: dict[Pair, DestinationCounts] = {}
        self._all: dict[Pair, dict[Binding, list[Pair]]] = {}
        self._filed_under: dict[Binding, Pair] = {}
        """Each binding in `_all` with the pair it is filed under there."""
        self._always: DestinationCounts = {}
        self._asked_for: dict[str, int] = {}
        """Name of a header to the number of pairs of bindings with that name."""

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        mode = arguments.get(MODE_ARGUMENT)
        if mode is None:
            return

        if mode.kind != "S":
            raise PreconditionFailed(
                f"Invalid x-match field type {TYPE_NAMES[mode.kind]} "
                f"(value {erl_field(mode)}); expected longstr"
            )

        if mode.value not in MODES:
            raise PreconditionFailed(
                f"Invalid x-match field value {erl_field(mode)}; "
                "expected all, any, all-with-x, or any-with-x"
            )

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        matched: dict[Destination, None] = {}
        for destination in self._always:
            matched[destination] = None

        present = self._pairs_of_message(headers) if headers else {}
        for pair in present:
            for destination in self._any.get(pair, {}):
                matched[destination] = None

            for binding, wanted in self._all.get(pair, {}).items():
                if _has_all(present, wanted):
                    matched[binding.destination] = None

        return list(matched)

    def _pairs_of_message(self, headers: Arguments) -> dict[Pair, None]:
        """Return the pairs a message has, as far as any binding may ask for them."""
        pairs: dict[Pair, None] = {}
        for name, field in headers.items():
            # Rule E-95: BCC counts as removed already.
            if name in self._asked_for and name != "BCC":
                pairs[(name, PRESENT)] = None
                pairs[(name, _form_of(field))] = None

        return pairs

    def _index(self, binding: Binding) -> None:
        wanted = _pairs_of_binding(binding.arguments)
        for name, _ in wanted:
            self._asked_for[name] = self._asked_for.get(name, 0) + 1

        if _is_any(binding.arguments):
            for pair in wanted:
                add_destination(self._any.setdefault(pair, {}), binding.destination)
        elif wanted:
            pair = min(wanted, key=self._count_filed_under)
            self._all.setdefault(pair, {})[binding] = wanted
            self._filed_under[binding] = pair
        else:
            add_destination(self._always, binding.destination)

    def _unindex(self, binding: Binding) -> None:
        wanted = _pairs_of_binding(binding.arguments)
        for name, _ in wanted:
            self._asked_for[name] -= 1
            if not self._asked_for[name]:
                del self._asked_for[name]

        if _is_any(binding.arguments):
            for pair in wanted:
                discard_destination(self._any[pair], binding.destination)
                if not self._any[pair]:
                    del self._any[pair]
        elif wanted:
            pair = self._filed_under.pop(binding)
            del self._all[pair][binding]
            if not self._all[pair]:
                del self._all[pair]
        else:
            discard_destination(self._always, binding.destination)

    def _clear_index(self) -> None:
        self._any.clear()
        self._all.clear()
        self._filed_under.clear()
        self._always.clear()
        self._asked_for.clear()

    def _count_filed_under(self, pair: Pair) -> int:
        return len(self._all.get(pair, {}))


def _mode_of(arguments: Arguments) -> str:
    mode = arguments.get(MODE_ARGUMENT)
    return "all" if mode is None else str(mode.value)


def _is_any(arguments: Arguments) -> bool:
    return _mode_of(arguments).startswith("any")


def _pairs_of_binding(arguments: Arguments) -> list[Pair]:
    """Return what a binding asks for (rules E-92, E-93): a void argument asks for presence only."""
    sees_x = _mode_of(arguments).endswith("-with-x")
    pairs: list[Pair] = []
    for name, field in arguments.items():
        if name == MODE_ARGUMENT or (name.startswith("x-") and not sees_x):
            continue

        pairs.append((name, PRESENT if field.kind == "V" else _form_of(field)))

    return pairs


def _has_all(present: dict[Pair, None], wanted: list[Pair]) -> bool:
    for pair in wanted:  # noqa: SIM110 - compiled, a loop is several times faster than all()
        if pair not in present:
            return False

    return True


def _form_of(field: Field) -> Hashable:
    """Return a value in a form in which equal means equal to this exchange (rule E-93).

    RabbitMQ [4.3] compares values without their types: integers of any width and timestamps are
    numbers, but a number with a fraction is another thing; a long string is its bytes; an empty
    table is an empty array. Inside tables and arrays the types count.
    """
    value = field.value
    if field.kind in INTEGER_KINDS:
        return ("integer", value)
    if isinstance(value, float):
        return ("float", value)
    if isinstance(value, str):
        return ("text", value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return ("text", value)
    if isinstance(value, (dict, list)) and not value:
        return ("nothing",)

    return ("other", encode_field(field))
