"""Toolkit: messages as AMQP has them: properties, and the headers that are ours.

Invariant: what the toolkit and the broker put into a message's headers, its handler does not see;
and a message that the broker could not take is refused before anything of it was sent.
"""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pamqp.commands import Basic

from broker.client.errors import InvalidValue, MessageTooLarge
from broker.client.fields import entries_of, entry, joined
from broker.client.texts import writable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiormq.abc import DeliveredMessage
    from pamqp.common import FieldTable, FieldValue

    from broker.client.codecs import Codecs
    from broker.client.message import Envelope

__all__ = [
    "ATTEMPT",
    "DEAD_AT",
    "ERROR",
    "ERROR_TYPE",
    "QUEUE",
    "REASON",
    "SENT_AT",
    "TOPIC",
    "TRACEBACK",
    "Outgoing",
    "Packed",
    "Properties",
    "attempt_of",
    "copy_of",
    "new_id",
    "outgoing",
    "own_headers",
    "packed",
    "put_header",
    "sent_at",
    "shortened",
    "table",
    "text_header",
    "topic_of",
    "topic_to_keep",
    "user_headers",
]

ATTEMPT: Final = "x-attempt"
ERROR: Final = "x-error"
ERROR_TYPE: Final = "x-error-type"
TRACEBACK: Final = "x-traceback"
REASON: Final = "x-dead-reason"
DEAD_AT: Final = "x-dead-at"
QUEUE: Final = "x-dead-queue"
TOPIC: Final = "x-topic"
SENT_AT: Final = "x-sent-at"
"""AMQP's timestamps are whole seconds; this one is as exact as a clock."""

OURS: Final = {
    ATTEMPT,
    ERROR,
    ERROR_TYPE,
    TRACEBACK,
    REASON,
    DEAD_AT,
    QUEUE,
    TOPIC,
    SENT_AT,
}
BROKERS: Final = {
    "CC",
    "BCC",
    "x-death",
    "x-delay",
    "x-delivery-count",
    "x-acquired-count",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
}
HIDDEN: Final = OURS | BROKERS
TEXT_MAX: Final = 8000
"""Characters of an error or traceback that are kept, where there is room for them."""

CUT: Final = "..."


class Properties(Basic.Properties):
    """Properties whose headers are entries as they are written; see :mod:`broker.client.fields`."""

    def encode_property(self, name: str, value: FieldValue) -> bytes:
        """Write one, as the library asks for it."""
        if name == "headers":
            return joined(cast("dict[str, bytes]", value))

        return super().encode_property(name, value)


class Packed(Basic.Properties):
    """Properties as octets; besides them the library wants the id alone."""

    def __init__(self, octets: bytes, message_id: str) -> None:
        self.octets = octets
        self.message_id = message_id

    def marshal(self) -> bytes:
        """Return them, as the library asks for them."""
        return self.octets


class Outgoing(NamedTuple):
    """A message as it is sent."""

    body: bytes
    properties: Properties


def new_id() -> str:
    """Return an id that nobody else has."""
    return uuid.uuid4().hex


def outgoing(envelope: Envelope, codecs: Codecs, priority: int | None) -> Outgoing:
    """Return an envelope as it is sent; the time and, if it has none, an id are put on it."""
    if envelope.content_type is not None and isinstance(
        envelope.body, bytes | bytearray | memoryview
    ):
        body, content_type = bytes(envelope.body), envelope.content_type
    else:
        body, content_type = codecs.encode(envelope.body)

    now = datetime.now(UTC)
    headers = dict(envelope.headers)
    for name in headers:
        if name in HIDDEN:
            raise InvalidValue(f"the header {name!r} is the toolkit's own")

    headers[SENT_AT] = now.isoformat()
    properties = Properties(
        content_type=content_type,
        headers=cast("FieldTable", entries_of("header", headers)),
        delivery_mode=2 if envelope.durable else 1,
        priority=priority,
        correlation_id=envelope.correlation_id,
        reply_to=envelope.reply_to,
        expiration=_expiration(envelope.ttl),
        message_id=envelope.id or new_id(),
        timestamp=now.replace(microsecond=0),
        message_type=envelope.type,
    )
    return Outgoing(body, properties)


def copy_of(raw: DeliveredMessage, changes: Mapping[str, object]) -> Outgoing:
    """Return a message that arrived as it is sent on: ours of its headers with these changes."""
    given = raw.header.properties
    headers = {name: value for name, value in _table(raw).items() if name not in BROKERS}
    for name, value in changes.items():
        if value is None:
            headers.pop(name, None)
        else:
            headers[name] = value

    properties = Properties(
        content_type=given.content_type,
        content_encoding=given.content_encoding,
        headers=cast("FieldTable", entries_of("header", headers)),
        delivery_mode=given.delivery_mode,
        priority=given.priority,
        correlation_id=given.correlation_id,
        reply_to=given.reply_to,
        message_id=given.message_id or new_id(),
        timestamp=given.timestamp,
        message_type=given.message_type,
        app_id=given.app_id,
    )
    return Outgoing(raw.body, properties)


def put_header(message: Outgoing, name: str, value: int | list[str]) -> None:
    """Add a header to a message, or replace it."""
    _entries(message.properties)[name] = entry("header", name, value)


def packed(properties: Properties, room: int) -> Packed:
    """Return properties as they are sent, if they are of at most ``room`` octets.

    A content header is one frame, however long that is. Errors and tracebacks that the toolkit has
    put there are cut to what there is room for.

    Raises:
        MessageTooLarge: it does not fit.

    """
    octets = properties.marshal()
    if len(octets) > room:
        entries = _entries(properties)
        for name in (TRACEBACK, ERROR):
            if name in entries:
                _cut(entries, name, len(octets) - room)
                octets = properties.marshal()

        if len(octets) > room:
            raise MessageTooLarge(
                f"headers and properties are {len(octets)} bytes, and this broker takes {room}, "
                "as they are sent in one frame (frame_max)"
            )

    return Packed(octets, properties.message_id or "")


def _entries(properties: Properties) -> dict[str, bytes]:
    return cast("dict[str, bytes]", properties.headers)


def _cut(entries: dict[str, bytes], name: str, excess: int) -> None:
    """Take so many octets from the front of a text, or the whole header away."""
    if excess <= 0:
        return

    text = entries[name][len(entry("header", name, "")) :]
    rest = text[excess + len(CUT) :].decode("utf-8", "ignore")
    if rest:
        entries[name] = entry("header", name, CUT + rest)
    else:
        del entries[name]


def attempt_of(raw: DeliveredMessage, *, counts_failures_alone: bool = False) -> int:
    """Return which attempt it is, counted from 1.

    A quorum queue counts how often a consumer was lost with the message, which may be the message's
    doing. Where the broker counts nothing else, that is added to what was counted here.
    """
    headers = _table(raw)
    returns = _count(headers.get("x-delivery-count"), 0) if counts_failures_alone else 0
    return _count(headers.get(ATTEMPT), 1) + returns


def topic_of(raw: DeliveredMessage, queue: str) -> str:
    """Return what a message was published under; the queue's name if it was sent to that."""
    kept = text_header(raw, TOPIC)
    if kept is not None:
        return kept

    return queue if _table(raw).get("CC") else raw.routing_key or queue


def topic_to_keep(raw: DeliveredMessage, queue: str) -> str | None:
    """Return the topic, where the routing key is going to be another one."""
    topic = topic_of(raw, queue)
    return None if topic == queue else topic


def user_headers(raw: DeliveredMessage) -> dict[str, object]:
    """Return what the sender has put into the headers."""
    return {name: value for name, value in _table(raw).items() if name not in HIDDEN}


def own_headers(raw: DeliveredMessage) -> dict[str, object]:
    """Return all headers, whoever put them there."""
    return _table(raw)


def text_header(raw: DeliveredMessage, name: str) -> str | None:
    """Return a header of ours, if it is there and a text."""
    value = _table(raw).get(name)
    return value if isinstance(value, str) else None


def sent_at(raw: DeliveredMessage) -> datetime | None:
    """Return when it was sent, as exactly as it says."""
    text = text_header(raw, SENT_AT)
    if text is not None:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass

    stamp: object = raw.header.properties.timestamp
    if isinstance(stamp, datetime):
        return stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)

    return None


def shortened(text: str) -> str:
    """Return a text that fits into a header: of a traceback the end says what happened."""
    return writable(text if len(text) <= TEXT_MAX else CUT + text[-TEXT_MAX:])


def _table(raw: DeliveredMessage) -> dict[str, object]:
    return cast("dict[str, object]", raw.header.properties.headers or {})


def table(values: Mapping[str, object]) -> dict[str, Any]:
    """Return a table for the library, which itself refuses what it cannot write."""
    return {name: _field(value) for name, value in values.items()}


def _field(value: object) -> Any:
    """The library takes bytes only where they can be changed."""
    if isinstance(value, bytes):
        return bytearray(value)

    if isinstance(value, dict):
        return table(value)

    return [_field(one) for one in value] if isinstance(value, list | tuple) else value


def _count(value: object, default: int) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return int(value) if is_count and isinstance(value, int) else default


def _expiration(ttl: float | None) -> str | None:
    return None if ttl is None else str(math.ceil(ttl * 1000))
