"""The fields of one object of a JSON line, each read as what it must be. Layer: rim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.upkeep.typed_json import table_from_json

if TYPE_CHECKING:
    from broker.wire.tables import Arguments

__all__ = ["Fields"]


class Fields:
    """Reads fields; whatever is wrong is a ValueError that names the field.

    Args:
        value: the object.
        where: what it is, for errors.

    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where}: expected an object")

        self._value: dict[str, object] = value
        self._where = where
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether there is such a field, and not null."""
        self._read.add(name)
        return self._value.get(name) is not None

    def raw(self, name: str) -> object:
        """A field as it is; it must be there.

        Raises:
            ValueError: it is not.

        """
        self._read.add(name)
        if name not in self._value:
            raise ValueError(f"{self._where}.{name} is missing")

        return self._value[name]

    def ignore(self, *names: str) -> None:
        """Let these be there, whatever they say."""
        self._read.update(names)

    def finish(self) -> None:
        """All fields that mean something have been read.

        Raises:
            ValueError: there are others.

        """
        for name in self._value:
            if name not in self._read:
                raise ValueError(f"{self._where}: there is no field '{name}'")

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = default if default is not None and not self.has(name) else self.raw(name)
        if not isinstance(value, str):
            raise ValueError(f"{self._where}.{name}: expected a text")

        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.raw(name) if self.has(name) else default
        if not isinstance(value, bool):
            raise ValueError(f"{self._where}.{name}: expected true or false")

        return value

    def number(self, name: str) -> int | None:
        """A whole number that is not negative, or None where there is none."""
        if not self.has(name):
            return None

        value = self.raw(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{self._where}.{name}: expected a number that is not negative")

        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of texts, or None where there is none."""
        if not self.has(name):
            return None

        value = self.raw(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{self._where}.{name}: expected a list of texts")

        return value

    def table(self, name: str) -> Arguments:
        """A field table; empty where there is none."""
        return table_from_json(self.raw(name), f"{self._where}.{name}") if self.has(name) else {}

    def inner(self, name: str) -> Fields:
        """An object in it; empty where there is none."""
        value = self.raw(name) if self.has(name) else {}
        return Fields(value, f"{self._where}.{name}")

    def items(self, name: str) -> list[Fields]:
        """A list of objects in it."""
        value = self.raw(name)
        if not isinstance(value, list):
            raise ValueError(f"{self._where}.{name}: expected a list")

        return [Fields(item, f"{self._where}.{name}[{place}]") for place, item in enumerate(value)]

    def limits(self, name: str) -> dict[str, object]:
        """An object of limits by their names; RabbitMQ writes an empty one as a list too."""
        value = self.raw(name) if self.has(name) else {}
        if value == []:
            return {}

        if not isinstance(value, dict):
            raise ValueError(f"{self._where}.{name}: expected an object")

        return value
