"""What is wrong with a configuration, and where (configuration layer).

Invariant: no problem ever carries the text of a secret.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import ConfigError

__all__ = ["NOWHERE", "ConfigProblems", "Keys", "Origin", "Place", "Problem", "dotted"]

Keys = tuple[str, ...]
"""The keys that lead to a value; positions in a list are ``"0"``, ``"1"``, ..."""


class Place(NamedTuple):
    """Where a value was written."""

    path: str
    """The file, or what else the value came from (``overrides``, ``config``)."""

    line: int = 0
    """From 1; 0 where there is no text to point into."""

    column: int = 0


NOWHERE: Final = Place("config")


class Problem(NamedTuple):
    """One thing to mend."""

    path: str
    line: int
    """From 1; 0 where there is no text to point into."""

    column: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigProblems(ConfigError):
    """Everything that is wrong with one configuration, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Origin:
    """Where the values of a configuration came from.

    What only the broker's core can judge (queue arguments, policy definitions) is judged after
    loading; :meth:`problem` lets those complaints point into the file as well.
    """

    __slots__ = ("_places", "path")

    def __init__(self, path: str, places: dict[Keys, Place] | None = None) -> None:
        self.path = path
        self._places = places or {}

    def names(self, keys: Keys) -> bool:
        """Whether that was written, and is no default."""
        return keys in self._places

    def problem(self, keys: Keys, message: str) -> Problem:
        """Make the problem of the value at these keys, or of the nearest known one around it.

        Args:
            keys: for example ``("vhosts", "/", "queues", "orders")``.
            message: what is wrong and what would be right.

        """
        for size in range(len(keys), 0, -1):
            place = self._places.get(keys[:size])
            if place is not None:
                return Problem(*place, dotted(keys), message)

        return Problem(self.path, 0, 0, dotted(keys), message)


def dotted(keys: Keys) -> str:
    """Render keys the way they are shown to people: ``vhosts./.queues.orders``."""
    return ".".join(keys)
