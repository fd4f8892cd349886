"""Files and functions stay small enough to be read whole."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.tidy.source import PROJECT, Source, python_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LINES_MAX: Final = 800
FUNCTION_LINES_MAX: Final = 70
README_LINES_MAX: Final = 150
RATCHET: Final = Path(__file__).with_name("function_lines_ratchet.txt")


def function_lines(source: Source) -> Iterator[tuple[str, int]]:
    """Yield ``path::Class.function`` and its length, from ``def`` to the last statement."""
    yield from _functions_in(source.tree, f"{source.path}::")


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, (child.end_lineno or child.lineno) - child.lineno + 1
            yield from _functions_in(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")
        else:
            yield from _functions_in(child, prefix)


def ratchet() -> dict[str, int]:
    lines = RATCHET.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: int(count) for name, count in pairs}


@pytest.mark.parametrize("source", python_sources(), ids=lambda source: source.path)
def test_file_is_short(source: Source) -> None:
    assert len(source.text.splitlines()) <= FILE_LINES_MAX


def test_functions_are_short_and_the_exceptions_only_shrink() -> None:
    """What is too long is listed with its length; the list may only get shorter."""
    actual = {
        name: lines
        for source in python_sources()
        for name, lines in function_lines(source)
        if lines > FUNCTION_LINES_MAX
    }

    assert actual == ratchet(), f"split it, or where it shrank correct {RATCHET.name}"


def test_readme_is_short() -> None:
    lines = (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= README_LINES_MAX
