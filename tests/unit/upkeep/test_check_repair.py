"""Damage is found where it is, and what can be read is kept: the directory starts again."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from broker.core.durable import MESSAGE
from broker.errors import StoreError
from broker.store.records import record_end
from broker.store.survey import Survey, survey_file
from broker.upkeep.check import DAMAGED, TORN, CheckReport, check_directory
from broker.upkeep.repair import RepairReport, repair_directory
from broker.upkeep.stats import directory_stats
from tests.helpers.directories import DirectoryWorld, add_people, exported, fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 40


def make(path: Path, *, is_clean: bool = False) -> None:
    """A directory with a checkpoint in the middle, messages on both sides, and settlements."""
    world = DirectoryWorld(path, segment_bytes=8 * 1024)
    client = fill(world, COUNT // 2)
    add_people(world)
    world.directory.save_people()
    world.checkpoint()
    for number in range(COUNT):
        for queue in ("plain", "ranked", "quorum"):
            client.publish(queue, b"later %d" % number * 10, delivery_mode=2)

        world.settle()

    for tag in range(1, 6):
        client.get(world.queue("plain"))
        client.ack(tag)
        world.settle()

    if is_clean:
        world.stop()
    else:
        world.abandon()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a directory; copied, never changed."""
    path = tmp_path_factory.mktemp("kept") / "data"
    make(path)
    return path


@pytest.fixture
def data(tmp_path: Path, kept: Path) -> Path:
    """A copy of it, to be damaged."""
    path = tmp_path / "data"
    shutil.copytree(kept, path)
    return path


def log_files(data: Path, suffix: str) -> list[Path]:
    return sorted((data / "vhosts" / "1").glob(f"*{suffix}"))


def survey(path: Path) -> Survey:
    is_checkpoint = path.suffix == ".checkpoint"
    return survey_file(path.read_bytes(), int(path.stem), is_checkpoint=is_checkpoint)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)


def bodies(lines: list[str]) -> Counter[tuple[str, str]]:
    """Where which message is, and how often."""
    messages = [json.loads(line).get("message") for line in lines]
    return Counter(
        (one.get("queue") or one["delayed_by"], one["body_base64"]) for one in messages if one
    )


def damages(report: CheckReport) -> list[tuple[str, int | None]]:
    return [
        (os.path.basename(one.path), one.offset) for one in report.findings if one.kind == DAMAGED
    ]


def repaired(data: Path) -> RepairReport:
    report = repair_directory(str(data))
    assert report.after.is_sound, report.after.findings
    assert not report.after.findings
    again = DirectoryWorld(data)
    again.stop()
    return report


# -- check


def test_sound_directory_is_told_as_such(data: Path) -> None:
    report = check_directory(str(data))
    assert report.is_sound
    assert report.findings == []
    assert [log.vhost for log in report.logs] == ["/", "other"]
    contents = report.logs[0].contents
    assert contents is not None
    assert contents.messages == sum(bodies(exported(data)).values())
    assert contents.queues == 7


def test_check_changes_nothing(data: Path) -> None:
    before = {one: one.read_bytes() for one in data.rglob("*") if one.is_file()}
    check_directory(str(data))
    assert {one: one.read_bytes() for one in data.rglob("*") if one.is_file()} == before


def test_directory_in_use_is_checked_and_told_as_such(data: Path) -> None:
    world = DirectoryWorld(data)
    report = check_directory(str(data))
    world.abandon()
    assert report.is_sound
    assert report.used_by.startswith(f"process {os.getpid()} ")


def test_place_without_a_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no data directory of Leveret"):
        check_directory(str(tmp_path))

    with pytest.raises(StoreError, match="no such file or directory"):
        check_directory(str(tmp_path / "nowhere"))


def test_torn_tail_is_told_and_harmless(data: Path) -> None:
    last = log_files(data, ".log")[-1]
    batch = survey(last).batches[-1]
    raw = last.read_bytes()
    last.write_bytes(raw[: batch.stop - 3])
    report = check_directory(str(data))
    assert report.is_sound
    [finding] = report.findings
    assert (finding.kind, finding.offset) == (TORN, batch.start - 32)


@pytest.mark.parametrize("which", ["first", "middle"])
def test_damaged_batch_is_named_with_its_offset(data: Path, which: str) -> None:
    files = log_files(data, ".log")
    path = files[0] if which == "first" else files[len(files) // 2]
    batch = survey(path).batches[0]
    flip(path, batch.start + 5)
    report = check_directory(str(data))
    assert not report.is_sound
    assert (path.name, batch.start - 32) in damages(report)


def _remove_segment(data: Path) -> str:
    path = log_files(data, ".log")[-2]
    path.unlink()
    return path.name


def _remove_name(data: Path) -> str:
    (data / "vhosts" / "1" / "name").unlink()
    return "name"


def _damage_node_file(data: Path) -> str:
    flip(data / "node.json", 60)
    return "node.json"


def _remove_vhost(data: Path) -> str:
    shutil.rmtree(data / "vhosts" / "2")
    return "2"


def _damage_format(data: Path) -> str:
    (data / "format").write_text("hare\n")
    return "format"


def _damage_checkpoint(data: Path) -> str:
    path = log_files(data, ".checkpoint")[-1]
    flip(path, path.stat().st_size // 2)
    return path.name


def _damage_header(data: Path) -> str:
    path = log_files(data, ".log")[-1]
    flip(path, 17)
    return path.name


def _swap_segments(data: Path) -> str:
    first, second = log_files(data, ".log")[-3:-1]
    raw = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(raw)
    return first.name


DAMAGE = [
    pytest.param(_remove_segment, id="segment-missing"),
    pytest.param(_remove_name, id="name-missing"),
    pytest.param(_damage_node_file, id="node-file"),
    pytest.param(_remove_vhost, id="vhost-missing"),
    pytest.param(_damage_format, id="format"),
    pytest.param(_damage_checkpoint, id="checkpoint"),
    pytest.param(_damage_header, id="header"),
    pytest.param(_swap_segments, id="segments-swapped"),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_kind_of_damage_is_found(data: Path, damage: Callable[[Path], str]) -> None:
    name = damage(data)
    assert name in [found for found, _ in damages(check_directory(str(data)))]


# -- repair


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_kind_of_damage_is_mended(data: Path, damage: Callable[[Path], str]) -> None:
    damage(data)
    report = repaired(data)
    assert report.lines
    assert check_directory(str(data)).is_sound


def test_sound_directory_is_left_alone(data: Path) -> None:
    report = repair_directory(str(data))
    assert report.before.findings == []
    assert report.backup == ""
    assert list(data.parent.iterdir()) == [data]


def test_directory_in_use_is_not_mended(data: Path) -> None:
    world = DirectoryWorld(data)
    with pytest.raises(StoreError, match="is in use by process"):
        repair_directory(str(data))

    world.abandon()


def test_backup_is_what_was_there(data: Path) -> None:
    _remove_segment(data)
    before = {
        one.relative_to(data): one.read_bytes()
        for one in data.rglob("*")
        if one.is_file() and one.name != "lock"
    }
    backup = data.parent / os.path.basename(repaired(data).backup)
    after = {
        one.relative_to(backup): one.read_bytes() for one in backup.rglob("*") if one.is_file()
    }
    assert after == before


def test_damaged_batch_costs_itself_alone(data: Path) -> None:
    whole = bodies(exported(data))
    path = log_files(data, ".log")[-2]
    batches = survey(path).batches
    batch = batches[len(batches) // 2]
    flip(path, batch.start + 9)
    report = repaired(data)
    left = bodies(exported(data))
    # One round of three messages is lost, or a settlement, whose message is back then.
    assert sum((whole - left).values()) <= 3
    assert sum((left - whole).values()) <= 1
    assert any(f"batch {batch.number} " in line and str(path) in line for line in report.lines)


def test_old_messages_that_are_lost_are_counted(data: Path) -> None:
    whole = bodies(exported(data))
    path = log_files(data, ".log")[0]
    data_batches = [one for one in survey(path).batches if one.stop - one.start > 1_000]
    flip(path, data_batches[-1].start + 500)
    report = repaired(data)
    lost = sum((whole - bodies(exported(data))).values())
    told = [int(line.split()[1]) for line in report.lines if " messages of '" in line]
    assert lost == sum(told) > 0
    assert not bodies(exported(data)) - whole


@pytest.mark.parametrize("at", [0, 10, -1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_message_comes_to_another_queue_when_bytes_are_gone(
    tmp_path: Path, at: int, count: int
) -> None:
    """All that lies behind has moved up: where a message was there is another one."""
    data = tmp_path / "data"
    world = DirectoryWorld(data)
    client = world.client()
    for queue in "ab":
        client.declare(queue, durable=True)

    for number in range(COUNT):
        client.publish("ab"[number % 2], b"hare %02d" % number, delivery_mode=2)
        world.settle()

    world.checkpoint()
    world.abandon()
    whole = bodies(exported(data))
    path = log_files(data, ".log")[0]
    raw = path.read_bytes()
    found = [one for one in survey(path).batches if b"hare" in raw[one.start : one.stop]]
    first = found[at if at >= 0 else len(found) - count]
    size = (found[1].start - found[0].start) * count
    path.write_bytes(raw[: first.start] + raw[first.start + size :])
    report = repaired(data)
    assert not bodies(exported(data)) - whole
    told = [int(line.split()[1]) for line in report.lines if " messages of '" in line]
    assert sum((whole - bodies(exported(data))).values()) == sum(told)


def test_lost_checkpoint_is_made_again_from_all_segments(tmp_path: Path) -> None:
    data = tmp_path / "data"
    world = DirectoryWorld(data)
    fill(world)
    world.checkpoint()
    world.abandon()
    whole = exported(data)
    for path in log_files(data, ".checkpoint"):
        flip(path, 40)

    repaired(data)
    assert [line for line in exported(data) if '"queue":{' in line] == [
        line for line in whole if '"queue":{' in line
    ]
    assert bodies(exported(data)) == bodies(whole)


def test_lost_checkpoint_costs_no_message_that_was_moved(tmp_path: Path) -> None:
    """Old segments are gone, their last messages written again, and declarations with them."""
    data = tmp_path / "data"
    world = DirectoryWorld(data, segment_bytes=1_024)
    client = world.client()
    queue = client.declare("q", durable=True)
    for number in range(60):
        client.publish("q", b"hare %d " % number * 10, delivery_mode=2)
        world.settle()

    world.checkpoint()
    for tag in range(1, 61):
        client.get(queue)
        if tag % 20:
            client.ack(tag)

    client.requeue(20, 40, 60)
    journal = world.vhost.journal
    assert journal is not None
    for _ in range(5):
        world.settle()
        journal.books.look_after()

    world.settle()
    world.checkpoint()
    world.settle()
    world.abandon()
    assert not (data / "vhosts" / "1" / "00000001.log").exists()
    whole = bodies(exported(data))
    assert sum(whole.values()) == 3
    flip(log_files(data, ".checkpoint")[-1], 70)
    report = repaired(data)
    assert not bodies(exported(data)).keys() ^ whole.keys()
    assert any("the checkpoint that knew was lost" in line for line in report.lines)


def test_queue_whose_declaration_is_lost_comes_back_plain(tmp_path: Path) -> None:
    data = tmp_path / "data"
    world = DirectoryWorld(data)
    client = world.client()
    client.declare("lost", durable=True)
    world.settle()
    for number in range(5):
        client.publish("lost", b"hare %d" % number, delivery_mode=2)
        world.settle()

    world.abandon()
    [path] = log_files(data, ".log")
    declared = path.read_bytes().find(b"lost")
    flip(path, declared)
    report = repaired(data)
    assert any("the declaration of queue 'lost' was lost" in line for line in report.lines)
    assert sum(bodies(exported(data)).values()) == 5


def test_stream_keeps_the_offsets_behind_a_loss(tmp_path: Path) -> None:
    data = tmp_path / "data"
    world = DirectoryWorld(data, segment_bytes=1_024)
    client = world.client()
    client.declare("s", durable=True, x_queue_type="stream")
    for number in range(40):
        client.publish("s", b"entry %d" % number, delivery_mode=2)
        world.settle()

    world.checkpoint()
    world.abandon()
    before = [json.loads(line)["message"] for line in exported(data) if "offset" in line]
    path = log_files(data, ".log")[3]
    flip(path, survey(path).batches[0].start + 20)
    repaired(data)
    after = [json.loads(line)["message"] for line in exported(data) if "offset" in line]
    lost = len(before) - len(after)
    assert lost == 1
    assert after[-1]["offset"] == 39
    offsets = {one["body_base64"]: one["offset"] for one in before}
    shifts = [one["offset"] - offsets[one["body_base64"]] for one in after]
    assert sorted(shifts, reverse=True) == shifts
    assert set(shifts) == {0, 1}


def damage_at_random(data: Path, chance: random.Random) -> None:
    """Flip some bits, or empty some bytes, anywhere in the log."""
    files = log_files(data, ".log") + log_files(data, ".checkpoint")
    for _ in range(chance.choice([1, 1, 2, 5])):
        path = chance.choice(files)
        raw = path.read_bytes()
        used = len(raw.rstrip(b"\0"))
        if chance.random() < 0.2:
            start = chance.randrange(used)
            size = min(chance.randrange(3_000), len(raw) - start)
            path.write_bytes(raw[:start] + bytes(size) + raw[start + size :])
        else:
            flip(path, chance.randrange(used))


def whole_messages(data: Path) -> set[bytes]:
    """The bytes of all messages in whole batches, each with its holders."""
    found: set[bytes] = set()
    for path in log_files(data, ".log"):
        raw = path.read_bytes()
        for batch in survey(path).batches:
            place = batch.start
            while place < batch.stop:
                behind = record_end(raw, place)
                if raw[place + 8] == MESSAGE:
                    found.add(raw[place + 8 : behind])

                place = behind

    return found


def starts(data: Path) -> bool:
    try:
        DirectoryWorld(data).abandon()
    except StoreError:
        return False

    return True


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_damaged_all_that_is_whole_is_kept(
    tmp_path: Path, data: Path, seed: int
) -> None:
    whole = bodies(exported(data))
    messages = whole_messages(data)
    damage_at_random(data, random.Random(seed))
    shutil.copytree(data, tmp_path / "other")
    lost = list(messages - whole_messages(data))
    report = repair_directory(str(data))
    # The check finds what keeps a broker from its start, and nothing else.
    assert report.before.is_sound == starts(tmp_path / "other")
    assert report.after.is_sound, (report.lines, report.after.findings)
    left = bodies(exported(data))
    for body, count in (by_body(whole) - by_body(left)).items():
        raw = base64.b64decode(body)
        # The fourth octet of a record says in how many queues the message is.
        gone = sum(message[3] for message in lost if raw in message)
        assert gone >= count, (body, report.lines)

    # What comes back was there once: five messages were acknowledged, and "full" drops its own.
    for queue, _ in left - whole:
        known = queue in ("plain", "full", "graves") or queue.startswith("leveret.recovered.")
        assert known or any(f"'{queue}' was lost" in line for line in report.lines)


def by_body(found: Counter[tuple[str, str]]) -> Counter[str]:
    """The same wherever they are: a queue whose declaration is lost may have another name."""
    return Counter(body for _, body in found.elements())


# -- stats


def test_stats_count_what_is_there(data: Path) -> None:
    stats = directory_stats(str(data), 1e10)
    log = stats.logs[0]
    counts = Counter(queue for queue, _ in bodies(exported(data)).elements())
    assert {one.name: one.messages for one in log.queues} == dict(counts)
    assert sum(one.live_messages for one in log.segments) == sum(counts.values())
    assert 0 < log.live_bytes < log.bytes
    assert 0 < log.dead_share < 1
    assert log.checkpoint_age_s is not None
