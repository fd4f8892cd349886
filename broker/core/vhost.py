"""A virtual host: its exchanges, queues, bindings and policies, and the way of a message through.

Nothing here reaches into another virtual host. The commands that people and programs give stand in
:mod:`broker.core.exchange_commands` and :mod:`broker.core.queue_commands`; this is what they
change.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.core.dead_letter import DeadLetters
from broker.core.exchange.base import Exchange, ExchangeSettings
from broker.core.exchange.default import DefaultExchange
from broker.core.exchange.registry import create_exchange
from broker.core.exchange_commands import drop_bindings_to
from broker.core.policy import (
    Policy,
    PolicySet,
    effective_alternate_exchange,
    effective_settings,
)
from broker.core.queue.queue import Queue
from broker.core.release import NO_RELEASE
from broker.core.reply_to import ReplyQueue, ReplySink, looks_generated
from broker.core.routing import NO_KEEPERS, RouteResult, route
from broker.core.tally import VHostTally
from broker.core.vhost_metadata import NO_METADATA
from broker.core.watcher import Pair, Watcher, Witness
from broker.core.wide_routes import WideRoutes
from broker.limits import (
    BINDINGS_PER_EXCHANGE_MAX,
    EXCHANGES_PER_VHOST_MAX,
    QUEUES_PER_VHOST_MAX,
    ROUTES_SPARE_MAX,
    WIDE_ROUTE_QUEUES_MAX,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.consumer import Deliveries
    from broker.core.deadlines import Deadlines
    from broker.core.events import Events
    from broker.core.journal import Journal
    from broker.core.tracing import Tracer
    from broker.wire.properties import Properties
    from broker.wire.tables import Arguments

__all__ = ["Log", "VirtualHost"]

Log = Callable[[str, str, dict[str, object]], None]
"""Takes level, event and fields of something a person may want to know."""

STANDARD_EXCHANGES = (
    ("amq.direct", "direct", False),
    ("amq.topic", "topic", False),
    ("amq.fanout", "fanout", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""Name, type and whether internal: what every virtual host is born with (rule E-01)."""

CHANCE_BYTES: Final = 32
"""Drawn from the source of chance at once: a call into the system for each number would be slow."""


class VirtualHost:
    """One namespace of a node.

    Args:
        name: as clients open it.
        deadlines: the node's time.
        random_bytes: source of the names the broker makes up, and of chance.
        log: takes events.
        topic_hash_words_max: see TopicExchange; 0 sets no bound (rule E-85).

    """

    __slots__ = (
        "_chance",
        "_exclusive_queues",
        "_random_bytes",
        "_reply_sink",
        "bindings_per_exchange_max",
        "connection_count",
        "connections_max",
        "dead_letters",
        "deadlines",
        "deliveries",
        "dirty_journals",
        "events",
        "exchanges",
        "exchanges_max",
        "generation",
        "header_exchange_count",
        "journal",
        "log",
        "metadata",
        "name",
        "number",
        "on_space_changed",
        "policies",
        "queues",
        "queues_bound",
        "queues_max",
        "release",
        "reply_queues",
        "spare_routes",
        "tally",
        "topic_hash_words_max",
        "tracer",
        "watcher",
        "wide_routes",
        "witness",
    )

    def __init__(
        self,
        name: str,
        deadlines: Deadlines,
        random_bytes: Callable[[int], bytes],
        log: Log,
        *,
        topic_hash_words_max: int = 0,
    ) -> None:
        self.name = name
        # Tells it from one of the same name before it, where something is kept of both.
        self.number = 0
        self.deadlines = deadlines
        self.log = log
        self._random_bytes = random_bytes
        self._chance = b""
        self.topic_hash_words_max = topic_hash_words_max
        # Who looks at what passes: the firehose, a witness, and what the ways of messages ask.
        self.tracer: Tracer | None = None
        self.witness: Witness | None = None
        self.watcher: Watcher | None = None
        self.events: Events | None = None
        self.queues: dict[str, Queue] = {}
        self._exclusive_queues: dict[object, dict[Queue, None]] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.policies = PolicySet()
        self.dead_letters = DeadLetters(self)
        self.metadata = NO_METADATA
        self.release = NO_RELEASE
        self.queues_max: int | None = None
        # What holds besides, and where nobody has set a limit.
        self.queues_bound: int = QUEUES_PER_VHOST_MAX
        self.exchanges_max: int = EXCHANGES_PER_VHOST_MAX
        self.bindings_per_exchange_max: int = BINDINGS_PER_EXCHANGE_MAX
        self.connections_max: int | None = None
        self.connection_count = 0
        # Any change of what a publish may reach moves it on: routes remembered before are stale.
        self.generation: i64 = 1
        # How many addresses its channels may remember beyond their share.
        self.spare_routes: i64 = ROUTES_SPARE_MAX
        self.wide_routes = WideRoutes(WIDE_ROUTE_QUEUES_MAX)
        self.header_exchange_count: i64 = 0
        self.reply_queues: dict[str, ReplyQueue] = {}
        self._reply_sink: Queue | None = None
        # What is durable here is told to the journal; without one nothing outlives the broker.
        self.journal: Journal | None = None
        self.dirty_journals: list[Journal] = []
        self.on_space_changed: Callable[[], None] | None = None
        # The channels that are open here.
        self.deliveries: dict[Deliveries, None] = {}
        # Counts of what is gone.
        self.tally = VHostTally()
        self.exchanges[""] = DefaultExchange(self.queues, self.find_reply_target)
        for exchange_name, exchange_type, internal in STANDARD_EXCHANGES:
            settings = ExchangeSettings(exchange_name, exchange_type, True, False, internal, {})
            self.add_exchange(create_exchange(settings))

    def generate_queue_name(self) -> str:
        """A name for a queue that its client left unnamed (rule Q-01)."""
        return self.generate_name("amq.gen")

    def generate_name(self, prefix: str) -> str:
        """``prefix-`` and a token."""
        return f"{prefix}-{self.generate_token()}"

    def generate_token(self) -> str:
        """22 characters of URL-safe base64 that nobody guesses."""
        return base64.urlsafe_b64encode(self._random_bytes(16)).rstrip(b"=").decode()

    def random_below(self, count: int) -> int:
        """A number from 0 to ``count - 1``, each as likely as the others."""
        if not self._chance:
            self._chance = self._random_bytes(CHANCE_BYTES)

        drawn = int.from_bytes(self._chance[:4], "big")
        self._chance = self._chance[4:]
        return drawn * count >> 32

    def trace(self, tracer: Tracer | None) -> None:
        """Have publishes and deliveries traced, or no longer (rule E-135)."""
        self.tracer = tracer
        self._look()

    def watch(self, witness: Witness | None) -> None:
        """Have all that happens to messages witnessed, on channels that are opened from now on."""
        self.witness = witness
        self._look()

    def _look(self) -> None:
        self.watcher = self.tracer or self.witness
        if self.tracer is not None and self.witness is not None:
            self.watcher = Pair(self.tracer, self.witness)

        # What is remembered was found out without them.
        self.generation += 1
        for queue in [*self.queues.values(), *self.reply_queues.values()]:
            for consumer in queue.consumers:
                consumer.forget_prefix()

    def topology_changed(self) -> None:
        """Whatever was remembered of routes is stale."""
        self.generation += 1

    def space_changed(self) -> None:
        """The journal has run out of space, or has some again."""
        if self.on_space_changed is not None:
            self.on_space_changed()

    # -- exchanges

    def add_exchange(self, exchange: Exchange) -> None:
        """Make a new exchange known."""
        self.exchanges[exchange.name] = exchange
        exchange.attach(self)
        if exchange.depends_on_headers:
            self.header_exchange_count += 1

        self.apply_exchange_policy(exchange)
        self.generation += 1
        if self.journal is not None and exchange.durable:
            self.journal.exchange_declared(exchange)

        if self.events is not None:
            self.events.exchange_created(self, exchange)

    def forget_exchange(self, exchange: Exchange) -> None:
        """The exchange is no longer known; its bindings are the caller's business."""
        del self.exchanges[exchange.name]
        self.tally.publish_in += exchange.publish_in
        self.tally.publish_out += exchange.publish_out
        exchange.detach()
        if self.journal is not None and exchange.log_id > 0:
            self.journal.exchange_deleted(exchange)

        if exchange.depends_on_headers:
            self.header_exchange_count -= 1

        self.generation += 1
        if self.events is not None:
            self.events.exchange_deleted(self, exchange)

    def route_queues(
        self, exchange: Exchange, routing_keys: list[str], headers: Arguments | None
    ) -> tuple[list[Queue], bool]:
        """The queues a message reaches, and whether that hangs on its headers (section E.8)."""
        result = route(self.exchanges, exchange, routing_keys, headers)
        return _queues_of(result), result.depends_on_headers

    def route_message(
        self, exchange: Exchange, routing_keys: list[str], properties: Properties
    ) -> tuple[list[Queue], list[Exchange]]:
        """The queues that one message reaches, and the exchanges that want to keep it."""
        if not self.header_exchange_count:
            return _queues_of(route(self.exchanges, exchange, routing_keys, None)), NO_KEEPERS

        headers = properties.headers()
        result = route(self.exchanges, exchange, routing_keys, headers, properties)
        return _queues_of(result), result.keepers

    # -- queues

    def add_queue(self, queue: Queue) -> None:
        """Make a new queue known."""
        self.queues[queue.name] = queue
        owner = queue.exclusive_owner
        if owner is not None:
            self._exclusive_queues.setdefault(owner, {})[queue] = None

        if self.journal is not None and queue.durable:
            self.journal.queue_declared(queue)

        self.apply_queue_policy(queue)
        self.generation += 1
        self.tally.queues_created += 1
        self.log("debug", "queue.declared", {"vhost": self.name, "queue": queue.name})
        if self.events is not None:
            self.events.queue_created(queue)

    def remove_queue(self, queue: Queue) -> None:
        """Delete a queue with all it holds; its consumers are told (rules Q-53, Q-54, B-08)."""
        if queue.is_deleted:
            return

        del self.queues[queue.name]
        owner = queue.exclusive_owner
        if owner is not None and owner in self._exclusive_queues:
            self._exclusive_queues[owner].pop(queue, None)

        self.generation += 1
        self.tally.queues_deleted += 1
        if self.witness is not None:
            self.witness.dropped(queue, int(queue.ready_count), "deleted")

        self.wide_routes.clear()
        queue.tell(self.tally.queues_of(queue.type))
        orphans = queue.discard()
        if self.journal is not None and queue.log_id > 0:
            self.journal.queue_deleted(queue)

        drop_bindings_to(self, queue)
        for consumer in orphans:
            consumer.deliveries.on_cancel(consumer)

        self.log("debug", "queue.deleted", {"vhost": self.name, "queue": queue.name})
        if self.events is not None:
            self.events.queue_deleted(queue)

    def delete_exclusive_queues(self, owner: object) -> None:
        """The connection is gone, and so are its own queues (rule Q-33)."""
        for queue in self._exclusive_queues.pop(owner, {}):
            self.remove_queue(queue)

    # -- replies

    def add_reply_queue(self, owner: object) -> ReplyQueue:
        """Make the pseudo-queue of a reply consumer (rule DR-05)."""
        queue = ReplyQueue(self, owner)
        self.reply_queues[queue.name] = queue
        self.generation += 1
        return queue

    def remove_reply_queue(self, queue: ReplyQueue) -> None:
        """The requester is gone, and what waits for it too (rule DR-07)."""
        if self.reply_queues.pop(queue.name, None) is not None:
            self.generation += 1
            queue.tell(self.tally.queues_of(queue.type))
            queue.discard()

    def find_reply_target(self, name: str) -> Queue | None:
        """Where the default exchange takes a reply to (rule DR-06); None when it is none."""
        if not looks_generated(name):
            return None

        queue = self.reply_queues.get(name)
        if queue is not None:
            return queue

        if self._reply_sink is None:
            self._reply_sink = ReplySink(self)

        return self._reply_sink

    # -- policies

    def act_for(self, name: str) -> None:
        """Events tell from now on that this user is the cause; nobody is, where it is empty."""
        if self.events is not None:
            self.events.by = name

    def set_policy(self, policy: Policy, *, is_operator: bool = False, by: str = "") -> None:
        """Set or replace a policy, effective at once (rule PO-11); ``by`` names who wants that."""
        self.act_for(by)
        self.policies.set_policy(policy, is_operator=is_operator)
        self.apply_policies()
        if self.journal is not None:
            self.journal.policy_set(policy, is_operator=is_operator)

        if self.events is not None:
            self.events.policy_set(self, policy, is_operator=is_operator)

        self.act_for("")

    def clear_policy(self, name: str, *, is_operator: bool = False, by: str = "") -> bool:
        """Remove a policy, effective at once; False when there is none of that name."""
        self.act_for(by)
        found = self.policies.clear_policy(name, is_operator=is_operator)
        if found:
            self.apply_policies()
            if self.journal is not None:
                self.journal.policy_cleared(name, is_operator=is_operator)

            if self.events is not None:
                self.events.policy_cleared(self, name, is_operator=is_operator)

        self.act_for("")
        return found

    def apply_policies(self) -> None:
        """Give every queue and exchange the policies that match it now."""
        for queue in list(self.queues.values()):
            before = queue.policy_definition
            self.apply_queue_policy(queue)
            if self.events is not None and queue.policy_definition != before:
                self.events.queue_policy_changed(queue)

        for exchange in self.exchanges.values():
            self.apply_exchange_policy(exchange)

        self.generation += 1

    def apply_queue_policy(self, queue: Queue) -> None:
        """Find what governs a queue now, and let it take that on."""
        applied = self.policies.for_queue(queue.name, queue.type)
        if applied.definition != queue.policy_definition:
            queue.policy_definition = applied.definition
            own = queue.argument_settings
            queue.apply_settings(effective_settings(own, applied.definition, queue.type))

    def apply_exchange_policy(self, exchange: Exchange) -> None:
        """Find what governs an exchange now: only its alternate may come of it (rule E-73)."""
        field = exchange.arguments.get("alternate-exchange")
        argument = field.value if field is not None and isinstance(field.value, str) else None
        applied = self.policies.for_exchange(exchange.name)
        exchange.alternate_exchange = effective_alternate_exchange(argument, applied.definition)


def _queues_of(result: RouteResult) -> list[Queue]:
    found: list[Queue] = []
    for destination in result.queues:
        assert isinstance(destination, Queue)
        found.append(destination)

    return found
