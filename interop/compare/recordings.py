"""Transcripts kept in the tree, one line a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["FOLDER", "OWN", "Recording", "load", "save"]

FOLDER: Final = Path(__file__).with_name("recorded")

OWN: Final = "leveret"
"""The recording of this broker: only of scenarios in which it goes like no version of RabbitMQ."""


class Recording(NamedTuple):
    """What one broker answered."""

    product: str
    transcripts: dict[str, list[str]]


def load(label: str) -> Recording:
    """Read a recording; an empty one when there is none."""
    path = FOLDER / f"{label}.json"
    if not path.exists():
        return Recording(label, {})

    stored = json.loads(path.read_text(encoding="utf-8"))
    return Recording(stored["product"], stored["transcripts"])


def save(label: str, recording: Recording) -> None:
    """Write a recording, sorted, so that a change shows as the lines it changes."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(lines)}"
        for name, lines in sorted(recording.transcripts.items())
    ]
    text = f'{{"product": {json.dumps(recording.product)}, "transcripts": {{\n'
    text += ",\n".join(lines) + "\n}}\n"
    (FOLDER / f"{label}.json").write_text(text, encoding="utf-8")
