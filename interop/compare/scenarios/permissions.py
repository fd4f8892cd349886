"""Section PM: which method needs which right, on what, and what a refusal says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from interop.compare.administration import Rights
from interop.compare.catalogue import add, scenario
from interop.compare.scenarios.people import ALL, NONE, Bob, exactly, new_vhost, open_as
from interop.compare.scenarios.steps import fill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interop.compare.session import Session

__all__: list[str] = []

rights_scenario = partial(scenario, is_administered=True)

RIGHTS: Final = ("configure", "write", "read")


class Need(NamedTuple):
    """A method that needs rights.

    Values of arguments and names of resources are suffixes of names of the run where they are
    ``q``, ``x`` (which are there), ``h`` (a headers exchange), or begin with ``new``.
    """

    rules: str
    method: str
    arguments: dict[str, object]
    rights: tuple[tuple[str, str], ...]
    """Each right that is needed with the name it is needed on."""


OWN: Final = ("q", "x", "h", "new", "new-dlx", "new-ae")
AE: Final = {"alternate-exchange": "new-ae"}
DLX: Final = {"x-dead-letter-exchange": "new-dlx"}
BASIS: Final = "PM-02, PM-03, PM-10"

NEEDS: Final[dict[str, Need]] = {
    "exchange-declare": Need(
        BASIS,
        "exchange.declare",
        {"exchange": "new", "type": "fanout"},
        (("configure", "new"),),
    ),
    "exchange-declare-again": Need(
        BASIS, "exchange.declare", {"exchange": "x", "type": "direct"}, (("configure", "x"),)
    ),
    "exchange-declare-with-alternate": Need(
        f"{BASIS}, E-25",
        "exchange.declare",
        {"exchange": "new", "type": "fanout", "arguments": AE},
        (("configure", "new"), ("read", "new"), ("write", "new-ae")),
    ),
    "exchange-declare-with-default-as-alternate": Need(
        f"{BASIS}, E-25",
        "exchange.declare",
        {"exchange": "new", "type": "fanout", "arguments": {"alternate-exchange": ""}},
        (("configure", "new"), ("read", "new"), ("write", "amq.default")),
    ),
    "exchange-delete": Need(BASIS, "exchange.delete", {"exchange": "x"}, (("configure", "x"),)),
    "exchange-delete-of-none": Need(
        BASIS, "exchange.delete", {"exchange": "new"}, (("configure", "new"),)
    ),
    "exchange-bind": Need(
        f"{BASIS}, B-02",
        "exchange.bind",
        {"destination": "x", "source": "h"},
        (("write", "x"), ("read", "h")),
    ),
    "exchange-unbind": Need(
        f"{BASIS}, B-02",
        "exchange.unbind",
        {"destination": "x", "source": "h"},
        (("write", "x"), ("read", "h")),
    ),
    "queue-declare": Need(
        BASIS, "queue.declare", {"queue": "new", "durable": True}, (("configure", "new"),)
    ),
    "queue-declare-again": Need(
        BASIS, "queue.declare", {"queue": "q", "durable": True}, (("configure", "q"),)
    ),
    "queue-declare-with-dead-letters": Need(
        f"{BASIS}, Q-29c",
        "queue.declare",
        {"queue": "new", "durable": True, "arguments": DLX},
        (("configure", "new"), ("read", "new"), ("write", "new-dlx")),
    ),
    "queue-declare-with-dead-letters-by-default": Need(
        f"{BASIS}, Q-29c",
        "queue.declare",
        {"queue": "new", "durable": True, "arguments": {"x-dead-letter-exchange": ""}},
        (("configure", "new"), ("read", "new"), ("write", "amq.default")),
    ),
    "queue-delete": Need(BASIS, "queue.delete", {"queue": "q"}, (("configure", "q"),)),
    "queue-delete-of-none": Need(BASIS, "queue.delete", {"queue": "new"}, (("configure", "new"),)),
    "queue-purge": Need(BASIS, "queue.purge", {"queue": "q"}, (("read", "q"),)),
    "queue-bind": Need(
        f"{BASIS}, B-02",
        "queue.bind",
        {"queue": "q", "exchange": "x"},
        (("write", "q"), ("read", "x")),
    ),
    "queue-unbind": Need(
        f"{BASIS}, B-02",
        "queue.unbind",
        {"queue": "q", "exchange": "x"},
        (("write", "q"), ("read", "x")),
    ),
    "queue-bind-of-nothing-to-nothing": Need(
        f"{BASIS}, B-02, B-04",
        "queue.bind",
        {"queue": "new", "exchange": "new"},
        (("write", "new"), ("read", "new")),
    ),
    "basic-get": Need(BASIS, "basic.get", {"queue": "q"}, (("read", "q"),)),
    "basic-get-from-nothing": Need(BASIS, "basic.get", {"queue": "new"}, (("read", "new"),)),
    "basic-consume": Need(BASIS, "basic.consume", {"queue": "q"}, (("read", "q"),)),
}


def of_run(session: Session, value: object) -> object:
    """The same with names of the run in place of suffixes."""
    if isinstance(value, dict):
        return {key: of_run(session, one) for key, one in value.items()}

    return session.name(value) if isinstance(value, str) and value in OWN else value


def set_scene(session: Session) -> Bob:
    """Guest declares what is there; returns bob."""
    bob = Bob(session)
    session.queue()
    session.exchange("direct", "x")
    session.exchange("headers", "h")
    return bob


def rights_of(names: Mapping[str, list[str]]) -> Rights:
    patterns = {right: exactly(*names[right]) if names[right] else "" for right in RIGHTS}
    return Rights(**patterns)


def refused_without_each(need: Need, session: Session) -> None:
    """Without rights, then with one more each time, in the order in which they are asked for."""
    bob = set_scene(session)
    arguments = {key: of_run(session, value) for key, value in need.arguments.items()}
    given: dict[str, list[str]] = {right: [] for right in RIGHTS}
    for right, name in [("", ""), *need.rights]:
        if right:
            given[right].append(str(of_run(session, name)))

        bob.may(rights_of(given))
        bob.channel().call(need.method, **arguments)


for case, need in NEEDS.items():
    add(f"PM/needs-{case}", need.rules, partial(refused_without_each, need), is_administered=True)


def publish_each(session: Session, exchange: str, shown: str, expiration: str = "1000") -> None:
    """Publish as somebody who may do all but write to the exchange, and then that alone."""
    bob = set_scene(session)
    others = f"^(?!{exactly(shown)[1:]})"
    for rights in (ALL._replace(write=others), Rights(write=exactly(shown))):
        bob.may(rights)
        channel = bob.channel()
        channel.publish(exchange, session.name("q"), mandatory=True, expiration=expiration)
        channel.sync()


@rights_scenario("PM/needs-basic-publish", "PM-03, PM-10, P-03")
def publish(session: Session) -> None:
    publish_each(session, session.name("x"), session.name("x"))


@rights_scenario("PM/needs-basic-publish-to-the-default-exchange", "PM-03, PM-10, P-03")
def publish_default(session: Session) -> None:
    publish_each(session, "", "amq.default")


@rights_scenario("PM/needs-basic-publish-to-nothing", "PM-03, PM-10, P-03, P-04")
def publish_nowhere(session: Session) -> None:
    publish_each(session, session.name("new"), session.name("new"))


@rights_scenario("PM/needs-basic-publish-to-an-internal-exchange", "PM-03, P-03, P-05")
def publish_internal(session: Session) -> None:
    publish_each(session, "amq.rabbitmq.trace", "amq.rabbitmq.trace")


@rights_scenario("PM/needs-basic-publish-with-a-wrong-expiration", "P-02, P-03, P-07")
def publish_bad_expiration(session: Session) -> None:
    """The right comes before what is wrong with the message."""
    publish_each(session, session.name("x"), session.name("x"), expiration="hare")


@rights_scenario("PM/needs-basic-publish-in-a-transaction", "PM-03, PM-10, TX-02")
def publish_tx(session: Session) -> None:
    bob = set_scene(session)
    bob.may(NONE)
    channel = bob.channel()
    channel.call("tx.select")
    channel.publish("", session.name("q"))
    channel.sync()
    channel.call("tx.commit")


@rights_scenario("PM/needs-for-passive-declares", "PM-03, E-31, Q-41")
def passive(session: Session) -> None:
    """Some right or other on the name, in 4.3; nothing says so for what is not there."""
    bob = set_scene(session)
    for kind, name in (("queue", "q"), ("exchange", "x"), ("queue", "new")):
        full = session.name(name)
        patterns = {right: Rights(**{right: exactly(full)}) for right in RIGHTS}
        for rights in (NONE, *patterns.values()):
            bob.may(rights)
            bob.channel().call(f"{kind}.declare", passive=True, **{kind: full})


@rights_scenario("PM/needs-nothing", "PM-03")
def nothing(session: Session) -> None:
    """Methods that name no resource, and the end of what was begun."""
    bob = set_scene(session)
    fill(session, session.name("q"), "one", "two")
    bob.may(Rights(read=exactly(session.name("q"))))
    channel = bob.channel()
    channel.call("basic.consume", queue=session.name("q"), consumer_tag="c")
    channel.expect("basic.deliver", 2)
    bob.may(NONE)
    channel.send("basic.ack", delivery_tag=1)
    channel.send("basic.nack", delivery_tag=2)
    channel.call("basic.recover", requeue=True)
    channel.call("basic.qos", prefetch_count=1)
    channel.call("basic.cancel", consumer_tag="c")
    channel.call("confirm.select")
    channel.call("access.request", realm="/data")


@rights_scenario("PM/server-named-queue", "PM-12, Q-01")
def server_named(session: Session) -> None:
    bob = set_scene(session)
    for configure in (exactly(session.name("q")), "^amq\\.gen-", "^amq.gen"):
        bob.may(Rights(configure, ".*", ".*"))
        channel = bob.channel()
        channel.call("queue.declare", exclusive=True)
        channel.call("queue.bind", exchange=session.name("x"), routing_key="k")


PATTERNS: Final[dict[str, str]] = {
    "empty": "",
    "unanchored": "ba",
    "anchored": "^bar$",
    "at-the-start": "^ba",
    "case": "^BAR$",
    "alternatives": "^foo|bar$",
    "classes": "^[a-z]{3}$",
    "dot": "^b.r$",
    "nothing": "(?!)",
}


@rights_scenario("PM/patterns", "PM-02")
def patterns(session: Session) -> None:
    """Anywhere in the name, and the empty pattern nowhere."""
    bob = Bob(session)
    vhost = new_vhost(session)
    for case, pattern in PATTERNS.items():
        bob.may(Rights(configure=pattern), vhost)
        link = bob.connect(vhost)
        session.note(case)
        for name in ("bar", "foo", "foobarb"):
            link.channel().call("queue.declare", queue=name, durable=True)


@rights_scenario("PM/no-rights-in-the-virtual-host", "PM-02, C-52, C-53")
def no_access(session: Session) -> None:
    """No record is no access; a record of nothing is access."""
    bob = Bob(session)
    bob.connect()
    bob.connect(session.name("missing"))
    bob.may(NONE)
    bob.connect().channel(is_recorded=True)
    vhost = new_vhost(session)
    bob.connect(vhost)
    bob.may(NONE, vhost)
    bob.connect(vhost)


@rights_scenario("PM/rights-are-of-a-virtual-host", "PM-02")
def other_vhost(session: Session) -> None:
    bob = set_scene(session)
    vhost = new_vhost(session)
    bob.may(ALL)
    bob.may(NONE, vhost)
    bob.connect(vhost).channel().call("queue.declare", queue="q")
    bob.channel().call("basic.get", queue=session.name("q"))
    guest = open_as(session, "guest", vhost)
    guest.channel().call("queue.declare", queue="q", durable=True)


@rights_scenario("PM/refused-with-nowait", "PM-10, CH-13")
def nowait(session: Session) -> None:
    bob = set_scene(session)
    bob.may(NONE)
    for method, arguments in (
        ("queue.declare", {"queue": session.name("new")}),
        ("queue.bind", {"queue": session.name("q"), "exchange": session.name("x")}),
        ("basic.consume", {"queue": session.name("q")}),
    ):
        bob.channel().call(method, nowait=True, **arguments)


@rights_scenario("PM/refused-or-wrong", "PM-03, CH-18, E-21, Q-03, E-20, Q-10")
def order(session: Session) -> None:
    """What is said of a declaration that would fail for other reasons as well."""
    bob = set_scene(session)
    bob.may(NONE)
    for method, arguments in (
        ("exchange.declare", {"exchange": "amq.new", "type": "direct"}),
        ("exchange.declare", {"exchange": session.name("new"), "type": "nonsense"}),
        ("exchange.declare", {"exchange": session.name("x"), "type": "fanout"}),
        ("exchange.declare", {"exchange": "", "type": "direct"}),
        ("exchange.delete", {"exchange": ""}),
        ("exchange.delete", {"exchange": "amq.direct"}),
        ("queue.declare", {"queue": "amq.new"}),
        ("queue.declare", {"queue": session.name("q")}),
        ("queue.declare", {"queue": session.name("new"), "arguments": {"x-expires": 0}}),
        ("queue.bind", {"queue": session.name("q"), "exchange": ""}),
        ("exchange.bind", {"destination": "", "source": session.name("x")}),
        ("exchange.bind", {"destination": session.name("x"), "source": ""}),
        ("queue.purge", {"queue": session.name("new")}),
    ):
        bob.channel().call(method, **arguments)


@rights_scenario("PM/dead-letters-need-nothing", "PM-03, DL-01")
def dead_letters(session: Session) -> None:
    """Rights are asked for when a queue is declared, not when it works."""
    bob = set_scene(session)
    session.bind(session.name("q"), session.name("x"), "dead")
    bob.may(ALL)
    arguments = {"x-dead-letter-exchange": session.name("x"), "x-dead-letter-routing-key": "dead"}
    channel = bob.channel()
    source = session.queue("new", channel, arguments=arguments)
    channel.publish("", source)
    channel.call("basic.get", queue=source)
    bob.may(NONE)
    channel.send("basic.nack", delivery_tag=1)
    session.quiet("rejected")
    session.channel().call("basic.get", queue=session.name("q"))


@rights_scenario("PM/alternate-exchange-needs-nothing-of-a-publisher", "PM-03, E-72")
def alternate(session: Session) -> None:
    bob = set_scene(session)
    session.bind(session.name("q"), session.name("h"))
    arguments = {"alternate-exchange": session.name("h")}
    exchange = session.exchange("direct", "new", arguments=arguments)
    bob.may(Rights(write=exactly(exchange)))
    channel = bob.channel()
    channel.publish(exchange, "nowhere", mandatory=True)
    channel.sync()
    session.quiet("published")
    session.channel().call("basic.get", queue=session.name("q"))


@rights_scenario("PM/reply-to", "PM-03, DR-01, DR-05")
def reply_to(session: Session) -> None:
    """The pseudo queue needs no right to be read; replies need the default exchange."""
    bob = set_scene(session)
    bob.may(Rights(write="^amq\\.default$"))
    channel = bob.channel()
    channel.call("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    channel.publish("", session.name("q"), reply_to="amq.rabbitmq.reply-to")
    session.quiet("asked")
    server = session.channel()
    server.call("basic.get", queue=session.name("q"), no_ack=True)
    bob.may(NONE)
    server.publish("", str(server.last_properties["reply_to"]))
    channel.expect("basic.deliver")
    refused = bob.channel()
    refused.call("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    refused.publish("", session.name("q"), reply_to="amq.rabbitmq.reply-to")
    refused.sync()


# -- rights that change


@rights_scenario("PM/revoked-on-an-open-channel", "PM-11, PM-13")
def revoked(session: Session) -> None:
    """What the channel has not used before is refused, and consumers stay."""
    bob = set_scene(session)
    other = session.queue("new")
    bob.may(ALL)
    channel = bob.channel()
    channel.call("basic.consume", queue=session.name("q"), no_ack=True, consumer_tag="c")
    bob.may(NONE)
    fill(session, session.name("q"), "delivered")
    channel.expect("basic.deliver")
    channel.call("basic.get", queue=other)


@rights_scenario("PM/revoked-after-use-on-an-open-channel", "PM-11")
def revoked_after_use(session: Session) -> None:
    """RabbitMQ remembers for each channel what it allowed last."""
    bob = set_scene(session)
    bob.may(ALL)
    publisher, getter = bob.channel(), bob.channel()
    for _ in range(2):
        publisher.publish(session.name("x"), "k")
        publisher.sync()
        getter.call("basic.get", queue=session.name("q"))
        bob.may(NONE)


@rights_scenario("PM/revoked-for-new-channels", "PM-11")
def revoked_new_channel(session: Session) -> None:
    bob = set_scene(session)
    bob.may(ALL)
    bob.channel().call("basic.get", queue=session.name("q"))
    bob.may(NONE)
    bob.channel().call("basic.get", queue=session.name("q"))
    session.administer("clearing", partial(session.administration.clear_rights, bob.name))
    bob.channel().call("basic.get", queue=session.name("q"))
    bob.connect()


@rights_scenario("PM/granted-on-an-open-connection", "PM-11")
def granted(session: Session) -> None:
    bob = set_scene(session)
    bob.may(NONE)
    waiting = bob.channel()
    bob.channel().call("basic.get", queue=session.name("q"))
    bob.may(ALL)
    waiting.call("basic.get", queue=session.name("q"))


def new_secret(session: Session, capabilities: dict[str, object]) -> None:
    """Bob consumes, may not any more, and has another secret."""
    bob = set_scene(session)
    kept = session.queue("new")
    bob.may(ALL)
    link = session.connect(user=bob.name, capabilities=capabilities)
    channel = link.channel()
    channel.call("basic.consume", queue=session.name("q"), consumer_tag="lost")
    channel.call("basic.consume", queue=kept, consumer_tag="kept", no_ack=True)
    fill(session, session.name("q"), "unacked")
    channel.expect("basic.deliver")
    bob.may(Rights(read=exactly(kept)))
    link.call("connection.update-secret", new_secret="s", reason="it was time")
    session.quiet("updated")
    channel.send("basic.ack", delivery_tag=1)
    for queue in (session.name("q"), kept):
        fill(session, queue, "late")

    session.quiet("published")


@rights_scenario("PM/new-secret", "C-73, C-74, PM-13")
def new_secret_noticed(session: Session) -> None:
    new_secret(session, {"consumer_cancel_notify": True})


@rights_scenario("PM/new-secret-without-the-capability", "C-73, C-74, PM-13")
def new_secret_unnoticed(session: Session) -> None:
    new_secret(session, {})
