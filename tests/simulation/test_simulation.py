"""The whole broker under clients that do what they like, seed by seed.

``SEED=17`` runs one again; ``SEEDS=5000`` runs more of them than usual.
"""

from __future__ import annotations

import gc
import os
from collections import Counter

import pytest

from broker.core.consumer import Consumer, Deliveries
from broker.core.message import Message
from broker.core.output import Output
from broker.core.queue.queue import Queue
from broker.protocol.channel import Channel
from broker.protocol.connection import Connection
from tests.simulation.simulation import Simulation

SEEDS_USUAL = 200


def seeds() -> list[int]:
    chosen = os.environ.get("SEED")
    return [int(chosen)] if chosen else list(range(int(os.environ.get("SEEDS", SEEDS_USUAL))))


@pytest.mark.parametrize("seed", seeds())
def test_nothing_is_lost_doubled_or_left_behind(seed: int) -> None:
    """The invariants of ledger.py, witness.py and check_queue hold to the end."""
    try:
        Simulation(seed).run()
    except AssertionError as error:
        error.add_note(f"SEED={seed} runs this again")
        raise


def live_objects() -> Counter[str]:
    gc.collect()
    kinds = (Channel, Connection, Consumer, Deliveries, Message, Output, Queue)
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, kinds))


@pytest.mark.parametrize("seed", [1_001, 1_002, 1_003])
def test_memory_returns_when_all_clients_are_gone(seed: int) -> None:
    before = live_objects()
    simulation = Simulation(seed)
    simulation.run()
    left = live_objects() - before
    queues = simulation.world.vhost.queues.values()
    assert left.pop("Message", 0) == sum(queue.ready_count for queue in queues)
    assert left.pop("Queue") == len(queues)
    assert not left

    del simulation, queues
    assert not live_objects() - before
