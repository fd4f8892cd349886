"""Messages: publish, get, browse (management layer)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from broker.core.message import content_body
from broker.core.message_commands import (
    ACK,
    REJECT,
    REJECT_REQUEUE,
    REQUEUE,
    PublishRequest,
    publish_message,
    take_messages,
)
from broker.errors import AMQPError
from broker.management.arguments import integer_of, object_of, text_of
from broker.management.auth import VHOST
from broker.management.call import answer
from broker.management.errors import BadRequest, HTTPProblem, NotThere
from broker.management.json_text import render
from broker.management.properties import encode_properties
from broker.management.queues import queue_in_path
from broker.management.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

    from broker.core.message import Message
    from broker.core.message_commands import Taken
    from broker.management.call import Call
    from broker.management.json_text import JSON

__all__ = ["ROUTES", "payload_of"]

ACK_MODES: Final = {
    "ack_requeue_true": REQUEUE,
    "ack_requeue_false": ACK,
    "reject_requeue_true": REJECT_REQUEUE,
    "reject_requeue_false": REJECT,
}
REJECTED: Final = "rejected Unable to publish message. Check queue limits."
PUBLISHED_MAX: Final = 1000
"""Messages that one request brings at most: they are done in one turn."""

TAKEN_MAX: Final = 10_000
TAKEN_BYTES_MAX: Final = 64 * 2**20
"""What one request takes at most: it is done in one turn, and held in memory."""


async def publish(call: Call) -> web.Response:
    body = await call.body("properties", "routing_key", "payload", "payload_encoding")
    vhost = call.vhost
    actor = call.actor
    if call["exchange"] not in vhost.exchanges:
        raise NotThere("not_found", "exchange_not_found")

    request = _request(call, body, call["exchange"], text_of(body, "routing_key"))
    _check_alarms(call)
    outcome = await call.site.change(lambda: publish_message(vhost, actor, request), vhost)
    if not outcome.is_accepted:
        raise BadRequest(REJECTED)

    return answer({"routed": outcome.is_routed})


def _request(call: Call, body: JSON, exchange: str, routing_key: str) -> PublishRequest:
    return PublishRequest(
        exchange=exchange,
        routing_key=routing_key,
        properties=encode_properties(object_of(body, "properties")),
        body=_decode(body),
        body_bytes_max=call.node.settings.message_bytes_max,
    )


def _check_alarms(call: Call) -> None:
    if call.node.alarms:
        raise HTTPProblem(503, "resource_alarm", call.node.alarm_reason())


async def publish_many(call: Call) -> web.Response:
    """Put messages into a queue, in their order, up to the first that cannot be: one batch.

    RabbitMQ has no such thing, and takes one request and one look at the disk for each message.
    """
    rows = (await call.body("messages"))["messages"]
    if not isinstance(rows, list) or len(rows) > PUBLISHED_MAX:
        raise BadRequest(f"messages should be a list of at most {PUBLISHED_MAX}")

    queue = queue_in_path(call)
    vhost = call.vhost
    actor = call.actor
    _check_alarms(call)
    requests: list[PublishRequest] = []
    reasons: list[str] = []
    for row in rows:
        try:
            requests.append(_request(call, _object(row), "", queue.name))
        except BadRequest as problem:
            reasons.append(_told(problem))
            break

    def act() -> int:
        for count, request in enumerate(requests):
            try:
                outcome = publish_message(vhost, actor, request)
            except AMQPError as problem:
                reasons.insert(0, problem.explanation or problem.name)
                return count

            if not outcome.is_accepted:
                reasons.insert(0, REJECTED)
                return count

        return len(requests)

    count = await call.site.change(act, vhost)
    return answer({"published": count, "reason": reasons[0] if reasons else None})


def _object(value: object) -> JSON:
    if not isinstance(value, dict) or not {"payload", "payload_encoding"} <= value.keys():
        raise BadRequest("a message is an object with payload and payload_encoding")

    return value


def _told(problem: BadRequest) -> str:
    reason = problem.reason
    return ": ".join(map(str, reason)) if isinstance(reason, list) else str(reason)


def _decode(body: JSON) -> bytes:
    payload = body["payload"]
    if not isinstance(payload, str):
        raise BadRequest("payload_not_string")

    encoding = body["payload_encoding"]
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")

    if encoding != "base64":
        raise BadRequest(["unsupported_encoding", encoding])

    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("the payload is not base64") from None


async def get_messages(call: Call) -> web.Response:
    body = await call.body("count", "ackmode", "encoding")
    mode = body["ackmode"]
    if not isinstance(mode, str) or mode not in ACK_MODES:
        # RabbitMQ fails where it is no text.
        shown = mode if isinstance(mode, str) else render(mode).decode()
        raise BadRequest(
            f"Invalid ackmode value: {shown}. Valid values are: {', '.join(ACK_MODES)}"
        )

    encoding = body["encoding"]
    if encoding not in ("auto", "base64"):
        raise BadRequest("Unsupported encoding. Please use auto or base64.")

    truncate = None
    if "truncate" in body:
        truncate = integer_of(body, "truncate")
        if truncate < 0:
            raise BadRequest("truncate should be a number, and at least 0")

    count = integer_of(body, "count")
    if count < 0:
        # RabbitMQ: all of them.
        count = TAKEN_MAX

    vhost = call.vhost
    actor = call.actor
    if call["queue"] not in vhost.queues:
        raise NotThere("not_found", "queue_not_found")

    taken = await call.site.change(
        lambda: take_messages(
            vhost,
            actor,
            call["queue"],
            count_max=min(count, TAKEN_MAX),
            bytes_max=TAKEN_BYTES_MAX,
            outcome=ACK_MODES[mode],
        ),
        vhost,
    )
    return answer([_taken_row(one, is_base64=encoding == "base64", cut=truncate) for one in taken])


def _taken_row(taken: Taken, *, is_base64: bool, cut: int | None) -> JSON:
    message = taken.message
    return {
        "payload_bytes": int(message.body_size),
        "redelivered": taken.redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": taken.remaining,
        # RabbitMQ: no properties at all are an empty list.
        "properties": message.properties().to_plain() or [],
        **payload_of(message, is_base64=is_base64, cut=cut),
    }


def payload_of(message: Message, *, is_base64: bool, cut: int | None) -> JSON:
    """The body as text where it is UTF-8, else in base64.

    Args:
        message: whose.
        is_base64: in base64 in any case.
        cut: the first so many bytes; None for all.

    """
    body = content_body(message.content)
    if cut is not None:
        body = body[:cut]

    if not is_base64:
        try:
            return {"payload": body.decode("utf-8"), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass

    return {"payload": base64.b64encode(body).decode("ascii"), "payload_encoding": "base64"}


ROUTES: Final = (
    Route("POST", "/exchanges/:vhost/:exchange/publish", VHOST, publish),
    Route("POST", "/queues/:vhost/:queue/get", VHOST, get_messages),
    Route("POST", "/queues/:vhost/:queue/messages", VHOST, publish_many),
)
