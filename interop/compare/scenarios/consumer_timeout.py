"""Section MA: deliveries that stay unsettled for too long.

RabbitMQ 3.10 looks at all channels and knows one timeout, 4.3 looks at quorum queues only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.catalogue import scenario
from interop.compare.scenarios.steps import drain, fill, filled

if TYPE_CHECKING:
    from interop.compare.client import Channel
    from interop.compare.session import Session

__all__: list[str] = []

timeout_scenario = partial(scenario, is_alone=True)

TIMEOUT_MS: Final = 600
NOTICED_S: Final = 6.0
"""Within which a broker has to notice, whose looks at its channels are a second apart at most."""

NOT_NOTICED_MS: Final = 3_500
QUORUM: Final[dict[str, object]] = {"x-queue-type": "quorum"}


def with_timeout(session: Session) -> None:
    """Deliveries may be unsettled for a short time only, on channels opened from now on."""
    session.connect()
    administration = session.administration
    session.administer(
        "timeout",
        partial(administration.set_consumer_timeout, TIMEOUT_MS),
        undo=partial(administration.set_consumer_timeout, None),
    )


def await_notice(session: Session, channel: Channel) -> None:
    """Wait until the broker says something of what is late: a close, or a cancel."""

    def is_noticed() -> bool:
        return any(method.name in {"channel.close", "basic.cancel"} for method in channel.inbox)

    if not session.pump(is_noticed, NOTICED_S):
        channel.link.record(channel.number, "(nothing is late)")


def held(session: Session, arguments: dict[str, object], count: int = 1) -> tuple[Channel, str]:
    """A consumer of a queue that has not settled what it got."""
    queue = session.queue(arguments=arguments)
    fill(session, queue, *map(str, range(count)))
    channel = session.connect().channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", count)
    return channel, queue


@timeout_scenario("MA/timeout-of-a-classic-queue", "MA-10, MA-11")
def classic(session: Session) -> None:
    with_timeout(session)
    channel, queue = held(session, {}, 2)
    await_notice(session, channel)
    session.quiet("late")
    drain(session, queue, 2)


@timeout_scenario("MA/timeout-of-a-quorum-queue", "MA-10, MA-11, QQ-04")
def quorum(session: Session) -> None:
    with_timeout(session)
    channel, queue = held(session, QUORUM)
    await_notice(session, channel)
    session.quiet("late")
    drain(session, queue, 1)


@timeout_scenario("MA/timeout-after-basic-get", "MA-10, MA-11")
def after_get(session: Session) -> None:
    with_timeout(session)
    queue = filled(session, 1)
    channel = session.connect().channel()
    channel.call("basic.get", queue=queue)
    await_notice(session, channel)
    session.quiet("late")
    drain(session, queue, 1)


@timeout_scenario("MA/no-timeout-for-what-is-settled", "MA-10")
def settled(session: Session) -> None:
    with_timeout(session)
    channel, _ = held(session, {})
    channel.send("basic.ack", delivery_tag=1)
    session.pause(NOT_NOTICED_MS)
    session.quiet("settled")


@timeout_scenario("MA/no-timeout-without-acknowledgement", "MA-10")
def no_ack(session: Session) -> None:
    with_timeout(session)
    queue = filled(session, 1)
    channel = session.connect().channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    channel.expect("basic.deliver")
    session.pause(NOT_NOTICED_MS)
    session.quiet("still there")


@timeout_scenario("MA/timeout-of-one-channel", "MA-10, MA-11, CH-08")
def one_channel(session: Session) -> None:
    """The other channel and the connection go on, and the number may be used again."""
    with_timeout(session)
    channel, _ = held(session, {})
    other = channel.link.channel()
    other.call("basic.consume", queue=session.queue("other"), consumer_tag="other")
    await_notice(session, channel)
    session.quiet("late")
    other.call("basic.cancel", consumer_tag="other")
    if not channel.is_open:
        channel.link.channel(channel.number, is_recorded=True)


@timeout_scenario("MA/timeout-of-the-queue", "MA-10..MA-12")
def of_queue(session: Session) -> None:
    """Its argument takes the place of what holds for the broker."""
    with_timeout(session)
    channel, queue = held(session, QUORUM | {"x-consumer-timeout": 3_600_000})
    session.pause(NOT_NOTICED_MS)
    session.quiet("not late")
    channel.call("queue.declare", queue=queue, passive=True)


@timeout_scenario("MA/timeout-of-the-consumer", "MA-10..MA-12")
def of_consumer(session: Session) -> None:
    """Its argument takes the place of both."""
    with_timeout(session)
    queue = session.queue(arguments=QUORUM | {"x-consumer-timeout": 600})
    fill(session, queue, "0")
    channel = session.connect().channel()
    arguments = {"x-consumer-timeout": 3_600_000}
    channel.call("basic.consume", queue=queue, consumer_tag="c", arguments=arguments)
    channel.expect("basic.deliver")
    session.pause(NOT_NOTICED_MS)
    session.quiet("not late")


@timeout_scenario("MA/timeout-in-a-transaction", "MA-10, MA-11, TX-05")
def transaction(session: Session) -> None:
    """What is acked but not committed counts as settled."""
    with_timeout(session)
    queue = filled(session, 1)
    channel = session.connect().channel()
    channel.call("tx.select")
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    session.pause(NOT_NOTICED_MS)
    session.quiet("not committed")
    channel.call("tx.commit")
