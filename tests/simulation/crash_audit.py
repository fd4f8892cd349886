"""What a broker really has, in memory and on disk, as the model would say it; and its books."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.core.message import GONE, NO_DEADLINE, content_body
from broker.core.queue.cold import POSITION_MASK
from broker.store.api import OFFSET_BITS
from broker.wire.tables import table_to_plain
from tests.simulation.crash_model import (
    BOUND_EXCHANGES,
    POLICIES,
    QUORUM,
    Model,
    Picture,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.exchange.base import Exchange
    from broker.core.message import Message
    from broker.core.queue.queue import Queue
    from broker.core.queue.ready import Ready
    from tests.simulation.crash_world import CrashWorld

__all__ = ["check_books", "check_memory", "check_topology", "model_of", "row_of"]


def row_of(message: Message, wall_offset_ms: int) -> Row:
    """A message, as the model has it."""
    body = content_body(message.content)
    assert len(body) == message.body_size
    deadline = int(message.deadline_ms)
    history = message.history
    trail: tuple[tuple[str, str, int], ...] = ()
    first = None
    if history is not None:
        trail = tuple((one.queue, one.reason, one.times) for one in history.entries)
        first = (history.first.queue, history.first.reason)

    return Row(
        int(body.split(b" ", 1)[0]),
        len(body),
        message.is_persistent,
        int(message.priority),
        0 if deadline == NO_DEADLINE else deadline + wall_offset_ms,
        trail,
        first,
    )


def _of_level(queue: Queue, ready: Ready) -> list[Message]:
    """The messages of one level in serving order, without moving them."""
    cold = ready.cold
    hot = ready.hot()
    if cold is None:
        # One that has expired anywhere leaves its place for a while.
        return [one for one in ready.front() + hot if one.deadline_ms != GONE]

    newest = len(cold.tail)
    found: list[Message] = []
    positions = [one & POSITION_MASK for chunk in cold.all_positions() for one in chunk]
    journal = queue.vhost.journal
    assert journal is not None
    while len(found) < len(positions):
        found += journal.load(queue, positions[len(found) :])

    assert len(found) == cold.count
    for message in found[: int(cold.redelivered_count)]:
        message.redelivered = True

    return ready.front() + hot[: len(hot) - newest] + found + hot[len(hot) - newest :]


def _ready_of(queue: Queue) -> tuple[list[Message], dict[int, list[Message]]]:
    """The messages that were given back to a quorum queue, and those of each level."""
    levels = {level: _of_level(queue, ready) for level, ready in queue.ready.levels()}
    return (queue.ready.front() if queue.type == QUORUM else []), levels


# -- after a restart


def model_of(world: CrashWorld, picture: Picture, *, is_clean: bool) -> Model:
    """The model of a broker that has just recovered what a picture shows.

    Raises:
        AssertionError: it has recovered something else, as far as that can be seen here.

    """
    vhost = world.vhost
    orders: dict[str, list[int]] = {}
    for name, queue in vhost.queues.items():
        assert queue.durable
        assert queue.log_id > 0
        assert name in picture.queues, f"{name} is there again"
        arguments = table_to_plain(queue.arguments)
        assert arguments == picture.queues[name].kind.arguments(), f"arguments of {name}"
        front = queue.ready.front() if queue.type == QUORUM else []
        orders[name] = [row_of(one, 0).number for one in front]

    model = Model(world.wall_ms)
    model.restore(picture, orders, is_clean=is_clean)
    return model


def check_topology(world: CrashWorld, model: Model) -> None:
    """The broker has the queues, exchanges, bindings and policies of the model, and no others."""
    vhost = world.vhost
    assert set(vhost.queues) == set(model.queues), "queues"
    bindings: set[tuple[str, str, str]] = set()
    delayed: list[tuple[int, str, Row]] = []
    offset_ms = int(vhost.deadlines.wall_offset_ms)
    for name, exchange in vhost.exchanges.items():
        if name == "" or name.startswith("amq."):
            continue

        assert exchange.type == BOUND_EXCHANGES[name]
        assert name in model.exchanges, f"exchange {name}"
        bindings |= {
            (name, one.destination.name, one.routing_key) for one in exchange.bindings.values()
        }
        for message in _delayed_by(world, exchange):
            row = row_of(message, offset_ms)
            delayed.append((row.deadline, message.address.routing_key, row))

    assert model.exchanges <= set(vhost.exchanges), "exchanges"
    assert bindings == model.bindings, "bindings"
    assert _policy_of(world) == model.policy, "policy"
    wanted = [(one.due, one.key, one.copy.row()) for one in model.delayed]
    is_same = sorted(delayed) == sorted(wanted)
    assert is_same, f"in exchanges wait {_waiting(delayed)} where {_waiting(wanted)} are due"


def _delayed_by(world: CrashWorld, exchange: Exchange) -> list[Message]:
    """The messages that wait in an exchange, those on disk too."""
    positions = sorted(exchange.places_in(set(world.log.segments)))
    found: list[Message] = []
    while len(found) < len(positions):
        found += world.journal.load(exchange, positions[len(found) :])

    return found + exchange.stored_messages()


def _waiting(delayed: list[tuple[int, str, Row]]) -> list[tuple[int, int]]:
    return sorted((due, row.number) for due, _, row in delayed)


def _policy_of(world: CrashWorld) -> str | None:
    policies = world.vhost.policies
    assert not policies.operator_policies
    for policy in policies.policies:
        [name] = [name for name, value in POLICIES.items() if value == policy.definition]
        assert (policy.name, policy.pattern) == ("p", "^plain$")
        return name

    return None


# -- at any time


def check_memory(world: CrashWorld, model: Model) -> None:
    """The broker has what the model has, in the same order."""
    check_topology(world, model)
    offset_ms = int(world.vhost.deadlines.wall_offset_ms)
    for name, expected in model.queues.items():
        queue = world.vhost.queues[name]
        front, levels = _ready_of(queue)
        messages = front + [one for level in sorted(levels, reverse=True) for one in levels[level]]
        actual = [
            (row_of(one, offset_ms), one.redelivered, int(one.return_count_logged()))
            for one in messages
        ]
        wanted = [(one.row(), one.redelivered, one.returns) for one in expected.ready()]
        if not expected.kind.is_ordered:
            actual.sort()
            wanted.sort()

        assert actual == wanted, f"{name}: {_difference(actual, wanted)}"
        size = sum(int(one.body_size) for one in messages)
        counts = (int(queue.ready_count), int(queue.ready_bytes), int(queue.unacked_count))
        due = (len(messages), size, len(expected.unacked))
        assert counts == due, f"{name} counts {counts} ready, bytes, unacked, where {due} are"


def _difference(actual: list[tuple[Row, bool, int]], wanted: list[tuple[Row, bool, int]]) -> str:
    """Which messages there are, and the first one that is another than it should be."""
    numbers = [[row.number for row, _, _ in rows] for rows in (actual, wanted)]
    place = 0
    while actual[place : place + 1] == wanted[place : place + 1]:
        place += 1

    pair = f"{actual[place : place + 1]} where {wanted[place : place + 1]} is due"
    return f"{pair}; {numbers[0]} of {numbers[1]}"


def check_books(world: CrashWorld) -> None:
    """Every segment knows how many messages of it are of use."""
    live = Counter(record >> OFFSET_BITS for record in _records(world) if record > 0)
    segments = world.log.segments
    assert set(live) <= set(segments), f"{set(live) - set(segments)} are gone, with messages"
    actual = {number: int(one.live) for number, one in segments.items() if one.live}
    assert actual == live, f"live messages of segments: {actual} where {dict(live)} are"
    assert all(0 <= one.live <= one.total for one in segments.values())


def _records(world: CrashWorld) -> Iterator[int]:
    """Where all messages stand that the broker has, and those that are about to move."""
    for queue in world.vhost.queues.values():
        levels = [ready for _, ready in queue.ready.levels()]
        for ready in levels:
            if ready.cold is not None:
                for chunk in ready.cold.all_positions():
                    yield from (position & POSITION_MASK for position in chunk)

        found = list(queue.ready.front())
        for ready in levels:
            found += [*ready.front(), *ready.hot()]

        yield from (int(message.record) for message in dict.fromkeys(found))

    for exchange in world.vhost.exchanges.values():
        yield from exchange.places_in(set(world.log.segments))
        yield from (int(one.record) for one in exchange.stored_messages())

    for deliveries in world.vhost.deliveries:
        yield from (int(message.record) for message in deliveries.outstanding())

    yield from (move.new for move in world.journal.books._moving)
