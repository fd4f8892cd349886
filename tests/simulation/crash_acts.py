"""What clients of the crash simulation do with messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange import delayed
from broker.wire.tables import Field, encode_table
from tests.helpers.session import publish
from tests.simulation.crash_client import CONSUMING, PUBLISHING, Publication, Subscription
from tests.simulation.crash_model import KINDS, Copy

if TYPE_CHECKING:
    from tests.simulation.crash_client import CrashClient
    from tests.simulation.crash_model import ModelQueue
    from tests.simulation.crash_stage import Stage

__all__ = [
    "KEYS",
    "change_subscriptions",
    "end_transaction",
    "get_one",
    "publish_some",
    "settle_some",
]

KEYS: Final = ("a", "b")
BODY_BYTES: Final = (0, 0, 20, 20, 200, 900, 5_000)
SUBSCRIBED: Final = [name for name, kind in KINDS.items() if kind.for_consumers]
PUBLISHED: Final = [name for name in KINDS if not name.startswith("grave")]
NOWHERE: Final = "nowhere"


# -- publishing


def publish_some(stage: Stage) -> None:
    """Publish one message, or several that come one after the other."""
    client = stage.listener()
    if client is None or stage.world.node.alarms:
        # The broker would take one more and then listen no longer (rule MA-02).
        return

    for _ in range(stage.random.choice((1, 1, 1, 3, 8))):
        stage.begin()
        _publish_one(stage, client)
        stage.end()
        if not client.is_listened_to or stage.world.node.alarms:
            return


def _address(stage: Stage, *, is_transactional: bool) -> tuple[str, str]:
    random = stage.random
    exchanges = sorted(stage.model.exchanges)
    if exchanges and random.random() < 0.4:
        return random.choice(exchanges), random.choice(KEYS)

    # What refuses a message of a transaction closes the channel.
    names = [name for name in PUBLISHED if name != "narrow" or not is_transactional]
    return "", random.choice([*names, NOWHERE])


def _publish_one(stage: Stage, client: CrashClient) -> None:
    random = stage.random
    model = stage.model
    stage.published += 1
    number = stage.published
    body = b"%d " % number + b"." * random.choice(BODY_BYTES)
    persistent = random.random() < 0.8
    priority = random.choice((-1, -1, 0, 3, 9))
    exchange, key = _address(stage, is_transactional=client.is_transactional)
    delay_ms = random.choice((0, 53, 253)) if exchange == "late" else 0
    ttl_ms = random.choice((70, 370)) if random.random() < 0.1 and not delay_ms else None
    mandatory = key == NOWHERE and random.random() < 0.5
    copy = Copy(number, len(body), persistent=persistent, priority=priority)
    lives = model.lives
    targets = [] if delay_ms else model.route(exchange, key)

    def happen() -> bool:
        if mandatory:
            client.returns.append(number)

        if delay_ms and model.lives == lives:
            # One that is due later waits on disk.
            batch = stage.batch if delay_ms > delayed.SOON_MS else 0
            model.delay(copy, key, delay_ms, batch)

        return model.publish(copy, targets, ttl_ms)

    data = publish(
        CONSUMING if client.is_transactional else PUBLISHING,
        key,
        body,
        _properties(priority, delay_ms, ttl_ms, persistent=persistent),
        exchange=exchange,
        mandatory=mandatory,
    )
    if client.is_transactional:
        client.publications.append((number, targets, happen))
        client.session.feed(data)
        return

    publication = Publication(number)
    publication.is_refused = not happen()
    client.published += 1
    client.unconfirmed[client.published] = publication
    batch = stage.batch
    client.session.feed(data)
    stage.follow()
    if any(model.copies(number)):
        publication.batch = batch


def _properties(priority: int, delay_ms: int, ttl_ms: int | None, *, persistent: bool) -> bytes:
    """Headers, delivery-mode, priority and expiration, as far as they are wanted."""
    flags = 0x1000
    values = [bytes((2 if persistent else 1,))]
    if delay_ms:
        flags |= 0x2000
        values.insert(0, encode_table({"x-delay": Field("I", delay_ms)}))

    if priority >= 0:
        flags |= 0x0800
        values.append(bytes((priority,)))

    if ttl_ms is not None:
        flags |= 0x0100
        text = str(ttl_ms).encode()
        values.append(bytes((len(text),)) + text)

    return flags.to_bytes(2, "big") + b"".join(values)


# -- consuming


def change_subscriptions(stage: Stage) -> None:
    """Begin to consume, or cease to; what was delivered stays as it is."""
    client = stage.listener()
    if client is None:
        return

    random = stage.random
    tags = [tag for tag, one in client.subscriptions.items() if not one.queue.is_deleted]
    if len(tags) > 2 or (tags and random.random() < 0.4):
        tag = random.choice(tags)
        client.subscriptions.pop(tag)
        client.ask(CONSUMING, "basic.cancel", "basic.cancel-ok", consumer_tag=tag)
        return

    names = [name for name in SUBSCRIBED if name in stage.model.queues]
    if names:
        queue = stage.model.queues[random.choice(names)]
        _subscribe(stage, client, queue, no_ack=random.random() < 0.2)


def _subscribe(stage: Stage, client: CrashClient, queue: ModelQueue, *, no_ack: bool) -> None:
    prefetch = stage.random.randint(1, 5)
    client.ask(CONSUMING, "basic.qos", "basic.qos-ok", prefetch_count=prefetch)
    client.ask(
        CONSUMING,
        "basic.consume",
        "basic.consume-ok",
        queue=queue.name,
        consumer_tag=client.new_tag(queue, no_ack=no_ack),
        no_ack=no_ack,
    )


def get_one(stage: Stage) -> None:
    """Ask for the first message of a queue."""
    client = stage.listener()
    if client is None or not stage.model.queues:
        return

    queue = stage.model.queues[stage.random.choice(list(stage.model.queues))]
    no_ack = stage.random.random() < 0.3
    client.gets.append(Subscription("", queue, no_ack))
    client.call(CONSUMING, "basic.get", queue=queue.name, no_ack=no_ack)


def settle_some(stage: Stage) -> None:
    """Acknowledge, give back or reject one delivery, or several."""
    random = stage.random
    found = [
        one
        for one in stage.clients
        if one.unacked and one.is_listened_to and one.settled_how in ("", "ack")
    ]
    if not found:
        return

    client = random.choice(found)
    tag = random.choice(list(client.unacked))
    multiple = random.random() < 0.4
    [how] = random.choices(("ack", "requeue", "reject"), weights=(5, 2, 2))
    if client.settled:
        # What comes between two settlements of a transaction is for the broker alone to see.
        how = "ack"

    tags = [one for one in sorted(client.unacked) if one <= tag] if multiple else [tag]
    taken = [(*client.unacked.pop(one), one) for one in tags]
    if client.is_transactional:
        client.settled_how = how
        client.settled += taken
    else:
        _settle([(copy, queue) for copy, queue, _ in taken], how)

    if how == "ack":
        client.call(CONSUMING, "basic.ack", delivery_tag=tag, multiple=multiple)
    else:
        is_requeue = how == "requeue"
        client.call(
            CONSUMING, "basic.nack", delivery_tag=tag, multiple=multiple, requeue=is_requeue
        )


def _settle(taken: list[tuple[Copy, ModelQueue]], how: str) -> None:
    if how != "requeue":
        for copy, queue in taken:
            queue.settle(copy, is_rejected=how == "reject")

        return

    by_queue: dict[ModelQueue, list[Copy]] = {}
    for copy, queue in taken:
        by_queue.setdefault(queue, []).append(copy)

    for queue, copies in by_queue.items():
        queue.give_back(copies)


# -- transactions


def end_transaction(stage: Stage) -> None:
    """Commit or roll back."""
    found = [
        one for one in stage.clients if one.is_listened_to and (one.publications or one.settled)
    ]
    if not found:
        return

    client = stage.random.choice(found)
    model = stage.model
    publications = client.publications
    settled = client.settled
    how = client.settled_how
    client.publications = []
    client.settled = []
    client.settled_how = ""
    # A commit to a queue that is gone ends the connection (rule TX-03).
    is_void = any(queue.is_deleted for _, targets, _ in publications for queue in targets)
    if is_void or stage.random.random() < 0.2:
        for copy, queue, tag in settled:
            client.unacked[tag] = (copy, queue)

        client.ask(CONSUMING, "tx.rollback", "tx.rollback-ok")
        return

    for _, _, happen in publications:
        happen()

    model.touched = False
    _settle([(copy, queue) for copy, queue, _ in settled], how)
    batch = stage.batch
    is_kept = model.touched
    client.ask(CONSUMING, "tx.commit", "tx.commit-ok")
    stage.follow()
    if is_kept or any(one for number, _, _ in publications for one in model.copies(number)):
        client.promise(batch)
