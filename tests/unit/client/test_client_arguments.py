"""Arguments that cannot be meant are refused where they are given, by name, and with one error."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from broker.client import (
    At,
    Cron,
    Delay,
    Every,
    Exponential,
    Fixed,
    InvalidValue,
    Linear,
    Options,
    QueueSpec,
    Retry,
    Schedule,
    connect,
)
from broker.client.calling import for_thread, outcome_of
from broker.client.checks import check_callable, check_seconds
from broker.client.codecs import Codecs
from broker.queues import MemoryQueue, RetryMiddleware
from broker.tasks import (
    Again,
    AmqpResults,
    MemoryOnce,
    MemoryResults,
    Partitions,
    PostgresResults,
    Tasks,
    Worker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAN = float("nan")


class WrongCodec:
    content_type = "x" * 300

    def encode(self, value: object) -> bytes:
        return b""

    def decode(self, data: bytes, into: object) -> object:
        return None


def task_with(**options: Any) -> object:
    return Tasks().task(name="t", **options)(print)


def worker_with(**options: Any) -> object:
    return Worker(Tasks(), **options)


@pytest.mark.parametrize(
    ("make", "arguments", "text"),
    [
        (QueueSpec, {"retry": 3}, "retry is a Retry, such as"),
        (QueueSpec, {"retry": None}, "retry is a Retry"),
        (QueueSpec, {"durable": "yes"}, "durable"),
        (QueueSpec, {"exclusive": 1}, "exclusive"),
        (QueueSpec, {"kind": ["quorum"]}, "kind is one of"),
        (QueueSpec, {"on_full": 5}, "on_full is one of"),
        (QueueSpec, {"message_ttl": "1"}, "message_ttl .* seconds"),
        (QueueSpec, {"message_ttl": timedelta(1)}, "message_ttl .* seconds"),
        (QueueSpec, {"max_length": "1"}, "max_length"),
        (QueueSpec, {"arguments": [1]}, "arguments are"),
        (QueueSpec, {"arguments": {"x": object()}}, "the argument 'x'"),
        (Retry, {"attempts": "3"}, "attempts"),
        (Retry, {"attempts": True}, "attempts"),
        (Retry, {"backoff": 5}, "backoff is Fixed, Linear or Exponential"),
        (Retry, {"backoff": None}, "backoff is"),
        (Retry, {"on": 5}, "on is to list"),
        (Retry, {"never": "OSError"}, "never is to list"),
        (Retry.retries, {"count": "3"}, "retries"),
        (Retry.retries, {"count": 3, "backoff": 5}, "backoff"),
        (Fixed, {"delay": "1"}, "delay"),
        (Fixed, {"delay": None}, "delay"),
        (Fixed, {"delay": timedelta(1)}, "delay"),
        (Fixed, {"jitter": "1"}, "jitter"),
        (Linear, {"step": "1"}, "step"),
        (Exponential, {"first": "1"}, "first"),
        (Exponential, {"factor": "2"}, "factor"),
        (Exponential, {"factor": NAN}, "factor"),
        (Exponential, {"cap": "1"}, "cap"),
        (Options, {"timeout": "1"}, "timeout"),
        (Options, {"timeout": NAN}, "timeout"),
        (Options, {"timeout": None}, "timeout"),
        (Options, {"send_timeout": True}, "send_timeout"),
        (Options, {"backoff": 5}, "backoff"),
        (Options, {"accept": "pickle"}, "accept is to be a tuple"),
        (Options, {"accept": (5,)}, "codec"),
        (Options, {"topics": "x" * 300}, "topics"),
        (Options, {"topics": 5}, "topics"),
        (Options, {"delays": []}, "delays"),
        (Options, {"management_url": 5}, "management_url"),
        (Delay, {"seconds": "1"}, "a delay"),
        (Delay, {"seconds": None}, "a delay"),
        (At, {"moment": "2030-01-01"}, "a moment"),
        (At, {"moment": None}, "a moment"),
        (At, {"moment": datetime(2030, 1, 1)}, "no time zone"),
        (Every, {"seconds": "1"}, "an interval"),
        (Cron, {"expression": 5}, "a cron expression is a text"),
        (Cron, {"expression": "* * * * *", "tz": 5}, "time zone"),
        (Schedule.delay, {"seconds": None}, "a delay"),
        (connect, {"url": 5}, "URL"),
        (connect, {"name": 5}, "name"),
        (connect, {"codec": 5}, "codec"),
        (connect, {"codec": WrongCodec()}, "content_type .* 300"),
        (connect, {"options": {}}, "options is an Options"),
        (MemoryQueue, {"retry": 3}, "retry is a Retry"),
        (MemoryQueue, {"maxsize": "1"}, "maxsize"),
        (RetryMiddleware, {"retry": "1"}, "retry"),
        (RetryMiddleware, {"retry": 2, "delay": "1"}, "delay"),
        (RetryMiddleware, {"retry": 2, "exceptions": 5}, "on is to list"),
        (Tasks, {"url": 5}, "URL"),
        (Tasks, {"name": 5}, "name"),
        (Tasks, {"codec": 5}, "codec"),
        (Tasks, {"accept": "pickle"}, "accept is to be a tuple"),
        (Tasks, {"accept": None}, "accept is to be a tuple"),
        (Tasks, {"results": 5}, "results is"),
        (Tasks, {"once": 5}, "once is"),
        (Tasks, {"retry": 3}, "retry is a Retry"),
        (Tasks, {"queue": 5}, "queue"),
        (Tasks, {"spec": 5}, "spec is a QueueSpec"),
        (Tasks, {"publish_events": "yes"}, "publish_events"),
        (Tasks, {"timeout": "1"}, "timeout"),
        (Tasks, {"guarantee": 5}, "guarantee"),
        (task_with, {"timeout": "1"}, "timeout"),
        (task_with, {"ttl": "1"}, "ttl"),
        (task_with, {"priority": "high"}, "priority"),
        (task_with, {"queue": 5}, "queue"),
        (task_with, {"result": 5}, "result"),
        (task_with, {"blocking": 5}, "blocking"),
        (task_with, {"partitions": 8}, "partitions is a Partitions"),
        (Partitions, {"count": "8"}, "count"),
        (Partitions, {"count": 8, "by": "key"}, "by"),
        (worker_with, {"concurrency": "1"}, "concurrency"),
        (worker_with, {"prefetch": "1"}, "prefetch"),
        (worker_with, {"guarantee": ""}, "guarantee"),
        (worker_with, {"grace": "1"}, "grace"),
        (worker_with, {"lease": NAN}, "lease"),
        (worker_with, {"beat": "yes"}, "beat"),
        (Worker, {"tasks": "app:tasks"}, "tasks is a Tasks"),
        (Again, {"after": "1"}, "after"),
        (AmqpResults, {"ttl": "1"}, "ttl"),
        (MemoryResults, {"ttl": NAN}, "ttl"),
        (MemoryOnce, {"ttl": "1"}, "ttl"),
        (PostgresResults, {"dsn": "", "schema": 5}, "schema"),
    ],
    ids=lambda one: one.__name__ if callable(one) else f"{one!s:.30}",
)
def test_an_argument_that_cannot_be_meant(
    make: Callable[..., object], arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidValue, match=text):
        make(**arguments)


def yields(message: object) -> Iterator[object]:
    yield message


def test_a_function_with_a_yield_is_no_handler() -> None:
    """Called, it does nothing: each message would be taken for handled."""
    with pytest.raises(InvalidValue, match="yield"):
        check_callable("handler", yields)

    with pytest.raises(InvalidValue, match="yield"):
        Tasks().task(yields)


@pytest.mark.parametrize("name", ["mail.send", 5], ids=str)
def test_a_name_where_a_task_has_its_function(name: Any) -> None:
    with pytest.raises(InvalidValue, match="a task is to be a function"):
        Tasks().task(name)


@pytest.mark.parametrize("name", ["n" * 201, "", 5], ids=lambda one: f"{one!s:.4}")
def test_a_name_that_no_task_can_have(name: Any) -> None:
    with pytest.raises(InvalidValue, match="name"):
        Tasks().task(name=name)(print)


@pytest.mark.parametrize("seconds", [0.001, 1, 1e9])
def test_times_that_can_be(seconds: float) -> None:
    check_seconds("timeout", seconds)


def test_a_codec_that_writes_something_else_than_bytes() -> None:
    class Texts(WrongCodec):
        content_type = "text/x"

        def encode(self, value: object) -> Any:
            return str(value)

    with pytest.raises(ValueError, match="has written str"):
        Codecs(Texts()).encode(5)


class Silent:
    """A backoff that does not say how long to wait."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def wait(self, failures: int, chance: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer

        return self.answer


@pytest.mark.parametrize(
    ("answer", "wait"),
    [(None, None), ("x", None), (ValueError("no"), None), (NAN, 0), (-1, 0), (1e12, 49 * 86400)],
    ids=str,
)
def test_a_backoff_of_ones_own_leaves_no_message_nowhere(answer: Any, wait: float | None) -> None:
    assert Retry(3, Silent(answer)).next_delay(1) == wait


async def test_ctrl_c_is_not_a_failure_of_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs the tests in the background may have it ignored.
    monkeypatch.setattr("signal.getsignal", lambda _: signal.default_int_handler)

    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await outcome_of(interrupted())


async def test_nobody_interrupts_a_thread_from_the_keyboard() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        await outcome_of(asyncio.to_thread(for_thread(interrupted)))
