"""Amounts as rabbitmqctl takes them (cli layer)."""

from __future__ import annotations

import re
from math import inf
from typing import Final

from broker.cli.ctl.faults import EXIT_DATA, WrongUsage

__all__ = ["fraction_of", "size_of"]

# RabbitMQ: k and kiB are 1024, kB is 1000, and so on.
UNITS: Final = {
    "": 1,
    "k": 2**10,
    "kib": 2**10,
    "kb": 10**3,
    "m": 2**20,
    "mib": 2**20,
    "mb": 10**6,
    "g": 2**30,
    "gib": 2**30,
    "gb": 10**9,
    "t": 2**40,
    "tib": 2**40,
    "tb": 10**12,
}
SIZE: Final = re.compile(r"([0-9]{1,40})([a-zA-Z]*)")
SIZE_MAX: Final = 2**60


def size_of(text: str) -> int:
    """Bytes, such as ``50MB`` or ``1073741824``.

    Raises:
        WrongUsage: it is no size.

    """
    match = SIZE.fullmatch(text.strip())
    unit = UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise WrongUsage(f"Bad argument: '{text}' is no size, such as 50MB or 2GiB", EXIT_DATA)

    size = int(match[1]) * unit
    if size > SIZE_MAX:
        raise WrongUsage(f"Bad argument: '{text}' is more than 1024 PiB", EXIT_DATA)

    return size


def fraction_of(text: str, maximum: float | None = None) -> float:
    """A share, such as ``0.4``.

    Raises:
        WrongUsage: it is none.

    """
    try:
        value = float(text)
    except ValueError:
        raise WrongUsage(f"Bad argument: '{text}' is no number", EXIT_DATA) from None

    if not 0.0 <= value < inf or (maximum is not None and value > maximum):
        raise WrongUsage(
            "Bad argument: The threshold should be a fraction between 0.0 and 1.0"
            if maximum is not None
            else "Bad argument: a fraction is a number, and not negative",
            EXIT_DATA,
        )

    return value
