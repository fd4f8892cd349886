"""Keeps ``.build/compiled`` a compiled copy of the tree: built, as users build it, into a wheel.

Does nothing when no source has changed. When one has, only those of setup.py's units are compiled
whose C is other than before. Exit status: 0 the copy is there, 3 no C compiler, 1 the build failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build"
SOURCE = BUILD / "source"
"""What the wheel is built from: a mirror of the tree, so that building leaves no trace in it."""

COPY = BUILD / "compiled"
DIGEST = COPY / "sources.sha256"
LOG = BUILD / "compile.log"
NO_COMPILER = 3
ERROR_LINES_MAX = 20


def say(text: str) -> None:
    sys.stderr.write(f"leveret: {text}\n")


def project_files() -> list[Path]:
    package = (
        path.relative_to(ROOT)
        for path in (ROOT / "broker").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    beside = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "leveret_pytest.py")
    return sorted([*map(Path, beside), *package])


def digest_of(paths: Iterable[Path]) -> str:
    """Cover the sources and everything else that decides what the compiler makes of them."""
    environment = f"{sys.version} {version('mypy')} {os.environ.get('LEVERET_OPT_LEVEL')}"
    digest = hashlib.sha256(environment.encode())
    for path in paths:
        content = (ROOT / path).read_bytes()
        digest.update(f"\0{path}\0{len(content)}\0".encode())
        digest.update(content)

    return digest.hexdigest()


def mirror(files: list[Path]) -> None:
    """Make SOURCE equal to the tree, leaving alone what is equal so that its time stays old."""
    wanted = set(files)
    for path in SOURCE.glob("broker/**/*"):
        if path.is_file() and path.relative_to(SOURCE) not in wanted:
            path.unlink()

    for file in files:
        target, content = SOURCE / file, (ROOT / file).read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def forget_stale_outputs() -> None:
    """Drop from setuptools' staging folder what has no source any more: it would be packed."""
    for staging in SOURCE.glob("build/lib*"):
        for path in staging.rglob("*"):
            module = path.relative_to(staging).parent / (path.name.split(".")[0] + ".py")
            is_library = path.suffix in {".so", ".pyd"}
            is_stub = is_library and path.parent != staging
            if path.suffix == ".py" or (is_stub and not (SOURCE / module).exists()):
                path.unlink()


def build_wheel() -> Path | None:
    """Run the build that ``pip install`` runs; return None when it failed."""
    wheels = BUILD / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(wheels), "."]
    with LOG.open("wb") as log:
        done = subprocess.run(
            command,
            check=False,
            cwd=SOURCE,
            env={**os.environ, "LEVERET_PURE": "0"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    return next(wheels.glob("*.whl")) if done.returncode == 0 else None


def starts(wheel: Path) -> bool:
    """Import the whole broker out of the wheel once: a build that compiles need not load."""
    trial = COPY.with_suffix(".trial")
    shutil.rmtree(trial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(trial)

    with LOG.open("ab") as log:
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                "-X",
                "faulthandler",
                "-c",
                "import broker.app, broker.embedded",
            ],
            check=False,
            cwd=trial,
            env={**os.environ, "PYTHONPATH": str(trial)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    shutil.rmtree(trial, ignore_errors=True)
    return done.returncode == 0


def install(wheel: Path, digest: str) -> None:
    """Swap the copy in whole, so that nobody ever imports half of one."""
    fresh, stale = COPY.with_suffix(".new"), COPY.with_suffix(".old")
    for leftover in (fresh, stale):
        shutil.rmtree(leftover, ignore_errors=True)

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(fresh)

    (fresh / DIGEST.name).write_text(digest, encoding="ascii")
    if COPY.exists():
        COPY.rename(stale)

    fresh.rename(COPY)
    shutil.rmtree(stale, ignore_errors=True)


def why_no_compiler() -> str:
    spec = importlib.util.spec_from_file_location("leveret_setup", ROOT / "setup.py")
    if spec is None or spec.loader is None:
        raise AssertionError("setup.py is a file that can be loaded")

    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    return str(setup.why_c_does_not_compile())


def ensure_copy() -> int:
    files = project_files()
    digest = digest_of(files)
    if DIGEST.exists() and DIGEST.read_text(encoding="ascii") == digest:
        return 0

    if reason := why_no_compiler():
        say(f"{reason}: the plain build is used instead of the compiled one")
        return NO_COMPILER

    say("compiling with mypyc (a minute or two; only when the sources changed)")
    started_s = time.monotonic()
    settings = digest_of(Path(name) for name in ("setup.py", "pyproject.toml"))
    if (SOURCE / "settings.sha256").is_file() and (
        (SOURCE / "settings.sha256").read_text(encoding="ascii") != settings
    ):
        shutil.rmtree(SOURCE)

    mirror(files)
    (SOURCE / "settings.sha256").write_text(settings, encoding="ascii")
    forget_stale_outputs()
    wheel = build_wheel()
    if wheel is None:
        say(f"the compiled build failed; {LOG.relative_to(ROOT)} says:")
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "error:" in line or "leveret:" in line]
        sys.stderr.write("\n".join(errors[:ERROR_LINES_MAX]) + "\n")
        return 1

    if not starts(wheel):
        say(f"the compiled build does not start; {LOG.relative_to(ROOT)} has the reason")
        return 1

    install(wheel, digest)
    say(f"compiled in {time.monotonic() - started_s:.0f} s")
    return 0


def main() -> int:
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "compiled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return ensure_copy()


if __name__ == "__main__":
    sys.exit(main())
