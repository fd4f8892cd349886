"""A broker in a thread of its own, and the ways to reach it from a test. Layer: testing.

Invariant: everything of the broker happens in its thread; who stands elsewhere asks through
:meth:`Stage.call`, or waits through :mod:`broker.testing.waiting`.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import selectors
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from broker.app import Application
from broker.embedded import Broker as EmbeddedBroker
from broker.errors import StartError
from broker.testing.faults import Door, Plans
from broker.testing.forks import let_go, watch
from broker.testing.hand_clock import HandClock
from broker.testing.history import Ledger
from broker.testing.waiting import Bell, Waited, wait
from broker.testing.wire import Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from broker.core.message import Message
    from broker.core.node import Node
    from broker.core.queue.queue import Queue
    from broker.protocol.link import Link, Peer

__all__ = ["PATIENCE_S", "SETTLE_S", "Stage"]

PATIENCE_S: Final = 0.5
"""Real seconds that a client has for a delivery while the clock waits for it."""

LOOK_S: Final = 0.01
"""How often a condition is looked at while nothing happens in the broker."""

STOP_WAIT_S: Final = 0.05
"""How long clients have to answer the close at the end of a test."""

QUIET_TURNS: Final = 3
"""Turns of the loop without anything to read, after which nothing is on its way to the broker."""

QUIET_MAX_S: Final = 0.25
"""How long clients are listened to that never stop sending, before what they did is looked at."""

SETTLE_S: Final = 0.05
"""Real seconds of silence after which a client has done what it does with a delivery."""

STEPS_PER_BREATH: Final = 64

PORT_WAIT_S: Final = 2.0
"""How long a restart waits for its port to be free again."""

ENDED: Final = (
    "it has ended. What has happened can still be asked of its history; how things are, only before"
    " the end of the `with` block, or before stop()"
)

T = TypeVar("T")


def _is_so(answer: object, name: str) -> bool:
    """Whether a condition holds.

    Raises:
        TypeError: it has not said so, but something that must be awaited first.

    """
    if inspect.isawaitable(answer):
        kind = type(answer).__name__
        if inspect.iscoroutine(answer):
            answer.close()

        raise TypeError(
            f"the condition of {name} returned a {kind}, which is true whatever comes of it:"
            " give a plain function that asks the broker, or await it in a loop of your own"
        )

    return bool(answer)


class _Player(EmbeddedBroker):
    """The broker itself, with the stage between it and its sockets."""

    def __init__(self, stage: Stage, config: Mapping[str, object]) -> None:
        super().__init__(config, host=stage.host, port=stage.port, log_level="error")
        self._stage = stage
        alarms = self._config.alarms
        if not self._config.origin.names(("alarms",)):
            # A full disk of the machine is not what a test is about.
            alarms = alarms._replace(
                memory=alarms.memory._replace(limit_fraction=None, limit_bytes=None),
                disk=alarms.disk._replace(free_bytes_min=None),
                descriptors=alarms.descriptors._replace(limit_fraction=None),
            )
            self._config = self._config._replace(alarms=alarms)

    async def _start_application(self) -> Application:
        stage = self._stage
        app = await Application.start(
            self._config, self._log, stage.clock, make_session=stage.make_session
        )
        app.node.watch(stage.ledger)
        stage.ledger.node = app.node
        stage.door.guard(app.node)
        return app

    @property
    def app(self) -> Application:
        """The application that runs."""
        return self._running

    async def crash(self) -> None:
        """End without a word, and without writing anything more."""
        app, self._app = self._app, None
        if app is not None:
            await app.crash()


class Stage:
    """Everything that brokers of one test share: thread, clock, ledger, faults.

    Args:
        config: as for an embedded broker.
        is_durable: it keeps on disk what is durable, until the stage is gone.
        host: where to listen.
        port: where to listen; 0 takes any free port.

    """

    def __init__(
        self, config: Mapping[str, object], *, is_durable: bool, host: str, port: int
    ) -> None:
        self.host = host
        self.port = port
        self.clock = HandClock()
        self.bell = Bell()
        self.door = Door()
        self.ledger = Ledger(self.clock, self.bell.ring)
        self.plans = Plans(self._heard)
        self._config = dict(config)
        self._is_durable = is_durable
        self._directory: str | None = None
        self._heard_count = 0
        self._heard_s = 0.0
        self._freed_seen = 0
        self.forgotten: list[str] = []
        self._patience_s = PATIENCE_S
        self._settle_s = SETTLE_S
        self._player: _Player | None = None
        self._selector: selectors.BaseSelector | None = None
        # Why there is no broker though it has been started; empty for no reason.
        self._absence = ""
        self._is_elsewhere = False
        self.vhost_numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: asyncio.Event | None = None
        self._passing: asyncio.Lock | None = None
        # When unacknowledged deliveries were seen first, in real seconds.
        self._held_since: dict[int, tuple[Message, float]] = {}
        self.on_restart: list[Callable[[], Coroutine[object, object, None]]] = []

    # -- its life

    def start(self) -> None:
        """Start the thread and the broker.

        Raises:
            ConfigProblems: what is wrong with the configuration.
            StartError: the address cannot be had.

        """
        if self._thread is not None:
            raise RuntimeError("the broker has been started already")

        started: Future[None] = Future()
        self._absence = ""
        self._thread = threading.Thread(
            target=lambda: self._play(started), name="leveret-test", daemon=True
        )
        watch(self)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End broker and thread; harmless when they have ended already."""
        if self._is_elsewhere:
            return

        thread, self._thread = self._thread, None
        if thread is None:
            return

        loop, end = self._loop, self._end
        if loop is not None and end is not None:
            loop.call_soon_threadsafe(end.set)

        thread.join()
        self._loop = None
        self._absence = ENDED
        self.on_restart.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @property
    def is_running(self) -> bool:
        """Whether it has been started, and not stopped."""
        return self._thread is not None

    def _play(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._run(started))

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        self._selector = selector = selectors.DefaultSelector()
        return asyncio.SelectorEventLoop(selector)

    def forked(self) -> None:
        """This is a child of the process that the broker runs in."""
        if self._thread is not None and not self._is_elsewhere:
            self._is_elsewhere = True
            self._absence = "it runs in the process that this one was forked from"
            if self._selector is not None:
                let_go(self._selector)

    async def _run(self, started: Future[None]) -> None:
        self._end = asyncio.Event()
        self._passing = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        try:
            await self._raise_curtain()
        except BaseException as problem:
            self._end = None
            started.set_exception(problem)
            return

        started.set_result(None)
        await self._end.wait()
        if self._player is not None:
            await self._player.stop(STOP_WAIT_S)
            self._player = None

        self.plans.taps.clear()

    async def _raise_curtain(self) -> None:
        config = dict(self._config)
        storage = config.get("storage") or {}
        if self._is_durable and not self._own_directory and isinstance(storage, Mapping):
            if self._directory is None:
                self._directory = tempfile.mkdtemp(prefix="leveret-test-")

            # What is written need not outlive the machine, only the broker.
            config["storage"] = {"sync": "none", **storage, "data_dir": self._directory}

        player = _Player(self, config)
        await player.start()
        self._player = player
        self.port = player.port

    def make_session(self, node: Node, link: Link, peer: Peer) -> Tap:
        """What stands between a socket and the core."""
        tap = Tap(node, link, peer, faults=self.plans, ledger=self.ledger)
        self.plans.taps = [one for one in self.plans.taps if not one.connection.is_closed]
        self.plans.taps.append(tap)
        return tap

    def _heard(self) -> None:
        self._heard_count += 1
        self._heard_s = time.monotonic()
        self.bell.ring()

    @property
    def _own_directory(self) -> str:
        """The data directory that the configuration names; empty if it names none."""
        storage = self._config.get("storage")
        return str(storage.get("data_dir") or "") if isinstance(storage, Mapping) else ""

    # -- reaching it

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The broker's loop."""
        if self._loop is None or self._is_elsewhere:
            raise self._is_not_running()

        return self._loop

    @property
    def player(self) -> _Player:
        """The broker that runs."""
        if self._player is None or self._is_elsewhere:
            raise self._is_not_running()

        return self._player

    def _is_not_running(self) -> RuntimeError:
        reason = self._absence or "use `with Broker() as broker`"
        return RuntimeError(f"the broker is not running: {reason}")

    @property
    def node(self) -> Node:
        """The broker core; look at it in the broker's thread."""
        return self.player.node

    @property
    def is_there(self) -> bool:
        """Whether things can be asked for as they are."""
        return self._player is not None and self._loop is not None and not self._is_elsewhere

    def call_if_there(self, command: Callable[[], None]) -> None:
        """Run something in the broker's thread; here, where that has ended."""
        if self.is_running:
            self.call(command)
        else:
            command()

    def call(self, command: Callable[[], T]) -> T:
        """Run something in the broker's thread, and return what it returns."""
        if threading.current_thread() is self._thread:
            return self._run_in_core(command)

        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(self._run_in_core(command))
            except BaseException as problem:
                answer.set_exception(problem)

        self.loop.call_soon_threadsafe(run)
        return answer.result()

    def _run_in_core(self, command: Callable[[], T]) -> T:
        pump = self.player.app.pump
        pump.advance()
        try:
            return command()
        finally:
            pump.settle()
            self.bell.ring()

    # -- waiting for it

    def wait(self, work: Callable[[], Coroutine[object, object, None]], name: str) -> Waited:
        """Do some work in the broker's loop: at once, or when it is awaited."""
        return self._wait(lambda: iter((work(),)), name)

    def wait_until(
        self,
        condition: Callable[[], object],
        timeout_s: float,
        complaint: Callable[[str], str],
        name: str,
    ) -> Waited:
        """Wait until a condition holds; it is looked at where the waiting is done.

        Raises:
            AssertionError: it does not in time.

        """
        return self._wait(lambda: self._looks(condition, timeout_s, complaint, name), name)

    def _wait(
        self, steps: Callable[[], Iterator[Coroutine[object, object, None]]], name: str
    ) -> Waited:
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{name} waits for the broker, and this is the broker's thread")

        return wait(self.loop, steps, name, self.forgotten)

    def _looks(
        self,
        condition: Callable[[], object],
        timeout_s: float,
        complaint: Callable[[str], str],
        name: str,
    ) -> Iterator[Coroutine[object, object, None]]:
        """Look at a condition again and again; yields what is to be done in the loop between."""
        end_s = time.monotonic() + timeout_s
        yield self.quiet(end_s)
        while True:
            seen = self._happened_count
            last = ""
            try:
                if _is_so(condition(), name):
                    return
            except AssertionError as problem:
                last = str(problem)

            if time.monotonic() >= end_s:
                raise AssertionError(complaint(last))

            yield self._look_later(seen, end_s)

    async def _look_later(self, seen: int, end_s: float) -> None:
        if self._happened_count == seen:
            await self._look_away()

        await self.quiet(end_s)

    @property
    def _happened_count(self) -> int:
        return self._heard_count + self.ledger.count

    async def quiet(self, end_s: float = math.inf) -> None:
        """Return when nothing that was sent to the broker is still unread.

        Clients that go on sending are not listened to for ever, and not beyond ``end_s``.
        """
        turns = 0
        seen = self._heard_count
        end_s = min(end_s, time.monotonic() + QUIET_MAX_S)
        while turns < QUIET_TURNS and time.monotonic() < end_s:
            await asyncio.sleep(0)
            turns = turns + 1 if self._heard_count == seen else 0
            seen = self._heard_count

    def busy_queues(self, vhost: str | None, names: tuple[str, ...]) -> list[Queue]:
        """The queues with something that consumers hold, or have yet to get."""
        return [
            queue
            for host in self.node.vhosts.values()
            if vhost in (None, host.name)
            for queue in host.queues.values()
            if (not names or queue.name in names)
            and (queue.unacked_count or (queue.ready_count and queue.consumers))
        ]

    # -- moving its time

    async def advance(self, seconds: float, patience_s: float, settle_s: float) -> None:
        """Let time pass, from one thing that is due to the next; clients get their turn between.

        Who asks for it meanwhile waits until this has passed.
        """
        assert self._passing is not None
        async with self._passing:
            self._patience_s, self._settle_s = patience_s, settle_s
            await self._advance(seconds)

    async def _advance(self, seconds: float) -> None:
        clock = self.clock
        was_frozen = clock.is_frozen
        pump = self.player.app.pump
        clock.freeze()
        pump.clock_moved()
        target_s = clock.monotonic() + seconds
        try:
            await self._let_clients_work()
            steps = 0
            while True:
                self._keep_alive(is_moving=True)
                due_s = self.node.next_deadline()
                if due_s is None or due_s > target_s:
                    break

                clock.move_to(due_s)
                await self._step()
                steps += 1
                if steps % STEPS_PER_BREATH == 0:
                    await asyncio.sleep(0)

            clock.move_to(target_s)
            await self._step()
        finally:
            self._keep_alive(is_moving=False)
            if not was_frozen:
                clock.resume()

            if self._player is not None:
                self.player.app.pump.clock_moved()

    def _keep_alive(self, *, is_moving: bool) -> None:
        for tap in self.plans.taps:
            tap.keep_alive(is_moving=is_moving)

    async def _step(self) -> None:
        pump = self.player.app.pump
        seen = self.ledger.count
        pump.advance()
        self.node.run_deadlines()
        pump.settle()
        if self.ledger.count != seen:
            await self._let_clients_work()

    async def _let_clients_work(self) -> None:
        """Wait until clients have done what they do with what they got, as far as can be told."""
        end_s = math.inf
        while True:
            await self._let_clients_settle(self._patience_s)
            ledger = self.ledger
            if ledger.freed_count == self._freed_seen:
                return

            # Of these deliveries nobody says any more when the work on them is done.
            self._freed_seen = ledger.freed_count
            end_s = min(end_s, time.monotonic() + max(self._patience_s, self._settle_s))
            while (now_s := time.monotonic()) < end_s:
                left_s = max(self._heard_s, ledger.freed_s) + self._settle_s - now_s
                if left_s <= 0:
                    break

                await self.bell.wait(min(left_s, LOOK_S))

    async def _let_clients_settle(self, patience_s: float) -> None:
        """Wait until clients have settled what they got, as long as patience lasts for each."""
        while True:
            await self.quiet()
            now_s = time.monotonic()
            held: dict[int, tuple[Message, float]] = {}
            for message in self._unacked():
                known = self._held_since.get(id(message))
                since_s = now_s if known is None or known[0] is not message else known[1]
                held[id(message)] = (message, since_s)

            self._held_since = held
            if all(now_s - since_s >= patience_s for _, since_s in held.values()):
                return

            await self._look_away()

    async def _look_away(self) -> None:
        """Return when something has happened, or might have."""
        if not await self.bell.wait(LOOK_S):
            for tap in self.plans.taps:
                tap.nudge()

            self.node.flush()

    def keep_awake(self) -> None:
        """Wake all clients again and again, until the broker ends: they are to end as well."""

        def nudge() -> None:
            if self._player is None:
                return

            for tap in self.plans.taps:
                tap.nudge(is_idle_too=True)

            self.node.flush()
            self.loop.call_later(LOOK_S, nudge)

        self.loop.call_soon_threadsafe(nudge)

    def _unacked(self) -> list[Message]:
        return [
            message
            for vhost in self.node.vhosts.values()
            for deliveries in vhost.deliveries
            for message in deliveries.unacked.messages()
        ]

    def set_frozen(self, is_frozen: bool) -> None:
        """Stop the clock, or let it run on."""

        def switch() -> None:
            if is_frozen:
                self.clock.freeze()
            else:
                self.clock.resume()

            self.player.app.pump.clock_moved()

        self.call(switch)

    # -- ending and beginning anew

    def restart(self, *, is_crash: bool, keep: bool | None) -> Waited:
        """Stop the broker and start it again on the same port."""
        if keep is False and self._own_directory:
            raise ValueError(
                f"what is kept is in {self._own_directory}, which the configuration names: that is"
                " not for a restart to delete"
            )

        if keep and not (self._is_durable or self._own_directory):
            raise ValueError(
                "this broker keeps nothing: make it with durable=True, or mark the test with"
                " @pytest.mark.leveret(durable=True)"
            )

        return self.wait(lambda: self._restart(is_crash=is_crash, keep=keep), "restart()")

    async def _restart(self, *, is_crash: bool, keep: bool | None) -> None:
        player, self._player = self._player, None
        if player is not None:
            self._absence = "it is being restarted"
            await self._end_player(player, is_crash=is_crash)

        if keep is False and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

        await self._raise_curtain_again()
        self.ledger.note("", "the broker is back")
        for act in self.on_restart:
            await act()

    async def _end_player(self, player: _Player, *, is_crash: bool) -> None:
        self.ledger.note("", "the broker crashes" if is_crash else "the broker stops")
        if is_crash:
            for tap in self.plans.taps:
                tap.forsake()

            await player.crash()
        else:
            await player.stop(STOP_WAIT_S)

    async def _raise_curtain_again(self) -> None:
        """Start it where it was, as soon as its port can be had.

        Raises:
            StartError: it cannot; another restart may try again.

        """
        end_s = time.monotonic() + PORT_WAIT_S
        while True:
            try:
                await self._raise_curtain()
            except StartError as problem:
                if time.monotonic() < end_s:
                    await asyncio.sleep(LOOK_S)
                    continue

                self._absence = f"its restart has failed ({problem}); restart() tries again"
                raise
            except BaseException as problem:
                self._absence = f"its restart has failed ({problem}); restart() tries again"
                raise

            self._absence = ""
            return
