"""Flower shows the queues of the broker, which it asks for over HTTP.

Needs a broker with an HTTP API on a port of its own, so it is skipped with ``--url``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import celery
import pytest

from interop.support.process import BrokerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_S = 60.0
PAUSE_S = 0.1

CONFIGURATION = """\
version: 1
management: {{enabled: true, listeners: [{{bind: 127.0.0.1, port: {port}}}]}}
metrics: {{prometheus: {{enabled: false}}}}
"""


@pytest.fixture
def broker(broker_command: str, tmp_path: Path) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker, and the port of its HTTP API."""
    port = free_port()
    file = tmp_path / "broker.yaml"
    file.write_text(CONFIGURATION.format(port=port))
    with BrokerProcess(broker_command, arguments=(str(file),)) as process:
        yield process, port


def fetched(url: str) -> str:
    """What there is, as soon as somebody answers."""
    end_s = time.monotonic() + START_S
    while True:
        try:
            with urlopen(url, timeout=10) as answer:  # noqa: S310
                return str(answer.read().decode())
        except URLError:
            if time.monotonic() > end_s:
                raise

            time.sleep(PAUSE_S)


@pytest.mark.timeout(120)
def test_flower_shows_the_queue_of_celery(broker: tuple[BrokerProcess, int]) -> None:
    process, api_port = broker
    app = celery.Celery("shop", broker=process.url)
    for _ in range(3):
        app.send_task("shop.add", (1, 2))

    port = free_port()
    words = [
        *(sys.executable, "-m", "celery", "--broker", process.url, "flower"),
        *("--address=127.0.0.1", f"--port={port}"),
        f"--broker-api=http://guest:guest@127.0.0.1:{api_port}/api/",
    ]
    environ = {**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as flower:
        try:
            told = json.loads(fetched(f"http://127.0.0.1:{port}/api/queues/length"))
            page = fetched(f"http://127.0.0.1:{port}/broker")
        finally:
            flower.terminate()

    [queue] = told["active_queues"]
    assert (queue["name"], queue["messages"]) == ("celery", 3)
    row = page.partition("<td>celery</td>")[2].partition("</tr>")[0]
    cells = [cell.partition(">")[2].partition("</td>")[0] for cell in row.split("<td")[1:]]
    # Messages, unacked, ready, consumers; then since when it is idle.
    assert cells[:4] == ["3", "0", "3", "0"]
