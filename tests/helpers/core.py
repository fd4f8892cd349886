"""The broker without connections: clients that speak to its core objects directly.

A :class:`CoreClient` is one channel as the core sees it: deliveries, a publisher, and the frames
that came out. What the protocol layer would do between a method and the core, it does here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker.core.actor import Actor
from broker.core.confirms import Confirms
from broker.core.consumer import Consumer, ConsumerOptions, Deliveries
from broker.core.message import Address, Message, build_content, content_body
from broker.core.output import Output
from broker.core.policy import policy_from_plain
from broker.core.publishing import Publisher, Route
from broker.core.queue_commands import QueueRequest, declare_queue
from broker.limits import MESSAGE_BYTES_MAX_DEFAULT
from broker.wire.hot import encode_get_ok
from broker.wire.properties import parse_properties
from broker.wire.tables import Arguments, Field, table_from_plain
from tests.helpers.session import Heard, World, decode_stream
from tests.helpers.untyped import pamqp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.auth.users import User
    from broker.core.queue.queue import Queue
    from broker.errors import AMQPError

__all__ = [
    "Confirmed",
    "CoreClient",
    "CoreWorld",
    "arguments_of",
    "plain_headers",
    "raw_properties",
    "ready_bodies",
    "refusal",
]

FRAME_PAYLOAD_MAX = 131_064


class Confirmed(NamedTuple):
    """A basic.ack or basic.nack to a publisher."""

    name: str
    number: int
    multiple: bool


def arguments_of(plain: Mapping[str, object]) -> Arguments:
    """Arguments of a declaration; underscores in keys become hyphens, integers are ``I``."""
    arguments: Arguments = {}
    for key, value in plain.items():
        name = key.replace("_", "-")
        if type(value) is int:
            arguments[name] = Field("I", value)
        else:
            arguments.update(table_from_plain({name: value}))

    return arguments


def raw_properties(**properties: Any) -> bytes:
    """The flags and values of a content header."""
    encoded: bytes = pamqp.commands.Basic.Properties(**properties).marshal()
    return encoded


def plain_headers(raw: bytes) -> dict[str, Any]:
    """The headers out of a property list, as plain Python values."""
    headers: Any = parse_properties(raw).to_plain().get("headers", {})
    assert isinstance(headers, dict)
    return headers


def ready_bodies(queue: Queue) -> list[bytes]:
    """The bodies of the ready messages, in serving order."""
    return [content_body(message.content) for message in queue.ready.messages()]


def refusal(error: type[AMQPError], act: Callable[[], object]) -> str:
    """The explanation of the error that an act must end in."""
    with pytest.raises(error) as caught:
        act()

    assert type(caught.value) is error
    return caught.value.explanation


class CoreWorld(World):
    """A node in virtual time with one virtual host, whose clients have no connections."""

    def client(self, *, user: User | None = None, channel_id: int = 1) -> CoreClient:
        return CoreClient(self, user, channel_id)

    def add_user(
        self,
        name: str = "bob",
        *,
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
        tags: tuple[str, ...] = (),
    ) -> User:
        """A user with these rights in the virtual host."""
        user = self.users.add_user(name, None, tags=tags)
        self.users.set_permissions(name, vhost="/", configure=configure, write=write, read=read)
        return user

    def set_policy(
        self,
        definition: dict[str, object],
        *,
        pattern: str = ".*",
        name: str = "p",
        is_operator: bool = False,
    ) -> None:
        value = {"pattern": pattern, "definition": definition}
        policy = policy_from_plain(name, value, is_operator=is_operator)
        self.vhost.set_policy(policy, is_operator=is_operator)

    def move(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        self.wait(milliseconds / 1000)

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]


class CoreClient:
    """One channel of one connection.

    Attributes:
        cancelled: tags of consumers that were told that their queue is gone.

    """

    def __init__(self, world: CoreWorld, user: User | None, channel_id: int) -> None:
        self.world = world
        self.node = world.node
        self.vhost = world.vhost
        self.channel_id = channel_id
        self.written: list[bytes] = []
        self.cancelled: list[str] = []
        self.output = Output(self.node.outputs, self.written.append)
        self.output.frame_payload_max = FRAME_PAYLOAD_MAX
        self.deliveries = Deliveries(self.output, channel_id, self._on_cancel)
        self.vhost.deliveries[self.deliveries] = None
        self.actor = Actor(self.vhost.name, user, self)
        self.publisher = Publisher(
            self.vhost, self.actor, self.deliveries, MESSAGE_BYTES_MAX_DEFAULT
        )
        self.consumers: dict[str, Consumer] = {}

    def _on_cancel(self, consumer: Consumer) -> None:
        self.cancelled.append(consumer.tag)

    # -- commands

    def declare(
        self,
        name: str,
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        **arguments: object,
    ) -> Queue:
        """queue.declare; further keywords are arguments: ``x_max_length=1``."""
        request = QueueRequest(name, durable, exclusive, auto_delete, arguments_of(arguments))
        return declare_queue(self.vhost, self.actor, request)

    def declare_with(
        self, name: str, arguments: Mapping[str, object], *, durable: bool = False
    ) -> Queue:
        """A plain queue with these arguments."""
        request = QueueRequest(name, durable, False, False, arguments_of(arguments))
        return declare_queue(self.vhost, self.actor, request)

    def consume(
        self,
        queue: Queue,
        tag: str = "c",
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        prefetch: int = 0,
        arguments: Arguments | None = None,
    ) -> Consumer:
        options = ConsumerOptions(no_ack, exclusive, priority, prefetch, arguments or {})
        consumer = queue.new_consumer(self.deliveries, tag, options)
        queue.add_consumer(consumer)
        self.consumers[tag] = consumer
        queue.pump()
        return consumer

    def cancel(self, tag: str = "c") -> None:
        consumer = self.consumers.pop(tag)
        consumer.queue.remove_consumer(consumer)

    def get(self, queue: Queue, *, no_ack: bool = False) -> Message | None:
        message = queue.take(no_ack)
        if message is None:
            return None

        tag = int(self.deliveries.next_tag)
        self.deliveries.next_tag = tag + 1
        if not no_ack:
            message.delivery_tag = tag
            message.consumer = self.deliveries.getter_for(queue)
            self.deliveries.unacked.add(message)

        wire = message.address.wire
        method = encode_get_ok(tag, message.redelivered, wire, int(queue.ready_count))
        self.deliveries.send_content(method, message.content)
        return message

    def route(
        self, key: str, exchange: str = "", *, mandatory: bool = False, immediate: bool = False
    ) -> Route:
        return Route(Address(exchange, key), mandatory, immediate)

    def publish(
        self,
        key: str,
        body: bytes = b"",
        *,
        exchange: str = "",
        mandatory: bool = False,
        **properties: Any,
    ) -> None:
        """basic.publish; further keywords are properties."""
        route = self.route(key, exchange, mandatory=mandatory)
        self.publish_on(route, body, raw_properties(**properties))

    def publish_on(self, route: Route, body: bytes = b"", raw: bytes = b"\0\0") -> None:
        """Publish with a route that may be kept, and with properties as bytes."""
        content = build_content(raw, body)
        self.publisher.publish(route, parse_properties(raw), content, len(body))

    def confirm_select(self) -> Confirms:
        confirms = Confirms(self.node.confirms, self.output, self.deliveries.channel)
        self.publisher.confirms = confirms
        return confirms

    # -- settlements

    def take(self, *tags: int) -> list[Message]:
        """The deliveries with these tags, no longer unacked."""
        found = [self.deliveries.unacked.take(tag) for tag in tags]
        messages = [message for message in found if message is not None]
        assert len(messages) == len(tags), f"not all of {tags} are unacked"
        return messages

    def ack(self, *tags: int) -> None:
        self.deliveries.settle(self.take(*tags))

    def requeue(self, *tags: int) -> None:
        self.deliveries.give_back(self.take(*tags))

    def reject(self, *tags: int) -> None:
        self.deliveries.reject(self.take(*tags))

    # -- what came out

    def heard(self) -> list[Heard]:
        """Everything that was written since the last look; flushes the node once."""
        self.node.flush()
        data = b"".join(self.written)
        self.written.clear()
        heard = decode_stream(data)
        assert all(one.channel == self.channel_id for one in heard)
        return heard

    def bodies(self) -> list[bytes]:
        """The bodies that came since the last look."""
        return [one.body for one in self.heard()]

    def tagged_bodies(self) -> list[tuple[object, bytes]]:
        """The same, each with the tag of its consumer."""
        return [(one.arguments["consumer_tag"], one.body) for one in self.heard()]

    def confirmed(self) -> list[Confirmed]:
        """The confirms that came since the last look, and nothing else may have come."""
        found: list[Confirmed] = []
        for one in self.heard():
            assert one.name in ("basic.ack", "basic.nack")
            number = one.arguments["delivery_tag"]
            assert isinstance(number, int)
            found.append(Confirmed(one.name[6:], number, bool(one.arguments["multiple"])))

        return found
