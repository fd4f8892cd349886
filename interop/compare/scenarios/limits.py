"""Section PM: limits of users and virtual hosts, claimed names, and who is deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interop.compare.administration import Rights, UserSetting
from interop.compare.catalogue import scenario
from interop.compare.scenarios.people import ALL, NONE, Bob, new_vhost, open_as
from interop.compare.scenarios.steps import fill

if TYPE_CHECKING:
    from interop.compare.session import Session

__all__: list[str] = []

people_scenario = partial(scenario, is_administered=True)


def limit_vhost(session: Session, vhost: str, limit: str, value: int) -> None:
    step = partial(session.administration.limit_vhost, vhost, limit, value)
    session.administer("limit", step)


# -- limits of virtual hosts


@people_scenario("PM/limit-of-connections-in-a-virtual-host", "PM-30, C-51, C-54")
def vhost_connections(session: Session) -> None:
    vhost = new_vhost(session)
    limit_vhost(session, vhost, "max-connections", 2)
    first = open_as(session, "guest", vhost)
    open_as(session, "guest", vhost)
    session.quiet("two are open")
    open_as(session, "guest", vhost)
    session.quiet("one was too many")
    first.call("connection.close", reply_code=200)
    first.end()
    session.pause(60)
    session.quiet("one is closed")
    open_as(session, "guest", vhost)


@people_scenario("PM/limits-of-none-and-no-limits", "PM-30, C-54")
def vhost_zero(session: Session) -> None:
    vhost = new_vhost(session)
    for value in (0, -1, 0, 1):
        limit_vhost(session, vhost, "max-connections", value)
        open_as(session, "guest", vhost)
        session.quiet(f"with {value}")


@people_scenario("PM/limit-below-what-is-open", "PM-30, C-54")
def vhost_lowered(session: Session) -> None:
    vhost = new_vhost(session)
    links = [open_as(session, "guest", vhost) for _ in range(2)]
    session.quiet("two are open")
    limit_vhost(session, vhost, "max-connections", 1)
    session.quiet("one is allowed")
    open_as(session, "guest", vhost)
    for link in links:
        link.channel(is_recorded=True)


@people_scenario("PM/limit-of-queues", "PM-30, Q-29b")
def queues(session: Session) -> None:
    """What is there may be declared again, and deleting one makes room."""
    vhost = new_vhost(session)
    limit_vhost(session, vhost, "max-queues", 2)
    link = open_as(session, "guest", vhost)
    channel = link.channel()
    channel.call("queue.declare", queue="a", durable=True)
    channel.call("queue.declare", queue="b", exclusive=True)
    session.quiet("two are there")
    channel.call("queue.declare", queue="a", durable=True)
    channel.call("queue.declare", queue="a", passive=True)
    for name, arguments in {"c": {}, "": {}, "d": {"x-queue-type": "quorum"}}.items():
        more = {"durable": bool(name), "exclusive": not name}
        link.channel().call("queue.declare", queue=name, arguments=arguments, **more)

    channel.call("queue.delete", queue="a")
    session.quiet("one is deleted")
    channel.call("queue.declare", queue="c", durable=True)


@people_scenario("PM/limit-of-no-queues", "PM-30, Q-29b")
def no_queues(session: Session) -> None:
    vhost = new_vhost(session)
    limit_vhost(session, vhost, "max-queues", 0)
    link = open_as(session, "guest", vhost)
    for arguments in ({}, {"x-expires": 0}, {"x-queue-type": "nonsense"}):
        link.channel().call("queue.declare", queue="a", durable=True, arguments=arguments)

    limit_vhost(session, vhost, "max-queues", -1)
    link.channel().call("queue.declare", queue="a", durable=True)


@people_scenario("PM/limit-of-queues-and-rights", "PM-03, PM-30, Q-29b, CH-18")
def queues_rights(session: Session) -> None:
    """Which refusal comes first."""
    bob = Bob(session)
    vhost = new_vhost(session)
    limit_vhost(session, vhost, "max-queues", 0)
    bob.may(Rights("^allowed$"), vhost)
    link = bob.connect(vhost)
    link.channel().call("queue.declare", queue="other", durable=True)
    link.channel().call("queue.declare", queue="allowed", durable=True)
    arguments = {"x-dead-letter-exchange": "x"}
    link.channel().call("queue.declare", queue="allowed", durable=True, arguments=arguments)


# -- limits of users


@people_scenario("PM/limit-of-connections-of-a-user", "PM-30, C-51, C-55")
def user_connections(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    bob.limited("max-connections", 1)
    first = bob.connect()
    session.quiet("one is open")
    bob.connect()
    session.quiet("one was too many")
    first.call("connection.close", reply_code=200)
    first.end()
    session.pause(60)
    session.quiet("it is closed")
    bob.connect()
    bob.limited("max-connections", -1)
    bob.connect()
    bob.limited("max-connections", 0)
    bob.connect()


@people_scenario("PM/limit-of-connections-and-other-refusals", "C-51, C-52, C-53, C-54, C-55")
def connection_order(session: Session) -> None:
    """Bob may nothing, and fewer connections than none; nor may anybody there."""
    bob = Bob(session)
    vhost = new_vhost(session)
    bob.limited("max-connections", 0)
    bob.connect(vhost)
    bob.connect(session.name("missing"))
    limit_vhost(session, vhost, "max-connections", 0)
    bob.connect(vhost)
    bob.limited("max-connections", -1)
    bob.connect(vhost)


@people_scenario("PM/limit-of-channels-of-a-user", "PM-30, CH-05")
def user_channels(session: Session) -> None:
    """Of all connections together; the connection that has one too many is closed."""
    bob = Bob(session)
    bob.may(ALL)
    bob.limited("max-channels", 3)
    links = [bob.connect(), bob.connect()]
    for link in (links[0], links[1], links[0]):
        link.channel()
        session.quiet("one more channel")

    links[1].send("channel.open", 7)
    links[1].await_method("connection.close")
    session.quiet("one too many")
    links[0].channel(is_recorded=True)
    session.quiet("the place of the closed connection's")
    links[0].send("channel.open", 8)
    links[0].await_method("connection.close")


@people_scenario("PM/limit-of-no-channels", "PM-30, CH-04, CH-05")
def no_channels(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    link = bob.connect()
    link.channel(is_recorded=True)
    bob.limited("max-channels", 0)
    session.quiet("limited")
    link.send("channel.open", 2)
    link.await_method("connection.close")


@people_scenario("PM/limit-of-channels-after-a-close", "PM-30, CH-05, CH-06")
def channels_close(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    bob.limited("max-channels", 1)
    link = bob.connect()
    channel = link.channel(is_recorded=True)
    channel.call("channel.close", reply_code=200)
    session.quiet("closed")
    link.channel(is_recorded=True)


# -- who is who


@people_scenario("PM/user-id", "P-10, PM-32")
def user_id(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    queue = session.queue()
    for claimed in (bob.name, "guest", ""):
        channel = bob.channel()
        channel.publish("", queue, user_id=claimed)
        channel.sync()

    session.quiet("published")
    session.channel().call("basic.get", queue=queue, no_ack=True)


@people_scenario("PM/impersonator", "P-10, PM-32")
def impersonator(session: Session) -> None:
    bob = Bob(session, tags=("management", "impersonator"))
    bob.may(ALL)
    queue = session.queue()
    for claimed in ("guest", "nobody", ""):
        channel = bob.channel()
        channel.publish("", queue, user_id=claimed)
        channel.sync()

    session.quiet("published")
    for _ in range(3):
        session.channel().call("basic.get", queue=queue, no_ack=True)


@people_scenario("PM/other-tags-are-no-impersonators", "P-10, PM-32")
def other_tags(session: Session) -> None:
    bob = Bob(session, tags=("administrator", "monitoring", "policymaker"))
    bob.may(ALL)
    channel = bob.channel()
    channel.publish("", session.queue(), user_id="guest")
    channel.sync()


@people_scenario("PM/impersonator-for-new-connections", "P-10, PM-32")
def impersonator_later(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    queue = session.queue()
    bob.has_tags("impersonator")
    channel = bob.connect().channel()
    channel.publish("", queue, user_id="guest")
    channel.sync()
    bob.has_tags()
    channel = bob.connect().channel()
    channel.publish("", queue, user_id="guest")
    channel.sync()


@people_scenario("PM/impersonator-on-an-open-connection", "P-10, PM-11, PM-32")
def impersonator_open(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    queue = session.queue()
    channel = bob.channel()
    bob.has_tags("impersonator")
    channel.publish("", queue, user_id="guest")
    channel.sync()


@people_scenario("PM/tags-give-no-rights", "PM-01, PM-02, C-53")
def administrator(session: Session) -> None:
    bob = Bob(session, tags=("administrator",))
    bob.connect()
    bob.may(NONE)
    bob.connect().channel().call("queue.declare", queue=session.name("new"))


@people_scenario("PM/password", "PM-01, C-30, C-32")
def password(session: Session) -> None:
    """Another one is for the next login; who is there stays."""
    bob = Bob(session)
    bob.may(ALL)
    link = bob.connect()
    setting = UserSetting(bob.name, "other")
    session.administer("password", partial(session.administration.put_user, setting))
    link.channel(is_recorded=True)
    open_as(session, bob.name)
    open_as(session, bob.name, password="other")


@people_scenario("PM/loopback-users", "C-30, C-36")
def loopback(session: Session) -> None:
    """Guest may come from this machine only, and is refused as with a wrong password."""
    bob = Bob(session)
    bob.may(ALL)
    for user in ("guest", bob.name):
        link = session.raw_link(is_from_afar=True)
        link.is_recording = False
        link.start()
        link.is_recording = True
        link.log_in(user, user)
        if not link.is_ending:
            link.tune_and_open()

    open_as(session, "guest")
    bob.has_tags("administrator")
    open_as(session, bob.name, is_from_afar=True)


# -- who is deleted


@people_scenario("PM/user-deleted", "PM-31, C-30, Q-33, CO-15")
def user_deleted(session: Session) -> None:
    bob = Bob(session)
    bob.may(ALL)
    queue = session.queue()
    fill(session, queue, "one")
    links = [bob.connect(), bob.connect()]
    channel = links[0].channel()
    exclusive = session.queue("exclusive", channel, durable=False, exclusive=True)
    channel.call("basic.get", queue=queue)
    session.quiet("connected")
    session.administer("deleting", partial(session.administration.delete_user, bob.name))
    for link in links:
        link.await_method("connection.close")

    session.pause(60)
    session.quiet("deleted")
    session.channel().call("basic.get", queue=queue)
    session.channel().call("queue.declare", queue=exclusive, passive=True)
    bob.connect()


@people_scenario("PM/user-deleted-and-there-again", "PM-01, PM-02, PM-31")
def user_again(session: Session) -> None:
    """Nothing is left of the rights of the first of that name."""
    bob = Bob(session)
    bob.may(ALL)
    bob.may_use("amq.topic", write="^a$")
    session.administer("deleting", partial(session.administration.delete_user, bob.name))
    setting = UserSetting(bob.name)
    session.administer("again", partial(session.administration.put_user, setting))
    bob.connect()
    bob.may(ALL)
    channel = bob.connect().channel()
    channel.publish("amq.topic", "b")
    channel.sync()


@people_scenario("PM/virtual-host-deleted", "PM-31, C-52")
def vhost_deleted(session: Session) -> None:
    vhost = new_vhost(session)
    links = [open_as(session, "guest", vhost) for _ in range(2)]
    channel = links[0].channel()
    session.unrecorded(channel, "queue.declare", queue="q", durable=True)
    channel.call("basic.consume", queue="q", consumer_tag="c")
    session.quiet("connected")
    # What becomes of the consumer first depends on who is quicker.
    channel.link.is_recording = False
    session.administer("deleting", partial(session.administration.delete_vhost, vhost))
    links[1].await_method("connection.close")
    session.pause(60)
    open_as(session, "guest", vhost)


@people_scenario("PM/virtual-host-deleted-and-there-again", "PM-31, PM-02, PM-30")
def vhost_again(session: Session) -> None:
    """It is empty, without limits, and nobody's but guest's."""
    bob = Bob(session)
    vhost = new_vhost(session)
    bob.may(ALL, vhost)
    limit_vhost(session, vhost, "max-queues", 1)
    link = open_as(session, "guest", vhost)
    session.unrecorded(link.channel(), "queue.declare", queue="q", durable=True)
    link.call("connection.close", reply_code=200)
    link.end()
    session.administer("deleting", partial(session.administration.delete_vhost, vhost))
    new_vhost(session)
    bob.connect(vhost)
    link = open_as(session, "guest", vhost)
    channel = link.channel()
    for name in "ab":
        channel.call("queue.declare", queue=name, durable=True)

    channel.call("queue.declare", queue="q", passive=True)
