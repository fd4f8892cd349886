"""Toolkit: every error that it raises on purpose, in one tree.

::

    ToolkitError
    ├─ Unavailable          no broker could be reached in time; also a ConnectionError
    ├─ Closed               the client, queue or consumer was closed before
    ├─ AccessRefused        the broker's permissions are against it; also a PermissionError
    ├─ QueueNotFound        there is no such queue; also a LookupError
    ├─ SpecConflict         the queue exists and is declared otherwise
    ├─ Unroutable           a message that no queue took
    │   └─ QueueFull        the queue has reached its length limit, or refused it
    ├─ InvalidValue         an argument that cannot be; also a ValueError
    │   ├─ InvalidName      a name of a queue or topic
    │   ├─ InvalidPriority  outside of what the queue was declared with
    │   ├─ MessageTooLarge  more than the broker takes in one message
    │   └─ InvalidSchedule  a cron expression, a delay that is too long, ...
    ├─ CodecError           also a ValueError
    │   ├─ EncodeError      a value that the codec cannot write
    │   └─ DecodeError      a message that nobody here can read
    ├─ FileFailed           a file cannot be read or written; also an OSError
    │   └─ FileMissing      there is no such file or folder; also a FileNotFoundError
    ├─ TaskFailed           raised by tasks: the task raised, and this says what
    └─ ResultTimeout        raised by tasks: no result in time; also a TimeoutError

What is also a built-in error can be caught as that by programs that know nothing of the toolkit.
"""

from __future__ import annotations

__all__ = [
    "AccessRefused",
    "Closed",
    "CodecError",
    "DecodeError",
    "EncodeError",
    "FileFailed",
    "FileMissing",
    "InvalidName",
    "InvalidPriority",
    "InvalidSchedule",
    "InvalidValue",
    "MessageTooLarge",
    "QueueFull",
    "QueueNotFound",
    "ResultTimeout",
    "SpecConflict",
    "TaskFailed",
    "ToolkitError",
    "Unavailable",
    "Unroutable",
]


class ToolkitError(Exception):
    """The root of every error that the toolkit raises on purpose."""

    loaded: int = 0
    """Of :meth:`Client.load`: how many messages of the file were in their queues by then."""


class Unavailable(ToolkitError, ConnectionError):
    """No broker could be reached in time.

    Of a message this says that nobody has confirmed it, not that it was not stored: send it again
    with the same id, and whoever receives it can tell.
    """


class Closed(ToolkitError):
    """What was asked to do this had been closed."""


class AccessRefused(ToolkitError, PermissionError):
    """The broker does not let this user do that, or does not know the password."""


class QueueNotFound(ToolkitError, LookupError):
    """There is no queue of that name."""


class SpecConflict(ToolkitError):
    """A queue or exchange of that name exists, and is declared otherwise."""


class Unroutable(ToolkitError):
    """A message that no queue took, and that is therefore nowhere."""

    left: tuple[str, ...] = ()
    """Of a replay of dead letters: the ids of those that stay where they were."""


class QueueFull(Unroutable):
    """The queue has reached its length limit and refuses more."""


class InvalidValue(ToolkitError, ValueError):
    """An argument that cannot be meant."""


class InvalidName(InvalidValue):
    """A name that a queue or topic cannot have."""


class InvalidPriority(InvalidValue):
    """A priority outside of what the queue was declared with."""


class MessageTooLarge(InvalidValue):
    """A message of more bytes than the broker takes in one."""


class InvalidSchedule(InvalidValue):
    """A time at which nothing can ever happen, or that is too far away."""


class CodecError(ToolkitError, ValueError):
    """A value and its bytes do not go together."""


class EncodeError(CodecError):
    """The codec cannot write this value."""


class DecodeError(CodecError):
    """The message cannot be read here: a codec that is not accepted, or octets that are none."""


class FileFailed(ToolkitError, OSError):
    """A file cannot be read or written; ``filename`` and ``strerror`` say which, and why."""


class FileMissing(FileFailed, FileNotFoundError):
    """There is no such file, or no folder where it is to be."""


class TaskFailed(ToolkitError):
    """A task has failed; see :mod:`broker.tasks`.

    Args:
        message: the text of what the task raised.
        error_type: the qualified name of what the task raised.
        remote_traceback: its traceback, as text.

    """

    def __init__(self, message: str, *, error_type: str = "", remote_traceback: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.error_type = error_type
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}" if self.error_type else self.message


class ResultTimeout(ToolkitError, TimeoutError):
    """A task has had no result in the time that was given."""
