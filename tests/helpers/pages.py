"""Runs the Python of a page of the documentation, as it stands there."""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Snippet", "blocks", "cells", "run"]

BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`([^`]+)`")


class Snippet(NamedTuple):
    """A piece of Python, and where it stands."""

    place: str
    source: str
    section: str = ""


def blocks(path: Path) -> Iterator[Snippet]:
    """Yield the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        yield Snippet(f"{path.name}:{line}", match.group(1))


def cells(path: Path) -> Iterator[Snippet]:
    """Yield the fenced blocks and the last cell of each row of the tables of a page, in order."""
    text = path.read_text(encoding="utf-8")
    fences = {text.count("\n", 0, match.start()): match for match in BLOCK.finditer(text)}
    section = ""
    for number, line in enumerate(text.splitlines()):
        if number in fences:
            yield Snippet(f"{path.name}:{number + 2}", fences[number].group(1), section)

        if line.startswith("#"):
            section = line.lstrip("# ")

        if not line.startswith("|"):
            continue

        last = line.replace("\\|", "\0").rstrip("|").split("|")[-1].replace("\0", "|")
        code = CODE.search(last)
        if code is not None:
            yield Snippet(f"{path.name}:{number + 1}", code.group(1), section)


async def run(snippet: Snippet, names: dict[str, Any]) -> None:
    """Run a piece, which may await, with these names, and leave there what it names."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    # Lines of the piece are lines of the page, in tracebacks.
    code = compile(snippet.source, snippet.place, "exec", flags=flags, dont_inherit=True)
    result = eval(code, names)  # noqa: S307 - our own pages
    if inspect.isawaitable(result):
        await result
