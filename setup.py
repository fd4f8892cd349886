"""Builds Leveret twice from one source: compiled by mypyc, or plain.

What is compiled is said in pyproject.toml, ``[tool.leveret.compiled]``. It is all of it or nothing:
without a C compiler, or after a failure at any point, the build is plain and one line says why.

``LEVERET_PURE=1`` forces the plain build. ``LEVERET_PURE=0`` insists on the compiled one: what
would fall back then fails.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from setuptools import setup
from setuptools.command.build_ext import build_ext

if TYPE_CHECKING:
    from setuptools import Extension

__all__ = ["why_c_does_not_compile"]

ROOT = Path(__file__).resolve().parent
PURE = os.environ.get("LEVERET_PURE", "")
IS_PLAIN_FORCED = PURE not in {"", "0"}
IS_COMPILED_REQUIRED = PURE == "0"

# Asking for the metadata must not cost a translation. An editable install is plain: a compiled
# module would hide the source that it is there to edit.
IS_BUILDING = bool({"bdist_wheel", "build", "build_ext"} & set(sys.argv))

# mypyc reports a type error by exiting; compilers fail with exceptions that share no useful base.
FAILURES = (Exception, SystemExit)

MYPY_OPTIONS = [
    "--config-file=",  # the settings for developers must not decide whether a user gets it compiled
    "--explicit-package-bases",
    "--namespace-packages",
    "--ignore-missing-imports",  # pamqp is absent while building, and only wire/codec.py needs it
    f"--python-version={sys.version_info.major}.{sys.version_info.minor}",
]


class BuildExtensions(build_ext):
    """Compiles everything or nothing."""

    def run(self) -> None:
        self.parallel = self.parallel or os.cpu_count() or 1
        try:
            super().run()
        except FAILURES:
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)

            self.extensions: list[Extension] = []
            self.distribution.ext_modules = []
            fall_back("the C compiler failed on what mypyc made")


def fall_back(reason: str) -> None:
    """Say that the build is plain, or refuse when it may not be."""
    if IS_COMPILED_REQUIRED:
        sys.exit(f"leveret: LEVERET_PURE=0 requires the compiled build, but {reason}")

    print(f"leveret: building plain, not compiled: {reason}", file=sys.stderr, flush=True)


def in_one_line(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return shorten(lines[-1], 120)


def sources_to_compile() -> list[str]:
    """Return the modules to compile, relative to the project, in a stable order."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = pyproject["tool"]["leveret"]["compiled"]
    found = {
        path.relative_to(ROOT).as_posix()
        for package in settings["packages"]
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    return sorted((found | set(settings["also"])) - set(settings["except"]))


def why_c_does_not_compile() -> str:
    """Return an empty string when a C compiler and Python's headers are there."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    with tempfile.TemporaryDirectory() as directory:
        probe = Path(directory, "probe.c")
        probe.write_text("#include <Python.h>\n", encoding="ascii")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile(
                [str(probe)], output_dir=directory, include_dirs=[sysconfig.get_path("include")]
            )
        except FAILURES as failure:
            return f"no working C compiler ({in_one_line(failure)})"

    return ""


def compiled_extensions() -> list[Extension]:
    """Translate to C; return nothing, having said why, when the build has to be plain."""
    if IS_PLAIN_FORCED:
        fall_back("LEVERET_PURE is set")
        return []

    if reason := why_c_does_not_compile():
        fall_back(reason)
        return []

    os.chdir(ROOT)
    try:
        from mypyc.build import mypycify

        extensions = mypycify(
            [*MYPY_OPTIONS, *sources_to_compile()],
            opt_level=os.environ.get("LEVERET_OPT_LEVEL", "3"),
            debug_level="0",
            group_name="leveret",
            target_dir="build/mypyc",
        )
    except FAILURES as failure:
        # It has said why by now, and exits with nothing but a number.
        fall_back("mypyc failed" if isinstance(failure, SystemExit) else in_one_line(failure))
        return []

    for extension in extensions:
        # A warning that some newer compiler invents must not cost a user the compiled build.
        extension.extra_compile_args = [
            flag for flag in extension.extra_compile_args if flag not in {"-Werror", "/WX"}
        ]

    return extensions


if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildExtensions},
        ext_modules=compiled_extensions() if IS_BUILDING else [],
    )
