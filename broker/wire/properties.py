"""The properties of a content header: what the broker needs to know of them, and edits of them.

Layer 0 (wire), compiled; parsing runs once per message. ``raw`` is the property list as it lies in
a header frame: flags, then the values in the order of the flags (rules X-01, X-02). Invariant:
``parse_properties`` walks the whole list, so whatever it lets pass can be decoded, edited and sent
on. Edits leave every byte they are not about as it came (rule P-30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import InternalFault, PreconditionFailed
from broker.limits import SHORT_STRING_BYTES_MAX, TABLE_BYTES_MAX, TABLE_DEPTH_MAX
from broker.wire.tables import (
    TYPE_NAMES,
    TableError,
    decode_table,
    encode_field,
    table_to_plain,
)

if TYPE_CHECKING:
    from mypy_extensions import i16, i64

    from broker.wire.tables import Arguments, Field

__all__ = [
    "Properties",
    "PropertiesError",
    "parse_own_properties",
    "parse_properties",
    "set_encoded_headers",
    "set_headers",
    "with_headers",
    "with_reply_to",
    "without_expiration",
    "without_header",
]

# Property flags, high to low as the values lie (rule X-02).
_CONTENT_TYPE: Final = 0x8000
_CONTENT_ENCODING: Final = 0x4000
_HEADERS: Final = 0x2000
_DELIVERY_MODE: Final = 0x1000
_PRIORITY: Final = 0x0800
_CORRELATION_ID: Final = 0x0400
_REPLY_TO: Final = 0x0200
_EXPIRATION: Final = 0x0100
_MESSAGE_ID: Final = 0x0080
_TIMESTAMP: Final = 0x0040
_TYPE: Final = 0x0020
_USER_ID: Final = 0x0010
_APP_ID: Final = 0x0008
_CLUSTER_ID: Final = 0x0004
_UNUSED: Final = 0x0003

_OCTETS: Final = 0x1800
"""delivery_mode and priority."""
_ADDRESSES: Final = 0x0700
"""correlation_id, reply_to and expiration."""
_IDENTITIES: Final = 0x00FC
"""message_id to cluster_id."""

_PERSISTENT: Final = 2

_NAMES: Final[tuple[tuple[int, str], ...]] = (
    (_CONTENT_TYPE, "content_type"),
    (_CONTENT_ENCODING, "content_encoding"),
    (_HEADERS, "headers"),
    (_DELIVERY_MODE, "delivery_mode"),
    (_PRIORITY, "priority"),
    (_CORRELATION_ID, "correlation_id"),
    (_REPLY_TO, "reply_to"),
    (_EXPIRATION, "expiration"),
    (_MESSAGE_ID, "message_id"),
    (_TIMESTAMP, "timestamp"),
    (_TYPE, "type"),
    (_USER_ID, "user_id"),
    (_APP_ID, "app_id"),
    (_CLUSTER_ID, "cluster_id"),
)

_NESTED: Final = 0xFD
_LONG: Final = 0xFE
_UNKNOWN: Final = 0xFF


def _make_sizes() -> bytes:
    sizes = bytearray([_UNKNOWN]) * 256
    for letters, size in (("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLdT", 8), ("V", 0)):
        for letter in letters:
            sizes[ord(letter)] = size

    for letter in "Sx":
        sizes[ord(letter)] = _LONG

    for letter in "FA":
        sizes[ord(letter)] = _NESTED

    return bytes(sizes)


_SIZES: Final = _make_sizes()
"""Octets of a field's value by its type letter (rule F-20), or one of the three codes above."""


class PropertiesError(InternalFault):
    """A property list that does not decode (rule F-18).

    RabbitMQ answers with a bare 541 (rule T-04), so the reason is for the log alone.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(class_id=0, method_id=0)
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot decode message properties: {self.reason}"


class Properties:
    """What the broker reads of one property list.

    Attributes:
        raw: the list, to be sent on.
        is_cleaned: raw is not what came, because meaningless flag bits were taken out of it.
        flags: the property flags.
        delivery_mode: 0 when absent.
        is_persistent: delivery_mode is 2 (rule P-31).
        priority: -1 when absent.
        expiration: text as sent, None when absent; so are user_id and reply_to. An empty one
            is present.
        headers_start: where in raw the first header begins; -1 without a headers table.
        headers_end: where in raw the last header ends; -1 without a headers table.
        has_cc: there is a header CC; has_bcc likewise (rule P-40).

    """

    __slots__ = (
        "_headers",
        "delivery_mode",
        "expiration",
        "flags",
        "has_bcc",
        "has_cc",
        "headers_end",
        "headers_start",
        "is_cleaned",
        "is_persistent",
        "priority",
        "raw",
        "reply_to",
        "user_id",
    )

    def __init__(self, raw: bytes, flags: i64) -> None:
        self.raw = raw
        self.is_cleaned = False
        self.flags: i64 = flags
        self.delivery_mode: i64 = 0
        self.is_persistent = False
        self.priority: i16 = -1
        self.expiration: str | None = None
        self.user_id: str | None = None
        self.reply_to: str | None = None
        self.headers_start: i64 = -1
        self.headers_end: i64 = -1
        self.has_cc = False
        self.has_bcc = False
        self._headers: Arguments | None = None

    def headers(self) -> Arguments:
        """Return the headers table, decoded once; the caller must not change it."""
        headers = self._headers
        if headers is None:
            if self.headers_start < 0:
                headers = {}
            else:
                headers = decode_table(self.raw, self.headers_start, self.headers_end)
            self._headers = headers

        return headers

    def cc_keys(self) -> list[str]:
        """Return the routing keys of the header CC (rule P-40).

        Raises:
            PreconditionFailed: CC is not an array (rule P-08).

        """
        return self._keys_of("CC") if self.has_cc else []

    def bcc_keys(self) -> list[str]:
        """Return the routing keys of the header BCC; raises as ``cc_keys`` does."""
        return self._keys_of("BCC") if self.has_bcc else []

    def _keys_of(self, name: str) -> list[str]:
        field = self.headers()[name]
        if not isinstance(field.value, list):
            raise PreconditionFailed(
                "invalid message: {unacceptable_type_in_header,"
                f'"{name}",{TYPE_NAMES[field.kind]}}}'
            )

        # Rule P-40: only long strings count.
        return [item.value for item in field.value if item.kind == "S"]

    def octets_of(self, name: str) -> bytes:
        """Return one property as it is encoded; nothing when it is absent."""
        for flag, its_name in _NAMES:
            if its_name == name and self.flags & flag:
                pos: i64 = _position_of(self.raw, flag)
                return self.raw[pos : _value_end(self.raw, pos, flag)]

        return b""

    def to_plain(self) -> dict[str, object]:
        """Return the properties that are present by their names, for people to read."""
        plain: dict[str, object] = {}
        raw = self.raw
        pos: i64 = 2
        for flag, name in _NAMES:
            if self.flags & flag == 0:
                continue

            end: i64 = _value_end(raw, pos, flag)
            if flag == _HEADERS:
                plain[name] = table_to_plain(self.headers())
            elif flag & (_OCTETS | _TIMESTAMP):
                plain[name] = int.from_bytes(raw[pos:end], "big")
            else:
                plain[name] = raw[pos + 1 : end].decode("utf-8", "surrogateescape")

            pos = end

        return plain


def parse_properties(raw: bytes) -> Properties:
    """Walk a property list and note what the broker needs of it.

    Args:
        raw: payload of a header frame from its thirteenth octet on.

    Raises:
        PropertiesError: a value is cut, octets are left over, a header has an unknown type or is
            a float that is not a finite number (rule F-18).
        TableError: the headers are nested too deep or too large for us.

    """
    return _parse(raw, is_own=False)


def parse_own_properties(raw: bytes) -> Properties:
    """The same for a list that has been parsed before, or edited since: headers are not walked."""
    return _parse(raw, is_own=True)


def _parse(raw: bytes, *, is_own: bool) -> Properties:
    size: i64 = len(raw)
    if size < 2:
        raise PropertiesError("no flags")

    flags: i64 = (raw[0] << 8) | raw[1]
    if flags & _UNUSED:
        return _parse_cleaned(raw, flags)

    properties = Properties(raw, flags)
    pos: i64 = 2
    if flags & _CONTENT_TYPE:
        pos = _short_end(raw, pos, size)

    if flags & _CONTENT_ENCODING:
        pos = _short_end(raw, pos, size)

    if flags & _HEADERS:
        pos = _take_headers(properties, raw, pos, size, is_own=is_own)

    if flags & _OCTETS:
        pos = _take_octets(properties, raw, pos, size)

    if flags & _ADDRESSES:
        pos = _take_addresses(properties, raw, pos, size)

    if flags & _IDENTITIES:
        pos = _take_identities(properties, raw, pos, size)

    if pos != size:
        raise PropertiesError("octets are left over")

    return properties


def _parse_cleaned(raw: bytes, flags: i64) -> Properties:
    # Rule F-18 [4.3]: both bits are ignored. They must not be sent on: a client would take bit 0
    # for the announcement of more flags and misread what follows.
    low: i64 = flags & 0xFC
    properties = parse_properties(raw[:1] + bytes([low]) + raw[2:])
    properties.is_cleaned = True
    return properties


def _short_end(raw: bytes, pos: i64, size: i64) -> i64:
    """Return where the short string at ``pos`` ends."""
    if pos < size:
        end: i64 = pos + 1 + raw[pos]
        if end <= size:
            return end

    raise PropertiesError("a property is cut short")


def _take_octets(properties: Properties, raw: bytes, pos: i64, size: i64) -> i64:
    flags: i64 = properties.flags
    if flags & _DELIVERY_MODE:
        if pos >= size:
            raise PropertiesError("delivery_mode is missing")

        mode: i64 = raw[pos]
        properties.delivery_mode = mode
        properties.is_persistent = mode == _PERSISTENT
        pos += 1

    if flags & _PRIORITY:
        if pos >= size:
            raise PropertiesError("priority is missing")

        properties.priority = raw[pos]
        pos += 1

    return pos


def _take_addresses(properties: Properties, raw: bytes, pos: i64, size: i64) -> i64:
    flags: i64 = properties.flags
    end: i64 = pos
    if flags & _CORRELATION_ID:
        end = _short_end(raw, pos, size)

    if flags & _REPLY_TO:
        pos = end
        end = _short_end(raw, pos, size)
        properties.reply_to = raw[pos + 1 : end].decode("utf-8", "surrogateescape")

    if flags & _EXPIRATION:
        pos = end
        end = _short_end(raw, pos, size)
        properties.expiration = raw[pos + 1 : end].decode("utf-8", "surrogateescape")

    return end


def _take_identities(properties: Properties, raw: bytes, pos: i64, size: i64) -> i64:
    flags: i64 = properties.flags
    if flags & _MESSAGE_ID:
        pos = _short_end(raw, pos, size)

    if flags & _TIMESTAMP:
        pos += 8
        if pos > size:
            raise PropertiesError("timestamp is cut short")

    if flags & _TYPE:
        pos = _short_end(raw, pos, size)

    if flags & _USER_ID:
        end: i64 = _short_end(raw, pos, size)
        properties.user_id = raw[pos + 1 : end].decode("utf-8", "surrogateescape")
        pos = end

    if flags & _APP_ID:
        pos = _short_end(raw, pos, size)

    if flags & _CLUSTER_ID:
        pos = _short_end(raw, pos, size)

    return pos


def _take_headers(properties: Properties, raw: bytes, pos: i64, size: i64, *, is_own: bool) -> i64:
    start: i64 = pos + 4
    if start > size:
        raise PropertiesError("headers are cut short")

    end: i64 = start + _long_at(raw, pos)
    if end > size:
        raise PropertiesError("headers are cut short")

    if end - start > TABLE_BYTES_MAX:
        raise TableError(f"field table larger than {TABLE_BYTES_MAX} bytes")

    properties.headers_start = start
    properties.headers_end = end
    pos = start
    while pos < end:
        length: i64 = raw[pos]
        pos += 1
        key_end: i64 = pos + length
        if key_end >= end:
            raise PropertiesError("a header is cut short")

        # CC and BCC (rule P-40) told by their octets: no object for a key nobody asks for.
        if length == 2:
            if raw[pos] == 0x43 and raw[pos + 1] == 0x43:
                properties.has_cc = True
        elif length == 3 and raw[pos] == 0x42 and raw[pos + 1] == 0x43 and raw[pos + 2] == 0x43:
            properties.has_bcc = True

        pos = _skipped(raw, key_end) if is_own else _field_end(raw, key_end, end, 1)

    return end


def _long_at(raw: bytes, pos: i64) -> i64:
    return (raw[pos] << 24) | (raw[pos + 1] << 16) | (raw[pos + 2] << 8) | raw[pos + 3]


def _field_end(raw: bytes, pos: i64, end: i64, depth: i64) -> i64:
    """Check the field whose letter is at ``pos``, inside a table ending at ``end``; skip it."""
    letter: i64 = raw[pos]
    size: i64 = _SIZES[letter]
    pos += 1
    if size < _NESTED:
        if pos + size > end:
            raise PropertiesError("a header is cut short")

        if letter == 0x64 or letter == 0x66:  # d f
            _check_float(raw, pos, letter == 0x64)

        return pos + size

    if size == _UNKNOWN:
        raise PropertiesError(f"a header has the unknown type {chr(letter)!r}")

    start: i64 = pos + 4
    if start > end:
        raise PropertiesError("a header is cut short")

    stop: i64 = start + _long_at(raw, pos)
    if stop > end:
        raise PropertiesError("a header is cut short")

    if size == _NESTED:
        _check_nested(raw, start, stop, depth=depth + 1, is_table=letter == 0x46)

    return stop


def _skipped(raw: bytes, pos: i64) -> i64:
    """Where the field ends whose letter is at ``pos``; it has been checked before."""
    size: i64 = _SIZES[raw[pos]]
    pos += 1
    if size < _NESTED:
        return pos + size

    return pos + 4 + _long_at(raw, pos)


def _check_nested(raw: bytes, pos: i64, end: i64, *, depth: i64, is_table: bool) -> None:
    """Check the entries of a table or an array inside the headers."""
    if depth > TABLE_DEPTH_MAX:
        raise TableError(f"field table nested deeper than {TABLE_DEPTH_MAX} levels")

    while pos < end:
        if is_table:
            pos += 1 + raw[pos]
            if pos >= end:
                raise PropertiesError("a header is cut short")

        pos = _field_end(raw, pos, end, depth)


def _check_float(raw: bytes, pos: i64, is_double: bool) -> None:
    # An exponent of all ones is NaN or infinity, which no Erlang float can be (rule F-18).
    if raw[pos] & 0x7F == 0x7F:
        mask: i64 = 0xF0 if is_double else 0x80
        if raw[pos + 1] & mask == mask:
            raise PropertiesError("a header is not a finite number")


def _flags_of(raw: bytes) -> i64:
    flags: i64 = (raw[0] << 8) | raw[1]
    return flags


def _value_end(raw: bytes, pos: i64, flag: i64) -> i64:
    """Return where the value at ``pos`` of the property ``flag`` ends."""
    if flag & _OCTETS:
        return pos + 1
    if flag == _TIMESTAMP:
        return pos + 8
    if flag == _HEADERS:
        return pos + 4 + _long_at(raw, pos)

    return pos + 1 + raw[pos]


def _position_of(raw: bytes, flag: i64) -> i64:
    """Return where the value of the property ``flag`` lies, or would lie."""
    flags: i64 = _flags_of(raw)
    pos: i64 = 2
    bit: i64 = _CONTENT_TYPE
    while bit > flag:
        if flags & bit:
            pos = _value_end(raw, pos, bit)

        bit >>= 1

    return pos


def _with_value(raw: bytes, flag: i64, value: bytes | None) -> bytes:
    """Set, replace or (None) remove one property."""
    flags: i64 = _flags_of(raw)
    start: i64 = _position_of(raw, flag)
    end: i64 = start
    if flags & flag:
        end = _value_end(raw, start, flag)

    if value is None:
        value = b""
        flags &= ~flag
    else:
        flags |= flag

    return bytes([flags >> 8, flags & 0xFF]) + raw[2:start] + value + raw[end:]


def with_headers(raw: bytes, table_body: bytes | None) -> bytes:
    """Give a property list another headers table.

    Args:
        raw: a list that ``parse_properties`` accepted; so in all functions below.
        table_body: the encoded entries without the octets of their length; None takes the
            property away.

    """
    if table_body is None:
        return _with_value(raw, _HEADERS, None)

    return _with_value(raw, _HEADERS, len(table_body).to_bytes(4, "big") + table_body)


def without_expiration(raw: bytes) -> bytes:
    """Take the property expiration away (rule P-30: dead-lettering does)."""
    return _with_value(raw, _EXPIRATION, None)


def with_reply_to(raw: bytes, reply_to: str) -> bytes:
    """Set the property reply_to.

    Raises:
        ValueError: it is longer than a short string can be.

    """
    text = reply_to.encode("utf-8", "surrogateescape")
    if len(text) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"reply_to longer than {SHORT_STRING_BYTES_MAX} bytes")

    return _with_value(raw, _REPLY_TO, len(text).to_bytes(1, "big") + text)


def without_header(raw: bytes, key: str) -> bytes:
    """Take a header away, however often it was given; an emptied table stays (rule P-41)."""
    return _with_entries(raw, {key: None})


def set_headers(raw: bytes, headers: dict[str, Field]) -> bytes:
    """Set headers: each takes the place of the one of that name, or comes at the end.

    Where there is no room for them within `TABLE_BYTES_MAX` the list stays as it is: whatever a
    message has on its way, the broker must be able to read it again.

    Raises:
        ValueError: a name is too long or a value does not fit its type letter.

    """
    encoded: dict[str, bytes] = {}
    for key, field in headers.items():
        encoded[key] = encode_field(field)

    return set_encoded_headers(raw, encoded)


def set_encoded_headers(raw: bytes, headers: dict[str, bytes]) -> bytes:
    """`set_headers` with fields as `encode_field` makes them."""
    entries: dict[str, bytes | None] = {}
    entries.update(headers)
    edited = _with_entries(raw, entries)
    if len(edited) > TABLE_BYTES_MAX:
        start: i64 = _position_of(edited, _HEADERS)
        if _long_at(edited, start) > TABLE_BYTES_MAX:
            return raw

    return edited


def _with_entries(raw: bytes, entries: dict[str, bytes | None]) -> bytes:
    """Replace the headers named in ``entries``; None removes."""
    parts: list[bytes] = []
    done: set[str] = set()
    if _flags_of(raw) & _HEADERS:
        pos: i64 = _position_of(raw, _HEADERS)
        end: i64 = _value_end(raw, pos, _HEADERS)
        pos += 4
        while pos < end:
            key_end: i64 = pos + 1 + raw[pos]
            stop: i64 = _skipped(raw, key_end)
            key = raw[pos + 1 : key_end].decode("utf-8", "surrogateescape")
            if key not in entries:
                parts.append(raw[pos:stop])
            elif key not in done:
                # Of a header given twice nothing may remain behind the new value.
                done.add(key)
                _append_entry(parts, key, entries[key])

            pos = stop
    elif not any(field is not None for field in entries.values()):
        return raw

    for key, field in entries.items():
        if key not in done:
            _append_entry(parts, key, field)

    return with_headers(raw, b"".join(parts))


def _append_entry(parts: list[bytes], key: str, field: bytes | None) -> None:
    if field is None:
        return

    name = key.encode("utf-8", "surrogateescape")
    if len(name) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"header name longer than {SHORT_STRING_BYTES_MAX} bytes: {key!r}")

    parts.append(len(name).to_bytes(1, "big"))
    parts.append(name)
    parts.append(field)
