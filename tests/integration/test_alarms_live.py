"""Limits of alarms can be given anew while the broker runs, and what is blocked goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import aiohttp
import pytest

from broker.config.schema import (
    AlarmsConfig,
    DescriptorAlarmConfig,
    DiskAlarmConfig,
    MemoryAlarmConfig,
)
from broker.embedded import Broker
from broker.net.descriptors import DescriptorWatch, descriptors_max, open_descriptors

if TYPE_CHECKING:
    from pathlib import Path

TINY = MemoryAlarmConfig(limit_fraction=1e-9)
HUGE_DISK = DiskAlarmConfig(free_bytes_min=2**60)
FEW_DESCRIPTORS = DescriptorAlarmConfig(limit_fraction=1e-9)


@pytest.mark.parametrize(
    ("alarms", "name"),
    [
        pytest.param(AlarmsConfig(memory=TINY), "memory", id="memory"),
        pytest.param(AlarmsConfig(disk=HUGE_DISK), "disk", id="disk"),
    ],
)
async def test_an_alarm_comes_and_goes_with_its_limit(
    tmp_path: Path, alarms: AlarmsConfig, name: str
) -> None:
    async with Broker({"storage": {"data_dir": str(tmp_path)}}) as broker:
        app = broker._running
        assert list(app.node.alarms) == []
        app.set_alarms(alarms)
        assert list(app.node.alarms) == [name]
        app.set_alarms(alarms._replace(descriptors=DescriptorAlarmConfig(None)))
        assert list(app.node.alarms) == [name], "an alarm that holds on is not raised twice"
        app.set_alarms(AlarmsConfig())
        assert list(app.node.alarms) == []
        app.set_alarms(alarms)
        off = AlarmsConfig(MemoryAlarmConfig(None), DiskAlarmConfig(None))
        app.set_alarms(off)
        assert list(app.node.alarms) == []


@pytest.mark.skipif(open_descriptors() is None, reason="this system does not tell")
async def test_the_alarm_of_file_descriptors_is_seen_and_holds_nobody_back() -> None:
    async with Broker({"metrics": {"prometheus": {"enabled": True}}}) as broker:
        app = broker._running
        app.set_alarms(AlarmsConfig(descriptors=FEW_DESCRIPTORS))
        assert list(app.node.quiet_alarms) == ["descriptors"]
        assert list(app.node.alarms) == []
        url = f"{broker.metrics_url}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()

        assert "rabbitmq_alarms_file_descriptor_limit 1\n" in text
        app.set_alarms(AlarmsConfig())
        assert list(app.node.quiet_alarms) == []


@pytest.mark.skipif(open_descriptors() is None, reason="this system does not tell")
async def test_descriptors_are_counted() -> None:
    before = open_descriptors()
    reading, writing = os.pipe()
    after = open_descriptors()
    os.close(reading)
    os.close(writing)
    assert before is not None
    assert after == before + 2
    maximum = descriptors_max()
    assert maximum is None or maximum > after


async def test_a_watch_of_descriptors_tells_when_the_limit_is_crossed() -> None:
    told: list[bool] = []
    counts: list[int | None] = [4, 5, 9, None, 4, 3]
    async with Broker() as broker:
        watch = DescriptorWatch(broker._running.pump, told.append, 5, lambda: counts.pop(0))
        for _ in range(6):
            watch.check()

        watch.stop()

    assert told == [True, False]
