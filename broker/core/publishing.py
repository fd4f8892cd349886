"""From a publish to its queues: checks, routing, returns, confirms (sections P, E.8, CF).

A publisher remembers nothing of messages, only of addresses: a :class:`Route` holds what a publish
method resolved to, rights included, for as long as the virtual host's generation stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_binary
from broker.core.exchange_commands import exchange_named
from broker.core.expiration import parse_expiration
from broker.core.forwarding import keys_of
from broker.core.message import NO_TTL, PENDING, Address, Message, content_with_properties
from broker.core.reply_to import REPLY_ALIAS
from broker.core.routing import NO_KEEPERS
from broker.core.transaction import Publication, Transaction
from broker.errors import (
    AccessRefused,
    NotImplementedByBroker,
    PreconditionFailed,
    ResourceFault,
)
from broker.limits import COPIES_PER_TURN_MAX, FAN_OUT_WIDE, MESSAGE_BYTES_MAX_HARD
from broker.wire.hot import encode_return
from broker.wire.properties import with_reply_to, without_header

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.core.actor import Actor
    from broker.core.confirms import Confirms
    from broker.core.consumer import Deliveries
    from broker.core.exchange.base import Exchange
    from broker.core.queue.queue import Queue
    from broker.core.tally import PublishTally
    from broker.core.vhost import VirtualHost
    from broker.wire.properties import Properties

__all__ = ["CARE_FLAGS", "Publisher", "Route", "TurnTaken"]

CARE_FLAGS: Final = 0x2000 | 0x0200 | 0x0100 | 0x0010 | 0x0003
"""Property flags of messages that need more than their address: headers, reply-to, expiration,
user-id, and the two flag bits that mean nothing (rule F-18)."""


NO_QUEUES: Final[list[Queue]] = []
"""Shared: must not be changed."""


class TurnTaken(Exception):
    """The publish has happened, and reached so many queues that now it is the others' turn."""


class Route:
    """What one publish method resolves to, while the generation it was made in stands."""

    __slots__ = (
        "address",
        "depends_on_headers",
        "exchange",
        "generation",
        "immediate",
        "mandatory",
        "queue",
        "queues",
        "topic_refusal",
    )

    def __init__(self, address: Address, mandatory: bool, immediate: bool) -> None:
        self.address = address
        self.mandatory = mandatory
        self.immediate = immediate
        self.generation: i64 = 0
        self.exchange: Exchange | None = None
        self.queues: list[Queue] = NO_QUEUES
        # The one queue it reaches, whatever the headers; None when there are others or none, or
        # when there is more to do.
        self.queue: Queue | None = None
        self.depends_on_headers = False
        self.topic_refusal: AccessRefused | None = None

    def forget(self) -> None:
        """Be resolved anew at the next publish, and keep no queue until then."""
        self.generation = 0
        self.queues = NO_QUEUES
        self.queue = None


class Publisher:
    """Publishes on behalf of one channel.

    Args:
        vhost: a virtual host.
        actor: on whose behalf.
        deliveries: the channel's sending half, for returns.
        body_bytes_max: largest body accepted (rule P-02).

    Attributes:
        vhost: where to.
        confirms: set when the channel is in confirm mode.
        transaction: set when the channel is in tx mode.
        reply_name: where replies to this channel's requests go, while it has a reply consumer.

    """

    __slots__ = (
        "_actor",
        "_body_bytes_max",
        "_deliveries",
        "confirms",
        "drop_count",
        "publish_count",
        "reply_name",
        "return_count",
        "transaction",
        "vhost",
    )

    def __init__(
        self, vhost: VirtualHost, actor: Actor, deliveries: Deliveries, body_bytes_max: i64
    ) -> None:
        self.vhost = vhost
        self._actor = actor
        self._deliveries = deliveries
        self._body_bytes_max: i64 = body_bytes_max
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_name: str | None = None
        self.publish_count: i64 = 0
        self.return_count: i64 = 0
        self.drop_count: i64 = 0

    def resolve(self, route: Route, body_size: i64) -> None:
        """Check a route and find its queues, for the generation of now.

        Raises:
            AMQPError: rules P-01 to P-05, in their order.

        """
        if route.immediate:
            raise NotImplementedByBroker("immediate=true")

        self.check_size(body_size)
        vhost = self.vhost
        address = route.address
        self._actor.check("write", "exchange", address.exchange)
        exchange = exchange_named(vhost, address.exchange)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'"
            )

        route.topic_refusal = self._topic_refusal(exchange, address.routing_key)
        queues, depends_on_headers = vhost.route_queues(exchange, [address.routing_key], None)
        route.exchange = exchange
        route.depends_on_headers = depends_on_headers
        route.queues = queues
        is_plain = not depends_on_headers and route.topic_refusal is None and vhost.watcher is None
        route.queue = queues[0] if len(queues) == 1 and is_plain else None
        route.generation = vhost.generation
        if len(queues) > FAN_OUT_WIDE:
            vhost.wide_routes.add(route)

    def _topic_refusal(self, exchange: Exchange, routing_key: str) -> AccessRefused | None:
        """The error that rule P-09 has for this key, if any; it comes after other checks."""
        if exchange.type == "topic":
            try:
                self._actor.check_topic("write", exchange.name, routing_key)
            except AccessRefused as refusal:
                return refusal

        return None

    def check_size(self, body_size: i64) -> None:
        """Rule P-02.

        Raises:
            PreconditionFailed: the body is too large.

        """
        if body_size > MESSAGE_BYTES_MAX_HARD:
            raise PreconditionFailed(
                f"message size {body_size} is larger than max size {MESSAGE_BYTES_MAX_HARD}"
            )

        if body_size > self._body_bytes_max:
            raise PreconditionFailed(
                f"message size {body_size} is larger than configured max size "
                f"{self._body_bytes_max}"
            )

    def publish(self, route: Route, properties: Properties, content: bytes, body_size: i64) -> None:
        """Publish one message: to its queues, or back to the publisher.

        Args:
            route: of this publisher's making; resolved anew when it is stale.
            properties: parsed from the content's header.
            content: header frame and body frames, as they came.
            body_size: bytes of the body.

        Raises:
            AMQPError: rules P-01 to P-10; nothing has happened then.
            TurnTaken: it has happened, and nothing more is to be read in this turn.

        """
        if route.generation != self.vhost.generation:
            self.resolve(route, body_size)
        elif body_size > self._body_bytes_max:
            self.check_size(body_size)

        queue = route.queue
        if queue is None or properties.flags & CARE_FLAGS or self.transaction is not None:
            self._publish_with_care(route, properties, content, body_size)
            return

        exchange = route.exchange
        assert exchange is not None
        exchange.publish_in += 1
        exchange.publish_out += 1
        self.publish_count += 1
        message = Message(
            route.address, content, body_size, properties.is_persistent, properties.priority
        )
        is_accepted = queue.enqueue(message, NO_TTL)
        confirms = self.confirms
        if confirms is not None:
            if message.record == PENDING:
                self._hold_confirm(confirms)
            elif is_accepted:
                confirms.accept()
            else:
                confirms.refuse()

    def _hold_confirm(self, confirms: Confirms) -> None:
        """The publish is answered when the log has it (rule CF-06)."""
        journal = self.vhost.journal
        assert journal is not None
        journal.hold_confirm(confirms)

    def _publish_with_care(
        self, route: Route, properties: Properties, content: bytes, body_size: i64
    ) -> None:
        """Everything but the plain message to one queue; the order of checks is that of P.1."""
        ttl_ms: i64 = NO_TTL
        is_request = properties.reply_to == REPLY_ALIAS
        if is_request and self.reply_name is None:
            raise PreconditionFailed("fast reply consumer does not exist")

        if properties.expiration is not None:
            ttl_ms = parse_expiration(properties.expiration)

        address = route.address
        queues = route.queues
        keepers = NO_KEEPERS
        exchange = route.exchange
        assert exchange is not None
        if properties.has_cc or properties.has_bcc:
            address = Address(
                address.exchange, address.routing_key, properties.cc_keys(), properties.bcc_keys()
            )

        self._check_topics(route, exchange, address)
        self._check_user_id(properties)
        if is_request or properties.has_bcc or properties.is_cleaned:
            content = content_with_properties(content, self._properties_to_send(properties))

        message = Message(
            address, content, body_size, properties.is_persistent, properties.priority
        )
        if route.depends_on_headers or address is not route.address:
            queues, keepers = self.vhost.route_message(exchange, keys_of(message), properties)

        self.publish_count += 1
        exchange.publish_in += 1
        exchange.publish_out += len(queues)
        is_returned = route.mandatory and not queues
        if is_returned and keepers:
            is_returned = not _is_vouched_for(keepers, keys_of(message), properties)

        watcher = self.vhost.watcher
        if watcher is not None:
            watcher.published(message, queues, self._deliveries, is_returned)

        publication = Publication(message, queues, ttl_ms, is_returned)
        publication.keepers = keepers
        transaction = self.transaction
        if transaction is not None:
            transaction.add_publication(publication)
        else:
            self._emit(publication)
            if len(queues) > FAN_OUT_WIDE:
                self._count_copies(len(queues))

    def _count_copies(self, count: i64) -> None:
        output = self._deliveries.output
        output.copies += count
        if output.copies >= COPIES_PER_TURN_MAX:
            output.copies = 0
            raise TurnTaken

    def _properties_to_send(self, properties: Properties) -> bytes:
        """The properties less what is not passed on (rules DR-05, P-41, F-18)."""
        raw = properties.raw
        if properties.has_bcc:
            raw = without_header(raw, "BCC")

        if properties.reply_to == REPLY_ALIAS and self.reply_name is not None:
            raw = with_reply_to(raw, self.reply_name)

        return raw

    def _check_topics(self, route: Route, exchange: Exchange, address: Address) -> None:
        """Rule P-09: every key must be allowed, the main one first."""
        if route.topic_refusal is not None:
            raise route.topic_refusal

        if address is not route.address and exchange.type == "topic":
            for key in [*(address.cc_keys or []), *(address.bcc_keys or [])]:
                self._actor.check_topic("write", exchange.name, key)

    def _check_user_id(self, properties: Properties) -> None:
        """Rule P-10."""
        claimed = properties.user_id
        user = self._actor.user
        if claimed is None or user is None or claimed == user.name or user.is_impersonator:
            return

        raise PreconditionFailed(
            f"user_id property set to '{claimed}' but authenticated user was '{user.name}'"
        )

    def _emit(self, publication: Publication) -> bool:
        """Put a message into its queues, answer its publisher; False when a queue refused it."""
        message = publication.message
        if publication.is_returned:
            self.return_count += 1
            self._deliveries.send_content(encode_return(message.address.wire), message.content)
        elif not publication.queues and not publication.keepers:
            self.drop_count += 1

        journal = self.vhost.journal
        additions: i64 = 0 if journal is None else journal.additions
        for keeper in publication.keepers:
            keeper.keep(message, is_returned=publication.is_returned)

        is_accepted = True
        queues = publication.queues
        ttl_ms: i64 = publication.ttl_ms
        last = len(queues) - 1
        for place, queue in enumerate(queues):
            # Every queue has a message of its own; the content is one and the same.
            copy = message if place == last else message.copy()
            if not queue.enqueue(copy, ttl_ms):
                is_accepted = False

        confirms = self.confirms
        if confirms is not None:
            if not is_accepted:
                confirms.refuse()
            elif journal is not None and journal.additions != additions:
                journal.hold_confirm(confirms)
            else:
                confirms.accept()

        return is_accepted

    def count_sizes(self, size: i64, count: i64, is_persistent: bool) -> None:
        """Have been told what some of the messages published were like."""
        tally = self.vhost.tally
        tally.sizes.add(size, count)
        if is_persistent:
            tally.persistent += count

    def tell(self, tally: PublishTally) -> None:
        """Add what was counted here."""
        tally.published += self.publish_count
        tally.returned += self.return_count
        tally.dropped += self.drop_count
        confirms = self.confirms
        if confirms is not None:
            tally.to_confirm += confirms.last_number
            tally.confirmed += confirms.confirmed

    def commit(self, publications: list[Publication]) -> bool:
        """Let the publishes of a transaction happen; False when a queue refused one (TX-05).

        Raises:
            ResourceFault: a queue was deleted in between (rule TX-03); nothing has happened then.

        """
        for one in publications:
            for queue in one.queues:
                if queue.is_deleted:
                    raise _undeliverable(queue)

        witness = self.vhost.witness
        if witness is not None:
            witness.committing(self._deliveries)

        is_accepted = True
        for one in publications:
            if not self._emit(one):
                is_accepted = False

        return is_accepted


def _is_vouched_for(keepers: list[Exchange], keys: list[str], properties: Properties) -> bool:
    """Whether an exchange that keeps the message lets it count as routed."""
    for keeper in keepers:  # noqa: SIM110 - compiled, a loop is several times faster than any()
        if keeper.vouches_for(keys, properties):
            return True

    return False


def _undeliverable(queue: Queue) -> ResourceFault:
    resource = f"{{resource,{erl_binary(_bytes_of(queue.vhost.name))},queue,"
    name = erl_binary(_bytes_of(queue.name))
    return ResourceFault(f"failed to deliver message: {{not_found,{resource}{name}}}}}")


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
