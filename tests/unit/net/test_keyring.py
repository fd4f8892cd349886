"""Certificates in use: what is told of them, and when."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from broker.config.schema import TLSConfig, TLSCredentials
from broker.errors import StartError
from broker.net.keyring import Keyring
from tests.helpers.clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.certificates import CertificateFiles, Files

DAY_S = 86_400.0


class Rig:
    """A keyring of one profile, whose clock and files are ours."""

    def __init__(self, directory: Path, certificates: CertificateFiles) -> None:
        self.directory = directory
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        elapsed_s = certificates.now.timestamp() - VirtualClock.WALL_START_S
        self.clock = VirtualClock(elapsed_s=elapsed_s)
        self.put(certificates.server)
        credentials = TLSCredentials(str(directory / "a.crt"), str(directory / "a.key"))
        self.config = TLSConfig("default", credentials)
        self.keyring = Keyring([self.config], self.clock, self._log)

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        self.lines.append((level, event, fields))

    def put(self, files: Files) -> None:
        shutil.copyfile(files.cert, self.directory / "a.crt")
        shutil.copyfile(files.key, self.directory / "a.key")

    def after(self, days: float) -> list[str]:
        """What is told when so many days have gone by."""
        self.clock.move(days * DAY_S)
        self.lines.clear()
        self.keyring.look()
        return [f"{level} {event}" for level, event, _ in self.lines]


@pytest.fixture
def rig(tmp_path: Path, certificates: CertificateFiles) -> Rig:
    return Rig(tmp_path, certificates)


def test_what_is_loaded_is_told(rig: Rig) -> None:
    [(level, event, fields)] = rig.lines
    assert (level, event, fields["tls"]) == ("info", "tls.loaded", "default")
    assert fields["names"] == "localhost 127.0.0.1 ::1"


def test_what_cannot_be_loaded_is_no_start(tmp_path: Path) -> None:
    credentials = TLSCredentials(str(tmp_path / "none.crt"), str(tmp_path / "none.key"))
    with pytest.raises(StartError, match=r"tls\.default: cert: '.*none\.crt' cannot be read"):
        Keyring([TLSConfig("default", credentials)], VirtualClock(), lambda *_: None)


def test_an_end_that_is_near_is_told_of_once_a_day(rig: Rig) -> None:
    assert rig.after(300) == []
    assert rig.after(36) == ["warning tls.expires"]
    assert rig.lines[0][2]["days"] == 29
    assert rig.after(0.5) == []
    assert rig.after(0.5) == ["warning tls.expires"]
    # The moment itself does not wait for the next day.
    assert rig.after(27.9) == ["warning tls.expires"]
    assert rig.after(0.2) == ["error tls.expired"]
    assert rig.after(0.5) == []
    assert rig.after(0.6) == ["error tls.expired"]


def test_a_renewal_ends_the_warnings(rig: Rig, certificates: CertificateFiles) -> None:
    assert rig.after(340) == ["warning tls.expires"]
    fresh = certificates.issue(
        "fresh", "localhost", not_after=certificates.now.replace(year=certificates.now.year + 3)
    )
    rig.put(fresh)
    assert rig.after(1) == ["warning tls.expires"]  # it may still be changing
    assert rig.after(0) == ["info tls.reloaded"]
    assert rig.after(30) == []


def test_files_that_are_gone_are_refused_once(rig: Rig) -> None:
    before = rig.keyring.context("default")
    (rig.directory / "a.key").unlink()
    assert rig.after(0) == []
    assert rig.after(0) == ["error tls.refused"]
    assert rig.lines[0][2]["kept"] == "what was in use before"
    assert rig.after(0) == []
    assert rig.keyring.context("default") is before


def test_the_same_files_again_are_no_news(rig: Rig) -> None:
    rig.lines.clear()
    rig.keyring.replace([rig.config])
    assert rig.lines == []


def test_another_configuration_of_the_same_name_is_taken(rig: Rig) -> None:
    before = rig.keyring.context("default")
    rig.keyring.replace([rig.config._replace(min_version="1.3")])
    assert rig.keyring.context("default") is not before
    assert rig.keyring.context("default").minimum_version.name == "TLSv1_3"
