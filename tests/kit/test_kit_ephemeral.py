"""A broker for suites in other languages: one process, one line, one free port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.helpers.untyped import pika

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


def test_an_ephemeral_broker_says_where_it_is() -> None:
    command = (sys.executable, "-m", "broker", "serve", "--ephemeral", "--print-url")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            connection.channel().queue_declare("q")

        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
