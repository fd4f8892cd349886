"""What docs/tls.md tells people to do, done: every command, configuration and program in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from click.testing import CliRunner

from broker.cli.main import cli
from broker.embedded import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENSSL: Final = shutil.which("openssl")
CURL: Final = shutil.which("curl")
PROJECT: Final = Path(__file__).parents[2]
PAGE: Final = (PROJECT / "docs" / "tls.md").read_text(encoding="utf-8")
FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS: Final = FENCE.findall(PAGE)
CONFIGURATIONS: Final = [block for language, block in BLOCKS if language == "yaml"]
PROGRAMS: Final = [block for language, block in BLOCKS if language == "python"]
COMMANDS: Final = [
    line for language, block in BLOCKS if language == "sh" for line in block.splitlines()
]

pytestmark = [
    pytest.mark.skipif(OPENSSL is None, reason="there is no openssl here"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def beginning(word: str) -> list[str]:
    return [line for line in COMMANDS if line.startswith(word)]


def run(command: str, directory: Path) -> str:
    """As a person would, with this leveret."""
    command = command.replace("leveret ", f"{sys.executable} -m broker ")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's certificates are."""
    directory = tmp_path_factory.mktemp("page")
    made = beginning("openssl req")
    assert [re.findall(r"-out (\S+)", line) for line in made] == [
        ["ca.crt"],
        ["tls.crt"],
        ["shop.crt"],
    ]
    for line in made:
        run(line, directory)

    for suffix in ("crt", "key"):
        shutil.copyfile(directory / f"tls.{suffix}", directory / f"example.{suffix}")
        (directory / f"example.{suffix}").chmod(0o600)

    return directory


def configured(place: Path, number: int) -> Path:
    """The file of one of the page's configurations."""
    path = place / "leveret.yaml"
    path.write_text(f"version: 1\n{CONFIGURATIONS[number]}", encoding="utf-8")
    return path


@contextmanager
def serving(place: Path, number: int) -> Iterator[Broker]:
    """A broker with one of the page's configurations, on free ports."""
    data = yaml.safe_load(configured(place, number).read_text(encoding="utf-8"))
    free = {"bind": "127.0.0.1", "port": 0}
    listeners = data["listeners"]
    listeners["amqp"] = [{}]
    for one in listeners.get("amqps", ()):
        one.update(free)

    data.setdefault("management", {})["enabled"] = True
    data["management"].setdefault("listeners", [{}])[0].update(free)
    prometheus = data.setdefault("metrics", {}).setdefault("prometheus", {})
    prometheus["enabled"] = True
    prometheus.setdefault("listeners", [{}])[0].update(free)
    path = place / "serving.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with Broker.in_thread(path) as broker:
        yield broker


def translated(text: str, broker: Broker) -> str:
    ports = {
        "5671": broker.tls_url.rpartition(":")[2].strip("/"),
        "15671": broker.management_url.rpartition(":")[2],
        "15692": broker.metrics_url.rpartition(":")[2],
    }
    return re.sub(r"\b(15671|15692|5671)\b", lambda match: ports[match[1]], text)


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_every_configuration_of_the_page_is_all_right(place: Path, number: int) -> None:
    path = configured(place, number)
    assert beginning("leveret config check") == ["leveret config check leveret.yaml"]
    checked = CliRunner().invoke(cli, ["config", "check", str(path)])
    assert checked.output.splitlines()[-1] == f"{path}: all right"
    assert checked.exit_code == 0


def test_the_commands_of_the_page_find_the_broker(place: Path) -> None:
    with serving(place, 0) as broker:
        for line in (beginning("leveret ping")[0], *beginning("openssl s_client")):
            said = run(translated(line, broker), place)
            assert "TLSv1.3" in said, said

        for line in beginning("curl") if CURL else ():
            assert run(translated(line, broker), place)


def test_a_client_shows_its_certificate_as_on_the_page(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    [program] = [one for one in PROGRAMS if "ExternalCredentials" in one]
    with serving(place, 1) as broker:
        exec(compile(translated(program, broker), "docs/tls.md", "exec"), {})  # noqa: S102
        assert capsys.readouterr().out == "logged in as shop\n"
        run(translated(beginning("leveret ping")[1], broker), place)


async def test_a_client_connects_as_on_the_page(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    [program] = [one for one in PROGRAMS if "aio_pika" in one]
    with serving(place, 0) as broker:
        names: dict[str, object] = {}
        exec(compile(translated(program, broker), "docs/tls.md", "exec"), names)  # noqa: S102
        main = names["main"]
        assert callable(main)
        await main()
        assert capsys.readouterr().out == "connected with TLS\n"


def test_the_lines_of_the_log_are_those_of_the_broker() -> None:
    """What the page quotes stands in the sources."""
    homes = (PROJECT / "broker" / name for name in ("net", "tls", "protocol"))
    paths = [path for home in homes for path in home.glob("*.py")]
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    quoted = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## When somebody")[2], re.MULTILINE)
    assert len(quoted) > 8
    for line in quoted:
        fragment = max(re.split(r"AMQP 0-9-1|a TLS handshake|\d+ s|1000|\.\.\.|: ", line), key=len)
        assert fragment.strip(" ,") in sources, line
