"""Transcripts kept in the tree, one line a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["FOLDER", "NEW", "OLD", "OWN", "Recording", "load", "save"]

FOLDER: Final = Path(__file__).with_name("recorded")

NEW: Final = "4.3"
"""The version of RabbitMQ that is recorded in full."""

OLD: Final = "3.10"
"""The older version: recorded where it differs from the new one."""

OWN: Final = "leveret"
"""This broker: only the scenarios in which it goes like neither version."""


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
    transcripts: dict[str, list[str]] = stored["transcripts"]
    if label == OLD:
        transcripts = load(NEW).transcripts | transcripts

    return Recording(stored["product"], transcripts)


def save(label: str, recording: Recording) -> None:
    """Write a recording, sorted, so that a change shows as the lines it changes.

    The old version's needs that of the new one to be there.
    """
    known = load(NEW).transcripts if label == OLD else {}
    lines = [
        f"{json.dumps(name)}: {json.dumps(lines)}"
        for name, lines in sorted(recording.transcripts.items())
        if known.get(name) != lines
    ]
    text = f'{{"product": {json.dumps(recording.product)}, "transcripts": {{\n'
    text += ",\n".join(lines) + "\n}}\n"
    (FOLDER / f"{label}.json").write_text(text, encoding="utf-8")
