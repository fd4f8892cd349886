"""pika: the asynchronous SelectConnection with callbacks all the way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pika
import pytest

from interop.support.deadline import WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pika.channel import Channel


class Session:
    """Runs a SelectConnection's loop from its opening to its close, or to a deadline."""

    def __init__(self, parameters: pika.URLParameters, on_open: Callable[[Session], None]) -> None:
        self.reason: BaseException | None = None
        self.events: list[Any] = []
        self._timed_out = False
        self._on_open = on_open
        self._stopping = False
        self.connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda _connection: on_open(self),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )

    def run(self) -> list[Any]:
        """Return what the callbacks noted; fail when the connection is not closed in time."""
        self.connection.ioloop.call_later(WITHIN_S, self._time_out)
        self.connection.ioloop.start()
        assert not self._timed_out, f"still open with {self.events!r}"
        return self.events

    def channel(self, then: Callable[[Channel], None]) -> None:
        self.connection.channel(on_open_callback=then)

    def end(self, *_: Any) -> None:
        if not self._stopping:
            self._stopping = True
            self.connection.close()

    def _ended(self, _connection: Any, reason: BaseException) -> None:
        self.reason = reason
        self.connection.ioloop.stop()

    def _time_out(self) -> None:
        self._timed_out = True
        self.connection.ioloop.stop()


def test_confirms_and_returns_come_in_order(parameters: pika.URLParameters) -> None:
    def on_open(session: Session) -> None:
        def publish(channel: Channel, queue: str) -> None:
            channel.basic_publish("", queue, b"1", mandatory=True)
            channel.basic_publish("", "interop.nowhere", b"2", mandatory=True)
            channel.basic_publish("", queue, b"3")

        def confirmed(frame: Any) -> None:
            session.events.append((type(frame.method).__name__, frame.method.delivery_tag))
            tags = [event[1] for event in session.events if event[0] != "Return"]
            if max(tags) == 3:
                session.end()

        def opened(channel: Channel) -> None:
            channel.add_on_return_callback(
                lambda _c, method, _p, body: session.events.append(("Return", body))
            )
            channel.queue_declare(
                "",
                exclusive=True,
                callback=lambda declared: channel.confirm_delivery(
                    confirmed, callback=lambda _ok: publish(channel, declared.method.queue)
                ),
            )

        session.channel(opened)

    events = Session(parameters, on_open).run()
    returned = events.index(("Return", b"2"))
    # Acks may be joined into one with multiple set, but none precedes its message's return.
    assert all(event[0] == "Ack" for event in events if event[0] != "Return")
    assert all(event[1] < 2 for event in events[:returned])


def test_consumer_takes_a_thousand_messages_in_order(parameters: pika.URLParameters) -> None:
    number = 1000

    def on_open(session: Session) -> None:
        def take(channel: Channel, method: Any, _properties: Any, body: bytes) -> None:
            session.events.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(session.events) == number:
                session.end()

        def declared(channel: Channel, queue: str) -> None:
            channel.basic_qos(prefetch_count=50)
            channel.basic_consume(queue, take)
            for index in range(number):
                channel.basic_publish("", queue, b"%d" % index)

        session.channel(
            lambda channel: channel.queue_declare(
                "",
                exclusive=True,
                callback=lambda frame: declared(channel, frame.method.queue),
            )
        )

    assert Session(parameters, on_open).run() == list(range(number))


def test_channel_error_is_told_to_the_callback(parameters: pika.URLParameters) -> None:
    def on_open(session: Session) -> None:
        def closed(_channel: Channel, reason: Any) -> None:
            session.events.append((reason.reply_code, reason.reply_text))
            session.end()

        def opened(channel: Channel) -> None:
            channel.add_on_close_callback(closed)
            channel.queue_declare("interop.missing", passive=True, callback=session.end)

        session.channel(opened)

    assert Session(parameters, on_open).run() == [
        (404, "NOT_FOUND - no queue 'interop.missing' in vhost '/'")
    ]


def test_pipelined_methods_are_answered_in_order(parameters: pika.URLParameters) -> None:
    def on_open(session: Session) -> None:
        channels: list[Channel] = []

        def declared(frame: Any) -> None:
            session.events.append(frame.channel_number)
            if len(session.events) == 60:
                session.end()

        def opened(channel: Channel) -> None:
            channels.append(channel)
            for _ in range(20):
                channel.queue_declare("", exclusive=True, callback=declared)

        for _ in range(3):
            session.channel(opened)

    events = Session(parameters, on_open).run()
    assert {number: events.count(number) for number in set(events)} == {1: 20, 2: 20, 3: 20}


def test_cancel_is_answered_and_the_tag_is_free_again(parameters: pika.URLParameters) -> None:
    def on_open(session: Session) -> None:
        def consume(channel: Channel, queue: str) -> None:
            def again(_ok: Any) -> None:
                session.events.append("cancelled")
                channel.basic_consume(
                    queue, lambda *_: None, consumer_tag="tag", callback=session.end
                )

            channel.basic_consume(
                queue,
                lambda *_: None,
                consumer_tag="tag",
                callback=lambda _ok: channel.basic_cancel("tag", callback=again),
            )

        session.channel(
            lambda channel: channel.queue_declare(
                "", exclusive=True, callback=lambda frame: consume(channel, frame.method.queue)
            )
        )

    assert Session(parameters, on_open).run() == ["cancelled"]


def test_wrong_password_ends_the_opening(parameters: pika.URLParameters) -> None:
    parameters.credentials = pika.PlainCredentials("guest", "not-the-password")
    session = Session(parameters, Session.end)
    session.run()
    assert isinstance(session.reason, pika.exceptions.ProbableAuthenticationError)


def test_orderly_close_has_code_200(parameters: pika.URLParameters) -> None:
    session = Session(parameters, Session.end)
    session.run()
    assert isinstance(session.reason, pika.exceptions.ConnectionClosedByClient)
    assert session.reason.reply_code == 200


@pytest.mark.parametrize("heartbeat", [0, 1])
def test_silence_with_heartbeat_of(parameters: pika.URLParameters, heartbeat: int) -> None:
    parameters.heartbeat = heartbeat
    started = time.monotonic()
    # Longer than a connection lives whose heartbeats are missing.
    silence_s = 3.5 * heartbeat or 0.2
    session = Session(parameters, lambda its: its.connection.ioloop.call_later(silence_s, its.end))
    session.run()
    assert time.monotonic() - started >= silence_s
    assert isinstance(session.reason, pika.exceptions.ConnectionClosedByClient)
