"""One run of one scenario: its connections, its names, and the transcript."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, NamedTuple

from interop.compare.administration import Refused
from interop.compare.client import FRAME_MAX, Channel, Link
from interop.compare.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.compare.administration import Administration
    from interop.compare.catalogue import Scenario
    from interop.compare.network import Network

__all__ = ["Session", "Target", "run_scenario"]


class Target(NamedTuple):
    """A broker, and how patient one has to be with it."""

    network: Network
    quiet_s: float = 0.0
    """How long nothing has to come before nothing comes. 0 where a round trip says it all."""

    patience_s: float = 5.0
    """How long what has to come may take."""

    administration: Administration | None = None
    """What does to it what AMQP cannot; scenarios that need it are not for brokers without."""


class Session:
    """What a scenario gets."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # Of constant length: long texts are cut and broken by length (rules T-03, T-15).
        self._run_name = f"cmp{secrets.token_hex(4)}"
        self.transcript = Transcript(self._run_name, target.network.wall)
        self.links: list[Link] = []
        self._names: list[str] = []
        self._undoings: list[Callable[[], None]] = []

    # -- what scenarios use

    def name(self, suffix: str = "q") -> str:
        """A name for a queue or exchange of this run; what is declared so is deleted after it."""
        name = f"{self._run_name}-{suffix}"
        if name not in self._names:
            self._names.append(name)

        return name

    def raw_link(self, *, is_from_afar: bool = False) -> Link:
        """A connected socket on which nothing has been sent."""
        wire = self.target.network.connect(is_from_afar=is_from_afar)
        link = Link(self, chr(ord("a") + len(self.links)), wire)
        self.links.append(link)
        return link

    def connect(
        self,
        *,
        capabilities: dict[str, object] | None = None,
        frame_max: int = FRAME_MAX,
        channel_max: int = 2047,
        heartbeat: int = 0,
        user: str = "guest",
    ) -> Link:
        """An open connection of a user; the handshake is not written down."""
        link = self.raw_link()
        link.is_recording = False
        link.start()
        link.log_in(user, user, capabilities=capabilities)
        link.tune_and_open(frame_max=frame_max, channel_max=channel_max, heartbeat=heartbeat)
        link.is_recording = True
        return link

    def channel(self) -> Channel:
        """A new channel of the first connection that is still open."""
        for link in self.links:
            if link.is_open and not link.is_ending:
                return link.channel()

        return self.connect().channel()

    def queue(self, suffix: str = "q", channel: Channel | None = None, **more: object) -> str:
        """Declare a durable queue without writing it down; returns its name."""
        name = self.name(suffix)
        arguments = {"durable": True, **more}
        self.unrecorded(channel or self.channel(), "queue.declare", queue=name, **arguments)
        return name

    def exchange(self, kind: str = "direct", suffix: str = "x", **more: object) -> str:
        """Declare an exchange without writing it down; returns its name."""
        name = self.name(suffix)
        self.unrecorded(self.channel(), "exchange.declare", exchange=name, type=kind, **more)
        return name

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: object) -> None:
        """Bind a queue without writing it down."""
        self.unrecorded(
            self.channel(),
            "queue.bind",
            queue=queue,
            exchange=exchange,
            routing_key=key,
            arguments=arguments,
        )

    def unrecorded(self, channel: Channel, name: str, **arguments: object) -> None:
        """Call a method that only sets the scene; its answer must be the good one."""
        channel.link.is_recording = False
        answer = channel.call(name, **arguments)
        channel.link.is_recording = True
        assert answer is not None, f"no answer to {name}"
        if answer.name == "channel.close":
            channel.link.record(channel.number, f"({name}: {answer.text('reply_text')})")

    @property
    def administration(self) -> Administration:
        """What does to the broker what AMQP cannot."""
        found = self.target.administration
        assert found is not None, "the scenario is added without is_administered=True"
        return found

    def administer(
        self, what: str, step: Callable[[], None], *, undo: Callable[[], None] | None = None
    ) -> None:
        """Take a step of the administration; it is written down when the broker refuses it.

        Args:
            what: what the step is for, for the transcript.
            step: calls a method of the administration.
            undo: calls another one when the scenario is over, whether or not there is still
                something to undo.

        """
        if undo is not None:
            self._undoings.append(undo)

        try:
            step()
        except Refused as refusal:
            self.note(f"{what} refused: {refusal}")

    def note(self, line: str) -> None:
        """Write down something that no connection said."""
        self.transcript.add("administration", 0, line)

    def quiet(self, label: str) -> None:
        """Wait until everything sent is done and nothing more comes, and mark the place."""
        self._settle()
        self.transcript.mark(label)

    def pause(self, milliseconds: int) -> None:
        """Let time pass."""
        self.pump(lambda: False, milliseconds / 1000)

    # -- the machinery

    def pump(self, is_done: Callable[[], bool], patience_s: float | None = None) -> bool:
        """Read what comes on any link until something holds; False when time is up."""
        limit = self.target.patience_s if patience_s is None else patience_s
        network = self.target.network
        deadline = network.now() + limit
        while not is_done():
            left = deadline - network.now()
            if left <= 0:
                return False

            alive = [link for link in self.links if link.is_open]
            for link in alive:
                link.flush()

            ready = network.ready([link.wire for link in alive], left)
            for link in alive:
                if link.wire in ready and link.is_open:
                    link.receive()

        return True

    def _settle(self) -> None:
        for link in self.links:
            for channel in list(link.channels.values()):
                if not link.is_ending:
                    channel.sync()

        if self.target.quiet_s:
            self.pause(int(self.target.quiet_s * 1000))

    def finish(self) -> list[str]:
        """Take what is still to come, close everything, delete what was declared."""
        self._settle()
        for link in self.links:
            for channel in link.channels.values():
                channel.show_confirms()

            if link.is_closed_by_broker and link.is_answering:
                link.await_socket_end()

        lines = self.transcript.lines()
        self.close()
        return lines

    def close(self) -> None:
        """Let go of the sockets and of what is left in the broker."""
        for link in self.links:
            if link.is_open:
                link.is_recording = False
                if link.is_running and not link.is_ending:
                    link.call("connection.close", reply_code=200)

                link.end()

        while self._undoings:
            with contextlib.suppress(OSError, Refused):
                self._undoings.pop()()

        if self._names:
            with contextlib.suppress(OSError):
                self._delete_names()

    def _delete_names(self) -> None:
        link = self.connect()
        link.is_recording = False
        # Each on a channel of its own: a refusal closes that one alone.
        for number, name in enumerate(self._names, start=1):
            link.send("channel.open", number)
            link.send("queue.delete", number, queue=name, nowait=True)
            link.send("exchange.delete", number, exchange=name, nowait=True)

        link.call("connection.close", reply_code=200)
        link.end()


def run_scenario(scenario: Scenario, target: Target) -> list[str]:
    """Run a scenario against a broker; returns the transcript."""
    session = Session(target)
    try:
        scenario.play(session)
        return session.finish()
    finally:
        session.close()
