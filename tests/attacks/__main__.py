"""``scripts/soak attacks``: what is left of a well-behaved client's throughput under attack.

A broker, a client that publishes and consumes as fast as it can, and an attacker each have a
process; the attacker comes from an address of this machine that is not loopback, where there is
one. Each attack is measured beside the same time without it, in turns, and must leave 80 %. Beside
that stands what is left of the messages for each second of the broker's own processor time, which
tells more where the machine has other things to do.

``crowd`` has a broker of its own, whose bounds let ten thousand shake hands at a time; what memory
they take is told, and has a bound.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.attacks.attackers import ATTACKS, CROWD, Target, crowd
from tests.helpers.session import handshake, method, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED: Final = 0.8
CROWD_NAME: Final = "crowd"
CROWD_WAIT_S: Final = 120.0
CROWD_BYTES_MAX: Final = 32 * 1024
"""Of memory, for each of them."""

BATCH: Final = 200
BODY: Final = b"x" * 1_000
NICENESS: Final = 10
"""Of the attacker: what it takes from the broker counts, not what it takes from the machine."""

SLOW: Final = f"$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA${'A' * 43}"
"""Of a password that nobody has, and that takes its time."""

CONFIG: Final = """
version: 1
listeners: {{amqp: [{{bind: 0.0.0.0, port: 0}}]}}
management: {{listeners: [{{bind: 0.0.0.0, port: 0}}]}}
metrics: {{prometheus: {{enabled: false}}}}
storage: {{memory_only: true}}
log: {{level: info, format: json, file: {{path: {directory}/log}}}}
limits: {limits}
auth: {{loopback_only_users: []}}
users:
  - {{name: guest, password: guest, tags: [administrator]}}
  - name: looker
    password_hash: {slow}
    tags: [monitoring]
"""


CROWD_LIMITS: Final = (
    "{handshakes: 20000, handshake_timeout: 10m, connection_rate_per_source: null}"
)


class Victim(NamedTuple):
    """A broker that is attacked."""

    pid: int
    ports: dict[str, int]

    def memory_bytes(self) -> int:
        """What it has in memory; 0 where the system does not tell."""
        status = Path(f"/proc/{self.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(one.split()[1]) * 1024 for one in lines if one.startswith("VmRSS")), 0)

    def processor_s(self) -> float:
        """Processor time that it has taken."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.exists():
            return time.monotonic()

        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def socket_count(self) -> int:
        """Files and sockets that it has open."""
        files = Path(f"/proc/{self.pid}/fd")
        return len(list(files.iterdir())) if files.exists() else CROWD


class Client:
    """Publishes and consumes in turns, 200 messages of a kilobyte each."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        address = ("127.0.0.1", victim.ports["amqp"])
        self._socket = socket.create_connection(address, timeout=30)
        opening = method(1, "channel.open") + method(1, "queue.declare", queue="q")
        consume = method(1, "basic.consume", queue="q", no_ack=True)
        self._socket.sendall(handshake() + opening + consume)
        self._batch = publish(1, "q", BODY) * BATCH
        self._read_some()
        # All deliveries are of one size but for their tags, whose size is fixed.
        self._size = self._round_trip_bytes()

    def _read_some(self) -> int:
        self._socket.settimeout(0.5)
        count = 0
        try:
            while True:
                count += len(self._socket.recv(1 << 20))
        except TimeoutError:
            self._socket.settimeout(30)
            return count

    def _round_trip_bytes(self) -> int:
        self._socket.sendall(self._batch)
        return self._read_some()

    def rates(self, seconds: float) -> tuple[float, float]:
        """Messages a second, there and back again, by the clock and by the broker's processor."""
        count = 0
        used = self._victim.processor_s()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self._socket.sendall(self._batch)
            left = self._size
            while left:
                left -= len(self._socket.recv(min(left, 1 << 20)))

            count += BATCH

        took = time.monotonic() - began
        return count / took, count / max(self._victim.processor_s() - used, 0.01)


def _address() -> str:
    """One of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"

        return str(one.getsockname()[0])


def _attack(name: str, target: Target) -> None:
    os.nice(NICENESS)
    (crowd if name == CROWD_NAME else ATTACKS[name])(target)


@contextlib.contextmanager
def _under(name: str, target: Target) -> Iterator[None]:
    attacker = multiprocessing.Process(target=_attack, args=(name, target), daemon=True)
    attacker.start()
    try:
        yield
    finally:
        attacker.kill()
        attacker.join()


def _measure(client: Client, name: str, target: Target, options: argparse.Namespace) -> float:
    """What is left of the throughput: the median of several turns."""
    shares: list[tuple[float, ...]] = []
    for _ in range(options.turns):
        before = client.rates(options.seconds)
        with _under(name, target):
            time.sleep(options.lead)
            # What the attacker has saved up while nothing moved is used up.
            client.rates(1.0)
            during = client.rates(options.seconds)

        shares.append(_shares(before, during, client.rates(options.seconds)))
        # What is left of it goes away meanwhile.
        time.sleep(1.0)

    return _tell(name, shares)


def _measure_crowd(client: Client, victim: Victim, target: Target, seconds: float) -> float:
    """The same once, when all are there; and what memory they take."""
    before = client.rates(seconds)
    sockets, memory = victim.socket_count(), victim.memory_bytes()
    with _under(CROWD_NAME, target):
        end = time.monotonic() + CROWD_WAIT_S
        while victim.socket_count() - sockets < CROWD and time.monotonic() < end:
            time.sleep(0.1)

        during = client.rates(seconds)
        count = victim.socket_count() - sockets
        grown = victim.memory_bytes() - memory

    # Ten thousand sockets are closed one by one.
    time.sleep(5.0)
    left = _tell(CROWD_NAME, [_shares(before, during, client.rates(seconds))])
    each = grown / max(count, 1)
    size = f"{grown / 2**20:.0f} MiB, {each / 1024:.1f} KiB each"
    sys.stdout.write(f"{count:,} half-open connections take {size}\n")
    # A few may be on their way in.
    return left if count >= 0.99 * CROWD and each <= CROWD_BYTES_MAX else 0.0


def _shares(
    before: tuple[float, ...], during: tuple[float, ...], after: tuple[float, ...]
) -> tuple[float, ...]:
    return tuple(2 * b / (a + c) for a, b, c in zip(before, during, after, strict=True))


def _tell(name: str, shares: list[tuple[float, ...]]) -> float:
    by_clock = statistics.median(share[0] for share in shares)
    by_processor = statistics.median(share[1] for share in shares)
    sys.stdout.write(
        f"{name:15} {by_clock:6.1%} of the throughput left,"
        f" {by_processor:6.1%} of that of a processor second\n"
    )
    sys.stdout.flush()
    return by_clock


def main() -> int:
    names = [*ATTACKS, CROWD_NAME]
    parser = argparse.ArgumentParser(prog="scripts/soak attacks")
    parser.add_argument("attack", nargs="*", choices=[*names, []], help="all unless named")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn (%(default)s)")
    parser.add_argument("--lead", type=float, default=3.0, help="of the attacker (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="of each attack (%(default)s)")
    options = parser.parse_args()
    wanted = options.attack or names
    worst = 1.0
    if set(wanted) - {CROWD_NAME}:
        with _broker("{}") as victim:
            worst = _run(victim, [name for name in wanted if name != CROWD_NAME], options)

    if CROWD_NAME in wanted:
        with _broker(CROWD_LIMITS) as victim:
            client = Client(victim)
            client.rates(1.0)
            seconds = options.seconds * options.turns
            worst = min(worst, _measure_crowd(client, victim, _target(victim), seconds))

    return 0 if worst >= WANTED else 1


@contextlib.contextmanager
def _broker(limits: str) -> Iterator[Victim]:
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "leveret.yaml"
        config.write_text(CONFIG.format(directory=directory, slow=SLOW, limits=limits))
        process = subprocess.Popen([sys.executable, "-m", "broker", "serve", str(config)])
        try:
            yield Victim(process.pid, _ports(Path(directory) / "log"))
        finally:
            process.terminate()
            process.wait()


def _target(victim: Victim) -> Target:
    return Target(_address(), victim.ports["amqp"], victim.ports["http"], "looker", "")


def _run(victim: Victim, names: list[str], options: argparse.Namespace) -> float:
    target = _target(victim)
    client = Client(victim)
    client.rates(1.0)
    worst = 1.0
    for name in names:
        who = target._replace(user="guest", password="guest") if name == "patterns" else target
        worst = min(worst, _measure(client, name, who, options))

    return worst


def _ports(log: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    events = {"server.started": "amqp", "management.started": "http"}
    while len(found) < len(events):
        time.sleep(0.05)
        for line in log.read_text().splitlines() if log.exists() else ():
            record = json.loads(line)
            if record["event"] in events:
                address = record["listening"].split()[0]
                found[events[record["event"]]] = int(address.rpartition(":")[2])

    return found


if __name__ == "__main__":
    sys.exit(main())
