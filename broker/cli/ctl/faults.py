"""What ends a verb, and with which exit status (cli layer).

Statuses are those of sysexits.h, which rabbitmqctl uses too.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "EXIT_CONFIG",
    "EXIT_DATA",
    "EXIT_NO_USER",
    "EXIT_OK",
    "EXIT_SOFTWARE",
    "EXIT_TIMEOUT",
    "EXIT_UNAVAILABLE",
    "EXIT_USAGE",
    "CtlError",
    "WrongUsage",
]

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64
"""The command line cannot be understood, or names something that must be there."""

EXIT_DATA: Final = 65
"""What was given, or what came back, is unusable; there is no such virtual host."""

EXIT_NO_USER: Final = 67
EXIT_UNAVAILABLE: Final = 69
"""No broker answers, or it refuses."""

EXIT_SOFTWARE: Final = 70
EXIT_TIMEOUT: Final = 75
EXIT_CONFIG: Final = 78


class CtlError(Exception):
    """A verb that did not do what it should.

    Args:
        text: one line: what, where, what to do.
        status: the command ends with it.

    """

    def __init__(self, text: str, status: int = EXIT_UNAVAILABLE) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class WrongUsage(CtlError):
    """The command line cannot be understood; the usage of the verb is shown beside it."""

    def __init__(self, text: str, status: int = EXIT_USAGE) -> None:
        super().__init__(text, status)
