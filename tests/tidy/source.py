"""The sources of the project as the rules of this folder see them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

__all__ = ["PROJECT", "Imported", "Source", "package_sources", "python_sources", "text_paths"]

PROJECT = Path(__file__).resolve().parents[2]
PYTHON_ROOTS = ("broker", "tests", "scripts", "interop")
TEXT_SUFFIXES = {"", ".cfg", ".css", ".html", ".ini", ".js", ".json", ".lock", ".md", ".py", ".sh"}
TEXT_SUFFIXES |= {".toml", ".txt", ".yaml", ".yml"}
GENERATED = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}


class Imported(NamedTuple):
    module: str
    """The module, and for ``from x import y`` also ``x.y``: y may be a module."""

    line: int


class Source(NamedTuple):
    path: str
    """Relative to the project, with slashes."""

    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def imports(self) -> list[Imported]:
        """Return every import at any depth, those for type checking included."""
        found: list[Imported] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [Imported(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self._base_of(node)
                found.append(Imported(base, node.lineno))
                found += [Imported(f"{base}.{alias.name}", node.lineno) for alias in node.names]

        return found

    def _base_of(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""

        package = self.module.split(".")
        if not self.path.endswith("/__init__.py"):
            package.pop()

        parents = package[: len(package) - node.level + 1]
        return ".".join([*parents, node.module] if node.module else parents)


@functools.cache
def python_sources() -> tuple[Source, ...]:
    paths = [PROJECT / "setup.py", PROJECT / "leveret_pytest.py"]
    for root in PYTHON_ROOTS:
        paths += (path for path in (PROJECT / root).rglob("*.py") if not _is_generated(path))

    return tuple(_read(path) for path in sorted(paths))


@functools.cache
def package_sources() -> tuple[Source, ...]:
    return tuple(source for source in python_sources() if source.path.startswith("broker/"))


@functools.cache
def text_paths() -> tuple[Path, ...]:
    """Return every file a person wrote, whether or not it is Python."""
    found = (path for path in PROJECT.rglob("*") if not _is_generated(path))
    return tuple(sorted(path for path in found if path.suffix in TEXT_SUFFIXES and path.is_file()))


def _is_generated(path: Path) -> bool:
    parts = path.relative_to(PROJECT).parts
    is_hidden = any(part.startswith(".") for part in parts) and parts[0] != ".ci"
    is_built = any(part in GENERATED or part.endswith(".egg-info") for part in parts)
    return is_hidden or is_built


def _read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path.relative_to(PROJECT).as_posix(), text, ast.parse(text, filename=str(path)))
