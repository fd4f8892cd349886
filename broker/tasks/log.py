"""Toolkit, tasks: the log of a worker command, on standard error."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LEVELS", "set_up_log"]

LEVELS: Final = ("debug", "info", "warning", "error")
FORMAT: Final = "%(asctime)s %(levelname)-7s %(processName)s %(name)s: %(message)s"


def set_up_log(level: str) -> None:
    """Log from that level on. Of the libraries only what goes wrong."""
    logging.basicConfig(level=logging.WARNING, format=FORMAT, force=True)
    logging.getLogger("leveret").setLevel(level.upper())
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
