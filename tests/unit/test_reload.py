"""A configuration is taken on as a whole or not at all, and says what it would do first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.app import Application
from broker.config.loader import load_config
from broker.logs import Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.reload import Outcome

HEAD = """\
version: 1
storage: {memory_only: true}
management: {enabled: false}
metrics: {prometheus: {enabled: false}}
listeners: {amqp: [{bind: 127.0.0.1, port: 0}]}
"""

TOPOLOGY = """\
users:
  - {name: app, password: one, tags: [administrator]}
  - {name: old, password: two}
vhosts:
  /:
    permissions:
      app: {configure: ".*", write: ".*", read: ".*"}
      old: {configure: "", write: "", read: ".*"}
    exchanges: {orders: {type: topic}, gone: {type: fanout}}
    queues: {in: {durable: true}, away: {durable: true}}
    bindings:
      - {source: orders, destination: in, routing_key: a}
      - {source: orders, destination: in, routing_key: b}
    policies: {short: {pattern: "^in", definition: {max-length: 10}}}
  spare: {}
"""


class Scene:
    """A broker with a file that a test changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[tuple[str, dict[str, object]]] = []

    def write(self, text: str, head: str = HEAD) -> None:
        self.path.write_text(head + text)

    def log(self, _level: str, event: str, fields: dict[str, object]) -> None:
        self.records.append((event, fields))

    async def start(self) -> None:
        config = load_config(str(self.path))
        self.app = await Application.start(config, self.log)
        self.app.make_reloadable(config, self.log, lambda: load_config(str(self.path)))
        self.node = self.app.node

    async def reload(self, *, prunes: bool = False, is_dry: bool = False) -> Outcome:
        assert self.app.reloader is not None
        self.records.clear()
        return await self.app.reloader.reload(prunes=prunes, is_dry=is_dry)

    def state(self) -> object:
        """Everything that a configuration could change."""
        vhosts = {
            name: (
                sorted(vhost.exchanges),
                sorted(vhost.queues),
                sum(len(one.bindings) for one in vhost.exchanges.values()),
                [one.name for one in vhost.policies.policies],
                vhost.queues_max,
            )
            for name, vhost in self.node.vhosts.items()
        }
        users = {
            user.name: (user.tags, user.password_hash, sorted(user.permissions))
            for user in self.node.users.users.values()
        }
        return vhosts, users, self.node.settings, sorted(self.node.mechanisms)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path / "broker.yaml")
    scene.write(TOPOLOGY)
    await scene.start()
    yield scene
    await scene.app.stop(0)


def lines(outcome: Outcome) -> list[str]:
    return [str(change) for change in outcome.plan.changes]


async def test_the_same_file_changes_nothing(scene: Scene) -> None:
    before = scene.state()
    outcome = await scene.reload()
    assert outcome.is_applied
    assert outcome.plan.is_empty
    assert scene.state() == before


async def test_what_is_new_is_made_and_what_differs_changes(scene: Scene) -> None:
    text = TOPOLOGY.replace("max-length: 10", "max-length: 20")
    text = text.replace("away: {durable: true}", "away: {durable: true}, more: {durable: true}")
    text = text.replace(
        "routing_key: b}", "routing_key: b}\n      - {source: orders, destination: more}"
    )
    text = text.replace('read: ".*"}\n    exch', 'read: "^x"}\n    exch')
    scene.write(text + "  extra: {queues: {q: {}}}\nlimits: {channel_max: 7}\nheartbeat: 5s\n")
    outcome = await scene.reload()
    assert outcome.is_applied
    assert lines(outcome) == [
        "change limits.channel_max: 2047 -> 7",
        "change heartbeat: 60 -> 5",
        "change vhosts./.permissions.old",
        "add vhosts./.queues.more",
        "add vhosts./.bindings: orders to more with ''",
        "change vhosts./.policies.short",
        "add vhosts.extra",
        "add vhosts.extra.permissions.app",
        "add vhosts.extra.queues.q",
    ]
    vhost = scene.node.vhosts["/"]
    assert vhost.queues["in"].settings.length_max == 20
    assert "more" in vhost.queues
    assert "q" in scene.node.vhosts["extra"].queues
    assert (scene.node.settings.channel_max, scene.node.settings.heartbeat_s) == (7, 5)
    again = await scene.reload()
    assert again.plan.is_empty


BROKEN = [
    pytest.param("limits: {chanel_max: 7}\n", "chanel_max", id="an unknown key"),
    pytest.param("heartbeat: x\n", "heartbeat", id="a wrong value"),
    pytest.param(": :\n", "broker.yaml", id="no YAML"),
    pytest.param(
        "users: []\nvhosts: {/: {queues: {x: {arguments: {x-max-length: -1}}}}}\n",
        "x-max-length",
        id="what only the core knows",
    ),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
async def test_a_file_that_cannot_be_used_changes_nothing(
    scene: Scene, text: str, expected: str
) -> None:
    before = scene.state()
    scene.write(text)
    outcome = await scene.reload()
    assert not outcome.is_applied
    assert expected in outcome.problems[0]
    assert scene.state() == before
    assert {event for event, _ in scene.records} == {"config.refused"}


async def test_a_queue_that_is_there_otherwise_refuses_the_whole_file(scene: Scene) -> None:
    before = scene.state()
    text = TOPOLOGY.replace("in: {durable: true}", "in: {durable: false}, new: {}")
    scene.write(text + "heartbeat: 5s\n")
    outcome = await scene.reload()
    assert not outcome.is_applied
    [problem] = outcome.problems
    assert "the broker has this queue with durable 'true', and here it is 'false'" in problem
    assert scene.state() == before


async def test_more_queues_than_are_allowed_refuse_the_whole_file(scene: Scene) -> None:
    before = scene.state()
    text = TOPOLOGY.replace("  /:\n", "  /:\n    limits: {max-queues: 2}\n")
    scene.write(text.replace("away:", "more: {}, away:"))
    outcome = await scene.reload()
    assert not outcome.is_applied
    assert scene.state() == before


async def test_a_dry_run_only_tells(scene: Scene) -> None:
    before = scene.state()
    scene.write(TOPOLOGY + "heartbeat: 5s\n")
    outcome = await scene.reload(is_dry=True)
    assert not outcome.is_applied
    assert outcome.problems == ()
    assert lines(outcome) == ["change heartbeat: 60 -> 5"]
    assert scene.state() == before
    assert [event for event, _ in scene.records] == ["config.changed", "config.planned"]


async def test_what_needs_a_restart_is_said_and_not_done(scene: Scene) -> None:
    head = HEAD.replace("port: 0", "port: 0, backlog: 5") + "node: {name: other}\n"
    scene.write(TOPOLOGY, head)
    outcome = await scene.reload()
    assert outcome.is_applied
    assert lines(outcome) == ["restart node", "restart listeners"]
    assert scene.node.settings.node_name == "leveret@localhost"


FEWER = """\
users:
  - {name: app, password: one, tags: [administrator]}
vhosts:
  /:
    permissions:
      app: {configure: ".*", write: ".*", read: ".*"}
    exchanges: {orders: {type: topic}}
    queues: {in: {durable: true}}
    bindings:
      - {source: orders, destination: in, routing_key: a}
"""

ORPHANS = [
    "orphan users.old",
    "orphan vhosts./.permissions.old",
    "orphan vhosts./.bindings: orders to in with 'b'",
    "orphan vhosts./.queues.away",
    "orphan vhosts./.exchanges.gone",
    "orphan vhosts./.policies.short",
    "orphan vhosts.spare",
]


async def test_what_is_no_longer_named_is_reported_and_stays(scene: Scene) -> None:
    before = scene.state()
    scene.write(FEWER)
    outcome = await scene.reload()
    assert lines(outcome) == ORPHANS
    assert outcome.pruned == ()
    assert scene.state() == before


async def test_with_prune_it_goes(scene: Scene) -> None:
    scene.node.add_vhost("by hand")
    scene.write(FEWER)
    outcome = await scene.reload(prunes=True)
    assert lines(outcome) == ORPHANS
    assert len(outcome.pruned) == len(ORPHANS)
    vhost = scene.node.vhosts["/"]
    assert sorted(scene.node.vhosts) == ["/", "by hand"]
    assert sorted(vhost.queues) == ["in"]
    assert "gone" not in vhost.exchanges
    assert len(vhost.exchanges["orders"].bindings) == 1
    assert vhost.policies.policies == []
    assert sorted(scene.node.users.users) == ["app"]
    assert "config.pruned" in [event for event, _ in scene.records]


async def test_what_is_protected_is_not_pruned(scene: Scene) -> None:
    node = scene.node
    spare = node.vhosts["spare"]
    spare.metadata = spare.metadata._replace(is_protected=True)
    doomed = next(name for name in node.users.users if name != "app")
    user = node.users.users[doomed]
    node.users.add_user(doomed, user.password_hash, tags=(*user.tags, "protected"))
    scene.write(FEWER)
    outcome = await scene.reload(prunes=True)
    assert "orphan vhosts.spare: protected, and so it stays" in lines(outcome)
    assert f"orphan users.{doomed}: protected, and so it stays" in lines(outcome)
    assert not {"vhosts.spare", f"users.{doomed}"} & set(outcome.pruned)
    assert "spare" in node.vhosts
    assert doomed in node.users.users
    assert sorted(node.vhosts["/"].queues) == ["in"], "the rest went"


async def test_what_was_reported_once_can_be_pruned_later(scene: Scene) -> None:
    scene.write(FEWER)
    await scene.reload()
    scene.write(FEWER.replace("in: {durable: true}", "in: {durable: true}, new: {}"))
    assert lines(await scene.reload()) == ["add vhosts./.queues.new", *ORPHANS]
    scene.node.vhosts["/"].clear_policy("short")
    scene.write(FEWER)
    expected = [*ORPHANS, "orphan vhosts./.queues.new"]
    expected.remove("orphan vhosts./.policies.short")
    assert lines(await scene.reload(is_dry=True, prunes=True)) == expected
    assert lines(await scene.reload(prunes=True)) == expected
    assert sorted(scene.node.vhosts) == ["/"]
    assert sorted(scene.node.vhosts["/"].queues) == ["in"]
    assert lines(await scene.reload(prunes=True)) == []


async def test_what_a_file_names_again_is_no_orphan(scene: Scene) -> None:
    scene.write(FEWER)
    await scene.reload()
    scene.write(TOPOLOGY)
    assert lines(await scene.reload(prunes=True)) == ["change users.old"]
    assert sorted(scene.node.vhosts["/"].queues) == ["away", "in"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "vhosts: {team: {}}\n", id="the virtual host"),
        pytest.param(
            "vhosts: {/: {}}\n",
            "vhosts: {/: {permissions: {app: {configure: '', write: '', read: ''}}}}\n"
            "users: [{name: app, password: p}, {name: guest, password: guest}]\n",
            id="a permission by default",
        ),
        pytest.param(
            "vhosts: {/: {permissions: {guest: {configure: '.*', write: '.*', read: '.*'}}}}\n",
            "vhosts: {/: {}}\n",
            id="a permission that is one by default now",
        ),
        pytest.param(
            "users: [{name: guest, password: guest}]\n",
            "",
            id="what the file has named before",
        ),
    ],
)
async def test_what_is_there_by_default_is_never_pruned(
    tmp_path: Path, before: str, after: str
) -> None:
    scene = Scene(tmp_path / "leveret.yaml")
    scene.write(before)
    await scene.start()
    try:
        scene.write(after)
        outcome = await scene.reload(prunes=True)
        assert outcome.plan.of("orphan") == []
        assert "/" in scene.node.vhosts
        assert scene.node.users.users["guest"].permission("/") is not None
    finally:
        await scene.app.stop()


async def test_a_file_that_drops_its_virtual_hosts_orphans_what_was_in_them(scene: Scene) -> None:
    before = scene.state()
    scene.write(TOPOLOGY.partition("vhosts:")[0])
    # Permissions that nobody writes are granted by default.
    expected = [
        "orphan vhosts./.bindings: orders to in with 'a'",
        "orphan vhosts./.bindings: orders to in with 'b'",
        "orphan vhosts./.queues.in",
        "orphan vhosts./.queues.away",
        "orphan vhosts./.exchanges.orders",
        "orphan vhosts./.exchanges.gone",
        "orphan vhosts./.policies.short",
        "orphan vhosts.spare",
    ]
    assert lines(await scene.reload()) == expected
    assert lines(await scene.reload()) == expected
    assert scene.state() == before
    assert len((await scene.reload(prunes=True)).pruned) == len(expected)
    vhost = scene.node.vhosts["/"]
    assert sorted(scene.node.vhosts) == ["/"]
    assert (sorted(vhost.queues), vhost.policies.policies) == ([], [])
    assert sorted(scene.node.users.users) == ["app", "old"]
    assert lines(await scene.reload()) == []


async def test_a_file_that_drops_its_users_orphans_them(scene: Scene) -> None:
    scene.write("")
    expected = ["orphan users.app", "orphan users.old"]
    assert lines(await scene.reload())[:2] == expected
    await scene.reload(prunes=True)
    assert sorted(scene.node.users.users) == []


async def test_a_password_changes_without_being_shown(scene: Scene) -> None:
    before = scene.node.users.users["app"].password_hash
    scene.write(TOPOLOGY.replace("password: one", "password: s3cret"))
    outcome = await scene.reload()
    assert lines(outcome) == ["change users.app"]
    assert scene.node.users.users["app"].password_hash != before
    assert "s3cret" not in str(scene.records)


async def test_limits_of_alarms_change_at_once(scene: Scene) -> None:
    scene.write(TOPOLOGY + "alarms: {memory: {limit: 1MiB}}\n")
    await scene.reload()
    assert list(scene.node.alarms) == ["memory"]
    scene.write(TOPOLOGY + "alarms: {memory: {limit: null}}\n")
    await scene.reload()
    assert list(scene.node.alarms) == []
    scene.write(TOPOLOGY + "alarms: {memory: {limit: 1MiB}}\n")
    await scene.reload()
    scene.write(TOPOLOGY)
    await scene.reload()
    assert list(scene.node.alarms) == []


async def test_a_broker_without_a_file_says_so(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "broker.yaml")
    scene.write("")
    config = load_config(str(scene.path))
    scene.app = await Application.start(config, scene.log)
    scene.app.make_reloadable(config, scene.log, None)
    outcome = await scene.reload()
    assert outcome.problems == ("the broker was started without a file",)
    await scene.app.stop(0)


async def test_the_log_changes_with_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(HEAD + "log: {level: error, file: {path: a.log}}\n")
    config = load_config(str(path))
    log = Log.from_config(config.log)
    app = await Application.start(config, log)
    app.make_reloadable(config, log, lambda: load_config(str(path)))
    assert app.reloader is not None
    path.write_text(HEAD + "log: {level: debug, file: {path: missing/a.log}}\nheartbeat: 7s\n")
    outcome = await app.reloader.reload()
    assert not outcome.is_applied
    assert "cannot write the log" in outcome.problems[0]
    assert app.node.settings.heartbeat_s == 60
    path.write_text(HEAD + "log: {level: info, format: json, file: {path: b.log}}\n")
    outcome = await app.reloader.reload()
    assert outcome.is_applied
    await app.stop(0)
    log.close()
    assert "config.refused" in (tmp_path / "a.log").read_text()
    assert '"event": "config.reloaded"' in (tmp_path / "b.log").read_text()
