"""Toolkit: files of queues and their messages, as a client writes them.

A file has a line of JSON for each queue and each message, oldest first; the first says what it is,
the last how many messages there are of each queue. It is written beside its place, and put there
when it is whole.

Invariant: a file that is short, or broken, is refused before anything of it is used; and what the
system says of a file is a :class:`FileFailed`, which nobody takes for a lost connection.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

import msgspec
from pamqp import decode

from broker.client import wire
from broker.client.checks import check_queue
from broker.client.errors import FileFailed, FileMissing, InvalidValue, ToolkitError
from broker.client.fields import entries_of, joined
from broker.client.spec import QueueSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aiormq.abc import DeliveredMessage

__all__ = [
    "HEAD",
    "Counts",
    "EndEntry",
    "MessageEntry",
    "QueueEntry",
    "Survey",
    "Writing",
    "as_file_failures",
    "entries",
    "survey",
]

FORMAT: Final = "leveret-queues"
VERSION: Final = 2
"""Files of version 1 do not count their messages."""

VERSIONS: Final = (1, VERSION)
HEAD: Final = b'{"format":"leveret-queues"'
SPEC_FIELDS: Final = tuple(one.name for one in fields(QueueSpec) if one.name != "retry")
"""A retry policy names classes of exceptions: it is of the program, not of the file."""

TEXTS: Final = ("content_type", "content_encoding", "correlation_id", "reply_to", "message_type")


class Counts(NamedTuple):
    """How many messages of one queue there are."""

    messages: int = 0
    dead: int = 0

    def plus(self, *, is_dead: bool) -> Counts:
        """Return one more."""
        return Counts(self.messages + (not is_dead), self.dead + is_dead)


class QueueEntry(NamedTuple):
    """A queue of a file."""

    name: str
    spec: QueueSpec | None


class MessageEntry(NamedTuple):
    """A message of a file."""

    queue: str
    is_dead: bool
    content: wire.Outgoing


class EndEntry(NamedTuple):
    """The end of a file: how many messages there are of each queue."""

    counts: dict[str, Counts]


class Survey(NamedTuple):
    """What is in a file, without the messages."""

    queues: dict[str, QueueSpec | None]
    counts: dict[str, Counts]
    left: dict[str, Counts]
    """Of the messages that are not skipped."""


@contextmanager
def as_file_failures(path: Path) -> Iterator[None]:
    """Let what the system says of a file out as ours."""
    try:
        yield
    except OSError as problem:
        if isinstance(problem, ToolkitError):
            raise

        kind = FileMissing if isinstance(problem, FileNotFoundError) else FileFailed
        raise kind(problem.errno, problem.strerror or str(problem), str(path)) from problem


# -- writing


class Writing:
    """A file under way: in the same folder, and of another name.

    Raises:
        FileFailed: there can be no such file.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._target = os.path.realpath(path)
        self._counts: dict[str, Counts] = {}
        self._is_there = False
        with as_file_failures(path):
            _check_target(self._target)
            folder, name = os.path.split(self._target)
            handle, self._temporary = tempfile.mkstemp(prefix=f".{name:.40}.", dir=folder)
            self._file: BinaryIO = os.fdopen(handle, "wb")

    def begin(self) -> None:
        """Begin, or begin again."""
        self._counts.clear()
        with as_file_failures(self._path):
            if self._file.tell():
                self._file.seek(0)
                self._file.truncate()

        self._write({"format": FORMAT, "version": VERSION})

    def add_queue(self, name: str, spec: QueueSpec | None) -> None:
        """Write what a queue is like."""
        self._counts[name] = Counts()
        table = None if spec is None else {one: getattr(spec, one) for one in SPEC_FIELDS}
        self._write({"queue": name, "spec": table})

    def add_message(self, queue: str, raw: DeliveredMessage, *, is_dead: bool) -> None:
        """Write a message."""
        self._counts[queue] = self._counts[queue].plus(is_dead=is_dead)
        self._write(_message_line(queue, raw, is_dead=is_dead))

    async def finish(self) -> int:
        """Put it where it is to be; returns how many messages there are in it."""
        self._write({"end": self._counts})
        with as_file_failures(self._path):
            self._file.flush()
            await asyncio.to_thread(os.fsync, self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self._target)

        self._is_there = True
        return sum(map(sum, self._counts.values()))

    def discard(self) -> None:
        """Leave nothing of it, unless it is finished."""
        # Full disks are heard of once more by who closes a file.
        with suppress(OSError):
            self._file.close()

        if not self._is_there:
            with suppress(OSError):
                os.unlink(self._temporary)

    def _write(self, line: dict[str, object]) -> None:
        # Not in a thread: the pieces are small, and go to the page cache.
        with as_file_failures(self._path):
            self._file.write(msgspec.json.encode(line) + b"\n")


def _check_target(path: str) -> None:
    """Refuse what a file would take the place of: a device, say."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return

    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")


def _message_line(queue: str, raw: DeliveredMessage, *, is_dead: bool) -> dict[str, object]:
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
    return line


# -- reading


def survey(path: Path, skip: int) -> Survey:
    """Read a file to its end, and return what is in it; ``skip`` messages are left aside.

    Raises:
        InvalidValue: it cannot be read, or is not whole.

    """
    found = Survey({}, {}, {})
    number = 0
    for place, entry in entries(path):
        if isinstance(entry, MessageEntry):
            if entry.queue not in found.queues:
                raise InvalidValue(f"line {place}: there is no line of the queue {entry.queue!r}")

            number += 1
            for counts in (found.counts, found.left) if number > skip else (found.counts,):
                counts[entry.queue] = counts[entry.queue].plus(is_dead=entry.is_dead)
        elif isinstance(entry, QueueEntry):
            if entry.name in found.queues:
                raise InvalidValue(f"line {place}: the queue {entry.name!r} is there already")

            found.queues[entry.name] = entry.spec
            found.counts[entry.name] = found.left[entry.name] = Counts()
        else:
            _check_whole(found.counts, entry.counts)

    return found


def entries(path: Path) -> Iterator[tuple[int, QueueEntry | MessageEntry | EndEntry]]:
    """Yield what is in a file, and the numbers of the lines.

    Raises:
        InvalidValue: a line cannot be read, or the last one is not there.

    """
    version = number = 0
    is_ended = False
    with as_file_failures(path), path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            try:
                line = msgspec.json.decode(text, type=dict[str, Any])
                if number == 1:
                    version = _version_of(line)
                    continue

                if is_ended:
                    raise ValueError("the one before is the last one")

                entry = _entry_of(line)
            except (ValueError, KeyError, TypeError) as problem:
                raise InvalidValue(f"line {number} cannot be read: {problem}") from problem

            is_ended = isinstance(entry, EndEntry)
            yield number, entry

    if number == 0:
        raise InvalidValue("the file is empty")

    if version > 1 and not is_ended:
        raise InvalidValue("the file is short: the last line, which counts the others, is missing")


def _version_of(line: dict[str, Any]) -> int:
    if line.get("format") != FORMAT:
        raise ValueError("this is no file that a client has exported")

    version: object = line.get("version")
    if not isinstance(version, int) or version not in VERSIONS:
        raise ValueError(f"version {version} is not known here")

    return version


def _entry_of(line: dict[str, Any]) -> QueueEntry | MessageEntry | EndEntry:
    if "end" in line:
        return EndEntry({name: Counts(*both) for name, both in dict(line["end"]).items()})

    if "queue" in line:
        spec = line["spec"]
        name = check_queue(line["queue"])
        return QueueEntry(name, None if spec is None else QueueSpec(**spec))

    return _message_of(line)


def _message_of(line: dict[str, Any]) -> MessageEntry:
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
    content = wire.Outgoing(body, properties)
    return MessageEntry(str(line["message"]), bool(line.get("dead")), content)


def _check_whole(are: dict[str, Counts], were: dict[str, Counts]) -> None:
    for name in {**were, **are}:
        here, there = are.get(name, Counts()), were.get(name, Counts())
        if here != there or (name in are) != (name in were):
            raise InvalidValue(
                f"the file is not whole: of the queue {name!r} it has {here.messages} messages and "
                f"{here.dead} dead letters, and it was written with {there.messages} and "
                f"{there.dead}"
            )
