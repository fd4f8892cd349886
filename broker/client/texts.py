"""Toolkit: texts of errors, which are somebody's own, as they can be sent and logged.

Invariant: whatever an exception is, it has a text, and UTF-8 can say that: a failure that cannot be
told would not be counted, and its message would come again for ever.
"""

from __future__ import annotations

import traceback

__all__ = ["text_of", "trace_of", "writable"]


def text_of(error: BaseException) -> str:
    """Return what an exception says, or that it fails at that as well."""
    try:
        return writable(str(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:
        return f"<no text: its __str__ raised {type(problem).__name__}>"


def trace_of(error: BaseException) -> str:
    """Return the traceback of an exception, or nothing where it fails at that."""
    try:
        return writable("".join(traceback.format_exception(error)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return ""


def writable(text: str) -> str:
    """Return a text without what UTF-8 cannot say: lone surrogates, as in names of odd files."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
