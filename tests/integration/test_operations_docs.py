"""What docs/operations.md tells operators to do does what it is there for."""

from __future__ import annotations

import configparser
import contextlib
import re
import shlex
import shutil
import socket
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from broker.app import STOP_WAIT_S
from broker.cli.main import cli
from broker.embedded import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")

PAGE: Final = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS: Final = FENCE.findall(PAGE)
COMMANDS: Final = [
    line.partition("  #")[0].strip()
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
]

CONFIGURATION: Final = """\
version: 1
storage: {{data_dir: {data}, segment_size: 64KiB}}
management: {{enabled: true}}
metrics: {{prometheus: {{enabled: true}}}}
users:
  - {{name: guest, password: guest, tags: [administrator]}}
  - {{name: shop, password: shop}}
vhosts:
  /:
    permissions: {{guest: {{configure: '.*', write: '.*', read: '.*'}}}}
    queues: {{orders: {{}}, orders.dead: {{}}, parked: {{}}}}
"""
BROKEN: Final = "/var/lib/broken"
SAYS: Final = {
    "leveret ctl list_queues name messages_ready": "orders\t120\t0\t0\t",
    "leveret ctl browse orders --limit": "still here",
    "leveret ctl move": "Moved 120 messages",
    "leveret ctl reload --dry-run": "nothing is changed",
    "leveret ctl reload": "the configuration is in force",
    "leveret store repair": "messages",
    "leveret store stats": "vhost /",
    "leveret store snapshot": "sound",
    "curl --fail": '"ok"',
}
"""What commands say among other things, by how they begin."""


class Place(NamedTuple):
    """Where the page's paths and ports are in this test."""

    broker: Broker
    root: Path

    def translate(self, line: str) -> str:
        line = line.replace("/var/lib/", f"{self.root}/var/").replace("/backup/", f"{self.root}/")
        line = line.replace("/etc/leveret/", f"{self.root}/")
        line = line.replace("http://localhost:15672", self.broker.management_url)
        return line.replace("leveret ping", f"leveret ping --port {self.broker.port}")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    data = tmp_path / "var" / "leveret"
    data.parent.mkdir()
    monkeypatch.setenv("LEVERET_DATA_DIR", str(data))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "leveret.yaml"
    file.write_text(CONFIGURATION.format(data=data))
    with Broker.in_thread(str(file), log_level="error") as broker:
        yield Place(broker, tmp_path)


def run(line: str) -> tuple[int, str]:
    """A line as somebody types it; what it reads and writes is redirected as the shell does it."""
    words = shlex.split(line)
    if words[0] == "curl":
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert words.pop(0) == "leveret", line
    given, target = b"", None
    if words[-2] in ("<", ">"):
        sign, name = words[-2:]
        del words[-2:]
        if sign == "<":
            given = Path(name).read_bytes()
        else:
            target = Path(name)

    result = CliRunner().invoke(cli, words, input=given, prog_name="leveret")
    if target is not None:
        target.write_text(result.stdout)

    fault = result.exception
    assert fault is None or isinstance(fault, SystemExit), (line, fault)
    return result.exit_code, result.stdout


class Keeper:
    """Sees to it that there is something for each command to work on.

    Attributes:
        is_broken: whether there is a damaged directory.

    """

    def __init__(self, place: Place) -> None:
        self._root = place.root
        self.is_broken = False

    def prepare(self, line: str) -> None:
        if line.startswith("leveret store snapshot"):
            shutil.rmtree(self._root / "monday", ignore_errors=True)
        elif BROKEN in line and not self.is_broken and self._wants_damage(line):
            self._damage()

    def _wants_damage(self, line: str) -> bool:
        # What was repaired is checked once more.
        return "repair" in line or not (self._root / "repaired").exists()

    def expected(self, line: str) -> int:
        """The exit status."""
        if "repair" in line:
            self.is_broken = False

        return 1 if line == f"leveret store check {BROKEN}" and self.is_broken else 0

    def _damage(self) -> None:
        broken = self._root / "var" / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(self._root / "monday", broken)
        for file in (broken / "vhosts").rglob("*"):
            raw = file.read_bytes() if file.is_file() else b""
            if b"still here" in raw:
                file.write_bytes(raw.replace(b"still here", b"still h?re", 1))

        self.is_broken = True


@pytest.mark.timeout(60)
def test_every_command_of_the_page_works(place: Place) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")

    assert len(COMMANDS) > 35
    message = (
        '{"message":{"queue":"orders","properties":{"delivery_mode":2},"body":"still here"}}\n'
    )
    for _ in range(3):
        CliRunner().invoke(cli, ["ctl", "import_messages"], input=message * 40)

    keeper = Keeper(place)
    unsaid = set(SAYS)
    for line in COMMANDS:
        keeper.prepare(line)
        wanted = keeper.expected(line)
        status, out = run(place.translate(line))
        assert status == wanted, (line, out)
        if beginning := next((one for one in SAYS if line.startswith(one)), None):
            assert SAYS[beginning] in out, (line, out)
            unsaid.discard(beginning)

    assert not unsaid


INLINE: Final = sorted(set(re.findall(r"`(leveret (?:config|ctl|ping|serve|store)\b[^`]*)`", PAGE)))


@pytest.mark.parametrize("line", INLINE)
def test_every_command_within_the_text_is_one(place: Place, line: str) -> None:
    words = line.split()[1:]
    verbs = words[: 1 if words[0] in ("ping", "serve") else 2]
    shown = CliRunner().invoke(cli, [*verbs, "--help"])
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.output for word in words if word.startswith("--"))
    # Some stand for what somebody has to fill in, or need a broker that is stopped.
    if words[0] in ("serve", "store") or "export_messages" in line or line == "leveret ctl":
        return

    line = line.replace("FILE", str(place.root / "leveret.yaml")).replace(" --port 5672", "")
    status, out = run(place.translate(line))
    assert status == 0, out


def fetch(base: str, path: str) -> tuple[int, str]:
    with contextlib.closing(HTTPConnection(base.removeprefix("http://"), timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


METRIC: Final = re.compile(r"\b(?:rabbitmq|leveret)_[a-z_]+[a-z]\b")


def test_metrics_that_are_to_be_watched_are_there(place: Place) -> None:
    status, scrape = fetch(place.broker.metrics_url, "/metrics")
    assert status == 200
    known = set(METRIC.findall(scrape))
    watch = PAGE.partition("## What to watch")[2].partition("## What to do when")[0]
    named = set(METRIC.findall(watch))
    assert len(named) > 12
    assert not named - known


def blocks(language: str, mark: str) -> str:
    [block] = [str(text) for one, text in BLOCKS if one == language and mark in text]
    return block


def test_the_rules_of_prometheus_are_rules() -> None:
    [group] = yaml.safe_load(blocks("yaml", "rules.yml"))["groups"]
    assert all(rule.keys() == {"alert", "expr", "for"} for rule in group["rules"])


def test_the_unit_starts_what_there_is_and_leaves_it_time() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(blocks("ini", "leveret.service"))
    service = unit["Service"]
    for key in ("ExecStart", "ExecStartPre"):
        words = service[key].split()
        words[0] = Path(words[0]).name
        words = [word for word in words if not word.startswith("/")]
        assert CliRunner().invoke(cli, [*words[1:], "--help"]).exit_code == 0, words
        assert all(one in help_of(words[1:]) for one in words if one.startswith("--"))

    assert int(service["TimeoutStopSec"]) > STOP_WAIT_S
    assert service["Environment"] == f"LEVERET_DATA_DIR=/var/lib/{service['StateDirectory']}"
    assert service["RestartPreventExitStatus"] == "78"


def help_of(words: list[str]) -> str:
    verbs = [word for word in words if not word.startswith("-") and word != "json"]
    return CliRunner().invoke(cli, [*verbs, "--help"]).stdout


def test_probes_of_containers_find_a_broker_that_runs(place: Place) -> None:
    probes = yaml.safe_load(blocks("yaml", "readinessProbe"))
    path = probes["readinessProbe"]["httpGet"]["path"]
    assert fetch(place.broker.management_url, path)[0] == 200
    compose = yaml.safe_load(blocks("yaml", "compose.yaml"))["services"]["leveret"]
    commands = [
        probes["livenessProbe"]["exec"]["command"],
        compose["healthcheck"]["test"][1:],
    ]
    assert commands == [["leveret", "ping"]] * 2
    assert run(place.translate("leveret ping"))[0] == 0
    assert all(word in help_of(["serve"]) for word in compose["command"] if word.startswith("--"))
    assert probes["terminationGracePeriodSeconds"] > STOP_WAIT_S
