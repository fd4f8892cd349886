"""Errors of the HTTP API, with the bodies that RabbitMQ's clients look at (management layer).

Invariant: whatever a handler raises becomes one answer here, and only what nobody meant to raise
is a 500.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.policy import PolicyInvalid
from broker.core.protection import Protected
from broker.core.user_commands import NoSuchUser, NoSuchVirtualHost
from broker.errors import (
    AccessRefused,
    AMQPError,
    BrokerError,
    LoginRefused,
    NotAllowed,
    NotFound,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACCESS_REFUSED",
    "BadRequest",
    "HTTPProblem",
    "MissingKeys",
    "NotAuthorised",
    "NotThere",
    "Unauthenticated",
    "problem_of",
]

REALM: Final = 'Basic realm="RabbitMQ Management"'
"""Browsers show it, and clients of RabbitMQ expect that."""

ACCESS_REFUSED: Final = "Access refused."


class HTTPProblem(Exception):
    """An answer that is no success: ``{"error": ..., "reason": ...}``.

    Args:
        status: of HTTP.
        error: the kind, for programs.
        reason: for people; some are lists, since RabbitMQ's are.
        headers: more of the answer.

    """

    def __init__(
        self, status: int, error: str, reason: object, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})

    def body(self) -> dict[str, object] | None:
        """What the answer says; None for nothing."""
        return {"error": self.error, "reason": self.reason} if self.error else None


class BadRequest(HTTPProblem):
    """The request makes no sense, or the broker refuses what it asks for."""

    def __init__(self, reason: object, error: str = "bad_request") -> None:
        super().__init__(400, error, reason)


class MissingKeys(BadRequest):
    """The body lacks keys that it must have."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(f"[{','.join(f'{{key_missing,{key}}}' for key in keys)}]")


class NotThere(HTTPProblem):
    """There is no such object, or it is not to be known."""

    def __init__(self, error: str = "Object Not Found", reason: str = "Not Found") -> None:
        super().__init__(404, error, reason)


class Unauthenticated(HTTPProblem):
    """Nobody has said who they are."""

    def __init__(self) -> None:
        super().__init__(401, "", "", {"WWW-Authenticate": REALM})


class NotAuthorised(HTTPProblem):
    """Who asks may not; RabbitMQ never answers 403."""

    def __init__(self, reason: str, error: str = "not_authorised") -> None:
        super().__init__(401, error, reason)


def problem_of(error: Exception) -> HTTPProblem | None:
    """The answer to something raised on purpose; None when it is a fault of ours."""
    if isinstance(error, HTTPProblem):
        return error

    if isinstance(error, AccessRefused | NotAllowed | LoginRefused):
        return NotAuthorised(ACCESS_REFUSED)

    if isinstance(error, NotFound):
        return NotThere("not_found", error.explanation)

    if isinstance(error, NoSuchUser | NoSuchVirtualHost):
        return NotThere()

    if isinstance(error, Protected):
        return BadRequest(str(error))

    if isinstance(error, PolicyInvalid):
        return BadRequest(f"Validation failed\n\n{error}\n")

    if isinstance(error, AMQPError):
        return BadRequest(error.explanation or error.name)

    if isinstance(error, TimeoutError):
        return HTTPProblem(500, "timeout", "the change is made and not yet safe on the disk")

    if isinstance(error, BrokerError):
        return HTTPProblem(500, "internal_server_error", str(error))

    return None
