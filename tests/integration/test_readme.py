"""The Python of the README, run as it stands there."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from broker.embedded import Broker
from broker.tasks import Tasks, Worker
from tests.helpers.pages import Snippet, blocks, run
from tests.tidy.source import PROJECT

if TYPE_CHECKING:
    import pytest

README = PROJECT / "README.md"


def piece_with(text: str) -> Snippet:
    (piece,) = [one for one in blocks(README) if text in one.source]
    return piece


def test_the_fixture_of_the_readme(leveret: Any) -> None:
    names: dict[str, Any] = {}
    asyncio.run(run(piece_with("(leveret)"), names))
    names["test_a_payment_comes_again_after_a_minute"](leveret)


async def test_the_tasks_of_the_readme(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Broker() as broker:
        piece = piece_with("@tasks.task")
        assert "amqp://localhost/" in piece.source
        # Functions are looked up in the module that they were defined in.
        module = ModuleType("readme_app")
        monkeypatch.setitem(sys.modules, "readme_app", module)
        names = module.__dict__
        await run(
            piece._replace(source=piece.source.replace("amqp://localhost/", broker.url)), names
        )
        tasks: Tasks = names["tasks"]
        assert list(tasks.periodic)
        async with tasks, Worker(tasks):
            await names["wake_up"]()

    assert "hello, hare" in capsys.readouterr().out
