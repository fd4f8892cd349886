"""Which messages are meant: by headers, routing key and exchange (management layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.management.errors import BadRequest
from broker.wire.tables import table_to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.core.message import Message
    from broker.core.moving import Wanted

__all__ = ["MessageFilter", "filter_in_body", "filter_in_query"]

HEADER_PREFIX = "header."
KNOWN = ("headers", "routing_key", "exchange")


class MessageFilter(NamedTuple):
    """What a message must have, all of it."""

    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, which are compared as texts: 5 is "5", true is "true"."""

    routing_key: str | None = None
    exchange: str | None = None

    def accepts(self, message: Message) -> bool:
        """Whether it has it."""
        address = message.address
        if self.routing_key is not None and address.routing_key != self.routing_key:
            return False

        if self.exchange is not None and address.exchange != self.exchange:
            return False

        if not self.headers:
            return True

        headers = table_to_plain(message.properties().headers())
        return all(name in headers and _text(headers[name]) == text for name, text in self.headers)

    @property
    def wanted(self) -> Wanted | None:
        """As the core asks; None where everything is accepted."""
        return None if self == MessageFilter() else self.accepts


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"

    if value is None:
        return "null"

    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def filter_in_query(query: Mapping[str, str]) -> MessageFilter:
    """``header.<name>=<value>``, ``routing_key`` and ``exchange`` in a query."""
    headers = tuple(
        (name.removeprefix(HEADER_PREFIX), value)
        for name, value in query.items()
        if name.startswith(HEADER_PREFIX)
    )
    return MessageFilter(headers, query.get("routing_key"), query.get("exchange"))


def filter_in_body(value: object) -> MessageFilter:
    """The same as an object with ``headers``, ``routing_key`` and ``exchange``.

    Raises:
        BadRequest: it is something else.

    """
    if value is None:
        return MessageFilter()

    if not isinstance(value, dict):
        raise BadRequest(["not_an_object", "filter"])

    unknown = sorted(set(value) - set(KNOWN))
    if unknown:
        raise BadRequest(f"filter: unknown key '{unknown[0]}', one of {', '.join(KNOWN)}")

    headers = value.get("headers") or {}
    if not isinstance(headers, dict):
        raise BadRequest(["not_an_object", "filter.headers"])

    texts: list[str | None] = []
    for key in ("routing_key", "exchange"):
        text = value.get(key)
        if text is not None and not isinstance(text, str):
            raise BadRequest(["not_a_string", f"filter.{key}"])

        texts.append(text)

    pairs = tuple((name, _text(wanted)) for name, wanted in headers.items())
    return MessageFilter(pairs, texts[0], texts[1])
