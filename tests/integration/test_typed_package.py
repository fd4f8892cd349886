"""A user's program is checked strictly against the package as it is installed, not as it lies here.

Of the package there is a copy elsewhere, as a wheel would unpack it. ``pyright`` checks the same
programs where it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = PROJECT / "tests/typing"
WAIT_S = 120
PYRIGHT = shutil.which("pyright")

pytestmark = pytest.mark.timeout(WAIT_S)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed."""
    directory = tmp_path_factory.mktemp("site")
    shutil.copytree(
        PROJECT / "broker",
        directory / "broker",
        ignore=lambda _, names: {
            name for name in names if name == "__pycache__" or name.endswith((".so", ".pyc"))
        },
    )
    return directory


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Where a user's program is."""
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, tmp_path)

    return tmp_path


def checked(command: list[str], program: Path, site: Path) -> subprocess.CompletedProcess[str]:
    kept = {"PATH", "HOME", "LANG", "TMPDIR"}
    environment = {name: value for name, value in os.environ.items() if name in kept}
    return subprocess.run(
        command,
        cwd=program,
        env=environment | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_mypy_is_content_with_programs_that_are_right(program: Path, site: Path) -> None:
    """What is wrong in them is marked, and mypy complains of marks where nothing is wrong."""
    options = ["--strict", "--config-file=", "--no-incremental"]
    found = checked([sys.executable, "-P", "-m", "mypy", *options, "."], program, site)
    count = len(list(program.glob("*.py")))
    assert found.stdout == f"Success: no issues found in {count} source files\n", found.stderr


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_pyright_is_content_with_them(program: Path, site: Path) -> None:
    assert PYRIGHT is not None
    (program / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    found = checked([PYRIGHT, "--pythonpath", sys.executable], program, site)
    assert found.returncode == 0, found.stdout
