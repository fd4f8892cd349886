"""Whether and when to try again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.errors import InvalidValue
from broker.client.retry import NO_RETRY, Backoff, Exponential, Fixed, Linear, Retry

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        pytest.param(Fixed(3), [3, 3, 3, 3], id="fixed"),
        pytest.param(Fixed(0), [0, 0, 0, 0], id="at-once"),
        pytest.param(Linear(1, step=2, cap=4), [1, 3, 4, 4], id="linear"),
        pytest.param(Exponential(1, cap=5, jitter=0), [1, 2, 4, 5], id="exponential"),
        pytest.param(Exponential(2, factor=3, jitter=0), [2, 6, 18, 54], id="factor"),
    ],
)
def test_a_backoff_waits(backoff: Backoff, waits: list[float]) -> None:
    assert [backoff.wait(failures, 0.5) for failures in range(1, 5)] == waits


@pytest.mark.parametrize(
    ("chance", "wait"),
    [pytest.param(0.0, 9, id="least"), pytest.param(0.5, 10, id="middle")],
)
def test_jitter_spreads_the_wait_both_ways(chance: float, wait: float) -> None:
    assert Fixed(10, jitter=0.1).wait(1, chance) == pytest.approx(wait)


@pytest.mark.parametrize("failures", [1, 7, 50, 5000, 10**9])
@pytest.mark.parametrize(
    "backoff",
    [
        pytest.param(Exponential(1, cap=60, jitter=0.5), id="exponential"),
        pytest.param(Exponential(1, factor=1e300, cap=60), id="overflow"),
        pytest.param(Linear(1, step=1, cap=60, jitter=1), id="linear"),
    ],
)
def test_jitter_and_many_failures_never_exceed_the_cap(backoff: Backoff, failures: int) -> None:
    """dmq's may, and overflows."""
    assert 0 <= backoff.wait(failures, 0.999) <= 60


def test_attempts_count_all_and_retries_those_after_the_first() -> None:
    assert Retry.retries(2, Fixed(1)) == Retry(3, Fixed(1))
    assert [Retry(3, Fixed(1)).next_delay(attempt) for attempt in (1, 2, 3, 4)] == [
        1,
        1,
        None,
        None,
    ]
    assert NO_RETRY.next_delay(1) is None


@pytest.mark.parametrize(
    ("error", "is_tried"),
    [
        pytest.param(OSError(), True, id="listed"),
        pytest.param(ConnectionError(), True, id="of-a-listed-class"),
        pytest.param(FileNotFoundError(), False, id="never"),
        pytest.param(ValueError(), False, id="not-listed"),
        pytest.param(None, True, id="unknown"),
    ],
)
def test_only_some_errors_are_worth_another_attempt(
    error: BaseException | None, is_tried: bool
) -> None:
    retry = Retry(2, Fixed(1), on=(OSError,), never=(FileNotFoundError,))

    assert retry.allows(error) is is_tried
    assert (retry.next_delay(1, error) is not None) is is_tried


def test_the_chance_is_asked_for_each_wait() -> None:
    chances = iter([0.0, 0.5])
    retry = Retry(3, Fixed(10, jitter=0.5))

    assert [retry.next_delay(n, chance=lambda: next(chances)) for n in (1, 2)] == [5, 10]


def test_one_class_may_stand_for_a_tuple_of_one() -> None:
    retry = Retry(on=cast("Any", OSError))

    assert retry.on == (OSError,)


@pytest.mark.parametrize("attempts", [0, -1, True, 1.5, "3"])
def test_attempts_that_make_no_sense_are_refused(attempts: object) -> None:
    with pytest.raises(InvalidValue, match="attempts"):
        Retry(cast("Any", attempts))


@pytest.mark.parametrize("count", [-1, True, 1.5])
def test_retries_that_make_no_sense_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="retries"):
        Retry.retries(count)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Fixed(-1), id="negative"),
        pytest.param(lambda: Fixed(float("nan")), id="not-a-number"),
        pytest.param(lambda: Fixed(float("inf")), id="for-ever"),
        pytest.param(lambda: Fixed(1, jitter=2), id="jitter"),
        pytest.param(lambda: Linear(step=-1), id="step"),
        pytest.param(lambda: Exponential(factor=0.5), id="factor"),
        pytest.param(lambda: Retry(on=cast("Any", ("OSError",))), id="no-class"),
        pytest.param(lambda: Retry(never=cast("Any", (3,))), id="no-class-either"),
    ],
)
def test_policies_that_make_no_sense_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidValue):
        make()
