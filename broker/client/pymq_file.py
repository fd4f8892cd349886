"""Toolkit: files of queues as pymq saves them, read for whoever comes from there.

Invariant: a file is taken whole, or refused with the place that is wrong.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from broker.client.errors import InvalidValue
from broker.client.message import Envelope
from broker.client.retry import Retry
from broker.client.spec import CLASSIC_PRIORITY_MAX, QueueSpec

__all__ = ["PymqQueue", "is_pymq_file", "read_pymq_file"]

USUAL_RETRIES: Final = 3


class PymqQueue(NamedTuple):
    """A queue of such a file."""

    name: str
    spec: QueueSpec
    waiting: list[Envelope]
    dead: list[Envelope]


def is_pymq_file(data: bytes) -> bool:
    """Whether this is one document with a list of queues."""
    try:
        document = msgspec.json.decode(data)
    except ValueError:
        return False

    return isinstance(document, dict) and isinstance(document.get("queues"), list)


def read_pymq_file(data: bytes) -> list[PymqQueue]:
    """Return the queues of a file.

    Lower priorities come first there, and any number is one: so they are ranked here, from 0 on.

    Raises:
        InvalidValue: something in it is not as it has to be.

    """
    found: list[PymqQueue] = []
    for place, row in enumerate(msgspec.json.decode(data)["queues"]):
        try:
            found.append(_queue(row))
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidValue(f"queue number {place + 1} cannot be read: {problem!r}") from problem

    names = [queue.name for queue in found]
    if len(names) != len(set(names)):
        raise InvalidValue("two queues have the same name")

    return found


def _queue(row: dict[str, Any]) -> PymqQueue:
    waiting: list[dict[str, Any]] = row["waiting"]
    retry = Retry.retries(row.get("max_retries", USUAL_RETRIES))
    if row["kind"] not in ("fifo", "priority"):
        raise ValueError(f"there is no kind {row['kind']!r}")

    if row["kind"] == "fifo":
        spec = QueueSpec(retry=retry)
        envelopes = [_envelope(one, None) for one in waiting]
    else:
        ranks = {value: rank for rank, value in enumerate(sorted({_priority(m) for m in waiting}))}
        if len(ranks) > CLASSIC_PRIORITY_MAX + 1:
            raise ValueError(f"there are {len(ranks)} priorities, and a queue can have 256")

        spec = QueueSpec(retry=retry, max_priority=max(9, len(ranks) - 1), priority_order="low")
        envelopes = [_envelope(one, ranks[_priority(one)]) for one in waiting]

    dead = [_envelope(one, None) for one in row.get("dead_letters", [])]
    return PymqQueue(str(row["name"]), spec, envelopes, dead)


def _envelope(row: dict[str, Any], priority: int | None) -> Envelope:
    return Envelope(body=row["body"], id=str(row["id"]), priority=priority)


def _priority(row: dict[str, Any]) -> float:
    value = row.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no priority")

    return value
