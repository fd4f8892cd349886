"""A client is used where it does not live: in another event loop, or in a fork of its process."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from typing import TYPE_CHECKING

import pytest

from broker.client import Client, sync
from broker.embedded import Broker
from tests.helpers.toolkit import LIVE_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from broker.client.sync import SyncClient

AT_ONCE_S = 1.0

USES: dict[str, Callable[[Client], Coroutine[object, object, object]]] = {
    "send": lambda client: client.send("q", 1),
    "get": lambda client: client.get("q"),
    "get-and-wait": lambda client: client.get("q", wait=5),
    "stats": lambda client: client.stats("q"),
    "consume": lambda client: client.consume("q", print),
    "publish": lambda client: client.publish("t", 1),
    "close": lambda client: client.close(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_another_event_loop_is_told_at_once(
    client: Client, use: Callable[[Client], Coroutine[object, object, object]]
) -> None:
    found: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(asyncio.wait_for(use(client), AT_ONCE_S))
        except BaseException as problem:
            found.append(problem)

    await asyncio.to_thread(elsewhere)
    assert [type(problem) for problem in found] == [RuntimeError]
    assert "this client belongs to another event loop" in str(found[0])
    assert client.connected
    assert not await client.exists("toolkit-test.home.none")


def test_a_fork_is_told_at_once(sync_client: SyncClient) -> None:
    assert in_fork(lambda: sync_client.send("q", 1)) == (
        "RuntimeError: this client belongs to another process, of which this one is a fork: "
        "connect anew in each"
    )
    assert not sync_client.exists("toolkit-test.home.none")


def test_a_fork_need_not_close_it(sync_client: SyncClient) -> None:
    assert in_fork(sync_client.close) == "None"
    assert not sync_client.exists("toolkit-test.home.none")


@pytest.fixture
def sync_client() -> Iterator[SyncClient]:
    if LIVE_URL is not None:
        with sync.connect(LIVE_URL) as opened:
            yield opened

        return

    with Broker.in_thread(log_level="error") as broker, sync.connect(broker.url) as opened:
        yield opened


def in_fork(use: Callable[[], object]) -> str:
    """Return what comes of something in a fork of this process, which has a second for it."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where there are threads
        child = os.fork()

    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, AT_ONCE_S)
        try:
            text = str(use())
        except BaseException as problem:
            text = f"{type(problem).__name__}: {problem}"

        os.write(writing, text.encode())
        os._exit(0)

    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()

    os.waitpid(child, 0)
    return text
