"""Lists: order, pages, filters and columns, as the query asks for them (management layer).

A list may be long: rows are made and written a few at a time, and the loop has its turn between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from aiohttp import web

from broker.auth.patterns import Pattern, PatternError
from broker.management.errors import BadRequest
from broker.management.json_text import JSON, render, render_list
from broker.management.numbers import whole_number
from broker.management.searching import SearchTurn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.management.call import Call

__all__ = ["Columns", "Paging", "answer_list", "columns_of", "pick"]

ROWS_PER_TURN: Final = 64
PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 500
"""Rows of a page, as in RabbitMQ."""

NUMBER_DIGITS_MAX: Final = 1000
"""RabbitMQ takes numbers of any length, and so do we, but for those that take long to read."""

PATTERN_CHARACTERS_MAX: Final = 1024
VERDICTS_MAX: Final = 20_000
"""Names that are remembered for a pattern."""

T = TypeVar("T")
Order = Callable[[Sequence[T]], Sequence[float]] | Callable[[Sequence[T]], Sequence[str]]
"""The values of one column, all of one type."""

Columns = list[list[str]]


Matcher = Callable[[Sequence[str]], Awaitable[Iterable[bool]]]
"""Tells of each name of a list whether it is meant."""


class Paging(NamedTuple):
    """The page that is asked for."""

    page: int
    size: int
    matches: Matcher | None


def paging_of(call: Call) -> Paging | None:
    """What the query says of pages; None where the whole list is wanted.

    Raises:
        BadRequest: it is no number, or too large.

    """
    query = call.query
    page = _number(query.get("page"))
    given = _number(query.get("page_size"))
    if page is None:
        return None

    size = PAGE_SIZE_DEFAULT if given is None else given
    if page < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        shown = "undefined" if given is None else size
        raise BadRequest(
            f"Invalid pagination parameters: page number {page}, page size {shown}",
            "invalid_pagination_parameters",
        )

    return Paging(page, size, _filter_of(query.get("name", ""), call.flag("use_regex")))


def _number(text: str | None) -> int | None:
    if text is None:
        return None

    number = whole_number(text, NUMBER_DIGITS_MAX)
    if number is None:
        raise BadRequest("Pagination parameters are invalid")

    return number


def _filter_of(name: str, is_pattern: bool) -> Matcher | None:
    if not name:
        return None

    if not is_pattern:
        return partial(_holding, name.lower())

    if len(name) > PATTERN_CHARACTERS_MAX:
        raise BadRequest(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")

    return _matcher(name)


async def _holding(wanted: str, names: Sequence[str]) -> Iterable[bool]:
    return [wanted in one.lower() for one in names]


@lru_cache(maxsize=4)
def _matcher(text: str) -> Matcher:
    """What a pattern matches. Who asks with one asks again: autoscalers do every few seconds."""
    try:
        matches = Pattern(text, ignores_case=True).matches
    except PatternError:
        # RabbitMQ 4.3: a pattern that does not compile matches nothing.
        return _nothing

    verdicts: dict[str, bool] = {}

    async def match(names: Sequence[str]) -> Iterable[bool]:
        known = list(map(verdicts.get, names))
        if None not in known:
            return [bool(one) for one in known]

        if len(verdicts) + known.count(None) > VERDICTS_MAX:
            verdicts.clear()

        found: list[bool] = []
        turn = SearchTurn()
        for name, verdict in zip(names, known, strict=True):
            found.append(matches(name) if verdict is None else verdict)
            if verdict is not None:
                continue

            if len(verdicts) < VERDICTS_MAX:
                verdicts[name] = found[-1]

            if turn.is_over():
                await turn.give()

        return found

    return match


async def _nothing(names: Sequence[str]) -> Iterable[bool]:
    return [False] * len(names)


def columns_of(call: Call) -> Columns | None:
    """The columns that are wanted, as paths; None for all."""
    text = call.query.get("columns", "")
    return [name.split(".") for name in text.split(",") if name] or None if text else None


def pick(row: JSON, columns: Columns | None) -> JSON:
    """A row with these columns only; what is not there is left out."""
    if columns is None:
        return row

    picked: JSON = {}
    for path in columns:
        _pick_one(row, path, picked)

    return picked


def _pick_one(row: JSON, path: list[str], into: JSON) -> None:
    value = row.get(path[0], ...)
    if value is ...:
        return

    if len(path) == 1:
        into[path[0]] = value
    elif isinstance(value, dict):
        inner = into.setdefault(path[0], {})
        if isinstance(inner, dict):
            _pick_one(value, path[1:], inner)


def _sort_key(path: list[str], row: JSON) -> tuple[int, object]:
    value: object = row
    for name in path:
        value = value.get(name, 0) if isinstance(value, dict) else 0

    return _rank(value)


def _rank(value: object) -> tuple[int, object]:
    """Order of values of any type: numbers, then what is true or null, then texts, then more."""
    if isinstance(value, bool) or value is None:
        return 1, str(value)

    if isinstance(value, int | float):
        return 0, value

    if isinstance(value, str):
        return 2, value

    return 3, str(value)


async def answer_list(
    call: Call,
    items: Sequence[T],
    row_of: Callable[[T], JSON],
    *,
    name_of: Callable[[T], str],
    is_paged: bool = True,
    orders: Mapping[str, Order[T]] | None = None,
) -> web.Response:
    """Answer with a list of rows.

    Args:
        call: its query says which, and how.
        items: what the rows are of, in the order that holds where no other is wanted.
        row_of: makes a row.
        name_of: what a filter for names looks at.
        is_paged: whether RabbitMQ has pages of this list.
        orders: keys of rows whose values are known without making the rows.

    """
    paging = paging_of(call) if is_paged else None
    columns = columns_of(call)
    total = len(items)
    if paging is not None and paging.matches is not None:
        items = list(compress(items, await paging.matches(list(map(name_of, items)))))

    filtered = len(items)
    sort = call.query.get("sort", "")
    value_of = (orders or {}).get(sort)
    if not sort or value_of is not None:
        is_reverse = call.flag("sort_reverse")
        places: Sequence[int] = range(filtered)
        if value_of is not None:
            places = sorted(places, key=value_of(items).__getitem__, reverse=is_reverse)
        elif is_reverse:
            places = places[::-1]

        if paging is not None:
            places = _page(places, paging)

        if places != range(filtered):
            items = [items[place] for place in places]

        return await _answer_rows(call, items, row_of, columns, (paging, total, filtered))

    rows: list[JSON] = []
    for at in range(0, len(items), ROWS_PER_TURN):
        rows += map(row_of, items[at : at + ROWS_PER_TURN])
        await asyncio.sleep(0)

    rows.sort(key=partial(_sort_key, sort.split(".")), reverse=call.flag("sort_reverse"))
    if paging is not None:
        rows = list(_page(rows, paging))

    return await _answer_rows(call, rows, _same, columns, (paging, total, filtered))


def _same(row: JSON) -> JSON:
    return row


def _page(items: Sequence[T], paging: Paging) -> Sequence[T]:
    start = (paging.page - 1) * paging.size
    # RabbitMQ: a page that begins where the list ends is empty, and no error.
    if start > len(items):
        raise BadRequest(
            f"Page out of range, page: {paging.page} page size: {paging.size}, len: {len(items)}",
            "page_out_of_range",
        )

    return items[start : start + paging.size]


async def _answer_rows(
    call: Call,
    items: Sequence[T],
    row_of: Callable[[T], JSON],
    columns: Columns | None,
    counts: tuple[Paging | None, int, int],
) -> web.Response:
    pieces: list[bytes] = []
    for at in range(0, len(items), ROWS_PER_TURN):
        pieces.append(
            render_list([pick(row_of(item), columns) for item in items[at : at + ROWS_PER_TURN]])
        )
        await asyncio.sleep(0)

    body = b"[" + b",".join(pieces) + b"]"
    paging, total, filtered = counts
    if paging is not None:
        facts: JSON = {
            "filtered_count": filtered,
            "item_count": len(items),
            "page": paging.page,
            "page_count": (filtered + paging.size - 1) // paging.size,
            "page_size": paging.size,
            "total_count": total,
        }
        body = render(facts)[:-1] + b',"items":' + body + b"}"

    return web.Response(body=body, content_type="application/json")
