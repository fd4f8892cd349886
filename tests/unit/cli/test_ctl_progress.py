"""Progress: a line on a terminal, drawn anew, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from broker.cli.ctl import progress as module
from broker.cli.ctl.progress import Progress

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def new_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """No fixture: pytest puts its own stream in the place between a fixture and its test."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "REDRAW_S", 0.0)
    return stream


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    progress = Progress("Moving", 200)
    progress.show(50)
    progress.show(200)
    assert terminal.getvalue().split("\r")[1:] == [
        "Moving [########                      ] 50 of 200 (25%)",
        "Moving [##############################] 200 of 200 (100%)",
    ]


def test_where_nobody_knows_the_end_the_count_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    progress = Progress("Importing", 0)
    progress.show(7)
    assert terminal.getvalue() == "\rImporting 7"


def test_the_line_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    progress = Progress("Importing", 0)
    progress.show(7)
    progress.end()
    assert terminal.getvalue().endswith(f"\r{' ' * len('Importing 7')}\r")
    progress.end()


def test_it_is_not_drawn_more_often_than_somebody_can_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = new_terminal(monkeypatch)
    monkeypatch.setattr(module, "REDRAW_S", 3600.0)
    progress = Progress("Importing", 0)
    for count in range(1, 100):
        progress.show(count)

    assert terminal.getvalue().count("\r") <= 1


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress("Moving", 10)
    progress.show(5)
    progress.end()
    assert stream.getvalue() == ""
