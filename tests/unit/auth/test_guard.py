"""Failed logins: counted by address and by user, and forgotten after a while."""

from __future__ import annotations

import pytest

from broker.auth import guard as module
from broker.auth.guard import LoginGuard, network_of

AFAR = "192.0.2.7"


def failed(guard: LoginGuard, source: str, user: str, times: int, now_ms: int = 0) -> None:
    for _ in range(times):
        assert guard.refusal(source, user, now_ms) == ""
        guard.failed(source, user, now_ms)


def test_an_address_is_held_back_that_failed_too_often_and_no_other() -> None:
    guard = LoginGuard(per_source_max=5, period_ms=60_000)
    failed(guard, AFAR, "a", 2)
    failed(guard, AFAR, "b", 3)
    assert "from this address" in guard.refusal(AFAR, "c", 0)
    assert guard.refusal("192.0.2.8", "c", 0) == ""
    assert guard.refusal("127.0.0.1", "c", 0) == ""


def test_failures_leak_away_one_by_one() -> None:
    guard = LoginGuard(per_source_max=6, period_ms=60_000)
    failed(guard, AFAR, "a", 6)
    assert guard.refusal(AFAR, "a", 9_999)
    failed(guard, AFAR, "a", 1, 10_000)
    assert guard.refusal(AFAR, "a", 10_001)
    failed(guard, AFAR, "a", 6, 70_000)


def test_a_user_is_held_back_from_wherever_but_where_it_came_in_before() -> None:
    guard = LoginGuard(per_user_max=3)
    guard.succeeded("192.0.2.99", "ann")
    for place in range(3):
        failed(guard, f"192.0.2.{place}", "ann", 1)

    assert "of this user" in guard.refusal("192.0.2.50", "ann", 0)
    assert guard.refusal("192.0.2.50", "bob", 0) == ""
    assert guard.refusal("192.0.2.99", "ann", 0) == "", "she is not locked out of her own desk"
    failed(guard, "192.0.2.99", "ann", 20)


def test_who_came_in_can_try_the_passwords_of_others_no_longer_than_anybody() -> None:
    """A login of one's own does not empty the bucket of the address."""
    guard = LoginGuard(per_source_max=3)
    for _ in range(3):
        failed(guard, AFAR, "ann", 1)
        guard.succeeded(AFAR, "mallory")

    assert guard.refusal(AFAR, "ann", 0)


def test_this_machine_is_held_back_neither_by_address_nor_in_time() -> None:
    guard = LoginGuard(per_source_max=1, delay_ms=100)
    failed(guard, "127.0.0.1", "guest", 50)
    failed(guard, "::1", "guest", 50)
    assert guard.delay_of("127.0.0.1") == 0
    assert guard.delay_of(AFAR) == 100


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 10)
    guard = LoginGuard(per_source_max=1, per_user_max=1)
    for number in range(100):
        guard.failed(f"192.0.2.{number}", f"user-{number}", number)
        guard.succeeded(f"192.0.2.{number}", f"user-{number}")

    assert len(guard) == 30
    assert guard.refusal("192.0.2.99", "other", 99)
    assert guard.refusal("192.0.2.0", "user-0", 99) == "", "the oldest went"


def test_without_bounds_nothing_is_remembered_of_failures() -> None:
    guard = LoginGuard()
    failed(guard, AFAR, "ann", 1_000)
    assert len(guard) == 0


@pytest.mark.parametrize(
    ("source", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("127.0.0.9", ""),
        ("::1", ""),
        ("::ffff:127.0.0.1", ""),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("@socket", "@socket"),
    ],
)
def test_an_address_counts_for_its_network(source: str, network: str) -> None:
    assert network_of(source) == network
