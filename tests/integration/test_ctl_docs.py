"""Every command of docs/ctl.md does what it is there for."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from broker.cli.ctl.table import VERBS
from broker.embedded import Broker
from tests.helpers.ctl import Ctl

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no local sockets")

PAGE: Final = (Path(__file__).parents[2] / "docs" / "ctl.md").read_text(encoding="utf-8")
FENCE: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM: Final = "leveret ctl "
COMMANDS: Final = [line for block in FENCE.findall(PAGE) for line in block.splitlines()]

CONFIGURATION: Final = """\
version: 1
storage: {data_dir: DIRECTORY}
users:
  - {name: guest, password: guest, tags: [administrator]}
vhosts:
  /:
    permissions: {guest: {configure: '.*', write: '.*', read: '.*'}}
    queues: {orders: {}, orders.copy: {}, orders.dead: {}, parked: {}}
    bindings: [{source: amq.topic, destination: orders, routing_key: orders.again}]
"""
MESSAGE: Final = (
    '{"message":{"queue":"orders","properties":{"headers":{"tenant":42}},"body":"x"}}\n'
)

SAYS: Final = {
    "list_queues name messages": "orders\t2",
    "browse": "0\tready\t\torders\t1\tx",
    "move orders parked": "Moved 2 messages\n",
    "move parked": "Moved 2 messages\n",
    "redrive": "Moved 0 messages\n",
    "list_moves": "\tdone\t2\t2\n",
    "export_messages": "Exported 2 messages\n",
    "import_messages": "Imported 2 messages\n",
    "reload --dry-run": "nothing is changed: --dry-run\n",
    "reload": "the configuration is in force\n",
    "list_bindings": "amq.topic\texchange\torders\tqueue\torders.again\t[]\n",
    "list_vhosts": '"name","tags","tracing"\n"/","[]","false"\n',
    "check_running": "is fully booted and running\n",
    "check_alarms": "reported no alarms",
}
"""What commands say among other things, by how they begin; the first that fits counts."""


@pytest.fixture
def ctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ctl]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEVERET_DATA_DIR", str(tmp_path / "data"))
    file = tmp_path / "leveret.yaml"
    file.write_text(CONFIGURATION.replace("DIRECTORY", str(tmp_path / "data")))
    with Broker.in_thread(str(file), log_level="error"):
        yield Ctl()


def test_every_command_of_the_page_works(ctl: Ctl) -> None:
    assert len(COMMANDS) > 25
    ctl.does("import_messages", MESSAGE * 2)
    seen: set[str] = set()
    for line in COMMANDS:
        assert line.startswith(PROGRAM), line
        command = line.removeprefix(PROGRAM)
        outcome = ctl.line(command)
        assert (outcome.status, outcome.err) == (0, ""), line
        beginning = next((one for one in SAYS if command.startswith(one)), "")
        assert SAYS.get(beginning, "") in outcome.out, line
        seen.add(beginning)

    assert seen >= set(SAYS)


def test_verbs_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z_]+)+)", FENCE.sub("", PAGE)))
    columns = {name for verb in VERBS.values() for name in verb.columns}
    assert len(named & VERBS.keys()) > 20
    assert not named - VERBS.keys() - columns - {"pretty_table"}


def test_statuses_that_the_page_names_are_those_there_are() -> None:
    from broker.cli.ctl import faults

    found = {value for name, value in vars(faults).items() if name.startswith("EXIT_")}
    table = PAGE.partition("## Exit statuses")[2].partition("##")[0]
    assert {int(number) for number in re.findall(r"^\| (\d+) ", table, re.MULTILINE)} == found
