"""Snapshots of a broker at work: every one of them starts, and has what was confirmed before it.

Publishers with confirms and acknowledging consumers keep the log growing, new segments coming and
old ones going, while one snapshot after the other is taken, checked, and started.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from broker.embedded import Broker
from broker.errors import StoreError
from broker.store.directory import DataDirectory
from broker.store.snapshot import take_snapshot
from broker.upkeep.check import check_directory
from broker.upkeep.export import export_lines
from broker.upkeep.messages import queue_messages
from broker.upkeep.offline import OpenDirectory
from broker.upkeep.stats import directory_stats
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

SNAPSHOTS = 25
BODY = b"." * 4_000
KEPT = {"delivery_mode": 2}


class Load:
    """One publisher and one consumer of a queue of their own.

    Attributes:
        confirmed: how many messages have been confirmed, from the first on.
        acked: how many of them have been acknowledged, or will be at once.

    """

    def __init__(self, url: str, queue: str, *, lag: int, count: int | None = None) -> None:
        self._count = count
        self._url = url
        self.queue = queue
        self._lag = lag
        self.confirmed = 0
        self.acked = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._count is None:
            self._is_over.set()

        self._thread.join()

    def _run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(self.queue, durable=True)
        properties = pika.BasicProperties(**KEPT)
        while not self._is_over.is_set() and self.confirmed != self._count:
            body = b"%d " % self.confirmed + BODY
            channel.basic_publish("", self.queue, body, properties, mandatory=True)
            self.confirmed += 1
            if self.confirmed - self.acked > self._lag:
                self._acknowledge(channel)

        connection.close()

    def _acknowledge(self, channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        method, _, body = channel.basic_get(self.queue)
        assert int(body.split()[0]) == self.acked
        self.acked += 1
        channel.basic_ack(method.delivery_tag)


def numbers_in(path: Path, queue: str) -> list[int]:
    """Start with a directory, and read what is in a queue."""
    with OpenDirectory(str(path)) as directory:
        found = directory.node.vhosts["/"].queues.get(queue)
        messages = [] if found is None else list(queue_messages(found))
        return [_number_of(message.content) for message in messages]


def _number_of(content: bytes) -> int:
    header = 8 + int.from_bytes(content[3:7], "big")
    return int(content[header + 7 :].split(b" ")[0])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_every_snapshot_under_load_starts_with_what_was_confirmed(
    tmp_path: Path, data: Path
) -> None:
    config = {"version": 1, "storage": {"data_dir": str(data), "segment_size": "64KiB"}}
    with (
        Broker.in_thread(config) as broker,
        Load(broker.url, "short", lag=20) as short,
        Load(broker.url, "long", lag=1_000) as long,
    ):
        for number in range(SNAPSHOTS):
            before = {load: (load.confirmed, load.acked) for load in (short, long)}
            path = tmp_path / f"snapshot-{number}"
            take_snapshot(str(data), str(path))
            report = check_directory(str(path))
            assert report.is_sound, report.findings
            assert not report.findings
            for load in (short, long):
                confirmed = before[load][0]
                found = numbers_in(path, load.queue)
                # In order, with nothing left out from the first that was not acknowledged yet.
                assert found == list(range(found[0], found[-1] + 1)) if found else confirmed == 0
                if confirmed:
                    assert found[-1] >= confirmed - 1
                    assert found[0] <= load.acked

        assert short.confirmed > SNAPSHOTS
        assert directory_stats(str(data), 0.0).used_by


def test_directory_in_use_is_checked_while_it_is_written(data: Path) -> None:
    config = {"version": 1, "storage": {"data_dir": str(data), "segment_size": "64KiB"}}
    with Broker.in_thread(config) as broker, Load(broker.url, "q", lag=50):
        for _ in range(SNAPSHOTS):
            report = check_directory(str(data))
            assert report.is_sound, report.findings
            assert report.used_by
            for log in report.logs:
                assert log.contents is not None

        with pytest.raises(StoreError, match="is in use by process"):
            list(export_lines(str(data)))


def test_snapshot_of_a_stopped_broker_is_the_same_state(tmp_path: Path, data: Path) -> None:
    config = {"version": 1, "storage": {"data_dir": str(data)}}
    with Broker.in_thread(config) as broker:
        load = Load(broker.url, "q", lag=30, count=60)
        with load:
            pass

    copy = tmp_path / "copy"
    taken = take_snapshot(str(data), str(copy))
    assert taken.cut_bytes == 0
    assert list(export_lines(str(copy))) == list(export_lines(str(data)))
    with Broker.in_thread({"version": 1, "storage": {"data_dir": str(copy)}}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        count = channel.queue_declare("q", passive=True).method.message_count
        connection.close()

    assert count == load.confirmed - load.acked


def test_snapshot_leaves_what_is_in_its_way(tmp_path: Path, data: Path) -> None:
    DataDirectory(str(data)).close()
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    with pytest.raises(StoreError, match="is there and not empty"):
        take_snapshot(str(data), str(target))

    assert [one.name for one in target.iterdir()] == ["file"]


def test_snapshot_that_fails_takes_back_what_it_wrote(tmp_path: Path, data: Path) -> None:
    directory = DataDirectory(str(data))
    directory.make_vhost(1, "/")
    directory.close()
    (data / "vhosts" / "1" / "name").unlink()
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(StoreError, match="name is missing"):
        take_snapshot(str(data), str(target))

    assert list(target.iterdir()) == []
