"""Tasks with a broker: sending, results, retries, guarantees, cancelling, events, draining."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client import connect
from broker.client.errors import (
    ResultTimeout,
    TaskFailed,
)
from broker.client.spec import QueueSpec
from broker.tasks import (
    Again,
    AmqpResults,
    Event,
    Fixed,
    Linear,
    MemoryOnce,
    MemoryResults,
    Partitions,
    Retry,
    Status,
    TaskCancelled,
    Tasks,
    Worker,
    current,
)
from broker.tasks.once.base import ClaimState
from tests.helpers.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.proxy import Proxy

WAIT_S = 10


# -- calls and results


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
async def test_a_task_runs_and_its_result_comes_back(
    make: Callable[..., Tasks], codec: str
) -> None:
    tasks = make(codec=codec)

    @tasks.task
    async def later(day: date, *, days: int = 1) -> date:
        return day + timedelta(days)

    async with Worker(tasks):
        handle = await later.q(date(2030, 1, 1), days=2)
        assert await handle.result(timeout=WAIT_S) == date(2030, 1, 3)
        assert await handle.status() is Status.SUCCEEDED
        assert await handle.result(timeout=0) == date(2030, 1, 3)


async def test_none_is_a_result(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def nothing() -> None:
        return None

    async with Worker(tasks):
        outcome = await (await nothing.q()).wait(WAIT_S)
        assert (outcome.status, outcome.value) == (Status.SUCCEEDED, None)


async def test_a_function_that_blocks_runs_in_a_thread(make: Callable[..., Tasks]) -> None:
    tasks = make()
    together = threading.Barrier(3)

    @tasks.task
    def block() -> str:
        together.wait(WAIT_S)
        return threading.current_thread().name

    async with Worker(tasks, concurrency=3):
        names = [await one.result(timeout=WAIT_S) for one in await block.q_many([()] * 3)]
        assert len(set(names)) == 3


async def test_what_is_short_need_not(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task(blocking=False)
    def name() -> str:
        return threading.current_thread().name

    async with Worker(tasks):
        assert await (await name.q()).result(timeout=WAIT_S) == threading.current_thread().name


async def test_a_result_that_is_not_there_yet(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def idle() -> None: ...

    handle = await idle.q()
    assert await handle.status() is Status.PENDING
    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0)

    with pytest.raises(ResultTimeout):
        await handle.result(timeout=0.05)


async def test_arguments_that_do_not_fit_are_refused_where_they_are_sent(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()

    @tasks.task(name="add")
    async def add(x: int, y: int) -> int:
        return x + y

    with pytest.raises(TypeError, match="add: missing a required argument: 'y'"):
        await cast("Any", add).q(1)


async def test_arguments_of_another_type_fail_and_are_not_retried(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()

    @tasks.task(retry=Retry(5, Fixed(0)))
    async def add(x: int) -> int:
        return x

    async with Worker(tasks):
        wrong: Any = "two"
        with pytest.raises(TaskFailed, match="Expected `int`, got `str`"):
            await (await add.q(wrong)).result(timeout=WAIT_S)

        outcome = await (await add.q(wrong)).wait(WAIT_S)
        assert outcome.attempt == 1


async def test_a_result_that_cannot_be_written_is_a_failure(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def odd() -> Any:
        return threading.Lock()

    async with Worker(tasks):
        with pytest.raises(TaskFailed, match="cannot write"):
            await (await odd.q()).result(timeout=WAIT_S)


@pytest.mark.parametrize("results", [AmqpResults(60, shared=True), MemoryResults()])
async def test_who_did_not_send_it_can_ask(make: Callable[..., Tasks], results: Any) -> None:
    tasks = make(results=results)

    @tasks.task
    async def add(x: int, y: int) -> int:
        return x + y

    sent = await add.q(1, 2)
    other = add.handle(sent.id)
    assert await other.status() is Status.PENDING
    waiting = asyncio.ensure_future(other.result(timeout=WAIT_S))
    async with Worker(tasks):
        assert await waiting == 3
        assert await sent.result(timeout=WAIT_S) == 3
        assert await add.handle(sent.id).result(timeout=WAIT_S) == 3
        await sent.forget()
        assert await other.status() is Status.PENDING


async def test_a_thousand_tasks(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def double(x: int) -> int:
        return 2 * x

    async with Worker(tasks, concurrency=50, prefetch=100):
        handles = await double.q_many([(number,) for number in range(1000)])
        results = [await one.result(timeout=WAIT_S) for one in handles]
        assert results == [2 * number for number in range(1000)]


# -- failures


async def test_retries_wait_as_the_policy_says(make: Callable[..., Tasks]) -> None:
    tasks = make()
    at: list[float] = []

    @tasks.task(retry=Retry(3, Linear(0.1, 0.2)))
    async def fail() -> int:
        at.append(time.monotonic())
        if current().attempt < 3:
            raise OSError("not yet")

        return current().attempt

    async with Worker(tasks):
        assert await (await fail.q()).result(timeout=WAIT_S) == 3

    assert at[1] - at[0] >= 0.1
    assert at[2] - at[1] >= 0.3


async def test_some_errors_are_not_worth_a_retry(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task(retry=Retry(5, Fixed(0), never=(KeyError,)))
    async def fail() -> None:
        raise KeyError("hare")

    async with Worker(tasks):
        handle = await fail.q()
        with pytest.raises(TaskFailed) as caught:
            await handle.result(timeout=WAIT_S)

        assert caught.value.error_type == "KeyError"
        assert "raise KeyError" in caught.value.remote_traceback
        assert (await handle.outcome()).attempt == 1


async def test_a_task_may_say_when_it_wants_to_run_again(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task(retry=Retry(2, Fixed(1000)))
    async def fail() -> int:
        if current().attempt == 1:
            raise Again(after=0.01)

        return current().attempt

    async with Worker(tasks):
        assert await (await fail.q()).result(timeout=WAIT_S) == 2


async def test_what_failed_for_good_is_a_dead_letter(make: Callable[..., Tasks], url: str) -> None:
    tasks = make()

    @tasks.task(name="fail", retry=Retry(2, Fixed(0)))
    async def fail(x: int) -> None:
        if current().attempt <= 2:
            raise ValueError("no good")

    async with Worker(tasks), connect(url) as client:
        handle = await fail.q(3)
        await handle.wait(WAIT_S)
        dead = client.dead(tasks.name)
        (letter,) = await dead.list()
        assert (letter.id, letter.type, letter.reason) == (handle.id, "fail", "attempts")
        assert (letter.error, letter.error_type, letter.attempt) == ("no good", "ValueError", 2)
        assert letter.body == [[3], {}]


async def test_an_unknown_task_is_refused_with_a_result(
    make: Callable[..., Tasks], url: str
) -> None:
    here = make()
    there = make(name=here.name)

    @there.task(name="new")
    async def new() -> None: ...

    @here.task(name="old")
    async def old() -> None: ...

    async with Worker(here), connect(url) as client:
        with pytest.raises(TaskFailed, match="no task 'new' is known to this worker"):
            await (await new.q()).result(timeout=WAIT_S)

        (letter,) = await client.dead(here.name).list()
        assert letter.reason == "refused"


async def test_a_task_that_takes_too_long_has_failed(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task(timeout=0.05)
    async def hang() -> None:
        await asyncio.sleep(60)

    async with Worker(tasks):
        with pytest.raises(TaskFailed, match=r"more than 0\.05 s"):
            await (await hang.q()).result(timeout=WAIT_S)


async def test_a_task_that_wants_to_exit_does_not_take_the_worker_along(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()

    @tasks.task(blocking=False)
    def leave() -> None:
        sys.exit(3)

    @tasks.task
    async def stay() -> str:
        return "here"

    async with Worker(tasks):
        with pytest.raises(TaskFailed, match=r"it called sys.exit\(3\)"):
            await (await leave.q()).result(timeout=WAIT_S)

        assert await (await stay.q()).result(timeout=WAIT_S) == "here"


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TooLate(BaseException):
    """No Exception, as the time limits of some libraries are not."""


@pytest.mark.parametrize("kind", ["async", "in a thread", "in the event loop"])
@pytest.mark.parametrize(
    ("error", "type_name"),
    [
        (asyncio.CancelledError(), "RuntimeError"),
        (StopIteration(), "RuntimeError"),
        (SystemExit(1), "RuntimeError"),
        (TooLate(), "RuntimeError"),
        (Untellable(), "Untellable"),
        (ValueError("no file \udcff"), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_whatever_a_task_raises_it_has_failed(
    make: Callable[..., Tasks], error: BaseException, type_name: str, kind: str
) -> None:
    """It is counted and told, and does not come again for ever, or hold a place for ever."""
    tasks, attempts = make(retry=Retry(2, Fixed(0.01))), []

    def blocking() -> None:
        attempts.append(current().attempt)
        raise error

    async def asynchronous() -> None:
        blocking()

    function: Callable[[], Any] = asynchronous if kind == "async" else blocking
    options: dict[str, Any] = {"blocking": False} if kind == "in the event loop" else {}
    raising = tasks.task(name="raising", **options)(function)
    async with Worker(tasks):
        with pytest.raises(TaskFailed) as raised:
            await (await raising.q()).result(timeout=WAIT_S)

    assert raised.value.error_type.rpartition(".")[2] == type_name
    assert attempts == [1, 2]


# -- guarantees


async def test_at_most_once_is_not_run_again(make: Callable[..., Tasks], proxy: Proxy) -> None:
    tasks = make(guarantee="at_most_once", at=proxy.url)
    runs: list[str] = []
    begun = asyncio.Event()

    @tasks.task
    async def work() -> None:
        runs.append(current().id)
        begun.set()
        await asyncio.sleep(0.1)

    async with Worker(tasks):
        await work.q()
        await asyncio.wait_for(begun.wait(), WAIT_S)
        await proxy.cut()
        # What the broker still had, it would hand out again before this.
        last = await work.q()
        await last.result(timeout=WAIT_S)

    assert len(runs) == 2


async def test_at_least_once_is_run_again(make: Callable[..., Tasks], proxy: Proxy) -> None:
    tasks = make(at=proxy.url)
    runs: list[str] = []
    begun = asyncio.Event()

    @tasks.task
    async def work() -> None:
        runs.append(current().id)
        begun.set()
        if len(runs) == 1:
            await asyncio.sleep(0.5)

    async with Worker(tasks):
        handle = await work.q()
        await asyncio.wait_for(begun.wait(), WAIT_S)
        await proxy.cut()
        await until(lambda: len(runs) == 2)
        await handle.result(timeout=WAIT_S)


async def test_effectively_once_is_done_once(make: Callable[..., Tasks], proxy: Proxy) -> None:
    once = MemoryOnce()
    tasks = make(guarantee="effectively_once", once=once, at=proxy.url)
    runs: list[str] = []
    begun = asyncio.Event()

    @tasks.task
    async def work() -> int:
        runs.append(current().id)
        begun.set()
        await asyncio.sleep(0.3)
        return 7

    async with Worker(tasks):
        handle = await work.q()
        await asyncio.wait_for(begun.wait(), WAIT_S)
        await proxy.cut()
        assert await handle.result(timeout=WAIT_S) == 7

    assert len(runs) == 1


async def test_what_is_sent_twice_under_one_key_is_done_once(make: Callable[..., Tasks]) -> None:
    tasks = make(guarantee="effectively_once", once=MemoryOnce())
    runs: list[int] = []

    @tasks.task
    async def charge(order: int) -> int:
        runs.append(order)
        return order

    async with Worker(tasks):
        for _ in range(3):
            handle = await charge.using(key="order-7").q(7)
            assert await handle.result(timeout=WAIT_S) == 7

    assert runs == [7]


async def test_a_task_that_another_worker_holds_is_waited_for(make: Callable[..., Tasks]) -> None:
    once = MemoryOnce()
    tasks = make(guarantee="effectively_once", once=once)
    runs: list[int] = []

    @tasks.task
    async def charge(order: int) -> int:
        runs.append(order)
        return order

    assert (await once.claim("charge\norder-7", "dead", lease_s=0.2)).state is ClaimState.OURS
    async with Worker(tasks):
        handle = await charge.using(key="order-7").q(7)
        assert await handle.result(timeout=WAIT_S) == 7


async def test_a_retry_under_effectively_once(make: Callable[..., Tasks]) -> None:
    tasks = make(guarantee="effectively_once", once=MemoryOnce(), retry=Retry(3, Fixed(0.01)))

    @tasks.task
    async def fail() -> int:
        if current().attempt < 3:
            raise OSError("not yet")

        return current().attempt

    @tasks.task
    async def never() -> None:
        raise OSError("not ever")

    async with Worker(tasks):
        assert await (await fail.q()).result(timeout=WAIT_S) == 3
        with pytest.raises(TaskFailed, match="not ever"):
            await (await never.q()).result(timeout=WAIT_S)


# -- times


async def test_a_task_can_wait(make: Callable[..., Tasks]) -> None:
    tasks = make()

    @tasks.task
    async def when() -> float:
        return time.time()

    async with Worker(tasks):
        began_s = time.time()
        handles = [
            await when.sched(delay=0.2)(),
            await when.sched(eta=datetime.now(UTC) + timedelta(seconds=0.2))(),
            await when.later(timedelta(seconds=0.2)),
        ]
        for handle in handles:
            assert await handle.result(timeout=WAIT_S) >= began_s + 0.2

        past = await when.sched(eta=datetime(2020, 1, 1, tzinfo=UTC))()
        assert await past.result(timeout=WAIT_S) < time.time()


# -- cancelling


async def test_a_task_that_runs_can_be_cancelled(make: Callable[..., Tasks]) -> None:
    tasks = make()
    begun = asyncio.Event()

    @tasks.task
    async def hang() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with Worker(tasks):
        handle = await hang.q()
        await asyncio.wait_for(begun.wait(), WAIT_S)
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(timeout=WAIT_S)

        assert await handle.status() is Status.CANCELLED


async def test_a_task_that_waits_can_be_cancelled(make: Callable[..., Tasks]) -> None:
    tasks = make()
    ran: list[int] = []

    @tasks.task
    async def work(number: int) -> None:
        ran.append(number)
        await asyncio.sleep(0.2)

    async with Worker(tasks, concurrency=1):
        first, second = await work.q_many([(1,), (2,)])
        await second.cancel()
        await first.result(timeout=WAIT_S)
        with pytest.raises(TaskCancelled):
            await second.result(timeout=WAIT_S)

    assert ran == [1]


# -- events


async def test_callbacks_hear_what_happens(make: Callable[..., Tasks]) -> None:
    tasks = make()
    heard: list[tuple[str, str, int]] = []

    @tasks.on()
    def note(event: Event) -> None:
        heard.append((event.kind, event.task, event.attempt))

    @tasks.task(name="work", retry=Retry(2, Fixed(0)))
    async def work() -> None:
        if current().attempt == 1:
            raise OSError("not yet")

    async with Worker(tasks):
        await (await work.q()).result(timeout=WAIT_S)

    assert heard == [
        ("queued", "work", 1),
        ("started", "work", 1),
        ("retried", "work", 1),
        ("started", "work", 2),
        ("succeeded", "work", 2),
    ]


async def test_other_processes_hear_what_tasks_emit(make: Callable[..., Tasks]) -> None:
    tasks = make(publish_events=True)
    other = make(name=tasks.name)
    heard: list[Event] = []

    @tasks.task(name="mail.send")
    def send() -> None:
        current().emit("progress", percent=50)

    await other.listen(heard.append, "progress", "succeeded", tasks="mail.*")
    async with Worker(tasks):
        handle = await send.q()
        await handle.result(timeout=WAIT_S)
        await until(lambda: len(heard) == 2)

    assert {event.kind for event in heard} == {"progress", "succeeded"}
    (progress,) = [event for event in heard if event.kind == "progress"]
    assert progress.data == {"percent": 50}
    assert progress.task_id == handle.id


# -- order


async def test_what_has_one_key_runs_in_order_and_one_by_one(make: Callable[..., Tasks]) -> None:
    tasks = make()
    ran: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    running: set[str] = set()

    @tasks.task(queue=f"{tasks.name}.parts", partitions=Partitions(4, by=lambda key, number: key))
    async def work(key: str, number: int) -> None:
        assert key not in running
        running.add(key)
        await asyncio.sleep(0.001)
        running.discard(key)
        ran[key].append(number)

    first, second = Worker(tasks), None
    async with first:
        calls = [(key, number) for number in range(20) for key in ran]
        handles = [await work.q(*call) for call in calls]
        for handle in handles:
            await handle.result(timeout=WAIT_S)

    assert second is None
    assert all(numbers == list(range(20)) for numbers in ran.values())


async def test_urgent_tasks_come_first(make: Callable[..., Tasks]) -> None:

    tasks = make(spec=QueueSpec(max_priority=5))
    ran: list[int] = []

    @tasks.task
    async def work(priority: int) -> None:
        ran.append(priority)

    handles = [await work.using(priority=number).q(number) for number in (1, 5, 3)]
    async with Worker(tasks, concurrency=1):
        for handle in handles:
            await handle.result(timeout=WAIT_S)

    assert ran == [5, 3, 1]


# -- stopping and reconnecting


async def test_a_worker_that_stops_lets_tasks_end_and_hands_back_the_others(
    make: Callable[..., Tasks],
) -> None:
    tasks = make()
    ended: list[int] = []
    begun = asyncio.Event()

    @tasks.task
    async def work(number: int) -> int:
        begun.set()
        await asyncio.sleep(0.2)
        ended.append(number)
        return number

    other = make(name=tasks.name)
    other.register(work.using())
    handles = await work.q_many([(number,) for number in range(6)])
    worker = Worker(other, concurrency=2, prefetch=6)
    await worker.start()
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await worker.stop()
    assert sorted(ended) == [0, 1]
    async with Worker(other, concurrency=6):
        assert [await one.result(timeout=WAIT_S) for one in handles] == list(range(6))


async def test_what_does_not_end_in_time_is_handed_back(make: Callable[..., Tasks]) -> None:
    tasks = make()
    attempts: list[int] = []
    begun = asyncio.Event()

    @tasks.task
    async def hang() -> str:
        attempts.append(current().attempt)
        begun.set()
        if len(attempts) == 1:
            await asyncio.sleep(60)

        return "done"

    other = make(name=tasks.name)
    other.register(hang.using())
    handle = await hang.q()
    worker = Worker(other)
    await worker.start()
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await worker.stop(grace=0.05)
    async with Worker(other):
        assert await handle.result(timeout=WAIT_S) == "done"

    # It was handed back, and that is no attempt.
    assert attempts == [1, 1]


async def test_a_cut_line_is_survived_by_both_sides(
    make: Callable[..., Tasks], proxy: Proxy
) -> None:
    tasks = make(at=proxy.url)

    @tasks.task
    async def double(x: int) -> int:
        return 2 * x

    async with Worker(tasks):
        for number in range(3):
            handle = await double.q(number)
            assert await handle.result(timeout=WAIT_S) == 2 * number
            await proxy.cut()
