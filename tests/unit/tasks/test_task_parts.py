"""The parts of tasks that need no broker."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import sys
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from broker.client import QueueSpec
from broker.client.codecs import Codecs
from broker.client.errors import DecodeError, InvalidSchedule, InvalidValue, TaskFailed, Unavailable
from broker.tasks import MemoryOnce, Partitions, Retry, Task, Tasks, Worker, current
from broker.tasks.board import Board, Job, Snapshot
from broker.tasks.current import NoTask
from broker.tasks.events import Callbacks, Event
from broker.tasks.fleet import Fleet, Plan
from broker.tasks.identity import new_id, sent_at
from broker.tasks.loading import LoadError, load_app
from broker.tasks.mode import chosen_mode, chosen_workers, is_free_threaded
from broker.tasks.outcome import Failure, Outcome, Status
from broker.tasks.signature import ArgumentError, Signature
from broker.tasks.view import LiveView, ProgressLines, table

if TYPE_CHECKING:
    from pathlib import Path

    from broker.tasks.mode import Mode

JSON = "application/json"


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    due: date
    price: Decimal


class Colour(msgspec.Struct):
    name: str


def sell(order: Order, count: int, *colours: Colour, at: datetime | None = None) -> Order:
    """A function with types that JSON does not have."""
    return order


def _through(codec: str, value: object) -> tuple[Any, str]:
    codecs = Codecs(codec)
    body, content_type = codecs.encode(value)
    decoded: Any = codecs.decode(body, content_type)
    return decoded, content_type


# -- typed values


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
def test_arguments_arrive_as_what_they_were(codec: str) -> None:
    order = Order(uuid.uuid4(), date(2030, 1, 2), Decimal("1.50"))
    moment = datetime(2030, 1, 2, 3, tzinfo=UTC)
    (args, kwargs), content_type = _through(
        codec, [[order, 3, Colour("red"), Colour("blue")], {"at": moment}]
    )
    args, kwargs = Signature(sell).convert(args, kwargs, content_type)
    assert args == [order, 3, Colour("red"), Colour("blue")]
    assert kwargs == {"at": moment}


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
def test_a_result_arrives_as_what_it_was(codec: str) -> None:
    order = Order(uuid.uuid4(), date(2030, 1, 2), Decimal("1.50"))
    value, content_type = _through(codec, order)
    assert Signature(sell).convert_result(value, content_type) == order


@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param([{"id": "no uuid", "due": "2030-01-02", "price": "1"}, 3], "UUID", id="uuid"),
        pytest.param([{}, 3], "missing required field", id="missing"),
    ],
)
def test_arguments_of_other_types_are_refused(args: list[Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        Signature(sell).convert(args, {}, JSON)


def test_annotations_may_name_what_is_not_there() -> None:
    def puzzling(x: object) -> object:
        return x

    puzzling.__annotations__ = {"x": "NoSuchType", "return": "AnotherOne"}
    assert Signature(puzzling).convert([{"a": 1}], {}, JSON) == ([{"a": 1}], {})
    assert Signature(puzzling).returns is Any


def test_types_that_no_codec_knows_are_left_alone() -> None:
    class Thing:
        pass

    def odd(x: Thing, y: list[Any]) -> Thing:
        return x

    odd.__annotations__ = {"x": Thing, "y": list[Any], "return": Thing}
    assert Signature(odd).convert([1, [2]], {}, JSON) == ([1, [2]], {})


def test_pickle_has_to_be_asked_for() -> None:
    body, content_type = Codecs("pickle").encode([1])
    with pytest.raises(DecodeError, match="not accepted"):
        Codecs("json").decode(body, content_type)

    assert Codecs("json", accept=["pickle"]).decode(body, content_type) == [1]


# -- outcomes


@pytest.mark.parametrize("codec", ["json", "msgpack", "pickle"])
def test_an_outcome_survives_being_written(codec: str) -> None:
    codecs = Codecs(codec)
    outcome = Outcome(Status.SUCCEEDED, {"a": [1, None]}, None, 3, 0.25)
    body, content_type = outcome.write(codecs)
    assert Outcome.read(codecs, content_type, body) == outcome


def test_a_failure_says_what_and_where() -> None:
    try:
        dict[str, int]()["hare"]
    except KeyError as problem:
        failure = Failure.of(problem)

    codecs = Codecs()
    outcome = Outcome(Status.FAILED, failure=failure, attempt=2)
    body, content_type = outcome.write(codecs)
    error = Outcome.read(codecs, content_type, body).error
    assert isinstance(error, TaskFailed)
    assert (error.error_type, error.message) == ("KeyError", "'hare'")
    assert "test_a_failure_says_what_and_where" in error.remote_traceback
    assert failure.is_a(LookupError)
    assert not failure.is_a(ValueError)


def test_what_is_no_outcome_is_refused() -> None:
    with pytest.raises(DecodeError, match="no outcome"):
        Outcome.read(Codecs(), JSON, b'{"a": 1}')


# -- ids


def test_ids_sort_by_time_and_say_it() -> None:
    ids = [new_id() for _ in range(100)]
    assert len(set(ids)) == 100
    moment = sent_at(ids[0])
    assert moment is not None
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60
    assert sent_at("order-1") is None


# -- tasks


def test_a_task_is_its_function() -> None:
    tasks = Tasks()

    @tasks.task
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    assert add(2, y=3) == 5
    assert add.__doc__ == "Add."
    assert add.name.endswith("test_a_task_is_its_function.add")


@pytest.mark.parametrize(
    ("workers", "mode", "text"),
    [
        (2, "processes", "MemoryOnce is of one process"),
        (1, "processes", None),
        (2, "threads", None),
    ],
)
def test_several_processes_have_no_store_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, mode: Mode, text: str | None
) -> None:
    """None of them would know what the others have done."""
    (tmp_path / "twice.py").write_text(
        "from broker.tasks import MemoryOnce, Tasks\n"
        "tasks = Tasks('amqp://127.0.0.1:1/', timeout=0.05, once=MemoryOnce(),\n"
        "              guarantee='effectively_once')\n"
        "@tasks.task\ndef sell() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plan = Plan(app="twice:tasks", workers=workers, mode=mode)
    with pytest.raises(InvalidValue if text else Unavailable, match=text):
        Fleet(plan).run()


def test_two_tasks_of_one_name_are_refused() -> None:
    tasks = Tasks()
    tasks.task(name="same")(test_ids_sort_by_time_and_say_it)
    with pytest.raises(InvalidValue, match="two tasks 'same'"):
        tasks.task(name="same")(test_a_task_is_its_function)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidValue, match="lambda"):
        Tasks().task(lambda: 1)


def test_the_main_module_is_called_as_workers_import_it(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "shop.py").write_text(
        "from broker.tasks import Tasks\ntasks = Tasks()\n"
        "@tasks.task\ndef sell() -> None: ...\n"
        "if __name__ == '__main__': print(sell.name)\n"
    )
    answer = subprocess.run(
        [sys.executable, str(tmp_path / "shop.py")],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert answer.stdout.strip() == "shop.sell"


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"queue": ""}, id="queue"),
        pytest.param({"timeout": 0}, id="timeout"),
        pytest.param({"ttl": -1}, id="ttl"),
        pytest.param({"guarantee": "often"}, id="guarantee"),
        pytest.param({"guarantee": "at_most_once", "retry": Retry(3)}, id="once-and-again"),
        pytest.param({"retry": 3}, id="retry"),
        pytest.param({"colour": "red"}, id="unknown"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Tasks().task(**given)


@pytest.mark.parametrize("given", [{"results": "redis"}, {"guarantee": "often"}, {"colour": "red"}])
def test_settings_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Tasks(**given)


async def test_effectively_once_needs_a_store() -> None:
    with pytest.raises(InvalidValue, match="idempotency store"):
        Worker(Tasks(guarantee="effectively_once"))

    Worker(Tasks(guarantee="effectively_once", once=MemoryOnce()))


async def test_a_worker_knows_its_queues() -> None:
    tasks = Tasks()

    @tasks.task(queue="orders", partitions=Partitions(3, by=lambda number: number))
    def handle(number: int) -> None: ...

    assert list(tasks.queues()) == ["orders.0", "orders.1", "orders.2"]
    assert all(spec.single_active_consumer for spec in tasks.queues().values())
    Worker(tasks, queues=["orders"])
    with pytest.raises(InvalidValue, match="no task uses the queue 'mail'"):
        Worker(tasks, queues=["mail"])


@pytest.mark.parametrize(
    "given",
    [
        {"concurrency": 0},
        {"concurrency": 5, "prefetch": 4},
        {"grace": -1},
        {"grace": float("nan")},
        {"lease": 0},
        {"queues": 5},
        {"colour": "red"},
    ],
)
async def test_a_worker_does_something(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Worker(Tasks(), **given)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"delay": 1, "cron": "* * * * *"}, id="two"),
        pytest.param({"delay": -1}, id="past"),
        pytest.param({"eta": datetime(2030, 1, 1)}, id="naive"),
        pytest.param({"cron": "61 * * * *"}, id="cron"),
    ],
)
def test_a_time_has_to_be_one(given: dict[str, Any]) -> None:
    @Tasks().task(name="x")
    def x() -> None: ...

    with pytest.raises(InvalidSchedule):
        x.sched(**given)


def test_a_periodic_task_takes_no_arguments() -> None:
    def greedy(x: int) -> int:
        return x

    every: Any = Tasks().every(60)
    with pytest.raises(InvalidValue, match="its arguments: missing a required argument: 'x'"):
        every(greedy)


def test_only_the_senders_options_change_for_one_sending() -> None:
    @Tasks(spec=QueueSpec(max_priority=5)).task(name="x")
    def x() -> None: ...

    assert x.using(priority=3).options.priority == 3
    with pytest.raises(InvalidValue, match="retry cannot be changed"):
        x.using(retry=Retry(3))


def test_outside_of_tasks_there_is_no_current_one() -> None:
    with pytest.raises(NoTask):
        current()


# -- events


async def test_callbacks_get_what_they_asked_for() -> None:
    callbacks, heard = Callbacks(), []
    callbacks.add(lambda event: heard.append(("all", event.kind)), ())
    callbacks.add(lambda event: heard.append(("slow", event.kind)), ("succeeded",), slower_than=1.0)

    async def of_mail(event: Event) -> None:
        heard.append(("mail", event.kind))

    callbacks.add(of_mail, (), tasks=("mail.*",))
    callbacks.tell(Event("succeeded", "1", "mail.send", seconds=2.0))
    callbacks.tell(Event("succeeded", "2", "add", seconds=0.5))
    callbacks.tell(Event("started", "3", "add"))
    await callbacks.finish()
    assert sorted(heard) == [
        ("all", "started"),
        ("all", "succeeded"),
        ("all", "succeeded"),
        ("mail", "succeeded"),
        ("slow", "succeeded"),
    ]


async def test_a_callback_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    callbacks, heard = Callbacks(), []

    def fail(event: Event) -> None:
        raise RuntimeError("a callback of the test")

    callbacks.add(fail, ())
    callbacks.add(lambda event: heard.append(event), ())
    callbacks.tell(Event("started", "1", "add"))
    await callbacks.finish()
    assert len(heard) == 1
    assert "a callback of the test" in caplog.text


@pytest.mark.parametrize("kind", ["started", "", "a b"])
async def test_events_of_ones_own_have_names_of_their_own(kind: str) -> None:
    from broker.tasks.current import Running

    running = Running("1", "x", attempt=1, queue="q", sent_at=None, emit=lambda event: None)
    with pytest.raises(ValueError, match="event of your own"):
        running.emit(kind)


# -- the command


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("", "no_such_module:tasks", id="no-module"),
        pytest.param("1 / 0", "chosen_app:tasks", id="raises"),
        pytest.param("import sys; sys.exit(0)", "chosen_app:tasks", id="exits"),
        pytest.param("tasks = 3", "chosen_app:tasks", id="no-tasks"),
        pytest.param("from broker.tasks import Tasks\ntasks = Tasks()", "chosen_app", id="empty"),
    ],
)
def test_an_application_without_tasks_is_not_run(
    text: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chosen_app.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "chosen_app", raising=False)
    with pytest.raises(LoadError):
        load_app(name)


def test_one_module_of_tasks_is_not_its_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "an_app.py").write_text("from broker.tasks import Tasks\ntasks = Tasks()")
    (tmp_path / "its_tasks.py").write_text(
        "from an_app import tasks\ntasks.task(name='one')(print)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert len(load_app("an_app", "its_tasks").registered) == 1


def test_modes() -> None:
    assert chosen_mode("auto") == ("threads" if is_free_threaded() else "processes")
    assert chosen_mode("threaded") == "threads"
    assert chosen_mode("async") == "processes"
    with pytest.raises(InvalidValue):
        chosen_mode("quickly")


@pytest.mark.parametrize("wanted", ["0", "-1", "many", "257"])
def test_a_number_of_workers(wanted: str) -> None:
    assert chosen_workers("3") == 3
    assert 1 <= chosen_workers("auto") <= 8
    with pytest.raises(InvalidValue):
        chosen_workers(wanted)


SHOT = Snapshot(
    "host:1:ab",
    (Job("0123456789abcdef", "mail.send", 2, 12.34),),
    5,
    {"mail.send": (10, 1, 2, 0, 6.5)},
)


def test_the_table_says_what_runs_and_for_how_long() -> None:
    lines = table([SHOT], 3.0, width=100, height=20)
    assert lines[0] == "1 workers, 5 running, 10 done (3/s), 1 failed, 2 retried"
    assert lines[3].split() == ["mail.send", "10", "1", "2", "500.0ms"]
    assert lines[6].split() == ["mail.send", "89abcdef", "12.3s", "2", "host:1"]
    assert lines[7] == "and 4 more"


def test_a_small_terminal_is_not_overrun() -> None:
    shot = SHOT._replace(jobs=SHOT.jobs * 50)
    lines = table([shot], 3.0, width=40, height=12)
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 40


def test_views_draw_in_time() -> None:
    now = [0.0]
    live, lines = io.StringIO(), io.StringIO()
    views = (LiveView(live, clock=lambda: now[0]), ProgressLines(lines, clock=lambda: now[0]))
    for _ in range(100):
        now[0] += 0.1
        for view in views:
            view([SHOT])

    now[0] += 0.1
    for view in views:
        view([SHOT])

    assert 15 < live.getvalue().count("\r") < 25
    assert len(lines.getvalue().splitlines()) == 1


def test_a_board_counts() -> None:
    board = Board("me")
    number = board.begin("1", "add", 1)
    assert [job.name for job in board.snapshot().jobs] == ["add"]
    assert board.end(number) >= 0
    board.counts_of("add").succeeded += 1
    assert board.snapshot().running == 0
    assert board.snapshot().done == 1


def test_a_task_has_a_name_to_show() -> None:
    @Tasks().task(name="x")
    def x() -> None: ...

    assert isinstance(x, Task)
    assert repr(x) == "<Task x>"
    assert repr(x.handle("1")) == "<Handle x 1>"
    assert asyncio.iscoroutinefunction(x.q)
