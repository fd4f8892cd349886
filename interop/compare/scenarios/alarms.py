"""Section MA: publishers under an alarm. These play alone: an alarm is the whole broker's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from interop.compare.administration import UserSetting
from interop.compare.catalogue import add, scenario
from interop.compare.client import BODY, HEADER
from interop.compare.scenarios.people import ALL, Bob
from interop.compare.scenarios.steps import drain, fill, filled

if TYPE_CHECKING:
    from interop.compare.client import Channel, Link
    from interop.compare.session import Session

__all__: list[str] = []

alarm_scenario = partial(scenario, is_alone=True)

PATIENCE_MS: Final = 100
"""How long RabbitMQ may take to tell its connections of an alarm."""


class Alarm:
    """An alarm that is over with the scenario at the latest."""

    def __init__(self, session: Session, name: str = "memory") -> None:
        self._session = session
        self._name = name
        self._is_on = False
        session.administer("alarm", partial(self._set, True), undo=self._lift)
        session.pause(PATIENCE_MS)

    def clear(self) -> None:
        """There is enough again; wait until connections have been told."""
        self._session.administer("end of the alarm", self._lift)
        self._session.pause(PATIENCE_MS)

    def _set(self, is_on: bool) -> None:
        self._is_on = is_on
        self._session.administration.set_alarm(self._name, is_on)

    def _lift(self) -> None:
        if self._is_on:
            self._set(False)


def await_blocked(link: Link) -> None:
    """Wait until a publisher is told that it is blocked."""
    if not link.session.pump(lambda: link.is_blocked):
        link.record(0, "(not blocked)")


def await_unblocked(link: Link) -> None:
    if not link.session.pump(lambda: not link.is_blocked):
        link.record(0, "(not unblocked)")


def publisher(session: Session) -> tuple[Channel, str]:
    """A channel of a connection of its own, and a queue."""
    queue = session.queue(channel=session.connect().channel())
    return session.connect().channel(), queue


@alarm_scenario("MA/blocked-and-unblocked", "MA-01..MA-04")
def blocked(session: Session) -> None:
    """What is published under the alarm is there when it is over."""
    channel, queue = publisher(session)
    channel.publish("", queue, b"before")
    channel.sync()
    alarm = Alarm(session)
    channel.publish("", queue, b"under the alarm")
    await_blocked(channel.link)
    channel.publish("", queue, b"while blocked")
    session.quiet("blocked")
    alarm.clear()
    await_unblocked(channel.link)
    session.quiet("unblocked")
    drain(session, queue, 3)


@alarm_scenario("MA/blocked-by-the-disk", "MA-01, MA-03")
def disk(session: Session) -> None:
    channel, queue = publisher(session)
    alarm = Alarm(session, "disk")
    channel.publish("", queue)
    await_blocked(channel.link)
    alarm.clear()
    await_unblocked(channel.link)


@alarm_scenario("MA/without-the-capability", "MA-02..MA-04")
def unaware(session: Session) -> None:
    """Nothing is said, and nothing read."""
    queue = session.queue(channel=session.connect().channel())
    link = session.connect(capabilities={})
    channel = link.channel()
    alarm = Alarm(session)
    channel.publish("", queue)
    link.flush()
    session.pause(PATIENCE_MS)
    link.is_blocked = True
    session.quiet("blocked")
    session.channel().call("basic.get", queue=queue)
    alarm.clear()
    link.is_blocked = False
    session.quiet("unblocked")
    drain(session, queue, 1)


@alarm_scenario("MA/alarm-before-the-connection", "MA-06, MA-08")
def before(session: Session) -> None:
    queue = session.queue(channel=session.connect().channel())
    alarm = Alarm(session)
    link = session.raw_link()
    link.is_recording = False
    link.start()
    link.is_recording = True
    link.log_in()
    link.tune_and_open()
    channel = link.channel(is_recorded=True)
    channel.publish("", queue)
    await_blocked(link)
    alarm.clear()
    await_unblocked(link)


@alarm_scenario("MA/everything-but-publishing", "MA-02, MA-08")
def consuming(session: Session) -> None:
    """Until the first publish, an alarm is not noticed."""
    channel, queue = publisher(session)
    fill(session, queue, *"abc")
    alarm = Alarm(session)
    channel.call("basic.get", queue=queue)
    channel.send("basic.ack", delivery_tag=1)
    channel.call("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.deliver", 2)
    channel.send("basic.nack", delivery_tag=2, multiple=True)
    channel.call("queue.declare", queue=session.name("more"), exclusive=True)
    channel.call("queue.bind", queue=session.name("more"), exchange="amq.direct")
    channel.call("tx.select")
    channel.call("tx.commit")
    channel.call("channel.close", reply_code=200)
    channel.link.channel(is_recorded=True)
    alarm.clear()


@alarm_scenario("MA/the-method-alone-does-not-block", "MA-02")
def method_alone(session: Session) -> None:
    """basic.publish does not, the header of its content does."""
    channel, queue = publisher(session)
    alarm = Alarm(session)
    channel.send("basic.publish", exchange="", routing_key=queue)
    channel.link.channel(is_recorded=True)
    session.pause(PATIENCE_MS)
    session.transcript.mark("only the method")
    channel.send_content(b"hello")
    await_blocked(channel.link)
    session.quiet("blocked")
    alarm.clear()
    await_unblocked(channel.link)
    drain(session, queue, 1)


@alarm_scenario("MA/alarm-in-the-middle-of-a-content", "MA-02")
def in_the_middle(session: Session) -> None:
    channel, queue = publisher(session)
    link = channel.link
    channel.send("basic.publish", exchange="", routing_key=queue)
    header = b"\0\x3c\0\0" + (10).to_bytes(8, "big") + b"\0\0"
    link.send_frame(HEADER, channel.number, header)
    link.send_frame(BODY, channel.number, b"hello")
    link.channel()
    alarm = Alarm(session)
    session.transcript.mark("alarm")
    link.send_frame(BODY, channel.number, b"world")
    await_blocked(link)
    session.quiet("blocked")
    for _ in range(2):
        session.channel().call("queue.declare", queue=queue, passive=True)
        alarm.clear()

    await_unblocked(link)
    session.quiet("unblocked")


@alarm_scenario("MA/publish-without-a-body", "MA-02, CF-01, P-21")
def no_body(session: Session) -> None:
    """The first is taken whole: it is returned or confirmed while the connection is blocked."""
    channel, queue = publisher(session)
    channel.call("confirm.select")
    alarm = Alarm(session)
    channel.publish("", session.name("nowhere"), b"", mandatory=True)
    await_blocked(channel.link)
    channel.expect("basic.return")
    channel.confirms(1)
    channel.publish("", queue, b"")
    session.quiet("blocked")
    session.channel().call("basic.get", queue=queue)
    alarm.clear()
    await_unblocked(channel.link)
    channel.confirms(1)


@alarm_scenario("MA/confirms", "MA-02, MA-04, CF-01")
def confirms(session: Session) -> None:
    channel, queue = publisher(session)
    channel.call("confirm.select")
    alarm = Alarm(session)
    for number in range(3):
        channel.publish("", queue, b"%d" % number)

    await_blocked(channel.link)
    session.quiet("blocked")
    alarm.clear()
    channel.confirms(3)


@alarm_scenario("MA/transaction", "MA-02, MA-04, TX-04")
def transaction(session: Session) -> None:
    channel, queue = publisher(session)
    channel.call("tx.select")
    alarm = Alarm(session)
    channel.publish("", queue)
    channel.send("tx.commit")
    await_blocked(channel.link)
    session.quiet("blocked")
    alarm.clear()
    channel.expect("tx.commit-ok")
    drain(session, queue, 1)


@alarm_scenario("MA/nothing-is-read-while-blocked", "MA-02, MA-05")
def unread(session: Session) -> None:
    """Acks, channels and the end of the connection wait too."""
    channel, queue = publisher(session)
    fill(session, queue, "a", "b")
    channel.call("basic.get", queue=queue)
    alarm = Alarm(session)
    channel.publish("", queue, b"c")
    await_blocked(channel.link)
    channel.send("basic.nack", delivery_tag=1)
    channel.send("basic.get", queue=queue)
    channel.link.send("channel.open", 7)
    channel.link.send("connection.close", reply_code=200)
    session.quiet("blocked")
    session.channel().call("queue.declare", queue=queue, passive=True)
    alarm.clear()
    channel.link.await_method("connection.close-ok")
    session.quiet("unblocked")
    drain(session, queue, 2)


@alarm_scenario("MA/deliveries-while-blocked", "MA-05")
def deliveries(session: Session) -> None:
    """They go on until the prefetch count is reached."""
    queue = filled(session, 4)
    link = session.connect()
    consuming = link.channel()
    consuming.call("basic.qos", prefetch_count=2)
    alarm = Alarm(session)
    publishing = link.channel()
    publishing.publish("", session.name("nowhere"))
    await_blocked(link)
    session.quiet("blocked")
    alarm.clear()
    await_unblocked(link)
    consuming.call("basic.consume", queue=queue, consumer_tag="c")
    consuming.expect("basic.deliver", 2)
    alarm = Alarm(session)
    publishing.publish("", session.name("nowhere"))
    await_blocked(link)
    # What comes free elsewhere has no way to be published; what is requeued has.
    consuming.send("basic.ack", delivery_tag=1)
    session.quiet("blocked again")
    alarm.clear()
    consuming.expect("basic.deliver")


@alarm_scenario("MA/requeued-message-reaches-a-blocked-consumer", "MA-05")
def requeued(session: Session) -> None:
    queue = filled(session, 1)
    holding = session.connect().channel()
    holding.call("basic.get", queue=queue)
    link = session.connect()
    channel = link.channel()
    channel.call("basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    alarm = Alarm(session)
    channel.publish("", session.name("nowhere"))
    await_blocked(link)
    holding.send("basic.reject", delivery_tag=1, requeue=True)
    holding.sync()
    channel.expect("basic.deliver")
    session.quiet("delivered")
    alarm.clear()
    await_unblocked(link)


@alarm_scenario("MA/several-connections", "MA-01, MA-02, MA-03")
def several(session: Session) -> None:
    """Each is blocked by its own publish."""
    queue = session.queue(channel=session.connect().channel())
    links = [session.connect() for _ in range(3)]
    channels = [link.channel() for link in links]
    alarm = Alarm(session)
    for channel in channels[:2]:
        channel.publish("", queue)
        await_blocked(channel.link)

    channels[2].call("queue.declare", queue=queue, passive=True)
    session.quiet("two are blocked")
    alarm.clear()
    for link in links:
        await_unblocked(link)

    drain(session, queue, 2)


@alarm_scenario("MA/several-channels-of-a-connection", "MA-02, MA-03")
def channels(session: Session) -> None:
    channel, queue = publisher(session)
    other = channel.link.channel()
    alarm = Alarm(session)
    channel.publish("", queue, b"1")
    other.publish("", queue, b"2")
    await_blocked(channel.link)
    session.quiet("blocked")
    alarm.clear()
    await_unblocked(channel.link)
    session.quiet("unblocked")
    session.channel().call("queue.declare", queue=queue, passive=True)


@alarm_scenario("MA/two-alarms", "MA-03, MA-04")
def two_alarms(session: Session) -> None:
    """Blocked is said once, unblocked when the last is over."""
    channel, queue = publisher(session)
    memory = Alarm(session)
    channel.publish("", queue)
    await_blocked(channel.link)
    disk = Alarm(session, "disk")
    session.quiet("two alarms")
    memory.clear()
    session.quiet("one is left")
    disk.clear()
    await_unblocked(channel.link)
    session.quiet("unblocked")


def reason_of_two(first: str, second: str, session: Session) -> None:
    channel, queue = publisher(session)
    alarms = [Alarm(session, first), Alarm(session, second)]
    channel.publish("", queue)
    await_blocked(channel.link)
    for alarm in alarms:
        alarm.clear()

    await_unblocked(channel.link)


for names in (("memory", "disk"), ("disk", "memory")):
    add(
        f"MA/reason-of-{names[0]}-and-{names[1]}",
        "MA-01, MA-03",
        partial(reason_of_two, *names),
        is_alone=True,
    )


@alarm_scenario("MA/episodes", "MA-03, MA-04")
def episodes(session: Session) -> None:
    channel, queue = publisher(session)
    for _ in range(2):
        alarm = Alarm(session)
        channel.publish("", queue)
        await_blocked(channel.link)
        alarm.clear()
        await_unblocked(channel.link)

    drain(session, queue, 2)


@alarm_scenario("MA/alarm-that-is-over-before-a-publish", "MA-02, MA-04")
def unnoticed(session: Session) -> None:
    channel, queue = publisher(session)
    Alarm(session).clear()
    channel.publish("", queue)
    session.quiet("published")
    drain(session, queue, 1)


@alarm_scenario("MA/publish-that-fails", "MA-02, P-04")
def failing(session: Session) -> None:
    """Its content blocks none the less, whatever becomes of the channel."""
    channel, queue = publisher(session)
    alarm = Alarm(session)
    channel.publish(session.name("nowhere"), queue, b"")
    await_blocked(channel.link)
    channel.expect("channel.close")
    session.quiet("blocked")
    alarm.clear()
    await_unblocked(channel.link)


@alarm_scenario("MA/content-for-a-closing-channel", "MA-02, CH-07")
def closing(session: Session) -> None:
    """Also what is ignored is a content frame."""
    channel, queue = publisher(session)
    channel.link.is_answering = False
    channel.send("queue.declare", queue=session.name("nowhere"), passive=True)
    channel.expect("channel.close")
    alarm = Alarm(session)
    channel.send("basic.publish", exchange="", routing_key=queue)
    channel.send_content(b"hello")
    session.pause(PATIENCE_MS)
    alarm.clear()


@alarm_scenario("MA/heartbeats-while-blocked", "MA-05, C-62")
def heartbeats(session: Session) -> None:
    """They come, and need not be sent: the connection outlives its own silence."""
    queue = session.queue(channel=session.connect().channel())
    alarm = Alarm(session)
    link = session.connect(heartbeat=1)
    channel = link.channel()
    link.is_recording = False
    channel.publish("", queue)
    await_blocked(link)
    before = link.heartbeats
    session.pause(4_200)
    notes = [f"still open: {link.is_open}, heartbeats came: {link.heartbeats > before + 2}"]
    alarm.clear()
    await_unblocked(link)
    notes.append(f"blocked: {link.is_blocked}")
    session.pump(lambda: not link.is_open, 6.0)
    notes.append(f"open when it was silent later: {link.is_open}")
    for note in notes:
        session.note(note)

    drain(session, queue, 1)


@alarm_scenario("MA/closed-by-the-broker-while-blocked", "MA-05, PM-31, C-72")
def deleted(session: Session) -> None:
    """The answer to its close is read."""
    bob = Bob(session)
    bob.may(ALL)
    queue = session.queue()
    channel = bob.channel()
    alarm = Alarm(session)
    channel.publish("", queue)
    await_blocked(channel.link)
    session.administer("deleting", partial(session.administration.delete_user, bob.name))
    session.pump(lambda: not channel.link.is_open, 2.0)
    alarm.clear()
    session.administer("again", partial(session.administration.put_user, UserSetting(bob.name)))


@alarm_scenario("MA/lost-while-blocked", "MA-05, C-80")
def lost(session: Session) -> None:
    """Nobody sees that before the alarm is over: what was unacked comes back then."""
    channel, queue = publisher(session)
    fill(session, queue, "unacked")
    channel.call("basic.get", queue=queue)
    alarm = Alarm(session)
    channel.publish("", session.name("nowhere"))
    await_blocked(channel.link)
    channel.link.end()
    session.pause(PATIENCE_MS)
    session.quiet("lost")
    session.channel().call("basic.get", queue=queue)
    alarm.clear()
    session.quiet("over")
    session.channel().call("basic.get", queue=queue)
