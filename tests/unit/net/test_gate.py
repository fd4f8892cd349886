"""The way in for clients: shut, opened, and what is done in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.embedded import Broker
from broker.net.gate import RUNNING, STOPPED, SUSPENDED, Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def gate_of(broker: Broker) -> Gate:
    return broker._running.gate


async def can_connect(broker: Broker, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(broker.host, port)
    except ConnectionRefusedError:
        return False

    writer.close()
    await writer.wait_closed()
    return True


@pytest.mark.parametrize(
    ("acts", "state"),
    [
        pytest.param([Gate.suspend], SUSPENDED, id="suspend"),
        pytest.param([Gate.suspend, Gate.suspend], SUSPENDED, id="suspend-twice"),
        pytest.param([Gate.suspend, Gate.resume], RUNNING, id="resume"),
        pytest.param([Gate.resume], RUNNING, id="resume-for-nothing"),
        pytest.param([Gate.stop], STOPPED, id="stop"),
        pytest.param([Gate.stop, Gate.resume], STOPPED, id="stopped-is-not-resumed"),
        pytest.param([Gate.stop, Gate.suspend], STOPPED, id="stopped-is-not-suspended"),
        pytest.param([Gate.suspend, Gate.stop], STOPPED, id="suspended-is-stopped"),
        pytest.param([Gate.stop, Gate.stop, Gate.start], RUNNING, id="start"),
        pytest.param([Gate.suspend, Gate.start, Gate.start], RUNNING, id="start-resumes"),
    ],
)
async def test_clients_come_in_when_it_says_so(
    acts: list[Callable[[Gate], Awaitable[None]]], state: str
) -> None:
    async with Broker() as broker:
        port = broker.port
        gate = gate_of(broker)
        for act in acts:
            await act(gate)

        assert gate.state == state
        assert gate.is_accepting == (state == RUNNING)
        assert await can_connect(broker, port) == (state == RUNNING)
        # Where it was, also for those who ask.
        assert broker.port == port


async def test_one_thing_is_done_after_the_other() -> None:
    async with Broker() as broker:
        gate = gate_of(broker)
        port = broker.port
        await asyncio.gather(gate.stop(), gate.start(), gate.suspend(), gate.resume())
        assert gate.state == RUNNING
        assert await can_connect(broker, port)


async def test_a_broker_stops_whatever_its_gate_is() -> None:
    for act in (Gate.stop, Gate.suspend):
        async with Broker() as broker:
            await act(gate_of(broker))
