"""Everything that goes wrong in production, on purpose. Layer: testing.

Invariant: a fault is what the real event is, on the wire too: the codes and texts are those that
the broker has for it, and where the real event is silence, there is silence.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from broker.auth.mechanisms import Credentials, External, Malformed, Mechanism, Refused
from broker.core.node import BY_HAND
from broker.embedded import alarm_named
from broker.errors import PreconditionFailed
from broker.protocol.states import CHANNEL_RUNNING, RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from broker.core.consumer import Consumer
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.core.vhost import VirtualHost
    from broker.protocol.channel import Channel
    from broker.protocol.connection import Connection
    from broker.testing.stage import Stage
    from broker.testing.waiting import Waited
    from broker.testing.wire import Confirm, Tap

__all__ = ["Door", "Faults", "HeldConfirms", "Plans"]


class Door:
    """Whether logins are refused.

    Attributes:
        refusals_left: logins that are still to be refused; None is every one, 0 is none.
        user: whose; None is everybody's.

    """

    def __init__(self) -> None:
        self.refusals_left: int | None = 0
        # The virtual host that asked for it; None is the broker itself.
        self.vhost: str | None = None
        self.user: str | None = None

    def guard(self, node: Node) -> None:
        """Stand before every way to log in with a password."""
        for name, mechanism in node.mechanisms.items():
            if not isinstance(mechanism, External):
                node.mechanisms[name] = _Gate(self, mechanism)

    def is_shut(self, user: str) -> bool:
        """Whether this login is refused; it counts."""
        if self.refusals_left == 0 or self.user not in (None, user):
            return False

        if self.refusals_left is not None:
            self.refusals_left -= 1

        return True


class _Gate(Mechanism):
    """Reads a response as another mechanism does, and then may call it a wrong password."""

    __slots__ = ("_door", "_mechanism")

    def __init__(self, door: Door, mechanism: Mechanism) -> None:
        self._door = door
        self._mechanism = mechanism

    def start(self, response: bytes) -> Credentials | Malformed | Refused:
        answer = self._mechanism.start(response)
        if isinstance(answer, Credentials) and self._door.is_shut(answer.user):
            return Refused(answer.user, "the test refuses logins")

        return answer


class _Loss:
    """A connection that is to be lost at a publish."""

    def __init__(self, number: int, client: str, vhost: str | None, *, is_taken: bool) -> None:
        if number < 1:
            raise ValueError(f"publishes are counted from 1, not from {number}")

        self.number = number
        self.client = client
        self.vhost = vhost
        self.is_taken = is_taken
        self.count = 0

    def is_due(self, tap: Tap) -> bool:
        if not _is_meant(tap.connection, self.client, self.vhost):
            return False

        self.count += 1
        return self.count >= self.number


class _Nacks:
    """Answers that are to be nacks."""

    def __init__(self, left: int, client: str, vhost: str | None) -> None:
        self.left = left
        self.client = client
        self.vhost = vhost


class _Lasting(NamedTuple):
    """What is done to connections for as long as it lasts, whenever they come."""

    action: Callable[[Tap], None]
    client: str
    vhost: str | None


class HeldConfirms:
    """Answers to publishes that do not reach their publishers until they are let go.

    Use it as a context manager, or call :meth:`release`, :meth:`nack` or :meth:`lose`.
    """

    def __init__(self, stage: Stage, client: str, vhost: str | None) -> None:
        self._stage = stage
        self._client = client
        self._vhost = vhost
        self._confirms: list[Confirm] = []
        self._is_open = True

    def is_for(self, tap: Tap) -> bool:
        """Whether the answers of that connection are held."""
        return self._is_open and _is_meant(tap.connection, self._client, self._vhost)

    def take(self, confirms: list[Confirm]) -> None:
        """Hold these too."""
        self._confirms += confirms

    @property
    def count(self) -> int:
        """How many are held."""
        return len(self._confirms)

    def release(self, *, is_reversed: bool = False) -> None:
        """Let them all go, each by itself, and hold no more.

        Args:
            is_reversed: the last one first.

        """
        self._stage.call(lambda: self._let_go(is_reversed=is_reversed))

    def nack(self, count: int | None = None) -> None:
        """Turn the first ones into nacks (all of them, if no number is given), and let all go."""
        self._stage.call(lambda: self._let_go(nack_count=self.count if count is None else count))

    def lose(self) -> None:
        """Forget them: nobody ever hears of them. Hold no more."""
        self._stage.call(lambda: self._let_go(is_lost=True))

    def _let_go(
        self, *, is_reversed: bool = False, nack_count: int = 0, is_lost: bool = False
    ) -> None:
        confirms, self._confirms = self._confirms, []
        self._is_open = False
        self._stage.plans.forget(self)
        for one in confirms[:nack_count]:
            one.is_acked = False

        if is_reversed:
            confirms.reverse()

        for one in confirms:
            if is_lost:
                one.tap.lose_confirm(one)
            else:
                one.tap.send_confirms([one])

    def __enter__(self) -> HeldConfirms:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._is_open:
            self.release()


class Plans:
    """What is armed against a broker's connections; belongs to the broker's loop.

    Args:
        on_heard: called when something has come in.

    """

    def __init__(self, on_heard: Callable[[], None]) -> None:
        self._on_heard = on_heard
        self._losses: list[_Loss] = []
        self._held: list[HeldConfirms] = []
        self._nacks: list[_Nacks] = []
        self._lasting: list[_Lasting] = []
        self.taps: list[Tap] = []

    def add_loss(self, loss: _Loss) -> None:
        """Lose a connection later."""
        self._losses.append(loss)

    def add_held(self, held: HeldConfirms) -> None:
        """Hold the answers to publishes from now on."""
        self._held.append(held)

    def forget(self, held: HeldConfirms) -> None:
        """Hold them no more."""
        if held in self._held:
            self._held.remove(held)

    def add_lasting(self, lasting: _Lasting) -> None:
        """Do it to all who are meant, and to those who come later."""
        self._lasting.append(lasting)
        for tap in self.taps:
            tap.weather()

    def nack_next(self, count: int, client: str, vhost: str | None) -> None:
        """Turn the next answers into nacks; takes the place of what the same was told before."""
        self._nacks = [one for one in self._nacks if (one.client, one.vhost) != (client, vhost)]
        if count > 0:
            self._nacks.append(_Nacks(count, client, vhost))

    def clear(self, vhost: str | None) -> None:
        """Disarm everything of a virtual host, or of all of them; what is held goes out."""
        self._losses = [one for one in self._losses if vhost not in (None, one.vhost)]
        self._nacks = [one for one in self._nacks if vhost not in (None, one.vhost)]
        self._lasting = [one for one in self._lasting if vhost not in (None, one.vhost)]
        for held in list(self._held):
            if vhost in (None, held._vhost):
                held._let_go()

    # -- what the taps ask

    def takes_confirms(self, tap: Tap) -> bool:
        return bool(self._nacks_for(tap)) or any(held.is_for(tap) for held in self._held)

    def _nacks_for(self, tap: Tap) -> list[_Nacks]:
        return [one for one in self._nacks if _is_meant(tap.connection, one.client, one.vhost)]

    def take_confirms(self, confirms: list[Confirm]) -> None:
        tap = confirms[0].tap
        for nacks in self._nacks_for(tap):
            for one in confirms[: nacks.left]:
                one.is_acked = False

            nacks.left -= len(confirms)

        self._nacks = [one for one in self._nacks if one.left > 0]

        for held in self._held:
            if held.is_for(tap):
                held.take(confirms)
                return

        tap.send_confirms(confirms)

    def publish_begins(self, tap: Tap) -> bool:
        return self._is_lost(tap, is_taken=False)

    def publish_ends(self, tap: Tap) -> bool:
        return self._is_lost(tap, is_taken=True)

    def _is_lost(self, tap: Tap, *, is_taken: bool) -> bool:
        due = [loss for loss in self._losses if loss.is_taken == is_taken and loss.is_due(tap)]
        for loss in due:
            self._losses.remove(loss)

        return bool(due)

    def heard(self) -> None:
        self._on_heard()

    def weather_for(self, tap: Tap) -> list[Callable[[Tap], None]]:
        return [
            one.action
            for one in self._lasting
            if not tap.connection.is_closed and _is_meant(tap.connection, one.client, one.vhost)
        ]


def _is_meant(connection: Connection, client: str, vhost: str | None) -> bool:
    """Whether a connection is one of those that a fault is for."""
    if vhost is not None and (connection.vhost is None or connection.vhost.name != vhost):
        return False

    return not client or client in connection.name or client in _given_name(connection)


def _given_name(connection: Connection) -> str:
    return str(connection.client.introduction().get("connection_name", ""))


class Faults:
    """What can be done to the clients of a broker, or of one of its virtual hosts.

    Everywhere, ``client`` picks connections by a part of the name that the client gave itself
    (``connection_name``) or of ``host:port``; left out, it means all.
    """

    def __init__(self, stage: Stage, vhost: str | None, home: str) -> None:
        self._stage = stage
        self._vhost = vhost
        self._home = home

    # -- connections

    def drop_connections(self, client: str = "") -> int:
        """Close sockets without a word, as a dead proxy or a pulled cable does; returns how many.

        No connection.close is sent; deliveries that were unacknowledged go back to their queues.
        """
        return self._for_each(client, lambda tap: tap.drop())

    def close_connections(self, client: str = "", reason: str = "closed by the test") -> int:
        """Close connections as an administrator does: 320 ``CONNECTION_FORCED - <reason>``."""
        return self._for_each(client, lambda tap: tap.connection.force_close(reason))

    def drop_at_publish(self, number: int = 1, client: str = "") -> None:
        """Drop the connection that sends the n-th publish from now, which the broker never gets."""
        loss = _Loss(number, client, self._vhost, is_taken=False)
        self._stage.call(lambda: self._stage.plans.add_loss(loss))

    def drop_before_confirm(self, number: int = 1, client: str = "") -> None:
        """Drop the connection after its n-th publish from now: the broker has the message.

        The publisher cannot know that, and will publish it again: consumers see it twice.
        """
        loss = _Loss(number, client, self._vhost, is_taken=True)
        self._stage.call(lambda: self._stage.plans.add_loss(loss))

    def stall(self, client: str = "") -> int:
        """Let nothing through in either direction, as a router that has lost its table.

        The sockets stay open. What was said arrives after :meth:`heal`. The broker gives such a
        client up when its heartbeats have been missing for long enough: ``clock.advance(180)``.
        Who connects meanwhile has no better luck: with ``client``, as soon as its name is known.
        Returns how many were connected.
        """
        return self._last(client, lambda tap: tap.stall())

    def slow(self, bytes_per_s: float, client: str = "") -> int:
        """Let no more through than that, in either direction; real seconds, whatever the clock.

        What comes in is taken by pieces as large as the socket has them, with a rest after each.
        It holds for those who connect later too. Returns how many were connected.
        """
        if not (math.isfinite(bytes_per_s) and bytes_per_s > 0):
            raise ValueError(f"{bytes_per_s} bytes per second? heal() undoes it, stall() stops all")

        loop = self._stage.loop
        return self._last(client, lambda tap: tap.slow_down(bytes_per_s, loop))

    def _last(self, client: str, action: Callable[[Tap], None]) -> int:
        lasting = _Lasting(action, client, self._vhost)

        def act() -> int:
            self._stage.plans.add_lasting(lasting)
            return len(self._meant(client))

        return self._stage.call(act)

    def silence(self, client: str = "") -> int:
        """Have no heartbeats sent in the clients' names when the clock is moved.

        A client whose machine has gone is given up after two heartbeat intervals and more.
        """

        def silence(tap: Tap) -> None:
            tap.is_silent = True

        return self._for_each(client, silence)

    def heal(self) -> None:
        """Undo what lasts: stalled, slow and silent connections, armed faults, alarms, logins."""

        def heal(tap: Tap) -> None:
            tap.is_silent = False
            tap.slow_down(0.0, self._stage.loop)
            tap.flow()

        def disarm() -> None:
            self._stage.plans.clear(self._vhost)
            for tap in list(self._stage.plans.taps):
                # Those as well that have not come as far as to be logged in.
                if _is_meant(tap.connection, "", self._vhost):
                    heal(tap)

            door = self._stage.door
            if self._vhost in (None, door.vhost):
                door.refusals_left = 0

            for name in BY_HAND.values():
                self._stage.node.set_alarm(name, False)

        self._stage.call(disarm)

    # -- publisher confirms

    def hold_confirms(self, client: str = "") -> HeldConfirms:
        """Let no answer to a publish through, until what this returns is told to."""
        held = HeldConfirms(self._stage, client, self._vhost)
        self._stage.call(lambda: self._stage.plans.add_held(held))
        return held

    def nack_confirms(self, count: int = 1, client: str = "") -> None:
        """Answer the next publishes with basic.nack, though their queues have the messages.

        That is what a publisher sees of a queue whose process died after it took the message. A
        queue that refuses messages is a real one: declare it with ``x-max-length: 0`` and
        ``x-overflow: reject-publish``.
        """
        self._stage.call(lambda: self._stage.plans.nack_next(count, client, self._vhost))

    # -- the broker

    def refuse_logins(self, times: int | None = None, user: str | None = None) -> None:
        """Refuse logins with right passwords too: 403 ``ACCESS_REFUSED``, as for wrong ones.

        A login names no virtual host yet: on a broker that several tests share, it is everybody's
        that is refused, unless it is that of a user of their own.

        Args:
            times: how many; all of them until :meth:`accept_logins` if None.
            user: only this one's.

        """

        def refuse() -> None:
            self._stage.door.vhost = self._vhost
            self._stage.door.refusals_left = times
            self._stage.door.user = user

        self._stage.call(refuse)

    def accept_logins(self) -> None:
        """Accept logins again."""
        self.refuse_logins(0)

    def raise_alarm(self, name: str = "memory") -> None:
        """Raise the ``memory`` or ``disk`` alarm: who publishes is sent connection.blocked.

        Such a connection is not read from any more until the alarm is cleared.
        """
        alarm = alarm_named(name)
        self._stage.call(lambda: self._stage.node.set_alarm(alarm, True))

    def clear_alarm(self, name: str = "memory") -> None:
        """Clear an alarm: connection.unblocked is sent, and what has waited is read."""
        alarm = alarm_named(name)
        self._stage.call(lambda: self._stage.node.set_alarm(alarm, False))

    def restart(self, *, is_crash: bool = False, keep: bool | None = None) -> Waited:
        """Restart the broker on the same port.

        Connections are closed with 320 ``CONNECTION_FORCED - broker forced connection closure with
        reason 'shutdown'``, or dropped in a crash. A broker made with ``durable=True`` comes back
        with what it keeps on disk: durable exchanges and queues, persistent messages. Any other
        comes back empty, but for its configuration and definitions.

        Args:
            is_crash: end at once, without a word to anybody.
            keep: False loses what was kept as well; True insists on it.

        """
        return self._stage.restart(is_crash=is_crash, keep=keep)

    # -- channels, consumers, queues

    def close_channels(
        self, client: str = "", text: str = "closed by the test", channel: int = 0
    ) -> int:
        """Close channels as for a mistake of the client: 406 ``PRECONDITION_FAILED - <text>``.

        Args:
            client: whose; see above.
            text: what the client is told.
            channel: only the one of this number.

        """

        def close(tap: Tap) -> None:
            connection = tap.connection
            for one in self._channels_of(connection, channel):
                error = PreconditionFailed(text, class_id=0, method_id=0)
                connection.close_channel(one, error)

        return self._for_each(client, close)

    @staticmethod
    def _channels_of(connection: Connection, number: int) -> list[Channel]:
        return [
            one
            for one in connection.channels.values()
            if one.state == CHANNEL_RUNNING and number in (0, one.channel_id)
        ]

    def cancel_consumers(self, queue: str, consumer: str = "") -> int:
        """Cancel consumers of a queue as when its node goes: basic.cancel; returns how many.

        What they have not acknowledged stays theirs.

        Args:
            queue: whose consumers.
            consumer: only the one with this tag.

        """

        def cancel() -> int:
            found: list[Consumer] = [
                one for one in self._queue(queue).consumers if consumer in ("", one.tag)
            ]
            for one in found:
                one.queue.remove_consumer(one)
                one.deliveries.on_cancel(one)

            return len(found)

        return self._stage.call(cancel)

    def delete_queue(self, queue: str) -> None:
        """Make a queue vanish with its messages: its consumers get basic.cancel.

        Who publishes to it then gets nothing, or basic.return with 312 ``NO_ROUTE`` for a mandatory
        message; who consumes from it or declares it passively gets 404 ``NOT_FOUND``.
        """

        def delete() -> None:
            found = self._queue(queue)
            found.vhost.remove_queue(found)

        self._stage.call(delete)

    def _queue(self, name: str) -> Queue:
        vhost: VirtualHost = self._stage.node.vhosts[self._home]
        queue = vhost.queues.get(name)
        if queue is None:
            there = ", ".join(sorted(vhost.queues)) or "none"
            raise LookupError(f"no queue {name!r} in vhost {self._home!r}; there are: {there}")

        return queue

    def _for_each(self, client: str, action: Callable[[Tap], None]) -> int:
        def act() -> int:
            meant = self._meant(client)
            for tap in meant:
                action(tap)

            return len(meant)

        return self._stage.call(act)

    def _meant(self, client: str) -> list[Tap]:
        return [
            tap
            for tap in self._stage.plans.taps
            if tap.connection.state == RUNNING and _is_meant(tap.connection, client, self._vhost)
        ]
