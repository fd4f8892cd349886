"""The scenarios in which the broker does not do what RabbitMQ 4.3 does, each with its reason.

Invariant: there is no other difference. ``tests/integration/test_compare_replay.py`` fails for a
difference that is not here, and for an entry that is none any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ACCEPTED", "DEFAULT_VERSION", "Difference"]

DEFAULT_VERSION: Final = "4.3"
"""The version whose answers are the broker's own, unless the table says otherwise."""

OLD: Final = "3.10"
OWN: Final = "leveret"


class Difference(NamedTuple):
    """How a scenario goes here, and why."""

    like: str
    """The recording it goes like: another version's, or the broker's own."""

    kind: str
    """``version``: RabbitMQ's versions differ and the older is followed. ``deliberate``: a sane
    answer in place of an accident. ``defect``: to be mended."""

    field: str
    """What differs."""

    reason: str


ACCEPTED: Final[dict[str, Difference]] = {}
