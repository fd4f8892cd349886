"""One source, two builds: which one runs, and that it is never a mixture."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import broker
from broker.build import build_kind

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = Path(broker.__file__).parent


def modules_meant_to_be_compiled() -> list[str]:
    pyproject = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = pyproject["tool"]["leveret"]["compiled"]
    paths = {
        path.relative_to(PROJECT).as_posix()
        for package in settings["packages"]
        for path in (PROJECT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    kept = (paths | set(settings["also"])) - set(settings["except"])
    return sorted(path.removesuffix(".py").replace("/", ".") for path in kept)


@pytest.mark.parametrize("name", modules_meant_to_be_compiled())
def test_every_hot_module_is_of_the_build_that_runs(name: str) -> None:
    path = importlib.import_module(name).__file__ or ""

    is_compiled = path.endswith(tuple(EXTENSION_SUFFIXES))
    assert is_compiled == (build_kind() == "compiled")
    assert Path(path).is_relative_to(PACKAGE)


def test_telling_the_build_imports_no_hot_module() -> None:
    program = (
        "import sys; from broker.build import build_kind; kind = build_kind();"
        "sys.stdout.write(kind + ' ' + str(len([m for m in sys.modules if m[:7] == 'broker.'])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=PACKAGE.parent,
        capture_output=True,
        check=True,
        text=True,
        timeout=10,
    )

    assert done.stdout == f"{build_kind()} 2"  # broker.build itself and the package broker.core
