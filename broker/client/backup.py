"""Toolkit: queues and their messages to a file and back.

Invariant: a file is read to its end, and what can be known of its queues is asked, before anything
of it is sent; a message that is sent has the id it had, so that loading a file twice can be told.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.client import wire
from broker.client.backup_file import (
    HEAD,
    Counts,
    MessageEntry,
    Writing,
    as_file_failures,
    entries,
    survey,
)
from broker.client.checks import check_count, check_path, check_texts
from broker.client.dead import walk
from broker.client.errors import (
    InvalidValue,
    QueueFull,
    QueueNotFound,
    ToolkitError,
    Unavailable,
)
from broker.client.message import Envelope
from broker.client.pymq_file import is_pymq_file, read_pymq_file
from broker.client.spec import dead_queue_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from aiormq.abc import DeliveredMessage

    from broker.client.client import Client
    from broker.client.link import Link
    from broker.client.pymq_file import PymqQueue
    from broker.client.spec import QueueSpec

__all__ = ["Loaded", "export_queues", "load_queues"]


class Loaded(NamedTuple):
    """What is in a file that was loaded."""

    queues: int
    messages: int
    dead: int


class _Step(NamedTuple):
    place: str
    """Where in the file the message stands."""

    send: Callable[[], Awaitable[object]]


class _Content(NamedTuple):
    """A file that was read, and is now to be loaded."""

    queues: dict[str, QueueSpec | None]
    counts: dict[str, Counts]
    left: dict[str, Counts]
    """Of the messages that are not skipped."""

    messages: Iterator[_Step]
    is_as_in_file: bool = False
    """Whether queues that are there have to be as in the file."""


async def export_queues(client: Client, path: object, queues: object) -> int:
    """Write queues to a file; returns how many messages there are in it."""
    core = client.core
    target = check_path("path", path)
    names = (
        list(core.specs) if queues is None else list(dict.fromkeys(check_texts("queues", queues)))
    )
    for name in names:
        if not await client.exists(name):
            raise QueueNotFound(f"there is no queue {name!r}")

    writing = Writing(target)

    async def attempt(link: Link) -> None:
        writing.begin()
        for queue in names:
            writing.add_queue(queue, core.spec_of(queue))
            for is_dead in (False, True):
                await write_messages(link, queue, is_dead)

    async def write_messages(link: Link, queue: str, is_dead: bool) -> None:
        async def note(raw: DeliveredMessage) -> bool:
            writing.add_message(queue, raw, is_dead=is_dead)
            return False

        name = dead_queue_name(queue) if is_dead else queue
        await walk(link, name, note, None, core.options.timeout)

    try:
        await core.session.run_steps(attempt)
        return await writing.finish()
    finally:
        writing.discard()


async def load_queues(client: Client, path: object, skip: object) -> Loaded:
    """Read a file, declare what is not there, and send the messages."""
    source = check_path("path", path)
    check_count("skip", skip, low=0)
    assert isinstance(skip, int)
    content = await asyncio.to_thread(_read, client, source, skip)
    total = sum(map(sum, content.counts.values()))
    if skip > total:
        raise InvalidValue(f"skip is {skip}, and there are {total} messages in the file")

    for name, spec in content.queues.items():
        if content.is_as_in_file or not await client.exists(name):
            await client.declare(name, spec)

    for name, left in content.left.items():
        await _check_room(client, name, left)

    await _send(content, skip, total)
    return Loaded(
        len(content.queues),
        sum(one.messages for one in content.counts.values()),
        sum(one.dead for one in content.counts.values()),
    )


async def _check_room(client: Client, name: str, left: Counts) -> None:
    """Refuse what would be refused in the middle, where that is known."""
    dead = dead_queue_name(name)
    if left.dead and not await client.exists(dead):
        raise QueueNotFound(
            f"the file has dead letters of {name!r}, and there is no queue {dead!r}; nothing of it "
            "was sent"
        )

    spec = client.core.spec_of(name)
    if not left.messages or spec is None or spec.max_length is None or not spec.refuses_when_full:
        return

    there = await client.stats(name)
    if not there.consumers and there.ready + left.messages > spec.max_length:
        raise QueueFull(
            f"the queue {name!r} takes {spec.max_length} messages and has {there.ready}, and the "
            f"file has {left.messages} for it; nothing of it was sent"
        )


async def _send(content: _Content, skip: int, total: int) -> None:
    count = 0
    place = ""
    try:
        for step in content.messages:
            place = step.place
            if count >= skip:
                await step.send()

            count += 1
    except ToolkitError as problem:
        fate = "may be there as well" if isinstance(problem, Unavailable) else "is not"
        text = (
            f"{problem}; {count} of the {total} messages of the file are in their queues by now, "
            f"{place} {fate}: load(path, skip={count}) goes on there"
        )
        problem.args = (text,)
        problem.loaded = count
        raise
    except asyncio.CancelledError as problem:
        problem.add_note(f"{count} of the {total} messages of the file were in their queues by now")
        raise


def _read(client: Client, path: Path, skip: int) -> _Content:
    with as_file_failures(path), path.open("rb") as file:
        head = file.read(len(HEAD))
        rest = b"" if head == HEAD else file.read()

    if head != HEAD and is_pymq_file(head + rest):
        return _pymq_content(client, read_pymq_file(head + rest))

    # Once to see whether it is whole, and then again: it may be larger than memory.
    found = survey(path, skip)
    return _Content(found.queues, found.counts, found.left, _messages(client, path))


def _messages(client: Client, path: Path) -> Iterator[_Step]:
    for number, entry in entries(path):
        if isinstance(entry, MessageEntry):
            name = dead_queue_name(entry.queue) if entry.is_dead else entry.queue
            yield _Step(f"line {number}", partial(client.core.send, "", name, entry.content))


def _pymq_content(client: Client, queues: list[PymqQueue]) -> _Content:
    return _Content(
        queues={queue.name: queue.spec for queue in queues},
        counts={queue.name: Counts(len(queue.waiting), len(queue.dead)) for queue in queues},
        left={},
        messages=_pymq_messages(client, queues),
        is_as_in_file=True,
    )


def _pymq_messages(client: Client, queues: list[PymqQueue]) -> Iterator[_Step]:
    number = 0
    for queue in queues:
        for envelope in queue.waiting:
            number += 1
            yield _Step(f"message {number}", partial(client.send_envelope, queue.name, envelope))

        for envelope in queue.dead:
            number += 1
            plain = Envelope(body=envelope.body, id=envelope.id)
            content = wire.outgoing(plain, client.core.codecs, None)
            name = dead_queue_name(queue.name)
            yield _Step(f"message {number}", partial(client.core.send, "", name, content))
