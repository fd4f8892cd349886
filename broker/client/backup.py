"""Toolkit: queues and their messages to a file and back.

A file has a line of JSON for each queue and each message, oldest first. Whole files are written
beside the target and renamed, so that there is never half of one; and they are read to the end
before anything of them is sent.

Invariant: a message that is sent has the id it had, so that loading a file twice can be told.
"""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

import msgspec
from pamqp import decode

from broker.client import wire
from broker.client.dead import walk
from broker.client.errors import InvalidValue, QueueNotFound
from broker.client.fields import entries_of, joined
from broker.client.message import Envelope
from broker.client.pymq_file import is_pymq_file, read_pymq_file
from broker.client.spec import QueueSpec, dead_queue_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiormq.abc import DeliveredMessage

    from broker.client.client import Client
    from broker.client.core import Core
    from broker.client.link import Link

__all__ = ["Loaded", "export_queues", "load_queues"]

FORMAT: Final = "leveret-queues"
VERSION: Final = 1
HEAD: Final = b'{"format":"leveret-queues"'
SPEC_FIELDS: Final = tuple(one.name for one in fields(QueueSpec) if one.name != "retry")
"""A retry policy names classes of exceptions: it is of the program, not of the file."""

TEXTS: Final = ("content_type", "content_encoding", "correlation_id", "reply_to", "message_type")


class Loaded(NamedTuple):
    """What was in a file."""

    queues: int
    messages: int
    dead: int


class _Queue(NamedTuple):
    name: str
    spec: QueueSpec | None


class _Message(NamedTuple):
    queue: str
    is_dead: bool
    content: wire.Outgoing


async def export_queues(
    client: Client, path: str | os.PathLike[str], queues: Iterable[str] | None
) -> int:
    """Write queues to a file; returns how many messages there are in it."""
    core = client.core
    names = list(core.specs if queues is None else queues)
    target = Path(path)

    async def write(link: Link, file: BinaryIO) -> int:
        file.write(_line({"format": FORMAT, "version": VERSION}))
        count = 0
        for queue in names:
            file.write(_line({"queue": queue, "spec": _spec_table(core.spec_of(queue))}))
            for is_dead in (False, True):
                count += await _write_messages(core, link, file, queue, is_dead=is_dead)

        return count

    async def attempt(link: Link) -> int:
        # Not in a thread: the pieces are small, and go to the page cache.
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                count = await write(link, file)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())

            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise

        return count

    for name in names:
        if not await client.exists(name):
            raise QueueNotFound(f"there is no queue {name!r}")

    return await core.session.run(attempt, deadline=float("inf"))


async def _write_messages(
    core: Core, link: Link, file: BinaryIO, queue: str, *, is_dead: bool
) -> int:
    count = 0

    async def note(raw: DeliveredMessage) -> bool:
        nonlocal count
        count += 1
        file.write(_message_line(raw, queue, is_dead=is_dead))
        return False

    name = dead_queue_name(queue) if is_dead else queue
    await walk(link, name, note, None, core.options.timeout)
    return count


async def load_queues(client: Client, path: str | os.PathLike[str]) -> Loaded:
    """Read a file, declare what is not there, and send the messages."""
    source = Path(path)
    if await asyncio.to_thread(_is_pymq, source):
        return await _load_pymq(client, await asyncio.to_thread(source.read_bytes))

    # Once to see whether it can be read, and then again: it may be larger than memory.
    await asyncio.to_thread(_check, source)
    queues = messages = dead = 0
    for one in _entries(source):
        if isinstance(one, _Queue):
            queues += 1
            if not await client.exists(one.name):
                await client.declare(one.name, one.spec)
        else:
            name = dead_queue_name(one.queue) if one.is_dead else one.queue
            await client.core.send("", name, one.content)
            dead += one.is_dead
            messages += not one.is_dead

    return Loaded(queues, messages, dead)


def _is_pymq(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(len(HEAD))

    return head != HEAD and is_pymq_file(path.read_bytes())


def _check(path: Path) -> None:
    for _ in _entries(path):
        pass


async def _load_pymq(client: Client, data: bytes) -> Loaded:
    queues = read_pymq_file(data)
    count = dead = 0
    for queue in queues:
        await client.declare(queue.name, queue.spec)
        for envelope in queue.waiting:
            await client.send_envelope(queue.name, envelope)
            count += 1

        for envelope in queue.dead:
            message = wire.outgoing(
                Envelope(body=envelope.body, id=envelope.id), client.core.codecs, None
            )
            await client.core.send("", dead_queue_name(queue.name), message)
            dead += 1

    return Loaded(len(queues), count, dead)


# -- lines


def _line(value: dict[str, object]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _message_line(raw: DeliveredMessage, queue: str, *, is_dead: bool) -> bytes:
    given = raw.header.properties
    kept = wire.copy_of(raw, {}).properties
    headers = joined(cast("dict[str, bytes]", kept.headers))
    line: dict[str, object] = {"message": queue, "id": kept.message_id}
    if is_dead:
        line["dead"] = True

    for name in TEXTS:
        if getattr(given, name):
            line[name] = getattr(given, name)

    if given.priority:
        line["priority"] = given.priority

    if given.timestamp:
        line["timestamp"] = given.timestamp.timestamp()

    line["durable"] = given.delivery_mode == 2
    # Tables have types that JSON has not.
    line["headers"] = base64.b64encode(headers).decode()
    line["body"] = base64.b64encode(raw.body).decode()
    return _line(line)


def _spec_table(spec: QueueSpec | None) -> dict[str, object] | None:
    return None if spec is None else {name: getattr(spec, name) for name in SPEC_FIELDS}


def _entries(path: Path) -> Iterator[_Queue | _Message]:
    with path.open("rb") as file:
        number = 0
        for number, text in enumerate(file, start=1):
            try:
                line = msgspec.json.decode(text, type=dict[str, Any])
                if number == 1:
                    _check_head(line)
                    continue

                entry = _queue_of(line) if "queue" in line else _message_of(line)
            except (ValueError, KeyError, TypeError) as problem:
                raise InvalidValue(f"line {number} cannot be read: {problem}") from problem

            yield entry

        if number == 0:
            raise InvalidValue("the file is empty")


def _queue_of(line: dict[str, Any]) -> _Queue:
    spec = line["spec"]
    return _Queue(str(line["queue"]), None if spec is None else QueueSpec(**spec))


def _check_head(line: dict[str, Any]) -> None:
    if line.get("format") != FORMAT:
        raise ValueError("this is no file that a client has exported")

    if line.get("version") != VERSION:
        raise ValueError(f"version {line.get('version')} is not known here")


def _message_of(line: dict[str, Any]) -> _Message:
    _, headers = decode.field_table(base64.b64decode(line["headers"], validate=True))
    stamp = line.get("timestamp")
    properties = wire.Properties(
        headers=cast("dict[str, Any]", entries_of("header", headers)),
        delivery_mode=2 if line["durable"] else 1,
        priority=line.get("priority"),
        message_id=str(line["id"]),
        timestamp=None if stamp is None else datetime.fromtimestamp(stamp).astimezone(),
        content_type=line.get("content_type"),
        content_encoding=line.get("content_encoding"),
        correlation_id=line.get("correlation_id"),
        reply_to=line.get("reply_to"),
        message_type=line.get("message_type"),
    )
    body = base64.b64decode(line["body"], validate=True)
    return _Message(str(line["message"]), bool(line.get("dead")), wire.Outgoing(body, properties))
