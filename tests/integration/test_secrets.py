"""No password is anywhere: not in a log, an error, an answer, a file or the process list."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from broker.management.app import ROUTER
from tests.helpers.untyped import pika

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

# Each in a place of its own; what is left of them anywhere is looked for by these words.
IN_FILE: Final = "xyzzy-in-a-file"
IN_VARIABLE: Final = "xyzzy-in-a-variable"
IN_CONFIG: Final = "xyzzy-in-the-configuration"
OVER_HTTP: Final = "xyzzy-over-http"
IN_URL: Final = "xyzzy-in-a-url"
WRONG: Final = "xyzzy-that-is-wrong"
MARK: Final = "xyzzy"

CONFIG: Final = f"""
version: 1
listeners: {{amqp: [{{bind: 127.0.0.1, port: 0}}]}}
management: {{listeners: [{{bind: 127.0.0.1, port: 0}}]}}
metrics: {{prometheus: {{enabled: false}}}}
auth: {{anonymous_user: shown, anonymous_password: {IN_CONFIG}}}
log: {{level: debug, format: json, access: true, exchange: true}}
compatibility: {{event_exchange: true}}
users:
  - {{name: shown, password: {IN_CONFIG}, tags: [administrator]}}
  - {{name: filed, password_file: password.txt, tags: [administrator]}}
  - {{name: varied, password: "${{XYZ_PASSWORD}}", tags: [monitoring]}}
"""


class Server:
    """A broker in a process of its own, with all it has written."""

    def __init__(self, directory: Path) -> None:
        (directory / "password.txt").write_text(f"{IN_FILE}\n")
        self.config = directory / "leveret.yaml"
        self.config.write_text(CONFIG)
        self.data = directory / "data"
        environment = {
            **os.environ,
            "XYZ_PASSWORD": IN_VARIABLE,
            "LEVERET_DATA_DIR": str(self.data),
        }
        command = [sys.executable, "-m", "broker", "serve", str(self.config)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
        )
        self.lines: list[str] = []
        ports = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            record = json.loads(line)
            if record["event"] in ("management.started", "server.started"):
                ports[record["event"]] = int(record["listening"].split()[0].rpartition(":")[2])

            if len(ports) == 2:
                break

        self.amqp_port = ports["server.started"]
        self.http_port = ports["management.started"]

    def ask(
        self, method: str, path: str, user: str, password: str, body: object = None
    ) -> tuple[int, str]:
        """Status, and headers and body of the answer."""
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        headers = {"authorization": f"Basic {token}"}
        connection.request(method, f"/api{path}", data, headers)
        with connection.getresponse() as response:
            answer = response.status, f"{response.headers} {response.read()!r}"

        connection.close()
        return answer

    def connect(self, user: str, password: str) -> Any:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self.amqp_port, credentials=pika.PlainCredentials(user, password)
            )
        )

    def stop(self) -> str:
        """Everything that was written."""
        self.process.terminate()
        assert self.process.stdout is not None
        self.lines += self.process.stdout
        self.process.wait(10)
        return "".join(self.lines)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    yield one
    one.process.kill()
    one.process.wait()
    if one.process.stdout is not None:
        one.process.stdout.close()


def encoded(secret: str) -> list[str]:
    """A secret, and what it becomes in headers; three times, for each place it may begin at."""
    forms = [secret]
    for lead in ("", "x", "xx"):
        text = base64.b64encode((lead + secret).encode()).decode()
        forms.append(text[4 if lead else 0 : -4])

    return forms


def assert_clean(text: str, where: str) -> None:
    for secret in (IN_FILE, IN_VARIABLE, IN_CONFIG, OVER_HTTP, IN_URL, WRONG):
        for form in encoded(secret):
            assert form not in text, f"{form} in {where}"

    assert MARK not in text, where


def test_no_password_is_anywhere(server: Server) -> None:
    for user, password in (("shown", IN_CONFIG), ("filed", IN_FILE), ("varied", IN_VARIABLE)):
        server.connect(user, password).close()
        with pytest.raises(pika.exceptions.AMQPError) as refused:
            server.connect(user, WRONG)

        assert_clean(str(refused.value), "the error")

    admin = ("shown", IN_CONFIG)
    made = server.ask("PUT", "/users/new", *admin, {"password": OVER_HTTP, "tags": "management"})
    assert made[0] == 201
    assert server.ask("GET", "/whoami", "new", OVER_HTTP)[0] == 200
    assert server.ask("GET", "/whoami", "new", WRONG)[0] == 401
    # Answered with a hash; and not told of by the access log.
    assert server.ask("GET", f"/auth/hash_password/{IN_URL}", *admin)[0] == 200
    assert server.ask("GET", f"/queues?password={IN_URL}", *admin)[0] == 200
    both = {"password": OVER_HTTP, "password_hash": "x", "tags": ""}
    assert server.ask("PUT", "/users/both", *admin, both)[0] == 400

    answers = ""
    for route in ROUTER.routes:
        if route.method == "GET" and "hash_password" not in route.path:
            path = route.path.replace(":vhost", "%2F").replace(":user", "filed").replace(":", "")
            answers += server.ask("GET", path, *admin)[1]

    assert "filed" in answers
    assert_clean(answers, "the answers")
    for name in ("cmdline", "status"):
        proc = Path(f"/proc/{server.process.pid}/{name}")
        if proc.exists():
            assert_clean(proc.read_text(), str(proc))

    log = server.stop()
    assert "login.refused" in log
    assert "access.request" in log
    assert "/auth/hash_password/***" in log
    assert_clean(log, "the log")
    for file in server.data.rglob("*"):
        if file.is_file():
            assert_clean(file.read_bytes().decode("latin-1"), str(file))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(f"users: [{{name: a, password: [{MARK}]}}]", id="a-list"),
        pytest.param(f"users: [{{name: a, password: {MARK}, password: {MARK}}}]", id="twice"),
        pytest.param(f"users: [{{name: a, pasword: {MARK}}}]", id="misspelt"),
        pytest.param(f"users: [{{name: a, password_hash: {MARK}}}]", id="no-hash"),
        pytest.param(f"auth: {{anonymous_password: {{a: {MARK}}}}}", id="a-mapping"),
        pytest.param(f'users: [{{name: a, password: "{MARK}}}]', id="an-open-quote"),
    ],
)
def test_complaints_about_a_configuration_do_not_show_it(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "leveret.yaml"
    path.write_text(f"version: 1\n{broken}\n")
    command = [sys.executable, "-m", "broker", "config", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert_clean(done.stdout + done.stderr, "the complaint")
