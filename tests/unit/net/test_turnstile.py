"""How many may come in, how fast, and who makes room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.auth import guard
from broker.net import turnstile as module
from broker.net.turnstile import Turnstile, TurnstileRules
from broker.protocol.link import Peer

if TYPE_CHECKING:
    import pytest


def peer(host: str, local_port: int = 5672) -> Peer:
    return Peer(host, 40_000, "192.0.2.1", local_port, host.startswith("127."), is_tls=False)


class Scene:
    def __init__(self, rules: TurnstileRules) -> None:
        self.turnstile = Turnstile[str](rules)
        self.gone: list[str] = []

    def come(self, name: str, host: str = "192.0.2.7", now_s: float = 0.0, port: int = 5672) -> str:
        """Why not; empty for in."""
        why = self.turnstile.haste(host, str(port), now_s) or self.turnstile.refusal(peer(host))
        if not why:
            oldest = self.turnstile.enter(name, peer(host, port))
            if oldest is not None:
                self.gone.append(oldest)

        return why


def test_whoever_has_not_logged_in_for_longest_makes_room() -> None:
    scene = Scene(TurnstileRules(handshakes_max=3, rate_per_source_max=None))
    for name in "abcde":
        assert scene.come(name) == ""

    assert scene.gone == ["a", "b"]
    assert scene.turnstile.unknown_count == 3


def test_who_has_logged_in_stays_whoever_comes() -> None:
    """Ten thousand that only hold the door put nobody out who is in, and no newcomer either."""
    scene = Scene(TurnstileRules(handshakes_max=100, rate_per_source_max=None))
    for number in range(10_000):
        scene.come(f"idle-{number}")
        if number % 100 == 0:
            scene.come(f"client-{number}")
            scene.turnstile.settled(f"client-{number}")

    assert len(scene.gone) == 10_000 - 100
    assert not any(name.startswith("client") for name in scene.gone)
    assert scene.turnstile.unknown_count == 100


def test_an_address_has_so_many_connections_at_a_time() -> None:
    scene = Scene(TurnstileRules(per_source_max=2))
    assert scene.come("a") == scene.come("b") == ""
    assert "limits.connections_per_source" in scene.come("c")
    assert scene.come("c", "192.0.2.8") == ""
    scene.turnstile.settled("a")
    assert scene.come("d") != "", "one that has logged in is a connection too"
    scene.turnstile.leave("a")
    assert scene.come("d") == ""
    for number in range(100):
        assert scene.come(f"local-{number}", "127.0.0.1") == ""


def test_an_address_has_so_many_new_connections_in_a_second() -> None:
    scene = Scene(TurnstileRules(rate_per_source_max=10))
    came = [scene.come(str(number), now_s=number / 1000) == "" for number in range(1_000)]
    assert 20 <= sum(came) <= 30
    assert scene.come("other", "192.0.2.8", 0.999) == ""
    assert "limits.connection_rate_per_source" in scene.come("x", now_s=0.9991)
    assert scene.come("later", now_s=2.0) == ""


def test_a_connection_that_comes_to_nothing_counts_twenty_times() -> None:
    """Whoever sends rubbish has ten connections a second where others have two hundred."""
    scene = Scene(TurnstileRules(rate_per_source_max=200))
    came = 0
    for number in range(20_000):
        now_s = number / 1_000
        if scene.come(str(number), now_s=now_s) == "":
            came += 1
            scene.turnstile.charge("192.0.2.7", now_s)

    assert 200 <= came <= 240
    assert scene.come("other", "192.0.2.8", 20.0) == ""
    assert scene.come("later", now_s=22.0) == "", "a debt is forgotten soon"


def test_the_clients_of_this_machine_are_charged_nothing() -> None:
    scene = Scene(TurnstileRules(rate_per_source_max=1))
    for number in range(100):
        assert scene.come(str(number), "127.0.0.1") == ""
        scene.turnstile.charge("127.0.0.1", 0.0)


def test_a_listener_has_so_many_new_connections_in_a_second() -> None:
    scene = Scene(TurnstileRules(rate_max=5))
    came = [scene.come(str(number), f"192.0.2.{number}") for number in range(11)]
    assert came[:10] == [""] * 10
    assert "limits.connection_rate)" in came[10]
    assert scene.come("elsewhere", port=5671) == ""
    assert scene.come("later", now_s=0.2) == ""


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 10)
    assert guard.ENTRIES_MAX > 10
    rules = TurnstileRules(handshakes_max=10, per_source_max=5, rate_per_source_max=5)
    scene = Scene(rules)
    for number in range(1_000):
        scene.come(str(number), f"10.0.{number // 250}.{number % 250}")
        if number >= 20:
            scene.turnstile.leave(str(number - 20))

    assert scene.turnstile.unknown_count == 10
    assert len(scene.turnstile._rate_by_source) <= 11
    assert len(scene.turnstile._by_source) == 20
