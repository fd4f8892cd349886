"""Whole sessions as bytes, for tests that cut them up, mutate them, or play them at once."""

from __future__ import annotations

from typing import Final

from tests.helpers.session import (
    HEARTBEAT,
    PROTOCOL_HEADER,
    body,
    frame,
    handshake,
    header,
    method,
    publish,
    text_property,
)

__all__ = ["SCRIPTS"]

EXPIRATION: Final = 8
"""Bit of a property (rule X-02)."""


def _topology() -> bytes:
    return (
        method(1, "exchange.declare", exchange="x", type="topic", durable=True)
        + method(1, "exchange.declare", exchange="y", type="headers", arguments={"k": [1, "a"]})
        + method(1, "exchange.bind", destination="y", source="x", routing_key="#")
        + method(1, "queue.declare", queue="q", arguments={"x-max-length": 10})
        + method(1, "queue.declare", queue="p", exclusive=True, auto_delete=True)
        + method(1, "queue.declare")
        + method(1, "queue.bind", queue="q", exchange="x", routing_key="a.*")
        + method(1, "queue.bind", queue="p", exchange="y", arguments={"x-match": "any", "k": 1})
        + method(1, "queue.bind", exchange="amq.topic")
    )


def _messaging() -> bytes:
    long_body = bytes(range(256)) * 40
    return (
        _topology()
        + method(2, "channel.open")
        + method(2, "confirm.select")
        + publish(2, "a.b", exchange="x")
        + publish(2, "nowhere", mandatory=True)
        + method(2, "basic.publish", routing_key="q")
        + header(2, len(long_body), text_property(EXPIRATION, "10000"))
        + body(2, long_body, 4_000)
        + HEARTBEAT
        + b"".join(publish(2, "q", bytes((65 + place,)) * place) for place in range(6))
        + method(1, "basic.qos", prefetch_count=3)
        + method(1, "basic.consume", queue="q", consumer_tag="t")
        + method(1, "basic.ack", delivery_tag=1)
        + method(1, "basic.nack", delivery_tag=3, multiple=True, requeue=True)
        + method(1, "basic.reject", delivery_tag=4)
        + method(1, "basic.recover", requeue=True)
        + method(1, "basic.cancel", consumer_tag="t")
        + method(2, "basic.get", queue="q", no_ack=True)
        + method(2, "channel.close")
        + method(1, "queue.purge", queue="q")
    )


def _transactions() -> bytes:
    return (
        method(1, "queue.declare", queue="q")
        + method(1, "tx.select")
        + publish(1, "q", b"one")
        + publish(1, "q", b"")
        + method(1, "tx.commit")
        + method(1, "basic.get", queue="q")
        + method(1, "basic.ack", delivery_tag=1)
        + method(1, "tx.rollback")
        + publish(1, "q", b"gone")
        + method(1, "basic.ack", delivery_tag=1)
        + method(1, "tx.commit")
        + publish(1, exchange="nowhere")
        + publish(1, "q", b"ignored")
        + method(1, "channel.close-ok")
        + method(1, "channel.open")
        + method(1, "queue.delete", queue="q")
    )


def _interleaved() -> bytes:
    pieces = [method(channel, "basic.publish", routing_key="q") for channel in (1, 2)]
    pieces += [header(channel, 6) for channel in (1, 2)]
    for octet in b"hares!":
        pieces += [frame(3, channel, bytes((octet + channel,))) for channel in (1, 2)]

    return (
        method(2, "channel.open")
        + method(1, "queue.declare", queue="q")
        + b"".join(pieces)
        + method(2, "basic.consume", queue="q", no_ack=True)
    )


_CLOSE: Final = method(0, "connection.close", reply_code=200, reply_text="bye")
_OPEN: Final = handshake() + method(1, "channel.open")

SCRIPTS: Final[dict[str, bytes]] = {
    "messaging": _OPEN + _messaging() + _CLOSE,
    "transactions": _OPEN + _transactions() + _CLOSE + _CLOSE,
    "interleaved": _OPEN + _interleaved() + _CLOSE,
    "connection error": _OPEN + method(1, "basic.recover") + publish(1, "q") + _CLOSE,
    "frame error": _OPEN + publish(1, "q") + frame(1, 1, b"\x00\x3c\x00\x0a", b"\x00") + _CLOSE,
    "unknown frame": _OPEN + frame(5, 1, b"abc") + _CLOSE + method(0, "connection.close-ok"),
    "left in a content": _OPEN + method(1, "basic.publish") + header(1, 9) + body(1, b"half"),
    "wrong virtual host": handshake(vhost="nope") + method(0, "connection.close-ok"),
    "refused login": handshake(password="wrong"),
    "silent refusal": handshake(password="wrong", capabilities=[]),
    "another protocol": b"GET / HTTP/1.1\r\nHost: hare\r\n\r\n",
    "cut handshake": PROTOCOL_HEADER + method(0, "connection.open", virtual_host="/"),
}
"""What a client writes in one session, from its first byte on."""
