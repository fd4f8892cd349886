"""A node's users, rights and virtual hosts, kept while it runs and brought back by the next."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, cast

import pytest

from broker import keeper as module
from broker.app import Kept, build_node, open_keeper
from broker.auth.passwords import make_password_hash
from broker.config.loader import config_from_dict, load_config
from broker.config.schema import Config
from broker.core.limit_commands import set_user_limits, set_vhost_limits
from broker.core.user_commands import (
    Rights,
    TopicRights,
    clear_permissions,
    delete_user,
    put_user,
    set_permissions,
    set_topic_permissions,
)
from broker.errors import StoreError
from broker.node_state import state_of
from broker.store.node_file import NodeState, read_node_file, write_node_file
from broker.vhost_logs import VHostLogs
from tests.helpers.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from broker.core.node import Node
    from broker.keeper import NodeKeeper

ALL = Rights(".*", ".*", ".*")


class Life:
    """One run of a broker on a data directory, without its sockets."""

    def __init__(self, path: Path, data: Mapping[str, object] | Config | None = None) -> None:
        self.logged: list[tuple[str, str, dict[str, object]]] = []
        self._heard: dict[str, asyncio.Event] = {}
        config = data if isinstance(data, Config) else config_from_dict(data or {})
        storage = config.storage._replace(data_dir=str(path))
        config = config._replace(storage=storage)
        keeper = open_keeper(config, self._log)
        assert keeper is not None
        self.keeper: NodeKeeper = keeper
        # Nobody is woken from the logs' thread: what they have to write is waited for.
        loop = cast("asyncio.AbstractEventLoop", None)
        logs = VHostLogs(storage, keeper.make_directory, loop, self._log)
        self.kept = Kept(keeper, logs)
        try:
            self.node: Node = build_node(config, VirtualClock(), self._log, self.kept)
        except BaseException:
            self.kept.abandon()
            raise

    def _log(self, level: str, event: str, fields: dict[str, object]) -> None:
        self.logged.append((level, event, fields))
        if event in self._heard:
            self._heard[event].set()

    async def hear(self, event: str) -> None:
        """Wait for an event of the log that is still to come."""
        heard = self._heard[event] = asyncio.Event()
        await heard.wait()

    def events(self, prefix: str) -> list[tuple[str, dict[str, object]]]:
        return [(event, fields) for _, event, fields in self.logged if event.startswith(prefix)]

    def kill(self) -> None:
        self.kept.abandon()

    def saved(self) -> NodeState | None:
        return read_node_file(self.keeper.directory.node_path)

    def numbers(self) -> list[int]:
        return list(self.keeper.directory.vhosts())


def once(
    path: Path, change: Callable[[Node], object], data: Mapping[str, object] | None = None
) -> None:
    """Run a broker once and change something."""

    async def run() -> None:
        life = Life(path, data)
        life.keeper.watch(life.node)
        change(life.node)
        await life.kept.close()

    asyncio.run(run())


def add_user(node: Node, name: str) -> None:
    """A change that is the keeper's business alone."""
    put_user(node, name, make_password_hash(name, b"salt"), tags=[], by="")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """While this holds an error's number, nothing can be synced."""
    codes: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if codes:
            raise OSError(codes[0], os.strerror(codes[0]))

        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return codes


# What survives


def test_everything_comes_back(tmp_path: Path) -> None:
    states: list[NodeState] = []

    def change(node: Node) -> None:
        node.add_vhost("other\udcff")
        set_vhost_limits(node, "other\udcff", {"max-queues": 5, "max-connections": 0}, by="")
        for name in ("ann", "bob"):
            secret = make_password_hash("secret", b"salt", "rabbit_password_hashing_sha512")
            put_user(node, name, secret, tags=["b", "a"], by="")

        put_user(node, "barred", None, tags=[], by="")
        set_user_limits(node, "ann", {"max-connections": 2, "max-channels": 3}, by="")
        set_permissions(node, "ann", Rights("^a", "", ".*"), vhost="other\udcff", by="")
        topic = TopicRights("amq.topic", "^{username}", ".*")
        set_topic_permissions(node, "ann", topic, vhost="/", by="")
        delete_user(node, "guest", by="")
        states.append(state_of(node))

    once(tmp_path, change)
    life = Life(tmp_path)
    assert state_of(life.node) == states[0]
    assert list(life.node.users.users) == ["ann", "bob", "barred"]
    ann = life.node.users.authenticate("ann", "secret", is_loopback=False)
    assert ann.allows_topic("write", vhost="/", exchange="amq.topic", routing_key="ann.x")
    life.kill()


def test_the_first_start_is_kept_at_once(tmp_path: Path) -> None:
    life = Life(tmp_path)
    assert life.saved() == state_of(life.node)
    assert life.numbers() == [1]
    life.kill()


def test_a_start_without_changes_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [{"name": "ann", "password": "secret", "tags": ["administrator"]}]
    Life(tmp_path, {"users": users}).kill()
    monkeypatch.setattr(module, "write_node_file", None)
    Life(tmp_path, {"users": users}).kill()
    Life(tmp_path).kill()


def test_damage_ends_the_start_and_leaves_the_directory(tmp_path: Path) -> None:
    Life(tmp_path).kill()
    path = tmp_path / "node.json"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"configure": ".*"', b'"configure": ".("'))
    with pytest.raises(StoreError, match=r"node\.json is damaged: its checksum"):
        Life(tmp_path)

    text = "".join(line for line in path.read_text().splitlines(True) if "checksum" not in line)
    path.write_text(text)
    with pytest.raises(StoreError, match=r"node\.json is damaged: "):
        Life(tmp_path)

    path.write_bytes(raw)
    Life(tmp_path).kill()


# Saving while it runs


async def test_all_changes_of_a_turn_are_saved_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    life.keeper.watch(life.node)
    written: list[NodeState] = []

    def write(path: str, state: NodeState) -> None:
        written.append(state)
        write_node_file(path, state)

    monkeypatch.setattr(module, "write_node_file", write)
    for name in ("a", "b", "c"):
        life.node.add_vhost(name)

    assert written == []
    await life.keeper.flush()
    assert life.saved() == state_of(life.node)
    assert len(written) == 1
    assert life.numbers() == [1, 2, 3, 4]
    await life.kept.close()
    assert len(written) == 1


async def test_what_cannot_be_saved_is_told_and_tried_again(
    tmp_path: Path, failing: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    life = Life(tmp_path)
    life.keeper.watch(life.node)
    before = life.saved()
    failing.append(errno.ENOSPC)
    add_user(life.node, "a")
    await life.keeper.flush()
    [(_, fields)] = life.events("store.save_failed")
    assert "no space left on device" in str(fields["reason"])
    assert life.saved() == before
    failing.clear()
    await life.hear("store.saved")
    assert life.saved() == state_of(life.node)
    await life.kept.close()


async def test_the_end_saves_what_is_not_saved_yet(tmp_path: Path, failing: list[int]) -> None:
    life = Life(tmp_path)
    life.keeper.watch(life.node)
    failing.append(errno.EIO)
    add_user(life.node, "a")
    await life.keeper.flush()
    assert life.events("store.save_failed")
    failing.clear()
    await life.kept.close()
    assert read_node_file(str(tmp_path / "node.json")) == state_of(life.node)
    add_user(life.node, "b")
    Life(tmp_path).kill()


async def test_an_end_that_cannot_save_says_so_and_lets_go(
    tmp_path: Path, failing: list[int]
) -> None:
    life = Life(tmp_path)
    life.keeper.watch(life.node)
    failing.append(errno.EIO)
    add_user(life.node, "a")
    await life.kept.close()
    assert life.events("store.save_failed")
    failing.clear()
    Life(tmp_path).kill()


# Virtual hosts and their directories


async def test_the_directory_of_a_deleted_virtual_host_goes(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.keeper.watch(life.node)
    for _ in range(2):
        life.keeper.make_directory(life.node.add_vhost("a"))
        life.node.delete_vhost("a")

    last = life.node.add_vhost("a")
    await life.kept.close()
    assert last.number == 4
    assert sorted(os.listdir(tmp_path / "vhosts")) == ["1", "4"]


def test_a_virtual_host_that_was_not_listed_any_more_comes_back(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.keeper.make_directory(life.node.add_vhost("new"))
    life.kill()
    life = Life(tmp_path)
    assert {vhost.name: vhost.number for vhost in life.node.vhosts.values()} == {"/": 1, "new": 2}
    assert life.events("store.vhost_unlisted")
    assert life.node.next_vhost_number == 3
    life.kill()


def test_a_virtual_host_that_was_deleted_stays_so(tmp_path: Path) -> None:
    once(tmp_path, lambda node: node.add_vhost("a"))
    once(tmp_path, lambda node: node.delete_vhost("a"))
    (tmp_path / "vhosts" / "2").mkdir()
    (tmp_path / "vhosts" / "2" / "name").write_text("a")
    life = Life(tmp_path)
    assert list(life.node.vhosts) == ["/"]
    assert life.numbers() == [1]
    life.kill()


def test_a_missing_log_ends_the_start(tmp_path: Path) -> None:
    once(tmp_path, lambda node: node.add_vhost("a"))
    (tmp_path / "vhosts" / "2").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="vhosts/2 is missing, the log of the virtual host 'a'"):
        Life(tmp_path)


def test_without_the_list_the_virtual_hosts_are_found(tmp_path: Path) -> None:
    once(tmp_path, lambda node: node.add_vhost("a"))
    (tmp_path / "node.json").unlink()
    life = Life(tmp_path)
    assert {vhost.name: vhost.number for vhost in life.node.vhosts.values()} == {"/": 1, "a": 2}
    assert list(life.node.users.users) == ["guest"]
    life.kill()


# What the configuration says to that


def test_defaults_count_on_the_first_start_only(tmp_path: Path) -> None:
    def change(node: Node) -> None:
        put_user(node, "ann", make_password_hash("pw", b"salt"), tags=[], by="")
        delete_user(node, "guest", by="")
        node.add_vhost("other")
        node.delete_vhost("/")

    once(tmp_path, change)
    life = Life(tmp_path)
    assert list(life.node.users.users) == ["ann"]
    assert list(life.node.vhosts) == ["other"]
    life.kill()


@pytest.mark.parametrize("is_named", [False, True])
def test_guest_comes_back_only_when_named(is_named: bool, tmp_path: Path) -> None:
    once(tmp_path, lambda node: delete_user(node, "guest", by=""))
    file = tmp_path / "f.yaml"
    users = "users: [{name: guest, password: guest, tags: [administrator]}]\n" if is_named else ""
    file.write_text(f"version: 1\n{users}vhosts: {{/: {{permissions: {{guest: {{}}}}}}}}\n")
    file.rename(tmp_path.parent / f"{tmp_path.name}.yaml")
    config = load_config(str(tmp_path.parent / f"{tmp_path.name}.yaml"), environ={})
    life = Life(tmp_path, config)
    assert ("guest" in life.node.users.users) == is_named
    life.kill()


def test_the_configuration_wins_and_says_so(tmp_path: Path) -> None:
    users = [{"name": "ann", "password": "pw", "tags": ["administrator"]}]
    vhosts = {"/": {"permissions": {"ann": {"read": "^a"}}, "limits": {"max-queues": 7}}}

    def change(node: Node) -> None:
        put_user(node, "ann", make_password_hash("other", b"salt"), tags=[], by="")
        put_user(node, "bob", None, tags=["x"], by="")
        set_permissions(node, "ann", ALL, vhost="/", by="")
        set_permissions(node, "bob", ALL, vhost="/", by="")
        set_vhost_limits(node, "/", {"max-queues": 8}, by="")

    once(tmp_path, change, {"users": users, "vhosts": vhosts})
    life = Life(tmp_path, {"users": users, "vhosts": vhosts})
    assert [fields for _, fields in life.events("config.overrules")] == [
        {"user": "ann", "what": "password"},
        {"user": "ann", "what": "tags"},
        {"user": "ann", "what": "permissions in /"},
        {"vhost": "/", "what": "limits"},
    ]
    ann = life.node.users.authenticate("ann", "pw", is_loopback=False)
    assert ann.permissions["/"].read == "^a"
    assert life.node.users.users["bob"].permissions["/"].read == ".*"
    assert life.node.vhosts["/"].queues_max == 7
    assert life.saved() == state_of(life.node)
    life.kill()
    life = Life(tmp_path, {"users": users, "vhosts": vhosts})
    assert life.events("config.overrules") == [], "it was told once"
    life.kill()


def test_rights_by_default_can_be_taken_away(tmp_path: Path) -> None:
    """New users and new virtual hosts still get them."""
    users = [{"name": "ann", "password": "pw", "tags": ["administrator"]}]
    more = [*users, {"name": "bob", "password": "pw", "tags": ["administrator"]}]
    vhosts: dict[str, object] = {"a": {}}
    once(
        tmp_path,
        lambda node: clear_permissions(node, "ann", vhost="a", by=""),
        {"users": users, "vhosts": vhosts},
    )
    life = Life(tmp_path, {"users": more, "vhosts": {**vhosts, "b": {}}})
    rights = {user.name: set(user.permissions) for user in life.node.users.users.values()}
    assert rights == {"ann": {"b"}, "bob": {"a", "b"}}
    life.kill()
