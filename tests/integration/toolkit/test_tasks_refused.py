"""Tasks that cannot be sent: no broker, no way in, too large. It is told, and in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.client.errors import (
    AccessRefused,
    InvalidValue,
    MessageTooLarge,
    TaskFailed,
    Unavailable,
)
from broker.embedded import Broker
from broker.tasks import AmqpResults, Tasks, Worker
from broker.tasks.port import Port
from tests.helpers.toolkit import needs_leveret
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.proxy import Proxy

WAIT_S = 10


@needs_leveret
async def test_without_a_broker_it_says_so_in_time() -> None:
    tasks = Tasks("amqp://guest:secret@127.0.0.1:1/", timeout=0.3)
    with pytest.raises(Unavailable, match=r"guest:\*\*\*@127\.0\.0\.1"):
        await tasks.link()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("guest:wrong@{place}/", AccessRefused),
        ("guest:guest@{place}/no-such-vhost", AccessRefused),
    ],
    ids=["password", "vhost"],
)
async def test_who_is_not_let_in_is_told_at_once(
    url: str, path: str, error: type[Exception]
) -> None:
    place = url.rpartition("@")[2].partition("/")[0]
    tasks = Tasks(f"amqp://{path.format(place=place)}", timeout=60)
    with pytest.raises(error):
        await asyncio.wait_for(tasks.link(), WAIT_S)


async def test_a_url_of_no_broker_is_refused() -> None:
    with pytest.raises(InvalidValue, match="amqp://"):
        await Tasks("http://localhost/", timeout=60).link()


@needs_leveret
async def test_what_is_sent_while_there_is_no_broker_is_told_in_time() -> None:
    async with Broker(log_level="error") as broker:
        tasks = Tasks(broker.url, timeout=0.3)

        @tasks.task
        async def double(x: int) -> int:
            return 2 * x

        await double.q(1)

    with pytest.raises(Unavailable):
        await asyncio.wait_for(double.q(2), WAIT_S)

    await tasks.close()


@needs_leveret
async def test_what_is_too_large_is_refused_and_the_rest_goes_on() -> None:
    """The broker closes the channel for it; sent again it would do so for ever."""
    limits = {"version": 1, "limits": {"max_message_size": 100_000}}
    async with Broker(limits, log_level="error") as broker:
        tasks = Tasks(broker.url)

        @tasks.task
        async def repeat(text: str, times: int) -> str:
            return text * times

        async with tasks, Worker(tasks):
            others = [asyncio.ensure_future(repeat.q("a", 3)) for _ in range(20)]
            with pytest.raises(MessageTooLarge, match="100000"):
                await asyncio.wait_for(repeat.q("a" * 200_000, 1), WAIT_S)

            handles = await asyncio.gather(*others)
            large = await repeat.q("a", 200_000)
            with pytest.raises(TaskFailed, match="MessageTooLarge"):
                await large.result(timeout=WAIT_S)

            handles.append(await repeat.q("a", 3))
            assert {await one.result(timeout=WAIT_S) for one in handles} == {"aaa"}


@pytest.mark.parametrize("key", ["order+7 \u00e4?", "shop.wake@2030-01-01T06:00:00+00:00"])
async def test_a_result_that_anybody_may_ask_for_has_any_id(
    url: str, name: Callable[[str], str], key: str
) -> None:
    """Of an id that no queue could be named after, the result could not be stored, for ever."""
    tasks = Tasks(url, name=name("shop"), results=AmqpResults(shared=True))

    @tasks.task
    async def double(number: int) -> int:
        return 2 * number

    async with Worker(tasks):
        await double.using(key=key).q(2)
        handle = double.handle(key)
        assert await handle.result(timeout=WAIT_S) == 4
        await handle.forget()


@needs_leveret
async def test_of_what_runs_once_a_result_that_is_too_large_is_told() -> None:
    """It is settled by then, and nobody would run it again to find out."""
    limits = {"version": 1, "limits": {"max_message_size": 100_000}}
    runs: list[int] = []
    async with Broker(limits, log_level="error") as broker:
        tasks = Tasks(broker.url, guarantee="at_most_once")

        @tasks.task
        async def repeat(text: str, times: int) -> str:
            runs.append(times)
            return text * times

        async with tasks, Worker(tasks):
            for times in (200_000, 300_000):
                handle = await repeat.q("a", times)
                with pytest.raises(TaskFailed, match="MessageTooLarge"):
                    await handle.result(timeout=WAIT_S)

            assert await (await repeat.q("a", 90_000)).result(timeout=WAIT_S) == "a" * 90_000

    assert runs == [200_000, 300_000, 90_000]


async def test_of_what_runs_once_the_result_outlives_the_connection(
    url: str, proxy: Proxy, name: Callable[[str], str]
) -> None:
    shop = name("shop")
    sender, receiver = Tasks(url, name=shop), Tasks(proxy.url, name=shop, guarantee="at_most_once")

    @sender.task(name="sell")
    async def ask() -> str:
        return "not here"

    @receiver.task(name="sell")
    async def sell() -> str:
        port = (await receiver.link()).port
        before = port.work_channel
        await proxy.cut()
        await until(lambda: port.work_channel is not before)
        return "sold"

    async with sender, Worker(receiver):
        handle = await ask.q()
        assert await handle.result(timeout=WAIT_S) == "sold"


class _Stubborn(Port):
    """Connecting, it makes an error of a cancel, as the library does now and then."""

    def __init__(self) -> None:
        super().__init__("amqp://127.0.0.1:1/", name="test")
        self.connecting = asyncio.Event()

    async def _connect(self) -> None:
        self.connecting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("that is not what it was") from None


async def test_who_stays_connected_ends_when_cancelled() -> None:
    """Else asyncio.run would wait for ever, where nobody has closed the application."""
    port = _Stubborn()
    keeping = asyncio.ensure_future(port._keep())
    await port.connecting.wait()
    keeping.cancel()
    await asyncio.wait((keeping,), timeout=1)
    has_ended = keeping.done()
    port._is_closed = True
    keeping.cancel()
    await asyncio.wait((keeping,))
    assert has_ended


@pytest.mark.parametrize("is_asked_when", ["result", "status"])
async def test_a_result_that_goes_to_somebody_else_is_not_waited_for(
    make: Callable[..., Tasks], is_asked_when: str
) -> None:
    """Only who has sent a task gets its result; anybody else would wait for ever."""
    sender = make()
    other = make(name=sender.name)

    async def double(x: int) -> int:
        return 2 * x

    sent, asked = sender.task(name="double")(double), other.task(name="double")(double)
    async with sender, other:
        handle = asked.handle((await sent.q(1)).id)
        with pytest.raises(InvalidValue, match=r"AmqpResults\(shared=True\)"):
            await (handle.result(timeout=WAIT_S) if is_asked_when == "result" else handle.status())
