"""Toolkit: what an argument has to be. Whoever takes one asks here, so that all say the same of it.

Invariant: what is wrong is an :class:`InvalidValue` that names the argument, of whatever type it
was; nothing else comes out of a check.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.client.errors import InvalidName, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "SECONDS_MAX",
    "SHORT_TEXT_BYTES_MAX",
    "check_callable",
    "check_choice",
    "check_count",
    "check_flag",
    "check_grace",
    "check_kind",
    "check_path",
    "check_queue",
    "check_seconds",
    "check_text",
    "check_texts",
    "shown",
]

SHORT_TEXT_BYTES_MAX: Final = 255
"""AMQP writes the length of names, keys and ids in one octet."""

SECONDS_MAX: Final = (2**32 - 1) / 1000
"""49 days: brokers count milliseconds in 32 bits."""

LIBRARY_NAMES: Final = re.compile(r"[a-zA-Z0-9\-_.:@#,/ ]*")
"""What the library sends as a name of a queue or exchange; AMQP has no such rule."""


def shown(value: object, size: int = 60) -> str:
    """Return what a text says of a value: its repr, cut; or that it has none."""
    try:
        return repr(value)[:size]
    except Exception as problem:
        return f"<{type(value).__name__}, whose __repr__ raised {type(problem).__name__}>"


def check_count(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Refuse what is no whole number from ``low`` on, and up to ``high``."""
    most = math.inf if high is None else high
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= most:
        limit = "on" if high is None else f"to {high}"
        raise InvalidValue(f"{name} is to be a number from {low} {limit}, not {shown(value)}")


def check_seconds(
    name: str, value: object, *, is_zero_ok: bool = False, high: float = sys.float_info.max
) -> None:
    """Refuse what is no time in seconds."""
    least = 0.0 if is_zero_ok else sys.float_info.min
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= high:
        start = "from 0 on" if is_zero_ok else "above 0"
        limit = " and at most 49 days" if high == SECONDS_MAX else ""
        raise InvalidValue(
            f"{name} is to be a number of seconds {start}{limit}, not {shown(value)}"
        )


def check_grace(grace: object) -> None:
    """Refuse what is no time that something may take to end; None is any."""
    if grace is not None:
        check_seconds("grace", grace, is_zero_ok=True, high=math.inf)


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse what is none of these."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidValue(f"{name} is one of {', '.join(choices)}, not {shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise InvalidValue(f"{name} is True or False, not {shown(value)}")


def check_callable(name: str, value: object) -> None:
    """Refuse what cannot be called, or does nothing when it is."""
    if not callable(value):
        raise InvalidValue(f"{name} is to be a function, not {shown(value)}")

    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise InvalidValue(f"{name} has a yield in it: called, {shown(value)} does nothing")


def check_kind(name: str, value: object, kind: type, example: str) -> None:
    """Refuse what is not of that class.

    Args:
        name: of the argument.
        value: what was given.
        kind: the class.
        example: what could be given.

    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InvalidValue(
            f"{name} is {article} {kind.__name__}, such as {example}, and not {shown(value)}"
        )


def check_text(
    name: str,
    value: object,
    *,
    is_empty_ok: bool = False,
    error: type[InvalidValue] = InvalidValue,
) -> str:
    """Return the text, if AMQP has room for it where it has names, keys and ids."""
    if not isinstance(value, str):
        raise error(f"{name} is to be a text, not {shown(value)}")

    try:
        size = len(value.encode())
    except UnicodeEncodeError as problem:
        raise error(f"{name} cannot be written as UTF-8: {shown(value)}") from problem

    if size > SHORT_TEXT_BYTES_MAX:
        raise error(
            f"{name} is to be at most {SHORT_TEXT_BYTES_MAX} bytes, "
            f"and {shown(value, 40)}... is {size}"
        )

    if not size and not is_empty_ok:
        raise error(f"{name} is to be a text, and is empty")

    return value


def check_texts(name: str, values: object) -> list[str]:
    """Return the texts of something that has several; one text alone is one, not its letters."""
    if isinstance(values, str):
        return [check_text(name, values)]

    if not isinstance(values, Iterable) or isinstance(values, bytes | bytearray | memoryview):
        raise InvalidValue(f"{name} are to be several texts, or one, not {shown(values)}")

    return [check_text(f"one of {name}", one) for one in values]


def check_path(name: str, value: object) -> Path:
    """Return the path of a file, if the system can have one there."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidValue(f"{name} is to be the path of a file, not {shown(value)}")

    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidValue(f"{name} is to be the path of a file, not {shown(value)}")

    try:
        os.fsencode(text)
    except UnicodeEncodeError as problem:
        raise InvalidValue(f"{name} is no name of a file here: {shown(value)}") from problem

    return Path(text)


def check_queue(value: object, name: str = "queue") -> str:
    """Return the name of a queue that there may be.

    An empty one stands for the queue that was declared last, which nobody means who uses names.

    Raises:
        InvalidName: there cannot be such a queue, or the library does not send its name.

    """
    text = check_text(name, value, error=InvalidName)
    if LIBRARY_NAMES.fullmatch(text) is None:
        raise InvalidName(
            f"{name} {shown(text)}: the AMQP library that this is built on knows names of letters "
            "from a to z, digits, spaces and - _ . : @ # , / alone"
        )

    return text
