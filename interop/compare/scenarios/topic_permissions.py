"""Section PM: which routing keys a user may use with a topic exchange."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.administration import Rights
from interop.compare.catalogue import scenario
from interop.compare.scenarios.people import ALL, Bob, exactly, new_vhost
from interop.compare.scenarios.steps import drain

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__: list[str] = []

topic_scenario = partial(scenario, is_administered=True)


def topic(session: Session) -> tuple[Bob, str]:
    """Bob may do everything, and there is a topic exchange that a queue has all messages of."""
    bob = Bob(session)
    bob.may(ALL)
    exchange = session.exchange("topic", "t")
    session.bind(session.queue(), exchange, "#")
    return bob, exchange


def publish_keys(bob: Bob, exchange: str, *keys: str, **headers: object) -> None:
    """Publish each with a channel of its own."""
    for key in keys:
        channel = bob.channel()
        channel.publish(exchange, key, key.encode(), headers=headers)
        channel.sync()


def bind_keys(channel: Channel, method: str, keys: dict[str, str], **ends: str) -> None:
    """Bind or unbind with each key, until one is refused."""
    for key in keys.values():
        channel.call(method, routing_key=key, **ends)


@topic_scenario("PM/topic-publish", "PM-20, PM-21, P-09")
def publish(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a\\.", read=".*")
    publish_keys(bob, exchange, "a.b", "b.a", "a", "")
    session.quiet("published")
    drain(session, session.name("q"), 1)


@topic_scenario("PM/topic-publish-in-confirm-mode", "PM-20, PM-21, CF-09")
def publish_confirmed(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a$")
    channel = bob.channel()
    channel.call("confirm.select")
    channel.publish(exchange, "a")
    channel.confirms(1)
    channel.publish(exchange, "b", mandatory=True)
    channel.sync()


@topic_scenario("PM/topic-publish-in-a-transaction", "PM-20, PM-21, TX-02")
def publish_tx(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a$")
    channel = bob.channel()
    channel.call("tx.select")
    channel.publish(exchange, "a")
    channel.publish(exchange, "b")
    channel.call("tx.commit")
    session.quiet("not committed")
    drain(session, session.name("q"), 0)


@topic_scenario("PM/topic-empty-patterns", "PM-02, PM-20")
def empty(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange)
    publish_keys(bob, exchange, "a", "")
    for key in ("a", ""):
        arguments = {"queue": session.name("q"), "exchange": exchange, "routing_key": key}
        bob.channel().call("queue.bind", **arguments)


@topic_scenario("PM/topic-cc-and-bcc", "PM-20, P-40")
def cc(session: Session) -> None:
    """Every key counts in 4.3, the main one alone in 3.10."""
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a")
    for headers in ({"CC": ["a1", "b"]}, {"BCC": ["b"]}, {"CC": ["a1"], "BCC": ["a2"]}):
        publish_keys(bob, exchange, "a", **headers)

    publish_keys(bob, exchange, "b", CC=["a"])
    session.quiet("published")


@topic_scenario("PM/topic-variables", "PM-20")
def variables(session: Session) -> None:
    """The name of the user and of the virtual host, letter by letter."""
    bob = Bob(session, "b.b")
    vhost = new_vhost(session, "v.v")
    bob.may(ALL, vhost)
    link = bob.connect(vhost)
    for pattern, keys in {
        "^{username}\\.x$": (f"{bob.name}.x", f"{bob.name.replace('.', 'x')}.x"),
        "^{vhost}$": (vhost, vhost.replace(".", "x")),
        "^{vhost}.{username}$": (f"{vhost}.{bob.name}", "{vhost}.{username}"),
        "^{other}$": ("other", "{other}"),
        "^{user}": (bob.name, "{user}"),
    }.items():
        bob.may_use("amq.topic", write=pattern, vhost=vhost)
        session.note(pattern)
        for key in keys:
            channel = link.channel()
            channel.publish("amq.topic", key)
            channel.sync()


BINDS: Final[dict[str, str]] = {"allowed": "bob.k", "refused": "eve.k"}


@topic_scenario("PM/topic-queue-bind", "PM-20, PM-21, B-02")
def queue_bind(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write=".*", read="^bob\\.")
    for method in ("queue.bind", "queue.unbind"):
        bind_keys(bob.channel(), method, BINDS, queue=session.name("q"), exchange=exchange)


@topic_scenario("PM/topic-exchange-bind", "PM-20, PM-21, B-02")
def exchange_bind(session: Session) -> None:
    """The key counts at the source, not at the destination."""
    bob, exchange = topic(session)
    bob.may_use(exchange, write=".*", read="^bob\\.")
    other = session.exchange("topic", "other")
    for method in ("exchange.bind", "exchange.unbind"):
        bind_keys(bob.channel(), method, BINDS, source=exchange, destination=other)
        bind_keys(bob.channel(), method, BINDS, source=other, destination=exchange)


@topic_scenario("PM/topic-bind-of-what-is-not-there", "PM-20, PM-21, B-02, B-04")
def bind_missing(session: Session) -> None:
    bob, exchange = topic(session)
    missing = session.name("new")
    bob.may_use(exchange, read="^bob\\.")
    for key in BINDS.values():
        for method in ("queue.bind", "queue.unbind"):
            ends = {"queue": missing, "exchange": exchange}
            bob.channel().call(method, routing_key=key, **ends)


@topic_scenario("PM/topic-rights-and-other-exchanges", "PM-20")
def others(session: Session) -> None:
    """They are of one exchange by name, and only while it is of type topic."""
    bob, exchange = topic(session)
    direct = session.exchange("direct", "d")
    session.exchange("topic", "t2")
    bob.may_use(exchange, write="^a$")
    publish_keys(bob, session.name("t2"), "b")
    publish_keys(bob, "amq.topic", "b")
    bob.may_use(direct, write="^a$")
    publish_keys(bob, direct, "b")
    ends = {"queue": session.name("q"), "exchange": direct}
    bob.channel().call("queue.bind", routing_key="b", **ends)


@topic_scenario("PM/topic-rights-do-not-replace-the-right-to-the-exchange", "PM-03, PM-20")
def both(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write=".*", read=".*")
    bob.may(Rights(write=exactly(session.name("q"))))
    publish_keys(bob, exchange, "a")
    ends = {"queue": session.name("q"), "exchange": exchange}
    bob.channel().call("queue.bind", routing_key="a", **ends)


@topic_scenario("PM/topic-publish-that-is-wrong-otherwise", "PM-20, P-07, P-08, P-09, P-10")
def order(session: Session) -> None:
    """The key comes after the message's expiration and CC, and before its user."""
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a$")
    for properties in (
        {"expiration": "hare"},
        {"headers": {"CC": "b"}},
        {"user_id": "eve"},
        {"reply_to": "amq.rabbitmq.reply-to"},
    ):
        channel = bob.channel()
        channel.publish(exchange, "b", b"wrong", mandatory=False, immediate=False, **properties)
        channel.sync()


@topic_scenario("PM/topic-rights-behind-the-first-exchange", "PM-20, E-70, E-72")
def behind(session: Session) -> None:
    """Neither bindings between exchanges nor alternate exchanges ask for the key again."""
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a$")
    fanout = session.exchange("fanout", "f")
    session.unrecorded(
        session.channel(), "exchange.bind", source=fanout, destination=exchange, routing_key=""
    )
    arguments = {"alternate-exchange": exchange}
    direct = session.exchange("direct", "d", arguments=arguments)
    publish_keys(bob, fanout, "b")
    publish_keys(bob, direct, "c")
    session.quiet("published")
    drain(session, session.name("q"), 2)


@topic_scenario("PM/topic-dead-letters", "PM-20, DL-01")
def dead_letters(session: Session) -> None:
    bob, exchange = topic(session)
    bob.may_use(exchange, write="^a$")
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "b"}
    channel = bob.channel()
    source = session.queue("source", channel, arguments=arguments)
    channel.publish("", source)
    channel.call("basic.get", queue=source)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("rejected")
    drain(session, session.name("q"), 1)


@topic_scenario("PM/topic-rights-that-change", "PM-11, PM-20")
def changes(session: Session) -> None:
    """For channels that are open, and for keys that were used before."""
    bob, exchange = topic(session)
    channel = bob.channel()
    channel.publish(exchange, "b", b"nothing was said of it")
    channel.sync()
    bob.may_use(exchange, write="^b$")
    channel.publish(exchange, "b", b"allowed")
    channel.sync()
    waiting = bob.channel()
    bob.may_use(exchange, write="^a$")
    channel.publish(exchange, "b", b"not any more")
    channel.sync()
    clear = session.administration.clear_topic_rights
    session.administer("clearing", partial(clear, bob.name))
    waiting.publish(exchange, "b", b"allowed again")
    waiting.sync()
    session.quiet("published")
    drain(session, session.name("q"), 3)
