"""Toolkit, tasks: what came of a task, and how that is written.

Invariant: an outcome can always be written: where a codec cannot write what a task returned, the
task has failed with that as its error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.client.errors import DecodeError, TaskFailed
from broker.client.texts import text_of, trace_of

if TYPE_CHECKING:
    from broker.client.codecs import Codecs

__all__ = ["Failure", "Outcome", "Status", "TaskCancelled", "TaskExpired"]

TRACEBACK_CHARACTERS_MAX: Final = 20_000
MESSAGE_CHARACTERS_MAX: Final = 5_000


class Status(StrEnum):
    """How far a task is."""

    PENDING = "pending"
    """Waiting in a queue, or nothing is known of it."""
    STARTED = "started"
    RETRYING = "retrying"
    """It failed, and will be tried again."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """It waited in its queue for longer than it may, and the broker has taken it out."""

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after this."""
        return self in FINAL


FINAL: Final = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.EXPIRED})


class Failure(NamedTuple):
    """An exception, in words: it may be of a class that the reader does not have."""

    error_type: str
    message: str
    traceback: str = ""
    classes: tuple[str, ...] = ()
    """The qualified names of its class and of the classes above it."""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception."""
        names = tuple(_name(one) for one in type(error).__mro__ if one is not object)
        return cls(
            _name(type(error)),
            text_of(error)[:MESSAGE_CHARACTERS_MAX],
            trace_of(error)[-TRACEBACK_CHARACTERS_MAX:],
            names,
        )

    def is_a(self, error_type: type[BaseException]) -> bool:
        """Say whether the exception was of that class, or of one below it."""
        return _name(error_type) in self.classes


def _name(error_type: type) -> str:
    if error_type.__module__ == "builtins":
        return error_type.__qualname__

    return f"{error_type.__module__}.{error_type.__qualname__}"


class Outcome(NamedTuple):
    """What came of a task, or how far it is."""

    status: Status
    value: object = None
    failure: Failure | None = None
    attempt: int = 1
    seconds: float = 0.0
    """How long the last attempt took."""

    @property
    def error(self) -> TaskFailed | None:
        """The failure as an exception to raise; None if there is none."""
        if self.status is Status.CANCELLED:
            return TaskCancelled("the task was cancelled")

        if self.status is Status.EXPIRED:
            return TaskExpired("the task has waited in its queue for longer than it may")

        failure = self.failure
        if failure is None:
            return None

        return RemoteFailure(failure)

    def write(self, codecs: Codecs) -> tuple[bytes, str]:
        """Return it as bytes, and their content type."""
        return codecs.encode(
            [self.status.value, self.value, self.failure, self.attempt, round(self.seconds, 6)]
        )

    @classmethod
    def read(cls, codecs: Codecs, content_type: str, body: bytes) -> Outcome:
        """Read what :meth:`write` has written."""
        parts: Any = codecs.decode(body, content_type)
        try:
            status, value, failure, attempt, seconds = parts
            return cls(Status(status), value, _failure(failure), int(attempt), float(seconds))
        except (TypeError, ValueError) as problem:
            raise DecodeError(f"this is no outcome of a task: {problem}") from problem


def _failure(parts: Any) -> Failure | None:
    if parts is None:
        return None

    error_type, message, text, classes = parts
    return Failure(str(error_type), str(message), str(text), tuple(map(str, classes)))


class RemoteFailure(TaskFailed):
    """A task has raised, and was not to be tried again."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            failure.message, error_type=failure.error_type, remote_traceback=failure.traceback
        )
        self.failure = failure

    def is_a(self, error_type: type[BaseException]) -> bool:
        """Say whether what the task raised was of that class, or of one below it."""
        return self.failure.is_a(error_type)


class TaskCancelled(TaskFailed):
    """A task was cancelled before it had done its work."""


class TaskExpired(TaskFailed):
    """A task was not run, as its ``ttl`` was over before a worker had it."""
