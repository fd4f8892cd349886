"""A broker that crashes again and again under its clients, all of it decided by one seed.

What must be there after a crash is what the model had when some batch was handed to the log: the
last one, or an earlier one, but none before what the broker has promised to anybody, and none
before what has been synced. That it is exactly one of these states makes batches atomic and keeps
order, deadlines, histories and counts.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from broker.store.log import GROUP
from tests.helpers.clock import VirtualClock
from tests.helpers.fake_disk import PowerCut
from tests.simulation.crash_acts import (
    change_subscriptions,
    end_transaction,
    get_one,
    publish_some,
    settle_some,
)
from tests.simulation.crash_audit import check_books, check_memory, model_of
from tests.simulation.crash_management import declare_everything, disturb_disk, manage
from tests.simulation.crash_stage import Stage
from tests.simulation.crash_world import CrashWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.crash_model import Model, Picture

__all__ = ["CrashSimulation"]

STEPS: Final = (10, 30, 100)
WALL_START_MS: Final = int(VirtualClock.WALL_START_S * 1000)
RETRY_MS: Final = 1_000
OFF_BEAT_MS: Final = 3
"""Time goes on by tens of milliseconds, from here: so nothing that clients do comes due in the same
millisecond as what the broker does every tenth of a second."""


def _work(stage: Stage) -> None:
    stage.world.committer.work()


def _collect(stage: Stage) -> None:
    stage.world.collect()


def _wait(stage: Stage) -> None:
    stage.pass_time(stage.random.choice((10, 30, 70, 100, 330)))


ACTS: Final[list[Callable[[Stage], None]]] = [
    publish_some,
    settle_some,
    change_subscriptions,
    get_one,
    _work,
    _collect,
    _wait,
    manage,
    end_transaction,
    disturb_disk,
]
WEIGHTS: Final = (30, 16, 6, 8, 22, 18, 6, 6, 6, 1)


class CrashSimulation:
    """One run.

    Args:
        seed: decides everything.

    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(self.random)
        self.stage.pass_time(OFF_BEAT_MS)
        self.stage.connect_all()
        declare_everything(self.stage)

    def run(self) -> None:
        """Let it live and die several times."""
        for _ in range(self.random.randint(1, 3)):
            for _ in range(self.random.randrange(self.random.choice(STEPS))):
                self._step()
                if self.stage.world.failures:
                    break

            self._die()

        self._finish()

    def _step(self) -> None:
        stage = self.stage
        [act] = self.random.choices(ACTS, weights=WEIGHTS)
        stage.begin()
        act(stage)
        stage.end()
        if self.random.random() < 0.03:
            check_memory(stage.world, stage.model)
            check_books(stage.world)

    # -- death

    def _die(self) -> None:
        random = self.random
        stage = self.stage
        how = random.choice(("power", "power", "power", "kill", "stop"))
        if how == "stop" and not stage.world.failures:
            self._stop()
            return

        if random.random() < 0.6 and not stage.world.failures:
            self._work_until_cut()

        self._crash(is_power=how != "kill")

    def _work_until_cut(self) -> None:
        """Go on until the power fails in the middle of an operation of the disk."""
        stage = self.stage
        stage.disk.cut_at = stage.disk.operations + self.random.randint(1, 8)
        try:
            for _ in range(self.random.randint(1, 30)):
                stage.begin()
                stage.world.committer.work()
                stage.end()
                self._step()
                if stage.world.failures:
                    return
        except PowerCut:
            stage.note_batches()

    def _crash(self, *, is_power: bool) -> None:
        stage = self.stage
        committer = stage.world.committer
        first = max(stage.promised, committer.synced)
        if not is_power:
            first = max(first, committer.written)
        elif stage.sync != GROUP:
            # Nothing was promised for this case, but that it is a state which was once.
            first = 0

        stage.disk = stage.disk.crashed() if is_power else stage.disk.killed()
        self._recover(first, is_clean=False, is_power=is_power)

    def _stop(self) -> None:
        """Everybody leaves, and the broker ends in good order."""
        stage = self.stage
        self._calm_down()
        if stage.world.failures:
            self._crash(is_power=True)
            return

        while stage.clients:
            stage.begin()
            stage.lose(self.random.choice(stage.clients))
            stage.end()

        stage.world.stop()
        stage.note_batches()
        assert not stage.world.failures, stage.world.failures[0]
        stage.disk = stage.disk.crashed()
        self._recover(len(stage.pictures) - 1, is_clean=True, is_power=True)

    def _calm_down(self) -> None:
        """Let nothing wait for the disk any more."""
        stage = self.stage
        stage.disk.heal()
        for _ in range(2):
            stage.begin()
            stage.world.finish()
            stage.end()
            stage.pass_time(RETRY_MS)

    # -- and life

    def _recover(self, first: int, *, is_clean: bool, is_power: bool) -> None:
        """Start again; what is there must be one of the pictures from that one on."""
        stage = self.stage
        world = self._start_again(is_power=is_power)
        picture, model = self._find(world, first, is_clean=is_clean)
        model.step = stage.model.step
        stage.come_back(world, model, picture)
        # Nobody is let in before it is known that the broker has started.
        world.finish()
        stage.end()
        check_books(world)
        stage.pass_time(OFF_BEAT_MS)
        stage.connect_all()

    def _start_again(self, *, is_power: bool) -> CrashWorld:
        """Recover, and crash in the middle of that now and then."""
        stage = self.stage
        elapsed_ms = stage.world.wall_ms - WALL_START_MS
        elapsed_ms += 10 - elapsed_ms % 10 + self.random.choice((0, 0, 50, 500))
        while True:
            if self.random.random() < 0.2:
                stage.disk.cut_at = self.random.randint(1, 4)

            try:
                world = CrashWorld(stage.disk, self.random, stage.sync, elapsed_ms)
            except PowerCut:
                stage.disk = stage.disk.crashed() if is_power else stage.disk.killed()
            else:
                stage.disk.cut_at = None
                return world

    def _find(self, world: CrashWorld, first: int, *, is_clean: bool) -> tuple[Picture, Model]:
        """The picture that a broker has come back with, and the model of what it is now."""
        pictures = self.stage.pictures
        complaints: list[str] = []
        for number in range(len(pictures) - 1, first - 1, -1):
            try:
                model = model_of(world, pictures[number], is_clean=is_clean)
                picture = model.picture()
                model.settle_down()
                check_memory(world, model)
            except AssertionError as error:
                complaints.append(f"not batch {number}: {error}")
            else:
                return picture, model

        raise AssertionError("what came back never was\n" + "\n".join(complaints))

    def _finish(self) -> None:
        """Everything is answered in the end; and nothing is left of what is gone."""
        stage = self.stage
        self._calm_down()
        if stage.world.failures:
            self._crash(is_power=True)
            self._calm_down()

        for client in stage.clients:
            assert not client.unconfirmed, f"{len(client.unconfirmed)} are never confirmed"
            assert not client.answers, f"{client.answers[0][0]} never comes"

        check_memory(stage.world, stage.model)
        check_books(stage.world)
