"""Section DR: direct reply-to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import scenario

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__: list[str] = []

ALIAS: Final = "amq.rabbitmq.reply-to"


def request(session: Session) -> tuple[Channel, Channel, str]:
    """A requester's channel, a responder's one, and the name that answers go to."""
    queue = session.queue(channel=session.connect().channel())
    requester = session.connect().channel()
    responder = session.connect().channel()
    requester.call("basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    requester.publish("", queue, b"request", reply_to=ALIAS)
    requester.sync()
    responder.call("basic.get", queue=queue, no_ack=True)
    name = responder.last_properties.get("reply_to")
    assert isinstance(name, str)
    return requester, responder, name


@scenario("DR/request-and-reply", "DR-01, DR-02, DR-05, DR-06, S-096")
def request_and_reply(session: Session) -> None:
    requester, responder, name = request(session)
    responder.publish("", name, b"reply", delivery_mode=2, correlation_id="1")
    requester.expect("basic.deliver")
    responder.publish("", name, b"another")
    requester.expect("basic.deliver")


@scenario("DR/acknowledging-consumer", "DR-01")
def acknowledging(session: Session) -> None:
    session.channel().call("basic.consume", queue=ALIAS, consumer_tag="r")


@scenario("DR/second-consumer", "DR-01, CO-03")
def second(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=ALIAS, no_ack=True)
    channel.call("basic.consume", queue=ALIAS, no_ack=True)


@scenario("DR/tag-in-use", "DR-01, CO-03")
def tag_in_use(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    channel.call("basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)


@scenario("DR/tag-in-use-with-acks", "DR-01, CO-03")
def tag_in_use_with_acks(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    channel.call("basic.consume", queue=ALIAS, consumer_tag="r")


@scenario("DR/tag-of-another-consumer", "DR-01, CO-03")
def tag_of_another(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=session.queue(), consumer_tag="c", no_ack=True)
    channel.call("basic.consume", queue=ALIAS, consumer_tag="c", no_ack=True)


@scenario("DR/tag-in-use-for-a-queue", "DR-01, CO-03")
def tag_for_a_queue(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=ALIAS, consumer_tag="r", no_ack=True)
    channel.call("basic.consume", queue=session.queue(), consumer_tag="r", no_ack=True)


@scenario("DR/cancel-and-consume-anew", "DR-03, DR-07")
def cancel(session: Session) -> None:
    requester, responder, name = request(session)
    requester.call("basic.cancel", consumer_tag="r")
    requester.call("basic.consume", queue=ALIAS, consumer_tag="s", no_ack=True)
    responder.publish("", name, b"too late")
    session.quiet("the old name is nobody's")


@scenario("DR/publish-without-a-consumer", "DR-09, P-06")
def without_consumer(session: Session) -> None:
    channel = session.channel()
    channel.publish("", "nowhere", reply_to=ALIAS)
    channel.sync()


@scenario("DR/publish-on-another-channel", "DR-09, P-06")
def other_channel(session: Session) -> None:
    session.channel().call("basic.consume", queue=ALIAS, no_ack=True)
    channel = session.channel()
    channel.publish("", "nowhere", reply_to=ALIAS)
    channel.sync()


@scenario("DR/returned-request", "DR-05")
def returned(session: Session) -> None:
    channel = session.channel()
    channel.call("basic.consume", queue=ALIAS, no_ack=True)
    channel.publish("", "nowhere", reply_to=ALIAS, mandatory=True, headers={"k": 1})
    channel.publish("", "nowhere", reply_to=ALIAS + ".x", mandatory=True)
    channel.sync()


@scenario("DR/declaring-the-names", "DR-08, S-096")
def declaring(session: Session) -> None:
    requester, responder, name = request(session)
    responder.call("queue.declare", queue=name, passive=True)
    responder.call("queue.declare", queue=name, durable=True, arguments={"x-message-ttl": -1})
    responder.call("queue.declare", queue=ALIAS, passive=True)
    requester.link.channel().call("queue.declare", queue=name, passive=True)
    broken = name[:-5] + "AAAAA"
    responder.link.channel().call("queue.declare", queue=broken, passive=True)


@scenario("DR/mandatory-replies", "DR-06, DR-07")
def mandatory(session: Session) -> None:
    requester, responder, name = request(session)
    responder.publish("", name, b"reply", mandatory=True)
    requester.expect("basic.deliver")
    responder.publish("", name[:-5] + "AAAAA", b"wrong key", mandatory=True)
    responder.publish("", ALIAS, b"alias", mandatory=True)
    responder.publish("", ALIAS + ".nonsense", b"nonsense", mandatory=True)
    responder.sync()


@scenario("DR/confirmed-replies", "CF-11, DR-07")
def confirmed(session: Session) -> None:
    requester, responder, name = request(session)
    responder.call("confirm.select")
    responder.publish("", name, b"reply")
    responder.publish("", name[:-5] + "AAAAA", b"wrong key")
    responder.confirms(2)
    requester.expect("basic.deliver")


@scenario("DR/requester-gone", "DR-07, DR-12, DR-08")
def gone(session: Session) -> None:
    requester, responder, name = request(session)
    requester.call("channel.close", reply_code=200)
    session.quiet("the requester is gone")
    responder.call("confirm.select")
    responder.publish("", name, b"reply")
    responder.confirms(1)
    responder.call("queue.declare", queue=name, passive=True)


@scenario("DR/other-methods-on-the-name", "DR-10, B-02")
def other_methods(session: Session) -> None:
    requester, responder, name = request(session)
    link = responder.link
    link.channel().call("queue.bind", queue=name, exchange="amq.direct", routing_key="k")
    link.channel().call("queue.unbind", queue=name, exchange="amq.direct", routing_key="k")
    link.channel().call("queue.purge", queue=name)
    link.channel().call("basic.consume", queue=name, no_ack=True)
    link.channel().call("queue.delete", queue=name)
    responder.publish("", name, b"still there")
    requester.expect("basic.deliver")


@scenario("DR/getting-from-the-name", "DR-10")
def getting(session: Session) -> None:
    _, responder, name = request(session)
    responder.link.channel().call("basic.get", queue=name)


@scenario("DR/tags-of-deliveries", "DR-02, CO-09")
def tags(session: Session) -> None:
    requester, responder, name = request(session)
    queue = session.queue("other")
    requester.publish("", queue)
    requester.call("basic.get", queue=queue)
    responder.publish("", name, b"reply")
    requester.expect("basic.deliver")
    requester.publish("", queue)
    requester.call("basic.get", queue=queue)


@scenario("DR/reply-through-an-exchange", "DR-06")
def through_exchange(session: Session) -> None:
    _, responder, name = request(session)
    responder.publish("amq.direct", name, b"reply", mandatory=True)
    responder.sync()
