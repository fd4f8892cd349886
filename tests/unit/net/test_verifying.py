"""Slow hashes are compared in a thread: bounded, shared out, and once for all who wait."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from broker.auth.logins import Check
from broker.auth.passwords import PasswordHash
from broker.net import verifying
from broker.net.verifying import ThreadedVerifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ANY = PasswordHash("argon2id", b"", b"")


class Scene:
    """A verifier whose comparisons wait until they are let go, one by one."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.compared: list[str] = []
        self.told: list[tuple[str, bool]] = []
        self.is_in_command = False
        self.has_told = asyncio.Event()
        self.verifier = ThreadedVerifier(asyncio.get_running_loop(), self.run)

    def run(self, command: Callable[[], None]) -> None:
        self.is_in_command = True
        command()
        self.is_in_command = False

    def compare(self, password: str, _expected: PasswordHash | None) -> bool:
        self.gate.acquire()
        self.compared.append(password)
        if password == "broken":
            raise MemoryError

        return password.startswith("right")

    def verify(self, password: str, source: str = "a") -> bool:
        def then(is_right: bool) -> None:
            assert self.is_in_command
            self.told.append((password, is_right))
            self.has_told.set()

        return self.verifier.verify(Check(password, ANY, source, password.encode()), then)

    async def let_go(self, count: int) -> None:
        """Return when so many more have been told."""
        wanted = len(self.told) + count
        self.gate.release(count)
        async with asyncio.timeout(5):
            while len(self.told) < wanted:
                self.has_told.clear()
                await self.has_told.wait()


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    one = Scene()
    monkeypatch.setattr(verifying, "verify_password", one.compare)
    yield one
    one.verifier.stop()
    one.gate.release(1_000)


async def test_answers_come_as_commands_to_the_core(scene: Scene) -> None:
    assert scene.verify("right")
    assert scene.verify("wrong")
    assert scene.told == []
    await scene.let_go(2)
    assert scene.told == [("right", True), ("wrong", False)]
    assert scene.verifier.waiting_count == 0


async def test_the_same_password_is_compared_once_for_all_who_wait(scene: Scene) -> None:
    for _ in range(1_000):
        assert scene.verify("right", "a")

    scene.gate.release()
    await scene.let_go(1_000)
    assert scene.compared == ["right"]


async def test_addresses_take_turns(scene: Scene) -> None:
    for number in range(4):
        scene.verify(f"a{number}", "a")

    scene.verify("b0", "b")
    scene.verify("c0", "c")
    await scene.let_go(6)
    assert scene.compared == ["a0", "a1", "b0", "c0", "a2", "a3"]


async def test_an_address_has_so_many_places_and_all_together_have(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "WAITING_PER_SOURCE_MAX", 3)
    monkeypatch.setattr(verifying, "WAITING_MAX", 6)
    # One is under way and three wait.
    assert [scene.verify(f"a{number}", "a") for number in range(5)] == [True] * 4 + [False]
    assert [scene.verify(f"b{number}", "b") for number in range(3)] == [True] * 2 + [False]
    await scene.let_go(6)
    assert scene.verify("right", "a")


async def test_a_comparison_that_breaks_is_no_login(scene: Scene) -> None:
    scene.verify("broken")
    await scene.let_go(1)
    assert scene.told == [("broken", False)]


async def test_nobody_is_told_after_the_end(scene: Scene) -> None:
    scene.verify("right")
    scene.verify("right too")
    scene.verifier.stop()
    scene.gate.release(2)
    await asyncio.to_thread(lambda: None)
    assert scene.told == []
    assert not scene.verify("right")
