"""Arguments that would make no difference beside others, or where they are given, are refused."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client import Cron, Envelope, Every, InvalidValue, QueueSpec, Retry
from broker.client.consumer import Consumer
from broker.client.core import Core
from broker.client.options import Options
from broker.queues import MemoryQueue, Pump, RetryMiddleware
from broker.tasks import (
    AmqpResults,
    Event,
    Exponential,
    Fixed,
    Linear,
    MemoryOnce,
    MemoryResults,
    RedisResults,
    Tasks,
    Worker,
)
from broker.tasks.options import NOT_OF_TASKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.client import Delivery

THRICE = Retry(3, Fixed(0))


async def sleepy() -> None:
    """An async function."""


def task(tasks: dict[str, Any], **options: Any) -> object:
    return Tasks(**tasks).task(name="t", **options)(print)


def async_task(**options: Any) -> object:
    return Tasks().task(name="t", **options)(sleepy)


def every(schedule: Any, **given: Any) -> object:
    return Tasks().every(schedule, **given)


def sched(**given: Any) -> object:
    return Tasks().task(name="t")(print).sched(**given)


def using(**changes: Any) -> object:
    return Tasks().task(name="t")(print).using(**changes)


def on(kinds: str) -> object:
    return Tasks().on(kinds, slower_than=1.0)(print)


def worker(tasks: dict[str, Any], options: dict[str, Any], **settings: Any) -> object:
    app = Tasks(**tasks)
    app.task(name="t", **options)(print)
    return Worker(app, **settings)


@pytest.mark.parametrize(
    ("make", "given", "text"),
    [
        # time zones
        (every, {"schedule": 60, "tz": "Europe/Berlin"}, "cron expression, and 60 is none"),
        (every, {"schedule": Every(60), "tz": "UTC"}, "tz is the time zone of a cron"),
        (every, {"schedule": Cron("* * * * *"), "tz": UTC}, "a schedule says its own"),
        (sched, {"delay": 5, "tz": "Europe/Berlin"}, "tz is the time zone of a cron"),
        (sched, {"eta": datetime.now(UTC), "tz": "UTC"}, "a moment has its own"),
        (sched, {"delay": 5, "cron": "* * * * *"}, "say one of"),
        # specs
        (QueueSpec, {"on_full": "drop-oldest"}, "max_length or max_bytes"),
        (QueueSpec, {"priority_order": "low"}, "max_priority"),
        (QueueSpec, {"max_dead_letters": 5, "dead_letter": False}, "dead_letter=False"),
        (QueueSpec, {"max_dead_letters": 5, "exclusive": True}, "an exclusive queue"),
        (QueueSpec, {"arguments": {"x-max-length": 5}}, "say max_length="),
        (QueueSpec, {"arguments": {"x-message-ttl": 5}}, "say message_ttl="),
        (QueueSpec, {"arguments": {"x-overflow": "drop-head"}}, "say on_full="),
        (QueueSpec, {"arguments": {"x-queue-type": "quorum"}}, "say kind="),
        # messages, handlers, pumps
        (Envelope, {"body": {"a": 1}, "content_type": "text/csv"}, "dict is written by"),
        (RetryMiddleware, {"retry": THRICE, "delay": 1.0}, "a Retry says itself"),
        (RetryMiddleware, {"retry": THRICE, "exceptions": OSError}, "a Retry says itself"),
        # tasks
        (task, {"tasks": {}, "priority": 3}, "max_priority"),
        (using, {"priority": 3}, "max_priority"),
        (task, {"tasks": {"results": None}, "result": True}, "results of these tasks are not kept"),
        (async_task, {"blocking": True}, "blocking is about functions that are not async"),
        (async_task, {"blocking": False}, "blocking is about functions that are not async"),
        (Tasks, {"guarantee": "at_most_once", "retry": THRICE}, "cannot be retried"),
        (task, {"tasks": {"guarantee": "at_most_once"}, "retry": THRICE}, "cannot be retried"),
        (task, {"tasks": {}, "guarantee": "at_most_once", "retry": THRICE}, "cannot be retried"),
        (Exponential, {"first": 300}, "first is 300 seconds, and no wait is longer than cap, 60"),
        (Linear, {"first": 5, "cap": 2}, "no wait is longer than cap, 2"),
        (on, {"kinds": "started"}, "'started' takes no time"),
        (on, {"kinds": "progress"}, "'progress' takes no time"),
        # results
        (AmqpResults, {"ttl": 5e6}, "ttl .* 49 days"),
        (AmqpResults, {"shared": "yes"}, "shared"),
        (MemoryResults, {"count_max": 0}, "count_max"),
        (RedisResults, {"prefix": 5}, "prefix"),
        # workers
        (worker, {"tasks": {}, "options": {}, "lease": 60}, "lease is about"),
        (worker, {"tasks": {}, "options": {}, "queues": ()}, "queues is empty"),
        (
            worker,
            {"tasks": {}, "options": {"retry": THRICE}, "guarantee": "at_most_once"},
            "t: what runs at most once",
        ),
    ],
    ids=lambda one: one.__name__ if callable(one) else f"{one!s:.50}",
)
def test_what_would_not_be_heeded_is_refused(
    make: Callable[..., object], given: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidValue, match=text):
        make(**given)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (every, {"schedule": "0 6 * * *", "tz": "Europe/Berlin"}),
        (every, {"schedule": Cron("0 6 * * *", "Europe/Berlin")}),
        (sched, {"cron": "0 6 * * *", "tz": UTC}),
        (QueueSpec, {"max_length": 5, "on_full": "drop-oldest"}),
        (QueueSpec, {"max_length": 5, "arguments": {"x-overflow": "reject-publish-dlx"}}),
        (QueueSpec, {"arguments": {"x-queue-type": "stream"}, "dead_letter": False}),
        (Envelope, {"body": bytearray(b"a,b"), "content_type": "text/csv"}),
        (RetryMiddleware, {"retry": 3, "delay": 1.0, "exceptions": OSError}),
        (task, {"tasks": {"spec": QueueSpec(max_priority=5)}, "priority": 3}),
        (task, {"tasks": {"results": None}, "result": False}),
        (task, {"tasks": {"guarantee": "at_most_once"}, "guarantee": "at_least_once",
                "retry": THRICE}),
        (task, {"tasks": {"retry": THRICE}, "guarantee": "at_most_once"}),
        (worker, {"tasks": {"once": MemoryOnce()}, "options": {}, "guarantee": "at_least_once"}),
        (worker, {"tasks": {"once": MemoryOnce()}, "options": {"guarantee": "effectively_once"},
                  "lease": 60}),
        (worker, {"tasks": {"retry": THRICE}, "options": {"guarantee": "at_least_once"},
                  "guarantee": "at_most_once"}),
    ],
    ids=lambda one: one.__name__ if callable(one) else f"{one!s:.50}",
)  # fmt: skip
def test_what_is_heeded_is_not(make: Callable[..., object], given: dict[str, Any]) -> None:
    make(**given)


def test_a_store_that_nothing_uses_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It is no error, as tasks can be registered later."""
    worker({"once": MemoryOnce()}, {})
    assert "no task uses it" in caplog.text
    caplog.clear()
    worker({"once": MemoryOnce(), "guarantee": "effectively_once"}, {})
    worker({"once": MemoryOnce()}, {}, guarantee="at_least_once")
    assert not caplog.text


@pytest.mark.parametrize("tasks", ["mail.*", ["mail.*"]], ids=["one", "several"])
async def test_a_pattern_of_tasks_is_not_its_letters(tasks: Any) -> None:
    """Of the letters of ``mail.*`` one is a star, which stands for all tasks."""
    app, heard = Tasks(), []
    app.on("failed", tasks=tasks)(lambda event: heard.append(event.task))
    for name in ("shop.sell", "mail.send"):
        app.callbacks.tell(Event("failed", "1", name))

    await app.callbacks.finish()
    assert heard == ["mail.send"]


def test_what_is_no_pattern_of_tasks_is_refused() -> None:
    with pytest.raises(InvalidValue, match="patterns of their names"):
        Tasks().on("failed", tasks=cast("Any", [5]))


async def test_calls_are_tuples_of_arguments() -> None:
    """A text would be as many arguments as it has letters."""
    with pytest.raises(InvalidValue, match=r"such as \('ab',\)"):
        await Tasks().task(name="t")(print).q_many(cast("Any", ["ab"]))


async def test_a_policy_beside_acknowledging_first_is_refused() -> None:
    async def handle(_: Delivery[Any]) -> None: ...

    core = Core("amqp://127.0.0.1:1/", None, "json", Options())
    consumer: Consumer[Any] = Consumer(core, "q", handle, ack="before", prefetch=1, into=None)
    with pytest.raises(InvalidValue, match="not tried again"):
        await consumer.start(THRICE)


async def nothing(_: int) -> None: ...


async def test_a_time_for_an_end_that_is_not_graceful_is_refused() -> None:
    with pytest.raises(InvalidValue, match="graceful=True"):
        async with MemoryQueue[int]() as queue, Pump(queue, nothing).draining(timeout=3):
            pass


async def test_listening_for_what_is_never_published_is_refused() -> None:
    with pytest.raises(InvalidValue, match="that sends a task"):
        await Tasks("amqp://127.0.0.1:1/", timeout=0.1).listen(print, "queued")


HEEDED: dict[str, Any] = {
    "kind": "quorum",
    "durable": False,
    "auto_delete": True,
    "expires": 60.0,
    "message_ttl": 60.0,
    "max_length": 5,
    "max_bytes": 500,
    "on_full": "drop-oldest",
    "max_priority": 5,
    "priority_order": "low",
    "dead_letter": False,
    "max_dead_letters": 5,
    "single_active_consumer": True,
    "arguments": {"x-queue-mode": "lazy"},
}
"""What a spec says that the queues of tasks are declared with, or that their senders heed."""

NEEDED: dict[str, Any] = {"on_full": {"max_length": 5}, "priority_order": {"max_priority": 5}}
REFUSED: dict[str, Any] = {
    "retry": THRICE,
    "ack_timeout": 5.0,
    "dedupe_window": 5.0,
    "exclusive": True,
}


def test_each_field_of_a_spec_is_heeded_by_tasks_or_refused() -> None:
    names = {one.name for one in fields(QueueSpec)}
    assert names == HEEDED.keys() | REFUSED.keys()
    assert NOT_OF_TASKS.keys() == REFUSED.keys()


@pytest.mark.parametrize("name", HEEDED)
def test_a_field_of_a_spec_that_tasks_heed(name: str) -> None:
    spec = QueueSpec(**NEEDED.get(name, {}), **{name: HEEDED[name]})
    tasks = Tasks(spec=spec)
    tasks.task(name="t")(print)
    assert getattr(tasks.queues()["tasks"], name) == HEEDED[name]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("retry", "retry= of Tasks"),
        ("ack_timeout", "timeout= of a task"),
        ("dedupe_window", "effectively_once"),
        ("exclusive", "auto_delete"),
    ],
)
def test_a_field_of_a_spec_that_is_not_for_tasks(name: str, instead: str) -> None:
    with pytest.raises(InvalidValue, match=f"the {name} of a spec .*{instead}"):
        Tasks(spec=QueueSpec(**{name: REFUSED[name]}))
