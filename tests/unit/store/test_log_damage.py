"""Each octet of a small log changed, each file cut at each place: refused or harmless, never wrong.

Harmless is a state that the broker was in when some batch was handed over. A refusal is a
StoreError that names the file, and where in it, when it is there at all.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from broker.core.message import content_body
from broker.errors import StoreError
from tests.helpers.fake_disk import FakeDisk
from tests.helpers.session import method, publish
from tests.helpers.stored import StoredWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)

DIRECTORY: Final = "/data/vhosts/1"
SEGMENT_BYTES: Final = 900
PERSISTENT: Final = b"\x10\x00\x02"


class State(NamedTuple):
    """What can be seen of a virtual host: messages by queue, bindings, policies."""

    queues: tuple[tuple[str, tuple[bytes, ...]], ...]
    bindings: tuple[tuple[str, str], ...]
    policies: tuple[str, ...]


class SmallLog(NamedTuple):
    """A log of several segments and a checkpoint, and all states that it went through."""

    files: dict[str, bytes]
    states: frozenset[State]
    last: State


def state_of(world: StoredWorld) -> State:
    """The state; it reads every message."""
    vhost = world.vhost
    queues = [
        (name, tuple(content_body(one.content) for one in queue.ready.messages()))
        for name, queue in sorted(vhost.queues.items())
    ]
    bindings = [
        (exchange.name, binding.destination.name)
        for exchange in vhost.exchanges.values()
        for binding in exchange.bindings.values()
    ]
    policies = [policy.name for policy in vhost.policies.policies]
    return State(tuple(queues), tuple(sorted(bindings)), tuple(policies))


def before_checkpoint() -> Iterator[bytes]:
    """What is sent, a batch at a time."""
    for queue, kind in (("q", "classic"), ("r", "quorum")):
        arguments = {"x-queue-type": kind}
        yield method(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        yield method(1, "queue.bind", queue=queue, exchange="amq.fanout")

    for body in (b"one", b"two", b"four" * 30):
        yield publish(1, "", body, PERSISTENT, exchange="amq.fanout")

    yield method(1, "basic.get", queue="q", no_ack=True)
    yield method(1, "basic.get", queue="r")
    yield method(1, "basic.nack", delivery_tag=2, requeue=True)


def after_checkpoint() -> Iterator[bytes]:
    """And then."""
    yield publish(1, "", b"five", PERSISTENT, exchange="amq.fanout")
    yield method(1, "queue.purge", queue="q")
    yield method(1, "queue.unbind", queue="q", exchange="amq.fanout")
    yield publish(1, "q", b"six" * 50, PERSISTENT)
    yield publish(1, "q", b"seven", PERSISTENT)


@pytest.fixture(scope="module")
def log() -> SmallLog:
    disk = FakeDisk(Random(0))
    world = StoredWorld(disk, DIRECTORY, segment_bytes=SEGMENT_BYTES)
    session = world.open(1)
    states = [state_of(world)]
    for data in before_checkpoint():
        session.feed(data)
        states.append(state_of(world))

    world.checkpoint()
    for data in after_checkpoint():
        session.feed(data)
        states.append(state_of(world))

    files = disk.contents()
    assert [name for name in files if name.endswith("checkpoint")]
    assert len(files) > 3, "the log is too small to say anything"
    return SmallLog(files, frozenset(states), states[-1])


def outcome(files: dict[str, bytes]) -> State | str:
    """The state that a broker finds; or why it does not start, or stops when it serves."""
    disk = FakeDisk(Random(0))
    for path, data in files.items():
        disk.put(path, data)

    try:
        return state_of(StoredWorld(disk, DIRECTORY, segment_bytes=SEGMENT_BYTES))
    except StoreError as error:
        return str(error)


def check(log: SmallLog, path: str, data: bytes, where: str) -> bool:
    """Whether a file like this is noticed."""
    found = outcome({**log.files, path: data})
    if isinstance(found, State):
        assert found in log.states, f"{path} {where}: {found}"
        return False

    assert DIRECTORY in found, f"{path} {where}: {found}"
    assert re.search(r"\d+\.(log|checkpoint)", found), f"{path} {where}: {found}"
    assert re.search(r" at (offset )?\d+|is missing|is cut short", found), found
    return True


def test_the_log_itself_is_sound(log: SmallLog) -> None:
    assert outcome(log.files) == log.last


def test_a_changed_octet_is_refused_or_harmless(log: SmallLog) -> None:
    """It would be worth little if most of them went unseen."""
    seen = 0
    count = 0
    for path, whole in log.files.items():
        for place in range(len(whole)):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            seen += check(log, path, bytes(data), f"with octet {place} changed")
            count += 1

    assert seen > count // 2


def test_a_file_that_was_cut_is_refused_or_harmless(log: SmallLog) -> None:
    for path, whole in log.files.items():
        for size in range(len(whole)):
            check(log, path, whole[:size], f"cut to {size}")


def test_a_file_that_is_missing_is_refused_or_harmless(log: SmallLog) -> None:
    for path in log.files:
        files = dict(log.files)
        del files[path]
        found = outcome(files)
        assert found in log.states if isinstance(found, State) else path in found


@pytest.mark.parametrize(
    "damage",
    [
        lambda data, random: data + random.randbytes(random.randrange(1, 200)),
        lambda data, random: bytes(len(data)),
        lambda data, random: random.randbytes(len(data)),
        lambda data, random: _with_block(data, random, bytes(64)),
        lambda data, random: _with_block(data, random, random.randbytes(64)),
    ],
    ids=["longer", "all zeros", "all noise", "a block of zeros", "a block of noise"],
)
def test_larger_damage_is_refused_or_harmless(
    log: SmallLog, damage: Callable[[bytes, Random], bytes]
) -> None:
    random = Random(1)
    for path, whole in log.files.items():
        for turn in range(60):
            check(log, path, damage(whole, random), f"damaged, turn {turn}")


def test_files_that_changed_places_are_refused_or_harmless(log: SmallLog) -> None:
    for path in log.files:
        for other, data in log.files.items():
            if other != path:
                check(log, path, data, f"with the content of {other}")


def _with_block(data: bytes, random: Random, block: bytes) -> bytes:
    place = random.randrange(len(data))
    return (data[:place] + block + data[place + len(block) :])[: len(data)]
