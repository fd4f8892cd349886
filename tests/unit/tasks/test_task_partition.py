"""Partitions: the same key, the same partition, whoever asks."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from broker.client.errors import InvalidValue
from broker.tasks import Partitions, partition_of, stable_hash


@pytest.mark.parametrize(
    ("key", "number", "partition"),
    [
        pytest.param("order-1", 15458173149529689272, 5, id="text"),
        pytest.param(b"order-1", 9601136576679023304, 2, id="bytes"),
        pytest.param(7, 2898747209538923093, 3, id="number"),
        pytest.param("7", 7279863338899710257, 5, id="digits"),
    ],
)
def test_hashes_are_for_ever(key: str | bytes | int, number: int, partition: int) -> None:
    """Python's own ``hash`` differs in each process; these numbers must never change."""
    assert (stable_hash(key), partition_of(key, 8)) == (number, partition)


def test_another_process_agrees() -> None:
    code = "from broker.tasks.partition import partition_of; print(partition_of('order-1', 8))"
    answer = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert int(answer.stdout) == partition_of("order-1", 8)


def test_keys_are_spread_evenly() -> None:
    counts = Counter(partition_of(f"key {number}", 8) for number in range(8000))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_one_partition_more_moves_few_keys() -> None:
    keys = [f"key {number}" for number in range(2000)]
    moved = [key for key in keys if partition_of(key, 8) != partition_of(key, 9)]
    assert len(moved) / len(keys) < 0.15
    assert all(partition_of(key, 9) == 8 for key in moved)


def test_a_function_of_the_arguments_says_the_key() -> None:
    parts = Partitions(8, by=lambda order, amount=0: order)
    wanted = f"orders.{partition_of('a', 8)}"
    assert parts.queue_for("orders", ("a",), {"amount": 3}) == wanted
    assert parts.queue_for("orders", (), {"order": "a"}) == wanted


def test_without_a_key_they_go_round() -> None:
    parts = Partitions(3)
    assert [parts.queue_for("q", (), {}) for _ in range(4)] == ["q.0", "q.1", "q.2", "q.0"]


@pytest.mark.parametrize("count", [0, -1, 1025, True])
def test_a_number_of_partitions_has_bounds(count: int) -> None:
    with pytest.raises(InvalidValue, match="1 to 1024"):
        Partitions(count)


def test_a_key_is_of_few_types() -> None:
    with pytest.raises(InvalidValue, match="key of a partition"):
        Partitions(2, by=lambda: 1.5).queue_for("q", (), {})
