"""Toolkit: what happens to a client, told to whoever wants to know."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from broker.client.calling import failure_of
from broker.client.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ClientEvent", "EventKind", "Events", "logger"]

logger: Final = logging.getLogger("leveret.client")

EventKind = Literal[
    "connected",
    "disconnected",
    "reconnected",
    "connect_failed",
    "restore_failed",
    "consumer_lost",
    "consumer_restored",
    "handler_failed",
    "retried",
    "dead",
    "dropped",
    "duplicate",
    "unrecorded",
]
"""``restore_failed``: a queue, binding, consumer or subscription that did not come back with the
connection. ``consumer_lost``: the broker has ended it, say because its queue was deleted; it is
begun again as soon as that can be. ``dropped``: a message that failed for good, and that nobody
keeps. ``duplicate``: one that was skipped, because it was handled within ``dedupe_window``.
``unrecorded``: a failure that could be neither tried again nor made a dead letter, say for want of
rights: the message is handed back, after ``delay``, and comes again; the error says both."""

WARNINGS: Final = {
    "disconnected",
    "connect_failed",
    "restore_failed",
    "consumer_lost",
    "handler_failed",
    "dropped",
    "unrecorded",
}


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """Something that happened; what does not concern it is empty."""

    kind: EventKind
    queue: str = ""
    id: str = ""
    """Of the message."""

    error: BaseException | None = None
    attempt: int = 0
    delay: float = 0.0
    """Of ``retried`` and ``unrecorded``: in how many seconds."""


class Events:
    """Tells every listener, whatever the others do."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[ClientEvent], object]] = []

    def listen(self, callback: Callable[[ClientEvent], object]) -> Callable[[], None]:
        """Add a listener; returns what takes it away again."""
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop

    def emit(self, event: ClientEvent) -> None:
        """Log it and tell it."""
        level = logging.WARNING if event.kind in WARNINGS else logging.DEBUG
        if logger.isEnabledFor(level):
            logger.log(
                level,
                "%s%s%s%s",
                event.kind,
                f" queue={event.queue}" if event.queue else "",
                f" id={event.id}" if event.id else "",
                f": {type(event.error).__name__}: {text_of(event.error)}" if event.error else "",
            )

        for callback in list(self._listeners):
            try:
                callback(event)
            except BaseException as problem:
                logger.error("a listener of events has failed", exc_info=failure_of(problem))
