"""Tasks: the connection under them: what it waits for, and how consumers get their prefetch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.client.errors import Unavailable
from broker.tasks.frames import template
from broker.tasks.port import Port

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiormq.abc import AbstractChannel

    from broker.client import Client


async def test_a_send_that_is_not_confirmed_ends_in_time(
    url: str, client: Client, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = name("tasks")
    await client.declare(queue)
    port = Port(url, name="port", timeout=0.3)
    await port.start()
    try:
        # The line is there, but nothing gets through it.
        monkeypatch.setattr(port, "_write", lambda _data: None)
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable, match="no confirm"):
                await port.send(queue, "1", template("", "t").with_id("1"), b"[]")
    finally:
        await port.close()


async def test_no_other_prefetch_comes_between(
    url: str, client: Client, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [name("tasks"), name("tasks")]
    for queue in queues:
        await client.declare(queue)

    port = Port(url, name="port")
    await port.start()
    steps: list[str] = []
    channel: AbstractChannel | None = port.work_channel
    assert channel is not None
    for method in ("basic_qos", "basic_consume"):
        original = getattr(channel, method)

        async def noted(
            *args: object, _method: str = method, _original: object = original, **kwargs: object
        ) -> object:
            steps.append(_method)
            assert callable(_original)
            return await _original(*args, **kwargs)

        monkeypatch.setattr(channel, method, noted)

    try:
        await asyncio.gather(
            *(port.consume(queue, lambda _message: None, prefetch=1) for queue in queues)
        )
        assert steps == ["basic_qos", "basic_consume"] * 2
    finally:
        monkeypatch.undo()
        await port.close()
