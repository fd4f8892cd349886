"""Toolkit: what a queue that is there has otherwise, in the words of its spec. Layer: client.

Invariant: where a broker's text is not understood, it is told as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.client.errors import SpecConflict
from broker.client.link import INEQUIVALENT
from broker.client.spec import DEAD_EXCHANGE, NAMED, QueueSpec, dead_queue_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["explained"]

FIELDS: Final = {argument: name for argument, (name, _) in NAMED.items()} | {
    "x-dead-letter-exchange": "dead_letter",
    "x-dead-letter-routing-key": "dead_letter",
}
DEAD_FIELDS: Final = {
    "x-queue-type": "kind",
    "x-max-length": "max_dead_letters",
    "x-overflow": "max_dead_letters",
}
FLAGS: Final = ("durable", "auto_delete", "exclusive")


def explained(problem: SpecConflict, name: str, spec: QueueSpec) -> SpecConflict:
    """Return the error of declaring the queue ``name``, in words of who has asked for it."""
    text = str(problem)
    found = INEQUIVALENT.search(text)
    if found is None:
        return problem

    argument, there = found[1], found[2]
    dead = dead_queue_name(name)
    is_dead = f"queue '{dead}'" in text
    field = (DEAD_FIELDS if is_dead else FIELDS).get(argument)
    if argument in FLAGS:
        field = argument

    if field is None:
        here = f"the argument {argument} is {spec.arguments.get(argument)!r} here"
    else:
        here = f"{field} is {getattr(spec, field)!r} here"
        there = _as_given(field, there)

    where = f"the queue {name!r} is there"
    if is_dead:
        where = f"the queue {dead!r}, which is to keep the dead letters of {name!r}, is there"

    return SpecConflict(f"{where}, and declared otherwise: {here} and {there} there ({text})")


def _as_given(field: str, there: str | None) -> str:
    """Return what a queue has as one would have to say it."""
    if there is None:
        return UNSAID.get(field, "None")

    return READ[field](there) if field in READ else there


def _seconds(text: str) -> str:
    return f"{int(text) / 1000:g}" if text.isdigit() else text


def _truth(text: str) -> str:
    return text.capitalize()


UNSAID: Final = {
    "kind": "'classic'",
    "dead_letter": "False",
    "single_active_consumer": "False",
    "on_full": "another",
}
"""What it means that a queue has no such argument, where that is not None."""
READ: Final[dict[str, Callable[[str], str]]] = {
    "kind": repr,
    "durable": _truth,
    "auto_delete": _truth,
    "exclusive": _truth,
    "single_active_consumer": _truth,
    "message_ttl": _seconds,
    "expires": _seconds,
    "on_full": lambda text: {"drop-head": "'drop-oldest'", "reject-publish": "'reject'"}.get(
        text, repr(text)
    ),
    "dead_letter": lambda text: "True" if text == DEAD_EXCHANGE else f"another, {text!r},",
}
