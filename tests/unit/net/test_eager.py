"""The selector that looks again before it sleeps: when it does, and when not."""

from __future__ import annotations

import asyncio
import selectors
import socket

import pytest

from broker.net.eager import HABIT_MAX, HABIT_MIN, LOOK_S, EagerSelector, new_event_loop

PIPE = selectors.SelectorKey(1, 1, selectors.EVENT_READ, None)
PEER = selectors.SelectorKey(2, 2, selectors.EVENT_READ, None)


class Scripted(EagerSelector):
    """Answers from a script: when something comes, and what."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(lambda: self.now_s)
        self._threads = PIPE
        self.comes_s = 0.0
        self.key = PEER
        self.looks = 0
        self.sleeps = 0

    def look(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            self.looks += 1
            self.now_s += 1e-6
        else:
            self.sleeps += 1
            until_s = self.comes_s if timeout is None else self.now_s + timeout
            self.now_s = max(self.now_s, min(self.comes_s, until_s))

        return [(self.key, 1)] if self.now_s >= self.comes_s else []

    def wait(self, gap_s: float, key: selectors.SelectorKey = PEER) -> None:
        self.comes_s = self.now_s + gap_s
        self.key = key
        assert self.select(None) == [(key, 1)]


def sleeps_of(selector: Scripted, gap_s: float) -> int:
    before = selector.sleeps
    selector.wait(gap_s)
    return selector.sleeps - before


def test_what_keeps_coming_soon_is_looked_for_and_not_slept_for() -> None:
    selector = Scripted()
    found = [sleeps_of(selector, LOOK_S / 2) for _ in range(HABIT_MIN + 4)]
    assert found == [1] * HABIT_MIN + [0] * 4


def test_what_comes_late_is_slept_for() -> None:
    selector = Scripted()
    for _ in range(100):
        selector.wait(LOOK_S * 10)

    assert (selector.looks, selector.sleeps) == (100, 100)


def test_looking_in_vain_ends_after_a_few_times() -> None:
    selector = Scripted()
    for _ in range(100):
        selector.wait(LOOK_S / 2)

    selector.looks = 0
    for _ in range(100):
        selector.wait(LOOK_S * 10)

    vain = HABIT_MAX * LOOK_S / 1e-6
    assert selector.looks < vain + 200


def test_a_thread_that_reports_ends_the_looking() -> None:
    selector = Scripted()
    for _ in range(HABIT_MAX):
        selector.wait(LOOK_S / 2)

    selector.wait(LOOK_S / 2, PIPE)
    assert sleeps_of(selector, LOOK_S / 2) == 1


@pytest.mark.parametrize("timeout", [0, -1.0, 0.001])
def test_a_wait_ends_in_time(timeout: float) -> None:
    selector = Scripted()
    for _ in range(HABIT_MAX):
        selector.wait(LOOK_S / 2)

    selector.comes_s = selector.now_s + 10.0
    start_s = selector.now_s
    assert selector.select(timeout) == []
    assert selector.now_s - start_s <= max(timeout, 0) + LOOK_S + 1e-5


def test_the_loop_of_a_server_talks_through_sockets_and_is_woken_by_threads() -> None:
    async def talk() -> bytes:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            for _ in range(HABIT_MAX):
                await asyncio.to_thread(theirs.send, b"hop")
                assert await loop.sock_recv(ours, 3) == b"hop"

            theirs.send(b"end")
            return await loop.sock_recv(ours, 3)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(talk()) == b"end"
