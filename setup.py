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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

if TYPE_CHECKING:
    from setuptools import Extension

__all__ = ["gather", "why_c_does_not_compile"]

ROOT = Path(__file__).resolve().parent
PURE = os.environ.get("LEVERET_PURE", "")
IS_PLAIN_FORCED = PURE not in {"", "0"}
IS_COMPILED_REQUIRED = PURE == "0"

# Asking for the metadata must not cost a translation. An editable install is plain: a compiled
# module would hide the source that it is there to edit.
IS_BUILDING = bool({"bdist_wheel", "build", "build_ext"} & set(sys.argv))

# One C file of everything takes one core minutes and 2 GB; one for each module reads the headers a
# hundred times, and no compiler sees two modules of the data path together.
UNITS = 8
C_FOLDER = Path("build/mypyc")

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

    def build_extensions(self) -> None:
        """Compile the units side by side, which setuptools does with whole extensions only."""
        for extension in self.extensions:
            if len(extension.sources) > 1:
                self.compile_units(extension)

        super().build_extensions()

    def compile_units(self, extension: Extension) -> None:
        flags = list(extension.extra_compile_args)
        if self.compiler.compiler_type == "unix":
            # What is visible could be replaced by another library, so that no call is inlined.
            # A function without a declaration compiles, and then does not load.
            flags += ["-fvisibility=hidden", "-Werror=implicit-function-declaration"]

        def compile_unit(unit: str) -> str:
            [made] = self.compiler.object_filenames([unit], output_dir=self.build_temp)
            if self.force or newer_group([unit, *extension.depends], made, "newer"):
                self.compiler.compile(
                    [unit],
                    output_dir=self.build_temp,
                    include_dirs=extension.include_dirs,
                    debug=self.debug,
                    extra_postargs=flags,
                )

            return made

        with ThreadPoolExecutor(self.parallel) as pool:
            extension.extra_objects = list(pool.map(compile_unit, extension.sources))

        extension.depends += extension.sources
        extension.sources = []


def fall_back(reason: str) -> None:
    """Say that the build is plain, or refuse when it may not be."""
    if IS_COMPILED_REQUIRED:
        sys.exit(f"leveret: LEVERET_PURE=0 requires the compiled build, but {reason}")

    print(f"leveret: building plain, not compiled: {reason}", file=sys.stderr, flush=True)


def in_one_line(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return shorten(lines[-1], 120)


def compiled_settings() -> dict[str, list[str]]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings: dict[str, list[str]] = pyproject["tool"]["leveret"]["compiled"]
    return settings


def sources_to_compile() -> list[str]:
    """Return the modules to compile, relative to the project, in a stable order."""
    settings = compiled_settings()
    found = {
        path.relative_to(ROOT).as_posix()
        for package in settings["packages"]
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    return sorted((found | set(settings["also"])) - set(settings["except"]))


def gather(sources: list[str], together: list[str], folder: Path) -> list[str]:
    """Write all C into UNITS files of much the same size, and return their names.

    mypyc's runtime and the modules of ``together`` are in the first one. The same C makes the same
    units, and a unit that stays as it was is not written, so that it need not be compiled again.
    """
    hot = {f"__native_{module[:-3].replace('/', '___')}.c" for module in together}
    texts = {name: Path(name).read_text(encoding="utf-8") for name in sources}
    runtime = [name for name in sources if not Path(name).name.startswith("__native_")]
    first = {*runtime, *(name for name in sources if Path(name).name in hot)}
    modules = sorted(
        set(sources).difference(runtime),
        key=lambda name: (name not in first, -len(texts[name]), name),
    )
    units = [""] * UNITS
    for name in [*runtime, *modules]:
        number = 0 if name in first else units.index(min(units, key=len))
        units[number] += texts[name]

    written = []
    for number, text in enumerate(units):
        path = folder / f"unit_{number}.c"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

        written.append(str(path))

    return written


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
            multi_file=True,  # a C file for each module: gather() makes of them what is compiled
            group_name="leveret",
            target_dir=str(C_FOLDER),
        )
    except FAILURES as failure:
        # It has said why by now, and exits with nothing but a number.
        fall_back("mypyc failed" if isinstance(failure, SystemExit) else in_one_line(failure))
        return []

    for extension in extensions:
        if len(extension.sources) > 1:
            extension.sources = gather(extension.sources, compiled_settings()["together"], C_FOLDER)

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
