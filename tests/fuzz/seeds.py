"""Where fuzzing begins: sound inputs of every kind, and a few known tricks, by name.

What a run finds besides goes into corpus/TARGET/ as it is: every input that led to a defect, and
some that reach code which these do not.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from pathlib import Path
from typing import Final

from broker.wire.tables import Field, encode_field, encode_table
from tests.helpers.methods import METHODS, encode_method
from tests.helpers.scripts import SCRIPTS
from tests.helpers.session import (
    HEARTBEAT,
    PROTOCOL_HEADER,
    handshake,
    header,
    method,
    publish,
    text_property,
)

__all__ = ["CORPUS", "seeds_of"]

CORPUS: Final = Path(__file__).parent / "corpus"

EVERY_LETTER: Final = {
    "t": Field("t", True),
    "b": Field("b", -1),
    "B": Field("B", 255),
    "s": Field("s", -2),
    "u": Field("u", 65_535),
    "I": Field("I", -3),
    "i": Field("i", 1 << 31),
    "l": Field("l", -(1 << 63)),
    "L": Field("L", 4),
    "f": Field("f", 0.5),
    "d": Field("d", -1e300),
    "D": Field("D", Decimal("3.14")),
    "S": Field("S", "text \udcff é"),
    "x": Field("x", b"\x00\xff"),
    "T": Field("T", (1 << 64) - 1),
    "F": Field("F", {"k": Field("F", {}), "a": Field("A", [Field("I", 1)])}),
    "A": Field("A", [Field("S", "a"), Field("A", []), Field("V", None)]),
    "V": Field("V", None),
}
NESTED: Final = b"\x01kF" + b"\x00\x00\x00\x07\x01kF" * 63 + b"\x00\x00\x00\x00"


LOGIN: Final = encode_table({"LOGIN": Field("S", "guest"), "PASSWORD": Field("S", "guest")})[4:]
CERTIFICATE: Final = base64.b64decode(
    b"MIIB8jCCAZigAwIBAgIUPeXANrxMKdCdWP10y36GgY7zS7EwCgYIKoZIzj0EAwIwMzEQMA4GA1UECgwHRXhhbXBs"
    b"ZTEQMA4GA1UECwwHY2xpZW50czENMAsGA1UEAwwEc2hvcDAeFw0yNjExMzAyMzIzNDBaFw0zNjExMjcyMzIzNDBa"
    b"MDMxEDAOBgNVBAoMB0V4YW1wbGUxEDAOBgNVBAsMB2NsaWVudHMxDTALBgNVBAMMBHNob3AwWTATBgcqhkjOPQIB"
    b"BggqhkjOPQMBBwNCAAQmcLxnWc0atrgTTGN2BW9x33K+Ckf18p7xEKkwHNvHP+tsHXfxiLYM7nwb8vMHKMCjhauJ"
    b"mMIVhu8ztCNIulYYo4GJMIGGMB0GA1UdDgQWBBQcv7tNNOYmBwF5AowO3raoL8esBzAfBgNVHSMEGDAWgBQcv7tN"
    b"NOYmBwF5AowO3raoL8esBzAPBgNVHRMBAf8EBTADAQH/MDMGA1UdEQQsMCqCCWEuZXhhbXBsZYcEfwAAAYYIaHR0"
    b"cDovL2GBDWFAZXhhbXBsZS5vcmcwCgYIKoZIzj0EAwIDSAAwRQIhAJwYaH33m8/1cYxnNTo4HudRQ0ePjBDtXe/Z"
    b"r9YL5+TxAiBnXFo4EFcQKbxix7REDYj9h6WsrugbwExAsNJB+P7KLA=="
)
"""Of a client, self-signed, with alternative names of all kinds."""

PROXY_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
OF_TEXT: Final = {
    "sasl": (
        b"\x00\x00guest\x00guest",
        b"\x00\x00guest\x00wrong\x00",
        b"\x01" + LOGIN,
        b"\x02anybody",
        b"\x03",
        b"\x04",
    ),
    "http": (
        b"/api/queues/%2F/q?page=1&name=(a%2B)%2B&use_regex=true",
        b"/api/exchanges/%2F/amq.default/publish",
        b"Z3Vlc3Q6Z3Vlc3Q=",
        b'{"password": "x", "tags": [], "limits": {"max-channels": -1}}',
        b"^(?!amq\\.)(a|b)*[^\\]x]{2,}(?<=c)$",
        b"/auth/hash_password/x?token=y",
    ),
    "yaml": (
        b"version: 1\nusers:\n  - {name: a, password: b, tags: [administrator]}\n",
        b"version: 1\nvhosts:\n  /:\n    permissions: {a: {read: '.*'}}\n    queues: {q: {}}\n",
        b"version: 1\na: &a [*a, *a]\nb: ${HOME:-x}\n",
    ),
    "proxy": (
        b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5672\r\nAMQP\x00\x00\x09\x01",
        b"PROXY TCP6 2001:db8::7 ::ffff:127.0.0.1 40000 5672\r\n",
        b"PROXY UNKNOWN anything\r\n",
        PROXY_V2 + b"\x21\x11\x00\x0c" + bytes(range(12)),
        PROXY_V2 + b"\x21\x21\x00\x27" + bytes(range(39)),
        PROXY_V2 + b"\x20\x00\x00\x00",
    ),
    "certificate": (CERTIFICATE,),
}
"""What comes as text, or nearly; the names are numbers."""


def _properties() -> dict[str, bytes]:
    table = encode_table(EVERY_LETTER)
    copies = encode_table(
        {"CC": Field("A", [Field("S", "q")]), "BCC": Field("A", [Field("S", "p")])}
    )
    return {
        "none": b"\x00\x00",
        "all": b"\xff\xfc\x01a\x01b"
        + table
        + b"\x02\x09\x01c\x01d\x011\x01m"
        + bytes(8)
        # type, user-id, app-id, cluster-id
        + b"\x01t\x05guest\x01a\x01c",
        "headers": b"\x20\x00" + table,
        "copies": b"\x20\x00" + copies,
        "copies-of-a-wrong-type": b"\x20\x00" + encode_table({"CC": Field("S", "q")}),
        "twice": b"\x20\x00\x00\x00\x00\x0c" + b"\x03BCCt\x01" * 2,
        "unused-flags": b"\x10\x03\x02",
        "reply-to": text_property(9, "amq.rabbitmq.reply-to"),
        "nan": b"\x20\x00\x00\x00\x00\x0b\x01kd\x7f\xf8" + bytes(6),
    }


def _tables() -> dict[str, bytes]:
    found = {
        f"letter-{ord(letter):02x}": b"\x01k" + encode_field(field)
        for letter, field in EVERY_LETTER.items()
    }
    found["every-letter"] = encode_table(EVERY_LETTER)[4:]
    found["nested"] = NESTED
    found["twice"] = b"\x01kt\x01\x01kt\x00"
    return found


def _methods() -> dict[str, bytes]:
    found = {name: encode_method(name, {}) for name in METHODS}
    arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-priority": -1}
    for name in ("queue.declare", "queue.bind", "basic.consume", "exchange.declare"):
        found[f"{name}-with-arguments"] = encode_method(name, {"arguments": arguments})

    return found


def _sessions() -> dict[str, bytes]:
    skipped = len(handshake())
    found = {name: data[skipped:] for name, data in SCRIPTS.items()}
    found["transaction"] = (
        method(1, "tx.select")
        + publish(1, "q")
        + method(1, "basic.get", queue="q")
        + method(1, "basic.ack", delivery_tag=1)
        + method(1, "tx.rollback")
        + method(1, "tx.commit")
    )
    found["confirms"] = (
        method(2, "confirm.select") + publish(2, "q") * 2 + publish(2, "no", mandatory=True)
    )
    found["replies"] = method(
        1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True
    ) + publish(1, "q", b"?", text_property(9, "amq.rabbitmq.reply-to"))
    found["unfinished"] = method(1, "basic.publish", routing_key="q") + header(1, 1 << 20)
    return found


def _connections() -> dict[str, bytes]:
    amqplain = encode_table({"LOGIN": Field("S", "guest"), "PASSWORD": Field("S", "guest")})[4:]
    start = method(0, "connection.start-ok", mechanism="AMQPLAIN", response=amqplain)
    found = dict(SCRIPTS)
    found["amqplain"] = PROTOCOL_HEADER + start
    found["refused"] = handshake(password="wrong")
    found["no-vhost"] = handshake(vhost="none")
    found["old-header"] = b"AMQP\x01\x01\x00\x09"
    return found


def seeds_of(target: str) -> dict[str, bytes]:
    """Every input that there is for a target, by name."""
    found: dict[str, bytes] = {}
    if target == "frames":
        found = {
            **SCRIPTS,
            "heartbeats": HEARTBEAT * 3,
            "too-large": b"\x01\x00\x01\x00\x01\x00\x00",
        }
        found["no-end"] = HEARTBEAT[:-1] + b"\x00"
    elif target == "tables":
        found = _tables()
    elif target == "properties":
        found = _properties()
    elif target == "contents":
        found = {name: bytes((len(raw),)) + raw + b"hare" for name, raw in _properties().items()}
    elif target == "methods":
        found = _methods()
    elif target == "sessions":
        found = _sessions()
    elif target == "handshake":
        found = _connections()
    elif target in OF_TEXT:
        found = {str(place): data for place, data in enumerate(OF_TEXT[target])}

    for path in sorted((CORPUS / target).glob("*.bin")):
        found[path.name] = path.read_bytes()

    return found
