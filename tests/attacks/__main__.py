"""``scripts/soak attacks``: what is left of a well-behaved client's throughput under attack.

A broker, a client that publishes and consumes as fast as it can, and an attacker each have a
process; the attacker comes from an address of this machine that is not loopback, where there is
one. Each attack is measured beside the same time without it, in turns, and must leave 80 %.
"""

from __future__ import annotations

import argparse
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
from typing import Final

from tests.attacks.attackers import ATTACKS, Target
from tests.helpers.session import handshake, method, publish

WANTED: Final = 0.8
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
auth: {{loopback_only_users: []}}
users:
  - {{name: guest, password: guest, tags: [administrator]}}
  - name: looker
    password_hash: {slow}
    tags: [monitoring]
"""


class Client:
    """Publishes and consumes in turns, 200 messages of a kilobyte each."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
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

    def rate(self, seconds: float) -> float:
        """Messages a second, and there and back again."""
        count = 0
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self._socket.sendall(self._batch)
            left = self._size
            while left:
                left -= len(self._socket.recv(min(left, 1 << 20)))

            count += BATCH

        return count / (time.monotonic() - began)


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
    ATTACKS[name](target)


def _measure(client: Client, name: str, target: Target, options: argparse.Namespace) -> float:
    """What is left of the throughput: the median of several turns."""
    shares = []
    for _ in range(options.turns):
        before = client.rate(options.seconds)
        attacker = multiprocessing.Process(target=_attack, args=(name, target), daemon=True)
        attacker.start()
        time.sleep(options.lead)
        during = client.rate(options.seconds)
        attacker.kill()
        attacker.join()
        after = client.rate(options.seconds)
        shares.append(during / ((before + after) / 2))
        # What is left of it goes away meanwhile.
        time.sleep(1.0)

    return statistics.median(shares)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak attacks")
    parser.add_argument("attack", nargs="*", choices=[*ATTACKS, []], help="all unless named")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn (%(default)s)")
    parser.add_argument("--lead", type=float, default=3.0, help="of the attacker (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="of each attack (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "leveret.yaml"
        config.write_text(CONFIG.format(directory=directory, slow=SLOW))
        process = subprocess.Popen([sys.executable, "-m", "broker", "serve", str(config)])
        try:
            return _run(Path(directory) / "log", options)
        finally:
            process.terminate()
            process.wait()


def _run(log: Path, options: argparse.Namespace) -> int:
    ports = _ports(log)
    target = Target(_address(), ports["amqp"], ports["http"], "looker", "")
    client = Client(ports["amqp"])
    client.rate(1.0)
    worst = 1.0
    for name in options.attack or ATTACKS:
        who = target._replace(user="guest", password="guest") if name == "patterns" else target
        left = _measure(client, name, who, options)
        worst = min(worst, left)
        sys.stdout.write(f"{name:15} {left:6.1%} of the throughput left\n")
        sys.stdout.flush()

    return 0 if worst >= WANTED else 1


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
