"""Scenario of a relay that knows no AMQP: what one thread with sockets can do at most here.

It reads what one socket has and writes it to another, and nothing else. A broker of one thread that
comes near it leaves the rest to the system, to the processors and to the load that they share.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from scripts.benchmark.client import BrokerError
from scripts.benchmark.latency import ROUND_TRIPS_MAX, WARM_UP_ROUND_TRIPS, percentile
from scripts.benchmark.measurement import Measurement, Options
from scripts.benchmark.publisher import BATCH_BYTES, SEND_BUFFER_BYTES
from scripts.benchmark.traffic import SETUP_LIMIT_S
from scripts.benchmark.workers import Crew

if TYPE_CHECKING:
    from scripts.benchmark.brokers import Running
    from scripts.benchmark.workers import Pipe

__all__ = ["run_floor"]

BODY_BYTES: Final = 65_536
READ_BYTES: Final = 262_144
WAKE_BYTES: Final = 32_768
ROUND_TRIP_BYTES: Final = 160
"""A publish and a delivery of 100 bytes are about as long."""
END_LIMIT_S: Final = 30.0


class _Flow(NamedTuple):
    port: int
    seconds: float


class _Relayed(NamedTuple):
    read_bytes: int
    elapsed_s: float
    cpu_s: float


def run_floor(running: Running, options: Options) -> list[Measurement]:
    """Relay large bodies, then one small message at a time."""
    relayed = _relay_bodies(options.seconds)
    messages = relayed.read_bytes / BODY_BYTES
    times = _relay_round_trips(options.seconds)[WARM_UP_ROUND_TRIPS:]
    if not times or not messages:
        raise BrokerError("too little was relayed in the time given")

    return [
        Measurement("relay-large-bodies", messages / relayed.elapsed_s, "msg/s"),
        Measurement("relay-large-bodies cpu", relayed.cpu_s / messages * 1e6, "s/M"),
        Measurement("relay-round-trip-p50", percentile(times, 0.5) * 1e6, "us"),
        Measurement("relay-round-trip-p99", percentile(times, 0.99) * 1e6, "us"),
    ]


def _relay_bodies(seconds: float) -> _Relayed:
    with socket.create_server(("127.0.0.1", 0)) as server, Crew() as crew:
        port = server.getsockname()[1]
        sink = crew.start(_swallow, _Flow(port, seconds), SETUP_LIMIT_S)
        target = server.accept()[0]
        crew.start(_pour, _Flow(port, seconds), SETUP_LIMIT_S)
        source = server.accept()[0]
        with source, target:
            relayed = _relay(source, target)

        if sink.hear(seconds + END_LIMIT_S) != relayed.read_bytes:
            raise BrokerError("the relay lost bytes")

    return relayed


def _relay_round_trips(seconds: float) -> list[float]:
    times: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server, Crew() as crew:
        crew.start(_serve_relay, _Flow(server.getsockname()[1], seconds), SETUP_LIMIT_S)
        sender, receiver = server.accept()[0], server.accept()[0]
        with sender, receiver:
            for one in (sender, receiver):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            message = bytes(ROUND_TRIP_BYTES)
            deadline = time.perf_counter() + seconds
            while len(times) < ROUND_TRIPS_MAX and time.perf_counter() < deadline:
                begin = time.perf_counter()
                sender.sendall(message)
                if len(receiver.recv(READ_BYTES)) != ROUND_TRIP_BYTES:
                    raise BrokerError("the relay cut a message")

                times.append(time.perf_counter() - begin)

    return times


def _serve_relay(plan: _Flow, pipe: Pipe) -> None:
    with (
        socket.create_connection(("127.0.0.1", plan.port)) as source,
        socket.create_connection(("127.0.0.1", plan.port)) as target,
    ):
        pipe.send("ready")
        _relay(source, target)


def _relay(source: socket.socket, target: socket.socket) -> _Relayed:
    """Do what a server's loop does: wait until there is something, read it, write it."""
    source.setblocking(False)
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    read = 0
    started_s, cpu_s = time.monotonic(), time.process_time()
    while True:
        poll.poll()
        data = source.recv(READ_BYTES)
        if not data:
            return _Relayed(read, time.monotonic() - started_s, time.process_time() - cpu_s)

        read += len(data)
        target.sendall(data)


def _pour(plan: _Flow, pipe: Pipe) -> None:
    batch = bytes(BATCH_BYTES)
    with socket.create_connection(("127.0.0.1", plan.port)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        pipe.send("ready")
        deadline = time.monotonic() + plan.seconds
        while time.monotonic() < deadline:
            sock.sendall(batch)


def _swallow(plan: _Flow, pipe: Pipe) -> None:
    view = memoryview(bytearray(READ_BYTES))
    taken = 0
    with socket.create_connection(("127.0.0.1", plan.port)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, WAKE_BYTES)
        pipe.send("ready")
        while count := sock.recv_into(view):
            taken += count

    pipe.send(taken)
