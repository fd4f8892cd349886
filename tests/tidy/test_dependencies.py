"""A dependency has its reason in docs/dependencies.md, its tested version in requirements/."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from typing import Final

import pytest

from tests.tidy.source import PROJECT

NAME: Final = re.compile(r"^[\w.-]+")


def normal(name: str) -> str:
    return name.lower().replace("_", "-")


def named(requirements: list[str]) -> list[str]:
    matches = (NAME.match(line) for line in requirements)
    return sorted({normal(match.group()) for match in matches if match})


def pinned(name: str) -> set[str]:
    lines = (PROJECT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return {normal(line.partition("==")[0]) for line in lines if "==" in line}


PYPROJECT: Final = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME: Final = named(PYPROJECT["project"]["dependencies"])
BUILD: Final = named(PYPROJECT["build-system"]["requires"])
EXTRAS: Final = named([*chain(*PYPROJECT["project"]["optional-dependencies"].values())])


@pytest.mark.parametrize("name", sorted({*RUNTIME, *BUILD, *EXTRAS}))
def test_dependency_has_a_reason(name: str) -> None:
    rows = (PROJECT / "docs" / "dependencies.md").read_text(encoding="utf-8").splitlines()

    assert any(f"| {name} |" in normal(row) for row in rows)


def test_tested_versions_are_pinned() -> None:
    assert {*RUNTIME, *BUILD} <= pinned("run.txt")
    assert set(EXTRAS) <= pinned("run.txt") | pinned("dev.txt")
