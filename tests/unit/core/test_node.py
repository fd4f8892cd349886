"""A node: alarms, users and virtual hosts that go, the end, the books (sections MA, PM, C.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.limit_commands import set_user_limits, set_vhost_limits
from broker.core.settings import NodeSettings
from broker.core.user_commands import NoSuchUser, Rights, delete_user, set_permissions
from tests.helpers.session import World, handshake, method, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.node import Node


@pytest.fixture
def world() -> World:
    return World()


# -- alarms


@pytest.mark.parametrize(
    ("alarms", "reason"),
    [
        (["memory"], "low on memory"),
        (["disk"], "low on disk"),
        (["memory", "disk"], "low on disk & memory"),
    ],
)
def test_an_alarm_blocks_those_who_publish(world: World, alarms: list[str], reason: str) -> None:
    """Rules MA-02..MA-04, MA-08: told once, and told when the last alarm is over."""
    session = world.open(1, greeting=handshake(capabilities=["connection.blocked"]))
    session.ask(1, "queue.declare", queue="q")
    for alarm in alarms:
        world.node.set_alarm(alarm, True)

    assert session.heard() == []
    session.feed(publish(1, "q"))
    [blocked] = session.heard()
    assert (blocked.name, blocked.arguments) == ("connection.blocked", {"reason": reason})
    assert session.link.is_paused
    session.feed(publish(1, "q"))
    assert world.vhost.queues["q"].ready_count == 0
    for alarm in alarms:
        assert session.heard() == []
        world.node.set_alarm(alarm, False)
        world.settle()

    assert session.names() == ["connection.unblocked"]
    assert not session.link.is_paused
    assert world.vhost.queues["q"].ready_count == 2


def test_an_alarm_does_not_touch_those_who_only_consume(world: World) -> None:
    """Rule MA-02."""
    session = world.open(1, greeting=handshake(capabilities=["connection.blocked"]))
    session.ask(1, "queue.declare", queue="q")
    session.feed(publish(1, "q") + publish(1, "q"))
    world.node.set_alarm("memory", True)
    session.send(1, "basic.consume", queue="q")
    session.send(1, "basic.ack", delivery_tag=1)
    session.send(1, "basic.nack", delivery_tag=2)
    session.send(1, "basic.get", queue="q")
    assert "connection.blocked" not in session.names()
    assert not session.link.is_paused


def test_without_the_capability_a_client_is_blocked_in_silence(world: World) -> None:
    """Rules MA-03, MA-04."""
    session = world.open(1, greeting=handshake(capabilities=[]))
    world.node.set_alarm("memory", True)
    session.feed(publish(1, "q"))
    assert session.link.is_paused
    world.node.set_alarm("memory", False)
    world.settle()
    assert session.heard() == []
    assert session.is_running


def test_an_alarm_before_the_connection_blocks_it_too(world: World) -> None:
    """Rule MA-06."""
    world.node.set_alarm("disk", True)
    session = world.open(1, greeting=handshake(capabilities=["connection.blocked"]))
    session.feed(publish(1, "q"))
    assert session.names() == ["connection.blocked"]


def test_setting_an_alarm_again_changes_nothing(world: World) -> None:
    world.node.set_alarm("memory", True)
    world.node.set_alarm("memory", True)
    world.node.set_alarm("disk", False)
    assert [event for event, _ in world.logged] == ["alarm.set"]
    assert world.node.alarm_reason() == "low on memory"
    world.node.set_alarm("memory", False)
    assert world.node.alarm_reason() == ""


def test_deliveries_go_on_while_blocked(world: World) -> None:
    """Rule MA-05."""
    blocked = world.open(1)
    other = world.open(1)
    other.feed(method(1, "queue.declare", queue="q") + publish(1, "q", b"hare"))
    other.send(1, "basic.get", queue="q")
    blocked.ask(1, "basic.consume", queue="q", no_ack=True)
    world.node.set_alarm("memory", True)
    blocked.feed(publish(1, "nobody"))
    assert blocked.connection.is_blocked
    other.send(1, "basic.reject", delivery_tag=1, requeue=True)
    assert [one.body for one in blocked.heard()] == [b"hare"]


# -- users and virtual hosts that go


def test_a_deleted_users_connections_are_closed(world: World) -> None:
    """Rule PM-31: theirs, in whatever state, and nobody else's."""
    world.users.set_permissions("nobody", vhost="/", configure=".*", write=".*", read=".*")
    theirs = world.open(1, greeting=handshake(user="nobody", password="nobody"))
    others = world.open(1)
    theirs.ask(1, "queue.declare", queue="q", exclusive=True)
    delete_user(world.node, "nobody", by="guest")
    world.settle()
    [close] = theirs.heard()
    assert close.arguments == {
        "reply_code": 320,
        "reply_text": "CONNECTION_FORCED - user 'nobody' is deleted",
        "class_id": 0,
        "method_id": 0,
    }
    assert not world.vhost.queues
    assert others.is_running
    with pytest.raises(NoSuchUser, match="no user 'nobody'"):
        delete_user(world.node, "nobody", by="guest")


def test_a_deleted_user_cannot_come_back(world: World) -> None:
    delete_user(world.node, "guest", by="guest")
    session = world.connect()
    session.feed(handshake())
    assert session.names()[-1] == "connection.close"


def test_a_deleted_virtual_host_takes_everything_along(world: World) -> None:
    """Rule PM-31."""
    other_vhost = world.node.add_vhost("other")
    world.users.set_permissions("guest", vhost="other", configure=".*", write=".*", read=".*")
    inside = world.open(1, greeting=handshake(vhost="other"))
    outside = world.open(1)
    inside.ask(1, "queue.declare", queue="q", arguments={"x-expires": 1_000})
    inside.ask(1, "basic.consume", queue="q")
    assert world.node.delete_vhost("other")
    world.settle()
    assert inside.heard()[-1].arguments["reply_text"] == (
        "CONNECTION_FORCED - vhost 'other' is deleted"
    )
    assert outside.is_running
    assert not other_vhost.queues
    assert world.users.users["guest"].permission("other") is None
    assert not world.node.delete_vhost("other")
    inside.lose()
    outside.lose()
    assert world.node.next_deadline() is None


def test_a_deleted_virtual_host_is_not_found(world: World) -> None:
    """Rule C-52."""
    world.node.delete_vhost("/")
    session = world.connect()
    session.feed(handshake())
    assert session.heard()[-1].arguments["reply_text"] == "NOT_ALLOWED - vhost / not found"


def test_virtual_hosts_know_nothing_of_one_another(world: World) -> None:
    """Rule PM-31: the same names mean other queues."""
    world.node.add_vhost("other")
    assert world.node.add_vhost("other") is world.node.vhosts["other"]
    world.users.set_permissions("guest", vhost="other", configure=".*", write=".*", read=".*")
    here = world.open(1)
    there = world.open(1, greeting=handshake(vhost="other"))
    for session in (here, there):
        session.ask(1, "queue.declare", queue="q")

    here.feed(publish(1, "q"))
    assert there.ask(1, "basic.get", queue="q").name == "basic.get-empty"
    assert here.ask(1, "basic.get", queue="q").name == "basic.get-ok"


# -- rights


def test_a_change_of_rights_counts_at_once(world: World) -> None:
    """Rule PM-11: for what was resolved before, too; rule PM-13: consumers stay."""
    session = world.open(1, 2)
    session.ask(1, "queue.declare", queue="q")
    session.ask(1, "basic.consume", queue="q", no_ack=True)
    session.feed(publish(2, "q"))
    session.heard()
    world.users.set_permissions("guest", vhost="/", configure="", write="", read="")
    world.node.rights_changed()
    session.feed(publish(2, "q"))
    assert session.heard()[-1].arguments["reply_text"] == (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' "
        "refused for user 'guest'"
    )
    assert world.vhost.queues["q"].consumers


# -- the end


def test_a_shutdown_is_told_to_everybody(world: World) -> None:
    """Rules C-78, DU-07; those who are not logged in are dropped."""
    running = world.open(1)
    silent = world.connect()
    world.node.shutdown()
    world.settle()
    [close] = running.heard()
    assert close.arguments["reply_text"] == (
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    )
    assert silent.link.is_closed
    assert not world.node.connections


# -- the books


@pytest.mark.parametrize("end", ["close", "lost", "eof", "forced", "error"])
def test_the_books_are_right_after_every_end(world: World, end: str) -> None:
    """Rules C-70, C-80, CH-05: counted while it is there, and not a moment longer."""
    node = world.node
    session = world.open(1, 2)
    assert node.connection_counts == {"guest": 1}
    assert node.channel_counts == {"guest": 2}
    assert world.vhost.connection_count == 1
    session.send(1, "channel.close")
    assert node.channel_counts == {"guest": 1}
    if end == "close":
        session.feed(method(0, "connection.close", reply_code=200))
    elif end == "eof":
        session.connection.receive_eof()
    elif end == "forced":
        session.connection.force_close("enough")
    elif end == "error":
        session.send(2, "channel.open")

    session.lose()
    assert not node.connections
    assert not node.connection_counts
    assert not node.channel_counts
    assert world.vhost.connection_count == 0
    assert node.next_deadline() is None


def test_a_connection_that_never_logged_in_leaves_no_trace(world: World) -> None:
    session = world.connect()
    assert len(world.node.connections) == 1
    session.lose()
    assert not world.node.connections
    assert not world.node.connection_counts
    assert world.node.next_deadline() is None


def test_limits_of_a_node_are_counted_by_connection() -> None:
    """Rule C-56."""
    world = World(NodeSettings(connections_max=1))
    first = world.open(1)
    second = world.connect()
    second.feed(handshake())
    assert second.heard()[-1].arguments["reply_text"] == (
        "NOT_ALLOWED - connection refused: node connection limit (1) is reached"
    )
    first.lose()
    world.open(1)


def test_deadlines_of_one_turn_are_bounded(world: World) -> None:
    """A million messages that expire together leave room for everybody else."""
    ran: list[int] = []
    deadlines = world.node.deadlines
    for _ in range(2_500):
        deadlines.schedule(deadlines.now_ms, lambda: ran.append(1))

    sizes: list[int] = []
    while world.node.next_deadline() is not None:
        world.node.run_deadlines()
        sizes.append(len(ran))

    assert sizes == [1_000, 2_000, 2_500]


def test_virtual_hosts_have_numbers_that_never_come_back() -> None:
    node = World().node
    first = node.vhosts["/"].number
    assert node.add_vhost("a").number == first + 1
    assert node.add_vhost("a").number == first + 1
    node.delete_vhost("a")
    assert node.add_vhost("a").number == first + 2
    assert node.add_vhost("old", number=70).number == 70
    assert node.add_vhost("b").number == 71


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.add_vhost("a", by="guest"),
        lambda node: node.delete_vhost("/", by="guest"),
        lambda node: set_vhost_limits(node, "/", {"max-queues": 1}, by="guest"),
        lambda node: set_user_limits(node, "guest", {"max-channels": 1}, by="guest"),
        lambda node: set_permissions(node, "guest", Rights("", "", ""), vhost="/", by="guest"),
        lambda node: delete_user(node, "guest", by="guest"),
    ],
    ids=["vhost", "no-vhost", "vhost-limits", "user-limits", "permissions", "no-user"],
)
def test_changes_of_what_is_kept_are_told(world: World, change: Callable[[Node], object]) -> None:
    told: list[bool] = []
    world.node.on_state_changed = lambda: told.append(True)
    change(world.node)
    assert told


def test_what_is_no_change_is_not_told(world: World) -> None:
    told: list[bool] = []
    world.node.on_state_changed = lambda: told.append(True)
    world.node.add_vhost("/")
    world.node.delete_vhost("a")
    world.node.set_alarm("memory", True)
    assert not told
