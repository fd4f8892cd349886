"""A trial: a broker is put under load and ended in some way, started again on its directory, and so
on; then everything is taken out and has to be what the clients know of."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final

from tests.crash.evidence import Evidence
from tests.crash.load import UNREAD, Load, declare, drain
from tests.crash.process import BrokerProcess, write_configuration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ENDS", "Trial"]


def kill(broker: BrokerProcess, _random: Random) -> bool:
    broker.kill()
    return False


def pause_and_kill(broker: BrokerProcess, random: Random) -> bool:
    """Killed while it stands still, and clients still write to it."""
    broker.send(signal.SIGSTOP)
    time.sleep(random.uniform(0, 0.1))
    broker.kill()
    return False


def pause_resume_and_kill(broker: BrokerProcess, random: Random) -> bool:
    """It stood still for a while, and is killed in the rush afterwards."""
    broker.send(signal.SIGSTOP)
    time.sleep(random.uniform(0, 0.2))
    broker.send(signal.SIGCONT)
    time.sleep(random.uniform(0, 0.05))
    broker.kill()
    return False


def stop(broker: BrokerProcess, _random: Random) -> bool:
    assert broker.stop(signal.SIGTERM) == 0, broker.records[-5:]
    return True


def stop_twice(broker: BrokerProcess, random: Random) -> bool:
    broker.send(signal.SIGTERM)
    time.sleep(random.uniform(0, 0.05))
    assert broker.stop(signal.SIGTERM) in (0, -signal.SIGTERM), broker.records[-5:]
    return bool(broker.events("server.stopped"))


def stop_and_kill(broker: BrokerProcess, random: Random) -> bool:
    """Killed while it stops."""
    broker.send(signal.SIGTERM)
    time.sleep(random.uniform(0, 0.1))
    broker.kill()
    return bool(broker.events("server.stopped"))


ENDS: Final[dict[str, Callable[[BrokerProcess, Random], bool]]] = {
    "kill": kill,
    "pause-kill": pause_and_kill,
    "pause-resume-kill": pause_resume_and_kill,
    "stop": stop,
    "stop-twice": stop_twice,
    "stop-kill": stop_and_kill,
}
"""Ways to end a broker; each says whether that was certainly a clean end."""


class Trial:
    """Rounds of one broker's life.

    Args:
        directory: an empty one.
        seed: decides everything but when things happen.
        body_bytes_max: of most messages; larger ones make checkpoints more frequent.

    """

    def __init__(self, directory: Path, seed: int, *, body_bytes_max: int = 2_000) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._config = write_configuration(directory / "broker.yaml")
        self._random = Random(seed)
        self._body_bytes_max = body_bytes_max
        self._round = 0
        self._is_clean = False
        self.evidence = Evidence(set(UNREAD))

    async def round(self, end: str, *, seconds: float, kills_at_start: int = 0) -> None:
        """One life of the broker.

        Args:
            end: one of ENDS.
            seconds: of load.
            kills_at_start: starts that are not let come to their end, before.

        """
        for _ in range(kills_at_start):
            self._kill_at_start()

        broker = await asyncio.to_thread(self._start)
        try:
            port = broker.wait_started()
            await declare(port)
            self.evidence.run = self._round
            load = Load(self.evidence, self._random, self._round, self._body_bytes_max)
            self._round += 1
            working = asyncio.create_task(load.run(port))
            await asyncio.wait([working], timeout=seconds)
            if working.done():
                working.result()
                raise AssertionError(f"all clients were cut off: {broker.records[-5:]}")

            self._is_clean = await asyncio.to_thread(ENDS[end], broker, self._random)
            if not self._is_clean:
                self.evidence.era += 1

            await asyncio.wait_for(working, 10)
            self._check_farewells(load, end)
        finally:
            broker.process.kill()

    def _check_farewells(self, load: Load, end: str) -> None:
        said = {session.end.result() for session in load.sessions if session.end.done()}
        allowed = (
            {""}
            if "stop" not in end
            else {
                "",
                "320 CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
            }
        )
        assert said <= allowed, said

    def _start(self) -> BrokerProcess:
        broker = BrokerProcess(self._config, self._data)
        broker.wait_started()
        if self._round:
            recovered = broker.events("store.recovered")
            assert recovered, broker.records
            assert recovered[0]["clean"] or not self._is_clean, recovered

        return broker

    def _kill_at_start(self) -> None:
        broker = BrokerProcess(self._config, self._data)
        time.sleep(self._random.uniform(0, 0.5))
        broker.kill()
        self.evidence.era += 1
        self._is_clean = False

    def move_directory(self) -> None:
        """As when somebody moves a stopped broker's data elsewhere."""
        path = self._directory / f"moved-{self._round}"
        os.rename(self._data, path)
        self._data = path

    async def finish(self) -> None:
        """Start once more, take everything out, and check it."""
        broker = await asyncio.to_thread(self._start)
        try:
            port = broker.wait_started()
            self.evidence.run = self._round
            await declare(port)
            await drain(port, self.evidence)
            assert await asyncio.to_thread(broker.stop) == 0
            self.evidence.check()
        finally:
            broker.process.kill()

    def summary(self) -> str:
        """What was done, for people."""
        evidence = self.evidence
        return (
            f"{self._round} rounds, {len(evidence.publications)} published,"
            f" {evidence.confirmed_count} confirmed, {evidence.delivery_count} deliveries"
        )


def say(text: str) -> None:
    """A line for whoever watches a long trial."""
    sys.stderr.write(f"{text}\n")
