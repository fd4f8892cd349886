"""What is done to the topology of a crash simulation, and to its log and disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.exchange.base import ExchangeSettings
from broker.core.exchange_commands import BindingRequest, bind, declare_exchange
from broker.core.policy import policy_from_plain
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.wire.tables import table_from_plain
from tests.simulation.crash_acts import KEYS
from tests.simulation.crash_model import BOUND_EXCHANGES, KINDS, POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.crash_client import CrashClient
    from tests.simulation.crash_model import ModelQueue
    from tests.simulation.crash_stage import Stage

__all__ = ["declare_everything", "disturb_disk", "manage"]

BINDABLE: Final = ("plain", "work", "ranked", "quorum", "brief", "anywhere", "short", "fleeting")
BINDINGS: Final = [
    *[("fan", name, "") for name in BINDABLE],
    ("dir", "work", "a"),
    ("late", "plain", "a"),
    ("late", "work", "b"),
]
FAILING: Final = ("write", "sync", "allocate", "create", "rename", "names")


def declare_everything(stage: Stage) -> None:
    """Make all there can be, as a broker does that finds it in its configuration."""
    vhost = stage.world.vhost
    model = stage.model
    actor = stage.world.node.own_actor(vhost)
    stage.begin()
    for name, kind in KINDS.items():
        model.declare(name, kind)
        arguments = table_from_plain(kind.arguments())
        declare_queue(vhost, actor, QueueRequest(name, kind.durable, False, False, arguments))

    for name, exchange_type in BOUND_EXCHANGES.items():
        model.declare_exchange(name)
        settings = ExchangeSettings(
            name, exchange_type, True, False, False, table_from_plain(_arguments_of(exchange_type))
        )
        declare_exchange(vhost, actor, settings)

    for exchange, queue, key in BINDINGS:
        model.bind(exchange, queue, key)
        bind(vhost, actor, BindingRequest(exchange, queue, True, key, {}))

    stage.world.finish()
    stage.end()


def manage(stage: Stage) -> None:
    """Change something about queues, exchanges, bindings, policies or connections."""
    client = stage.listener()
    if client is not None:
        [act] = stage.random.choices(ACTS, weights=WEIGHTS)
        act(stage, client)


def _declare(stage: Stage, client: CrashClient, name: str) -> None:
    kind = KINDS[name]
    stage.model.declare(name, kind)
    stage.ask(
        client,
        "queue.declare",
        "queue.declare-ok",
        queue=name,
        durable=kind.durable,
        arguments=kind.arguments(),
    )


def _declare_exchange(stage: Stage, client: CrashClient, name: str) -> None:
    kind = BOUND_EXCHANGES[name]
    stage.model.declare_exchange(name)
    stage.ask(
        client,
        "exchange.declare",
        "exchange.declare-ok",
        exchange=name,
        type=kind,
        durable=True,
        arguments=_arguments_of(kind),
    )


def _arguments_of(exchange_type: str) -> dict[str, object]:
    return {"x-delayed-type": "direct"} if exchange_type == "x-delayed-message" else {}


def _bind(stage: Stage, client: CrashClient, exchange: str, queue: str, key: str) -> None:
    stage.model.bind(exchange, queue, key)
    stage.ask(
        client, "queue.bind", "queue.bind-ok", queue=queue, exchange=exchange, routing_key=key
    )


def _unbind(stage: Stage, client: CrashClient, exchange: str, queue: str, key: str) -> None:
    stage.model.unbind(exchange, queue, key)
    stage.ask(
        client, "queue.unbind", "queue.unbind-ok", queue=queue, exchange=exchange, routing_key=key
    )


def _purge(stage: Stage, client: CrashClient) -> None:
    for queue in _one_of(stage):
        queue.purge()
        stage.ask(client, "queue.purge", "queue.purge-ok", queue=queue.name)


def _delete(stage: Stage, client: CrashClient) -> None:
    for queue in _one_of(stage):
        stage.model.delete(queue.name)
        stage.ask(client, "queue.delete", "queue.delete-ok", queue=queue.name)


def _one_of(stage: Stage) -> list[ModelQueue]:
    """A queue, if there is any."""
    queues = list(stage.model.queues.values())
    return [stage.random.choice(queues)] if queues else []


def _declare_again(stage: Stage, client: CrashClient) -> None:
    missing = [name for name in KINDS if name not in stage.model.queues]
    _declare(stage, client, stage.random.choice(missing or list(KINDS)))


def _change_bindings(stage: Stage, client: CrashClient) -> None:
    random = stage.random
    model = stage.model
    names = [name for name in BINDABLE if name in model.queues]
    if not names or not model.exchanges:
        return

    exchange = random.choice(sorted(model.exchanges))
    queue = random.choice(names)
    key = "" if exchange == "fan" else random.choice(KEYS)
    if (exchange, queue, key) in model.bindings and random.random() < 0.7:
        _unbind(stage, client, exchange, queue, key)
    else:
        _bind(stage, client, exchange, queue, key)


def _change_exchange(stage: Stage, client: CrashClient) -> None:
    name = stage.random.choice(list(BOUND_EXCHANGES))
    if name not in stage.model.exchanges:
        _declare_exchange(stage, client, name)
        return

    stage.model.delete_exchange(name)
    stage.ask(client, "exchange.delete", "exchange.delete-ok", exchange=name)


def _change_policy(stage: Stage, client: CrashClient) -> None:
    """Whoever does it waits until it is safe, as the management API does."""
    name = stage.random.choice([None, *POLICIES])
    vhost = stage.world.vhost
    stage.model.set_policy(name)
    if name is None:
        vhost.clear_policy("p")
    else:
        value: dict[str, object] = {"pattern": "^plain$", "definition": POLICIES[name]}
        vhost.set_policy(policy_from_plain("p", value, is_operator=False))

    if stage.model.touched:
        batch = stage.batch
        stage.world.journal.when_safe(lambda: stage.promise(batch))

    stage.world.settle()


def _want_checkpoint(stage: Stage, client: CrashClient) -> None:
    """One is written the next time that nothing gathers."""
    stage.world.journal.books.is_checkpoint_due = True


def _disconnect(stage: Stage, client: CrashClient) -> None:
    stage.lose(client)
    stage.end()
    stage.begin()
    stage.connect_all()


ACTS: Final[list[Callable[[Stage, CrashClient], None]]] = [
    _purge,
    _delete,
    _declare_again,
    _change_bindings,
    _change_exchange,
    _change_policy,
    _want_checkpoint,
    _disconnect,
]
WEIGHTS: Final = (2, 2, 6, 3, 1, 3, 6, 2)


def disturb_disk(stage: Stage) -> None:
    """Fill the disk up, or let there be space again; or let it fail."""
    random = stage.random
    disk = stage.disk
    if disk.capacity_bytes is not None or disk.faults:
        disk.heal()
    elif random.random() < 0.8:
        disk.capacity_bytes = disk.used_bytes + random.randrange(4_000)
    else:
        disk.fail({random.choice(FAILING)}, first=random.randrange(3))
