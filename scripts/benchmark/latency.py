"""Scenarios that measure how long an answer takes: alone, and beside somebody loud."""

from __future__ import annotations

import base64
import contextlib
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final

from scripts.benchmark.client import BrokerError, Client
from scripts.benchmark.frames import measure_delivery, publish
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import PublisherPlan, run_publisher
from scripts.benchmark.traffic import (
    DRAIN_LIMIT_S,
    PREFIX,
    SETUP_LIMIT_S,
    published,
    scratch_queues,
)
from scripts.benchmark.workers import Crew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.benchmark.brokers import Running

__all__ = ["run_fair", "run_round_trip"]

ROUND_TRIPS_MAX: Final = 50_000
WARM_UP_ROUND_TRIPS: Final = 200
BLAST_LEAD_S: Final = 0.3
"""How long the loud publisher is alone before the quiet client begins."""
BLAST_QUEUE_MAX: Final = 10_000
CONNECT_PART: Final = 0.3
HTTP_PART: Final = 0.3
"""Of the length of a run, what is added to it for new connections and for HTTP requests."""
HTTP_LIMIT_S: Final = 10.0
_READ_BYTES: Final = 65_536


def run_round_trip(running: Running, options: Options) -> list[Measurement]:
    """Publish a message on one connection, wait for it on another, again and again."""
    times = _round_trips(running, f"{PREFIX}-round-trip", options.seconds)[WARM_UP_ROUND_TRIPS:]
    if not times:
        raise BrokerError("too few round trips in the time given")

    return [
        Measurement("round-trip-p50", percentile(times, 0.5) * 1e6, "us"),
        Measurement("round-trip-p99", percentile(times, 0.99) * 1e6, "us"),
    ]


def run_fair(running: Running, options: Options) -> list[Measurement]:
    """Round trips and new connections while a publisher sends as much as it can.

    Its queue keeps the newest messages only, so that the broker works on all of them and its memory
    is not what is measured.
    """
    loud = f"{PREFIX}-fair-loud"
    seconds = options.seconds
    plan = PublisherPlan(
        running.target,
        "",
        (loud,),
        100,
        False,
        0,
        BLAST_LEAD_S + seconds * (1 + CONNECT_PART + HTTP_PART),
    )
    arguments = {"x-max-length": BLAST_QUEUE_MAX}
    # The first request has the API loaded, and a password hashed: that is once, and told apart.
    first = _http_times(running, 0.0)
    with (
        scratch_queues(running, [loud], arguments=arguments, may_be_left=True),
        Crew() as crew,
    ):
        publisher = crew.start(run_publisher, plan, SETUP_LIMIT_S)
        publisher.tell("go")
        time.sleep(BLAST_LEAD_S)
        times = _round_trips(running, f"{PREFIX}-fair-quiet", seconds)
        connects = _connect_times(running, seconds * CONNECT_PART)
        asked = _http_times(running, seconds * HTTP_PART)
        result = published(publisher, plan.seconds + DRAIN_LIMIT_S)

    if not times:
        raise BrokerError("not a single round trip in the time given")

    return [
        Measurement("fair-blast", result.sent / (result.finished_s - result.started_s), "msg/s"),
        Measurement("fair-p50", percentile(times, 0.5) * 1e3, "ms"),
        Measurement("fair-p99", percentile(times, 0.99) * 1e3, "ms"),
        Measurement("fair-worst", max(times) * 1e3, "ms"),
        Measurement("fair-connect-p50", percentile(connects, 0.5) * 1e3, "ms"),
        *([Measurement("fair-http-first", first[0] * 1e3, "ms")] if first else []),
        *([Measurement("fair-http-p50", percentile(asked, 0.5) * 1e3, "ms")] if asked else []),
        *([Measurement("fair-http-worst", max(asked) * 1e3, "ms")] if asked else []),
    ]


def percentile(times: Sequence[float], part: float) -> float:
    """The time that ``part`` of them did not exceed."""
    in_order = sorted(times)
    return in_order[min(len(in_order) - 1, int(len(in_order) * part))]


def _connect_times(running: Running, seconds: float) -> list[float]:
    """How long it takes from a TCP connect to an open channel."""
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while not times or time.perf_counter() < deadline:
        begin = time.perf_counter()
        with Client(running.target):
            times.append(time.perf_counter() - begin)

    return times


def _http_times(running: Running, seconds: float) -> list[float]:
    """How long the HTTP API takes to tell the overview; nothing where there is none."""
    if not running.http_port:
        return []

    target = running.target
    login = base64.b64encode(f"{target.user}:{target.password}".encode()).decode()
    connection = HTTPConnection(target.host, running.http_port, timeout=HTTP_LIMIT_S)
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    with contextlib.closing(connection):
        while not times or time.perf_counter() < deadline:
            begin = time.perf_counter()
            try:
                connection.request(
                    "GET", "/api/overview", headers={"Authorization": f"Basic {login}"}
                )
                answer = connection.getresponse()
                answer.read()
            except ConnectionRefusedError:
                return []

            if answer.status != 200:
                raise BrokerError(f"the HTTP API answered {answer.status}")

            times.append(time.perf_counter() - begin)

    return times


def _round_trips(running: Running, queue: str, seconds: float) -> list[float]:
    with (
        scratch_queues(running, [queue]),
        Client(running.target) as sender,
        Client(running.target) as receiver,
    ):
        receiver.consume(queue, "c", auto_ack=True)
        message = publish(
            "", queue, bytes(100), is_persistent=False, frame_bytes_max=sender.frame_bytes_max
        )
        times = _round_trip_times(sender, receiver, message, seconds)
        receiver.cancel("c")

    return times


def _round_trip_times(
    sender: Client, receiver: Client, message: bytes, seconds: float
) -> list[float]:
    send, receive, clock = sender.sock.sendall, receiver.sock.recv, time.perf_counter
    times: list[float] = []
    size = 0
    deadline = clock() + seconds
    while len(times) < ROUND_TRIPS_MAX:
        begin = clock()
        if begin > deadline:
            break

        send(message)
        data = receive(_READ_BYTES)
        while not data or len(data) < size or (not size and not measure_delivery(data)):
            more = receive(_READ_BYTES)
            if not more:
                raise BrokerError("the broker hung up")

            data += more

        times.append(clock() - begin)
        if not size:
            size = measure_delivery(data)

        if len(data) != size:
            raise BrokerError(f"{len(data)} bytes came, not the {size} of a delivery")

    return times
