"""What must not be in the sources, with the reason. Rules that ruff has are left to ruff."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.tidy.source import PROJECT, Source, package_sources, python_sources, text_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

# Put together from halves, so that this file does not contain what it looks for.
WORDS: Final = {
    "FIX" + "ME": "finish it or open an issue",
    "TO" + "DO": "finish it or open an issue",
    "XX" + "X:": "finish it or open an issue",
    "/work/" + "shared": "a path of somebody's machine",
    "/work/" + "main": "a path of somebody's machine",
    "/root/" + "tmp": "a path of somebody's machine",
    ".libr" + "ary": "a path of somebody's machine",
    "type: " + "ignore": "mypy --strict holds without exceptions",
    "pypi" + ".org": "an installer knows its index",
    "python" + "hosted.org": "an installer knows its index",
    "registry." + "npmjs": "an installer knows its index",
}

TASK_STARTERS: Final = {"create_task", "ensure_future", "run_coroutine_threadsafe"}
TASK_HOMES: Final = (
    "broker/net/",
    "broker/management/",
    "broker/exporters/",
    "broker/app.py",
    "broker/embedded.py",
    "broker/http_door.py",
    "broker/keeper.py",
    "broker/client/",
    "broker/queues/",
    "broker/tasks/",
    "broker/testing/",
)
REAL_TIME: Final = (
    "tests/attacks/",
    "tests/crash/",
    "tests/helpers/servers.py",
    "tests/helpers/waiting.py",
    "tests/integration/toolkit/test_tasks_",
    "tests/soak/",
    "tests/task_chaos/",
    "tests/unit/tasks/",
)
"""Processes that are killed at some moment, so that moment has to come; servers of others, which
announce nothing; and tasks that take their time."""

WRONG_ON_PURPOSE: Final = PROJECT / "tests/typing"
"""Programs in which the type checker has to find what is wrong: it says so when it does not."""

MODULES_WITHOUT_ALL: Final = {"broker/__main__.py"}


def calls(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call with the dotted name of what is called; computed callees are left out."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("word", WORDS, ids=[f"no-{word[:4]}…{len(word)}" for word in WORDS])
def test_text_is_nowhere(word: str) -> None:
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {WORDS[word]}"
        for path in text_paths()
        if not (word.startswith("type") and path.is_relative_to(WRONG_ON_PURPOSE))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert not found, "\n".join(found)


def test_only_the_command_line_prints() -> None:
    found = [
        f"{source.path}:{call.lineno}"
        for source in package_sources()
        if not source.path.startswith("broker/cli/")
        for name, call in calls(source)
        if name == "print"
    ]

    assert not found, f"log it: {found}"


def test_no_except_catches_everything_unnamed() -> None:
    found = [
        f"{source.path}:{node.lineno}"
        for source in python_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]

    assert not found, f"name the exception: {found}"


def test_tasks_are_started_only_at_the_rim() -> None:
    found = [
        f"{source.path}:{call.lineno}: {name}"
        for source in package_sources()
        if not source.path.startswith(TASK_HOMES)
        for name, call in calls(source)
        if name.rpartition(".")[2] in TASK_STARTERS
    ]

    assert not found, f"no task per anything: {found}"


def test_tests_do_not_sleep_to_wait_for_a_fact() -> None:
    """``asyncio.sleep(0)`` gives up one turn of the loop and is no sleep."""
    found = [
        f"{source.path}:{call.lineno}: {ast.unparse(call)}"
        for source in python_sources()
        if source.path.startswith("tests/") and not source.path.startswith(REAL_TIME)
        for name, call in calls(source)
        if name.rpartition(".")[2] == "sleep" and [ast.unparse(arg) for arg in call.args] != ["0"]
    ]

    assert not found, f"drive the clock or await an event: {found}"


@pytest.mark.parametrize("source", package_sources(), ids=lambda source: source.path)
def test_module_says_what_it_offers(source: Source) -> None:
    """Every module has a docstring and ``__all__``, and ``__all__`` names what is there."""
    has_code = any(not isinstance(node, ast.Expr) for node in source.tree.body)
    if not has_code:
        return

    assert ast.get_docstring(source.tree), "a docstring with layer and invariant"
    assert source.path in MODULES_WITHOUT_ALL or "__all__" in assigned_names(source.tree)


def assigned_names(tree: ast.Module) -> set[str]:
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}
