"""Reads all of a data directory, and says what is wrong with it. Layer: rim.

Nothing is changed, and no lock is taken: a broker may be at work in it. Every file is read to its
end whatever is wrong with it; then each log that is sound is recovered as a start would do it: that
finds what no checksum tells.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import BrokerError, StoreError
from broker.store.directory import FORMAT_NAME, check_format
from broker.store.log_files import checkpoint_name, segment_name
from broker.store.node_file import NodeState, parse_node_file
from broker.store.records import FLAG_END, u64_at
from broker.store.survey import Gap, Survey, survey_file
from broker.store.view import open_view
from broker.upkeep.messages import held_count, message_count
from broker.upkeep.offline import look_into

if TYPE_CHECKING:
    from broker.core.vhost import VirtualHost
    from broker.store.view import DirectoryView, LogView

__all__ = [
    "DAMAGED",
    "TORN",
    "CheckReport",
    "Contents",
    "Finding",
    "LogReport",
    "check_directory",
    "check_view",
]

DAMAGED: Final = "damaged"
"""Something that was safe cannot be read."""

TORN: Final = "torn"
"""The last batch was not written to its end: nobody was told that it is safe. Harmless."""

META_NUMBER_OFFSET: Final = 9
"""Of the number of the batch to come next, in the record at the end of a checkpoint."""


class Finding(NamedTuple):
    """Something that is not as it should be."""

    kind: str
    """DAMAGED or TORN."""

    path: str
    offset: int | None
    """None where it is the file as a whole."""

    what: str

    def __str__(self) -> str:
        place = self.path if self.offset is None else f"{self.path} at offset {self.offset}"
        return f"{self.kind}: {place}: {self.what}"


class Contents(NamedTuple):
    """What a virtual host has in it."""

    exchanges: int
    """Those that every virtual host is born with among them."""

    queues: int
    bindings: int
    messages: int


class LogReport(NamedTuple):
    """One virtual host's log."""

    vhost: str
    number: int
    path: str
    checkpoint: int | None
    """Its number; None where there is none."""

    segments: int
    bytes: int
    batches: int
    records: int
    contents: Contents | None
    """None where it is damaged."""


class CheckReport(NamedTuple):
    """All about a data directory."""

    path: str
    format: int | None
    """None where it cannot be told."""

    used_by: str
    """The broker that uses it, for people to read; empty when none does."""

    users: int | None
    """None where they cannot be read, or have never been written."""

    logs: list[LogReport]
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        """Whether a broker would start with it, and have everything that was ever safe."""
        return all(finding.kind != DAMAGED for finding in self.findings)


def check_directory(path: str) -> CheckReport:
    """Read all of a data directory.

    Raises:
        StoreError: it is none, or cannot be read at all.

    """
    with open_view(path) as view:
        return check_view(view)


def check_view(view: DirectoryView) -> CheckReport:
    """The same for one that is open already."""
    findings: list[Finding] = []
    number = _check_format(view, findings)
    node = _check_node(view, findings)
    logs = [_LogCheck(log, findings).run() for log in view.logs]
    if node is not None:
        _check_list(view, node, findings)

    users = None if node is None else len(node.users)
    return CheckReport(view.path, number, view.holder, users, logs, findings)


def _check_format(view: DirectoryView, findings: list[Finding]) -> int | None:
    path = os.path.join(view.path, FORMAT_NAME)
    if view.format is None:
        if not view.logs and view.node is None:
            raise StoreError(f"{view.path} is no data directory of Leveret")

        findings.append(Finding(DAMAGED, path, None, "it is missing"))
        return None

    try:
        check_format(view.path, view.format)
    except StoreError as fault:
        findings.append(Finding(DAMAGED, path, None, str(fault)))
        return None

    return int(view.format.split()[1])


def _check_node(view: DirectoryView, findings: list[Finding]) -> NodeState | None:
    if view.node is None:
        # So it is until the first start is over.
        return None

    try:
        return parse_node_file(view.node_path, view.node)
    except StoreError as fault:
        findings.append(Finding(DAMAGED, view.node_path, None, str(fault)))
        return None


def _check_list(view: DirectoryView, node: NodeState, findings: list[Finding]) -> None:
    """Whether the list of virtual hosts and the directories are of one mind."""
    logs = {log.number: log for log in view.logs}
    for entry in node.vhosts:
        log = logs.get(entry.number)
        if log is None:
            path = os.path.join(view.path, "vhosts", str(entry.number))
            what = f"it is missing, the log of the virtual host '{entry.name}'"
            findings.append(Finding(DAMAGED, path, None, what))
        elif log.name is not None and log.name != entry.name:
            what = f"it says '{log.name}', and node.json says '{entry.name}'"
            findings.append(Finding(DAMAGED, os.path.join(log.path, "name"), None, what))


class _LogCheck:
    """The check of one log.

    Args:
        log: the one.
        findings: take what is found.

    """

    def __init__(self, log: LogView, findings: list[Finding]) -> None:
        self._log = log
        self._findings = findings
        self._is_damaged = False
        self._size = 0
        self._batches = 0
        self._records = 0
        # The number that the next batch of what has to be replayed must have; -1: any.
        self._expected = -1

    def run(self) -> LogReport:
        log = self._log
        if log.name is None:
            self._find(DAMAGED, "name", None, "it is missing: nobody knows whose log this is")

        checkpoint = log.checkpoints[-1] if log.checkpoints else None
        first = 1
        if checkpoint is not None:
            first = checkpoint
            self._check_checkpoint(checkpoint)
        else:
            self._expected = 0

        last = max(log.last, first - 1)
        there = set(log.segments)
        for number in range(first, last + 1):
            if number not in there:
                self._find(DAMAGED, segment_name(number), None, "it is missing")

        for number in log.segments:
            self._check_segment(number, is_due=number >= first)

        contents = None if self._is_damaged else self._recover()
        return LogReport(
            vhost=log.name or "",
            number=log.number,
            path=log.path,
            checkpoint=checkpoint,
            segments=len(log.segments),
            bytes=self._size,
            batches=self._batches,
            records=self._records,
            contents=contents,
        )

    def _find(self, kind: str, name: str, offset: int | None, what: str) -> None:
        if kind == DAMAGED:
            self._is_damaged = True

        self._findings.append(Finding(kind, os.path.join(self._log.path, name), offset, what))

    def _survey(self, name: str, number: int, *, is_checkpoint: bool) -> tuple[bytes, Survey]:
        buffer = self._log.read(name)
        survey = survey_file(buffer, number, is_checkpoint=is_checkpoint)
        self._size += survey.size
        self._batches += len(survey.batches)
        self._records += survey.record_count
        return buffer, survey

    def _check_checkpoint(self, number: int) -> None:
        name = checkpoint_name(number)
        buffer, survey = self._survey(name, number, is_checkpoint=True)
        for gap in survey.gaps:
            self._find(DAMAGED, name, gap.start, _describe(gap))

        self._check_numbers(name, survey, 0)
        if survey.gaps:
            return

        if not survey.has_end:
            self._find(DAMAGED, name, survey.end, "its end is missing")
            return

        self._expected = next_batch_number(buffer, survey)

    def _check_segment(self, number: int, *, is_due: bool) -> None:
        name = segment_name(number)
        _, survey = self._survey(name, number, is_checkpoint=False)
        is_last = number == self._log.last
        may_be_torn = is_last and not survey.is_proven_damaged
        for gap in survey.gaps:
            kind = TORN if may_be_torn else DAMAGED
            self._find(kind, name, gap.start, _describe(gap))
            if may_be_torn:
                # All behind it goes with it, as at a start.
                break

        self._check_numbers(name, survey, self._expected if is_due else -1)
        if is_due and survey.batches:
            self._expected = survey.batches[-1].number + 1

    def _check_numbers(self, name: str, survey: Survey, expected: int) -> None:
        """Batches have numbers one after the other, over all segments that are replayed."""
        if survey.gaps or not survey.batches:
            return

        first = survey.batches[0]
        if expected >= 0 and first.number != expected:
            what = f"batch {first.number} where {expected} is due"
            self._find(DAMAGED, name, first.start, what)

        index = survey.first_misnumbered()
        if index >= 0:
            batch = survey.batches[index]
            due = survey.batches[index - 1].number + 1
            self._find(DAMAGED, name, batch.start, f"batch {batch.number} where {due} is due")

    def _recover(self) -> Contents | None:
        log = self._log
        try:
            return _contents_of(look_into(log, log.name or ""))
        except BrokerError as fault:
            self._findings.append(Finding(DAMAGED, log.path, None, str(fault)))
            return None


def next_batch_number(buffer: bytes, survey: Survey) -> int:
    """What the end of a whole checkpoint says of the batch that comes next."""
    last = survey.batches[-1]
    assert last.flags & FLAG_END
    # The log's own record is the last one; it is found from the front.
    place = last.start
    behind = place
    while behind < last.stop:
        place = behind
        behind = place + 8 + int.from_bytes(buffer[place : place + 4], "little")

    return int(u64_at(buffer, place + META_NUMBER_OFFSET))


def _describe(gap: Gap) -> str:
    return f"{gap.fault}: {gap.stop - gap.start} bytes cannot be read"


def _contents_of(vhost: VirtualHost) -> Contents:
    exchanges = vhost.exchanges.values()
    return Contents(
        exchanges=len(vhost.exchanges),
        queues=len(vhost.queues),
        bindings=sum(len(one.bindings) for one in exchanges),
        messages=sum(map(message_count, vhost.queues.values())) + sum(map(held_count, exchanges)),
    )
