"""What the C compiler gets: the C of each module once, in units that are the same every time."""

from __future__ import annotations

import importlib.util
import random
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

PROJECT = Path(__file__).resolve().parents[2]
TOGETHER = ["broker/core/outbox.py", "broker/wire/hot.py"]
TEXTS = {
    "init.c": "runtime;" * 40,
    "__native_leveret.c": "globals;" * 30,
    "__native_broker___core___outbox.c": "outbox;" * 90,
    "__native_broker___wire___hot.c": "hot;" * 10,
} | {f"__native_broker___core___m{number}.c": f"m{number};" * number for number in range(1, 60)}


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("leveret_setup", PROJECT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gathered(setup: ModuleType, folder: Path, seed: int = 0) -> list[Path]:
    names = sorted(TEXTS)
    random.Random(seed).shuffle(names)
    for name in names:
        (folder / name).write_text(TEXTS[name], encoding="utf-8")

    return [Path(unit) for unit in setup.gather([str(folder / n) for n in names], TOGETHER, folder)]


def test_the_c_of_each_module_is_in_one_unit(setup: ModuleType, tmp_path: Path) -> None:
    texts = [unit.read_text(encoding="utf-8") for unit in gathered(setup, tmp_path)]

    assert len(texts) == setup.UNITS
    assert sum(map(len, texts)) == sum(map(len, TEXTS.values()))
    for text in TEXTS.values():
        assert sum(text in unit for unit in texts) == 1


def test_the_data_path_is_together_and_the_others_share_the_rest_evenly(
    setup: ModuleType, tmp_path: Path
) -> None:
    first, *others = (unit.read_text(encoding="utf-8") for unit in gathered(setup, tmp_path))

    assert first.startswith("runtime;")
    assert "outbox;" in first
    assert "hot;" in first
    sizes = sorted(map(len, others))
    assert sizes[-1] < sizes[0] * 1.2


def test_the_same_c_makes_the_same_units_in_whatever_order_it_comes(
    setup: ModuleType, tmp_path: Path
) -> None:
    before = [unit.read_text(encoding="utf-8") for unit in gathered(setup, tmp_path, seed=1)]
    times = [unit.stat().st_mtime_ns for unit in sorted(tmp_path.glob("unit_*.c"))]

    after = gathered(setup, tmp_path, seed=2)

    assert [unit.read_text(encoding="utf-8") for unit in after] == before
    # A unit that is not written again is not compiled again.
    assert [unit.stat().st_mtime_ns for unit in sorted(after)] == times


def test_what_is_to_be_together_is_compiled(setup: ModuleType) -> None:
    pyproject = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))

    together = pyproject["tool"]["leveret"]["compiled"]["together"]

    assert set(together) <= set(setup.sources_to_compile())
