"""config/production.yaml is sound, and as strict as docs/security.md says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme
from click.testing import CliRunner

from broker.cli.config import check
from broker.config.loader import load_config

if TYPE_CHECKING:
    from broker.config.schema import Config

PATH = Path(__file__).resolve().parents[3] / "config" / "production.yaml"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in ("root", "shop", "watch"):
        (tmp_path / name).write_text(f"secret of {name}\n")

    certificate = trustme.CA().issue_cert("broker.example")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    (tmp_path / "tls.key").chmod(0o600)
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    monkeypatch.setenv("LEVERET_SECRETS", str(tmp_path))
    monkeypatch.setenv("LEVERET_TLS_DIR", str(tmp_path))
    return load_config(str(PATH))


def test_it_has_no_mistake_and_warns_of_nothing_but_the_watchers(config: Config) -> None:
    """Users without rights in a virtual host are meant here."""
    warned = {str(warning).partition(": ")[2] for warning in config.warnings}
    assert all("has no permissions in any virtual host" in text for text in warned), warned


@pytest.mark.usefixtures("config")
def test_leveret_config_check_says_that_it_is_all_right() -> None:
    """The rules of the core hold too: rights, policies and limits are tried on a node."""
    outcome = CliRunner().invoke(check, [str(PATH)], catch_exceptions=False)
    assert (outcome.exit_code, outcome.stdout) == (0, f"{PATH}: all right\n")


def test_everything_that_is_not_this_machine_comes_by_tls(config: Config) -> None:
    local = ("localhost", "127.0.0.1")
    assert all(one.bind in local for one in config.listeners.amqp)
    assert all(one.tls is not None or one.bind in local for one in config.management.listeners)
    assert all(one.bind in local for one in config.metrics.prometheus.listeners)
    assert config.listeners.amqps


def test_nobody_comes_in_by_default(config: Config) -> None:
    assert "ANONYMOUS" not in config.auth.mechanisms
    assert "guest" not in {user.name for user in config.users}
    assert config.auth.password_hashing == "argon2id"
    assert not config.management.has_open_health_checks
    assert all(user.password_file for user in config.users)


def test_no_program_may_do_what_an_administrator_may(config: Config) -> None:
    [shop] = [user for user in config.users if user.name == "shop"]
    assert shop.tags == ()
    [vhost] = config.vhosts
    assert vhost.is_protected
    assert [permission.user for permission in vhost.permissions] == ["shop"]
