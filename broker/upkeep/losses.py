"""What cannot be read of a log, told for people. Layer: rim."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.store.log_files import checkpoint_name, segment_name
from broker.store.survey import Survey, survey_file

if TYPE_CHECKING:
    from broker.store.survey import Gap
    from broker.store.view import LogView

__all__ = ["losses_of"]


def losses_of(log: LogView) -> list[str]:
    """A line for each place where something is lost: file, offsets, bytes, batches."""
    lines: list[str] = []
    checkpoint = log.checkpoints[-1] if log.checkpoints else 0
    if checkpoint:
        lines += _losses(log, checkpoint_name(checkpoint), checkpoint, is_checkpoint=True)

    first = checkpoint or min(log.segments, default=1)
    for number in range(min([first, *log.segments]), max([log.last, checkpoint - 1]) + 1):
        if number in log.segments:
            lines += _losses(log, segment_name(number), number, is_checkpoint=False)
        elif number >= first:
            lines.append(f"lost: {os.path.join(log.path, segment_name(number))}: it is missing")

    return lines


def _losses(log: LogView, name: str, number: int, *, is_checkpoint: bool) -> list[str]:
    data = log.read(name)
    survey = survey_file(data, number, is_checkpoint=is_checkpoint)
    path = os.path.join(log.path, name)
    is_torn = number == log.last and not is_checkpoint and not survey.is_proven_damaged
    lines: list[str] = []
    for gap in survey.gaps:
        if not survey.has_header and gap.start == 0 and survey.batches:
            lines.append(f"{path}: its header was damaged; nothing of it is lost by that")
            continue

        used = len(data[gap.start : gap.stop].rstrip(b"\x00"))
        kind = "dropped, and nobody was told that it is safe" if is_torn else "lost"
        lines.append(
            f"{kind}: {path}: offsets {gap.start} to {gap.stop}, {used} bytes,"
            f" {_batches_in(survey, gap)} ({gap.fault})"
        )

    return lines


def _batches_in(survey: Survey, gap: Gap) -> str:
    """Which batches were there, by those around them."""
    before = [one.number for one in survey.batches if one.start < gap.start]
    behind = [one.number for one in survey.batches if one.start >= gap.stop]
    if not before and not behind:
        return "all batches of the file"

    if not behind:
        return f"batch {before[-1] + 1} and what may have come behind it"

    last = behind[0] - 1
    first = before[-1] + 1 if before else None
    if first is None:
        return f"the batches up to {last}"

    return f"batch {first}" if first == last else f"batches {first} to {last}"
