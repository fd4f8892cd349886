"""What the pages say is there is there: files, links, tables made from the code, configurations."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from broker.app import build_node
from broker.config.loader import load_config
from scripts.support.docs_tables import DOCUMENTS, updated
from tests.helpers.clock import VirtualClock
from tests.tidy.source import PROJECT, package_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES: Final = tuple(
    sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("interop/*.md")])
)
LINK: Final = re.compile(r"\[[^]]*]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`([^`\n]+)`")
ROOTS: Final = "broker|config|docs|interop|scripts|tests|requirements"
PATH: Final = re.compile(rf"(?:{ROOTS})/[\w./-]*\w|[\w-]+\.(?:md|toml)")
"""What looks like a file of the project in `code`: it begins with one of its folders."""

CAMEL_CASE: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")
NAME: Final = re.compile(r"([A-Z]\w*)(?:\.(_?[a-z]\w*))?")
"""What looks like a class in `code`, or a member of one."""

GENERATED: Final = re.compile(r"<!-- generated: ([\w-]+) -->")


def page_id(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = FENCE.sub("", text)
    kept = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in HEADING.findall(prose))
    return {heading.strip().replace(" ", "-") for heading in kept}


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue

        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            yield f"{target}: no such heading"


def missing_files(page: Path, text: str) -> Iterator[str]:
    for code in CODE.findall(FENCE.sub("", text)):
        words = code.split()
        if not words or not PATH.fullmatch(words[0]):
            continue

        if not any((place / words[0]).exists() for place in (PROJECT, page.parent)):
            yield words[0]


@functools.cache
def members_by_class() -> dict[str, set[str]]:
    """Return the classes of the broker, each with its methods and attributes."""
    found: dict[str, set[str]] = {}
    for source in package_sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                members = found.setdefault(node.name, set())
                for inner in ast.walk(node):
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        members.add(inner.name)
                    elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                        members.add(inner.attr)

    return found


def missing_names(text: str) -> Iterator[str]:
    """Yield ``Class`` and ``Class.member`` where the broker has none such."""
    classes = members_by_class()
    for code in CODE.findall(FENCE.sub("", text)):
        match = NAME.fullmatch(code)
        if match is None:
            continue

        name, member = match.groups()
        if member is not None:
            is_there = member in classes.get(name, set())
        else:
            is_there = name in classes or CAMEL_CASE.fullmatch(name) is None

        if not is_there:
            yield code


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    broken = list(broken_links(page, page.read_text(encoding="utf-8")))

    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_files_that_are_mentioned_exist(page: Path) -> None:
    missing = list(missing_files(page, page.read_text(encoding="utf-8")))

    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("page", sorted((PROJECT / "docs").glob("*.md")), ids=page_id)
def test_classes_that_are_mentioned_exist(page: Path) -> None:
    missing = list(missing_names(page.read_text(encoding="utf-8")))

    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_made_from_the_code_are_up_to_date(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")

    assert GENERATED.search(text)
    assert text == updated(text), "run python -m scripts.support.docs_tables"


def test_every_page_is_in_the_index() -> None:
    index = (PROJECT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (PROJECT / "docs").glob("*.md")} - {"README.md"}

    assert pages <= set(LINK.findall(index))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_configurations_that_are_shown_can_be_used(page: Path, tmp_path: Path) -> None:
    """Every YAML block with a version is a whole configuration; a broker is made from it."""
    for place, (language, block) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
        if language != "yaml" or "version" not in yaml.safe_load(block):
            continue

        file = tmp_path / f"{place}.yaml"
        file.write_text(block, encoding="utf-8")
        build_node(load_config(str(file)), VirtualClock(), lambda *_: None)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("[a](README.md) [b](#leveret)", 0, id="right"),
        pytest.param("[a](nowhere.md)", 1, id="no-file"),
        pytest.param("[a](README.md#nowhere)", 1, id="no-heading"),
        pytest.param("[a](https://example.org/nowhere)", 0, id="elsewhere"),
        pytest.param("```\n[a](nowhere.md)\n```\n", 0, id="code"),
    ],
)
def test_broken_links_are_found(text: str, count: int) -> None:
    assert len(list(broken_links(PROJECT / "README.md", text))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("`scripts/test -k topic`", 0, id="with-arguments"),
        pytest.param("`broker/nowhere.py`", 1, id="no-file"),
        pytest.param("`basic.get`, `a/b`", 0, id="no-path"),
    ],
)
def test_missing_files_are_found(text: str, count: int) -> None:
    assert len(list(missing_files(PROJECT / "README.md", text))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("`Node.flush`, `Output.parked`, `FrameDecoder`", 0, id="right"),
        pytest.param("`CONNECTION_FORCED`, `METHODS`, `basic.get`", 0, id="no-class"),
        pytest.param("`Node.nothing`", 1, id="no-member"),
        pytest.param("`Nobody.flush`, `FrameNobody`", 2, id="no-such-class"),
    ],
)
def test_missing_names_are_found(text: str, count: int) -> None:
    assert len(list(missing_names(text))) == count


def test_a_table_that_nobody_makes_is_a_fault() -> None:
    with pytest.raises(KeyError):
        updated("<!-- generated: nonsense -->\n<!-- end -->")
