"""Scenarios of the HTTP API: what it costs who publishes and consumes, how long lists take."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import Client
from scripts.benchmark.frames import short_string, table
from scripts.benchmark.latency import percentile
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.throughput import FLOWS, run_flow
from scripts.benchmark.traffic import PREFIX, SETUP_LIMIT_S
from scripts.benchmark.workers import Crew, Pipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.benchmark.brokers import Running
    from scripts.benchmark.workers import Worker

__all__ = ["run_api_load"]

QUEUES: Final = 10_000
REQUESTS_A_SECOND: Final = 50.0
ASKERS: Final = 10
PAIRS: Final = 5
"""How often the traffic is measured without and with requests."""

ANSWER_LIMIT_S: Final = 30.0
LISTS: Final = 5

PATHS: Final = (
    "/overview",
    "/queues?page=1&page_size=100",
    "/queues/%2F/{queue}",
    "/nodes",
    "/queues?page=3&page_size=100&sort=messages&sort_reverse=true",
    "/connections",
    "/queues/%2F?page=1&page_size=100&use_regex=true&pagination=false&name=%5Ebench-api-00000",
    "/channels",
    "/queues/%2F/{queue}?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "/health/checks/alarms",
)
"""What dashboards, autoscalers and probes ask for, in turn."""


class LoadPlan(NamedTuple):
    """Requests at a steady pace."""

    host: str
    port: int
    login: str
    queues: tuple[str, ...]


class LoadResult(NamedTuple):
    """How long the answers took."""

    times: tuple[float, ...]
    late: int
    """Requests that could not be sent in time, since the one before was not answered."""


def run_api_load(running: Running, options: Options) -> list[Measurement]:
    """Messages a second with nobody at the API, and with 50 requests a second; then whole lists."""
    names = [f"{PREFIX}-api-{place:06}" for place in range(options.scaled(QUEUES))]
    flow = FLOWS[0]
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    times: list[float] = []
    late = 0
    with _queues(running, names), Crew() as crew:
        worker = crew.start(_run_load, _plan_of(running, names), SETUP_LIMIT_S)
        for is_asked in (False, True) * PAIRS:
            if is_asked:
                worker.tell("go")

            [figure] = run_flow(flow, running, options)
            rates[is_asked].append(figure.value)
            costs[is_asked].append(figure.cpu_s_per_million or 0.0)
            if is_asked:
                result = _stopped(worker)
                times += result.times
                late += result.late

        worker.tell("end")
        lists = _list_times(running)

    alone, asked = _middle(rates[False]), _middle(rates[True])
    return [
        Measurement("api-alone", alone, "msg/s"),
        Measurement("api-asked", asked, "msg/s"),
        Measurement("api-cost", _share(_middle(costs[False]), _middle(costs[True])), "%"),
        Measurement("api-p50", percentile(times, 0.5) * 1e3, "ms"),
        Measurement("api-p99", percentile(times, 0.99) * 1e3, "ms"),
        Measurement("api-late", late * 100 / len(times), "%"),
        Measurement("api-list", _middle(lists) * 1e3, "ms"),
    ]


@contextlib.contextmanager
def _queues(running: Running, names: list[str]) -> Iterator[None]:
    shorts = [short_string(name) for name in names]
    with Client(running.target) as client:
        try:
            client.call_many(50, 10, [b"\0\0" + name + b"\0" + table({}) for name in shorts])
            yield
        finally:
            client.call_many(50, 40, [b"\0\0" + name + b"\0" for name in shorts])


def _plan_of(running: Running, names: list[str]) -> LoadPlan:
    target = running.target
    login = base64.b64encode(f"{target.user}:{target.password}".encode()).decode()
    return LoadPlan(target.host, running.http_port, login, tuple(names[:100]))


def _stopped(worker: Worker) -> LoadResult:
    worker.tell("stop")
    result = worker.hear(ANSWER_LIMIT_S)
    if not isinstance(result, LoadResult):
        raise ValueError(f"not a result: {result!r}")

    return result


def _run_load(plan: LoadPlan, pipe: Pipe) -> None:
    """Wait for the signal, ask at a steady pace until told to stop; again, until told to end."""
    # The first request has the broker load its API.
    with contextlib.closing(_connect(plan)) as connection:
        _ask(connection, plan.login, "/overview")

    pipe.send("ready")
    while pipe.recv() == "go":
        is_over = threading.Event()
        with ThreadPoolExecutor(ASKERS) as pool:
            asked = [pool.submit(_load, plan, place, is_over) for place in range(ASKERS)]
            pipe.recv()
            is_over.set()
            results = [one.result() for one in asked]

        times = tuple(time_s for one in results for time_s in one.times)
        pipe.send(LoadResult(times, sum(one.late for one in results)))


def _connect(plan: LoadPlan) -> HTTPConnection:
    return HTTPConnection(plan.host, plan.port, timeout=ANSWER_LIMIT_S)


def _load(plan: LoadPlan, place: int, is_over: threading.Event) -> LoadResult:
    """One of those who ask, each with a connection of its own."""
    times: list[float] = []
    late = 0
    every_s = ASKERS / REQUESTS_A_SECOND
    due = time.monotonic() + place * every_s / ASKERS
    with contextlib.closing(_connect(plan)) as connection:
        while not is_over.wait(max(0.0, due - time.monotonic())):
            path = PATHS[(len(times) + place) % len(PATHS)]
            queue = plan.queues[len(times) % len(plan.queues)]
            times.append(_ask(connection, plan.login, path.replace("{queue}", queue)))
            due += every_s
            if due < time.monotonic():
                late += 1
                due = time.monotonic()

    return LoadResult(tuple(times), late)


def _ask(connection: HTTPConnection, login: str, path: str) -> float:
    begin = time.perf_counter()
    connection.request("GET", f"/api{path}", headers={"Authorization": f"Basic {login}"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise ValueError(f"the HTTP API answered {answer.status} to {path}")

    return time.perf_counter() - begin


def _list_times(running: Running) -> list[float]:
    """How long a list of all queues with all statistics takes."""
    plan = _plan_of(running, [])
    connection = HTTPConnection(plan.host, plan.port, timeout=ANSWER_LIMIT_S)
    with contextlib.closing(connection):
        return [_ask(connection, plan.login, "/queues") for _ in range(LISTS)]


def _share(alone: float, asked: float) -> float:
    """What part of the broker's time requests took, in percent.

    The broker is busy all the time, so that is what its traffic lacks. Times of its process say so
    where rates of a machine that others use too say nothing: those differ by twenty percent.

    """
    return (asked - alone) * 100 / asked if asked else 0.0


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
