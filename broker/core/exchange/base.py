"""Core: what all exchange types share: identity, flags, counters and the book of bindings.

A type says where a message goes (:meth:`Exchange.match`) and keeps an index of its bindings for
that (:meth:`Exchange._index`, :meth:`Exchange._unindex`, :meth:`Exchange._clear_index`). Everything
else about bindings happens here, once: :attr:`Exchange.bindings`, the destinations'
:attr:`~broker.core.binding.Destination.incoming` and the index always tell the same.

Most types need to know nothing of a message but its keys, some its headers. A type that looks at
more, or keeps messages, sets :attr:`Exchange.depends_on_properties`. Routing then asks it
:meth:`Exchange.match_properties` instead of :meth:`Exchange.match`, and :meth:`Exchange.keeps`; the
publisher hands it the message (:meth:`Exchange.keep`) when the publish takes effect. Since its
routes are never remembered, messages that do not pass such an exchange pay nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.binding import Binding, BindingKey, Destination, binding_key

if TYPE_CHECKING:
    from broker.core.message import Message
    from broker.core.vhost import VirtualHost
    from broker.wire.properties import Properties
    from broker.wire.tables import Arguments

__all__ = [
    "HOLDS",
    "KEEPS",
    "PASSES",
    "DestinationCounts",
    "Exchange",
    "ExchangeSettings",
    "add_destination",
    "discard_destination",
    "exhausted_sources",
    "remove_incoming_bindings",
]


PASSES: Final = 0
"""An exchange has no use for a message beyond routing it."""

KEEPS: Final = 1
"""It keeps the message; what becomes of it is otherwise decided by routing alone."""

HOLDS: Final = 2
"""It keeps the message to route it later: its alternate exchange has no part in it now."""


class ExchangeSettings(NamedTuple):
    """What exchange.declare says about an exchange."""

    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments


class Exchange(Destination):
    """A named rule for where messages go; the base of all types.

    Attributes:
        alternate_exchange: name of the exchange that takes what this one routes nowhere; None
            where there is none. The effective one: set by the virtual host from argument and
            policy (rule E-73).
        depends_on_headers: whether two messages of the same key may go different ways; then a
            route must not be remembered by key.
        depends_on_properties: whether it looks at more than keys and headers, or keeps messages;
            `depends_on_headers` is set too then.
        bindings: the bindings with this exchange as source, oldest first.
        publish_in: messages published to this exchange by name.
        publish_out: copies handed to queues on behalf of those.

    """

    __slots__ = (
        "alternate_exchange",
        "arguments",
        "auto_delete",
        "bindings",
        "depends_on_headers",
        "depends_on_properties",
        "internal",
        "publish_in",
        "publish_out",
        "type",
    )

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings.name, False, settings.durable)
        self.type: str = settings.type
        self.auto_delete: bool = settings.auto_delete
        self.internal: bool = settings.internal
        self.arguments: Arguments = settings.arguments
        self.alternate_exchange: str | None = None
        self.depends_on_headers: bool = False
        self.depends_on_properties: bool = False
        self.bindings: dict[BindingKey, Binding] = {}
        self.publish_in: int = 0
        self.publish_out: int = 0

    def validate(self) -> None:
        """Check what the type demands of its own arguments, at declaration (rule E-110, E-121).

        Called once, before the new exchange becomes visible.

        Raises:
            PreconditionFailed: an argument is missing or of no use.

        """

    def attach(self, vhost: VirtualHost) -> None:
        """Take from the virtual host what the type needs of it: the exchange becomes known."""

    def detach(self) -> None:
        """Let go of everything that is kept: the exchange is gone."""

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        """Check what the type demands of a binding (rule B-03); most take anything.

        Raises:
            PreconditionFailed: key or arguments are of no use to this type.

        """

    def validate_destination(self, destination: Destination) -> None:
        """Check what the type demands of the far end of a binding; most take anything.

        Raises:
            PreconditionFailed: it is nothing that this type can serve (rule E-131).

        """

    def bound(self, binding: Binding) -> None:
        """A client has made a new binding, and it is in force; most types need not act on that."""

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        """Return the destinations of a message, each once, in a stable order.

        The list may be shared: it must not be changed.

        Args:
            routing_keys: the routing key, then the keys of CC and BCC (rule E-70).
            headers: the message's headers table; may be left out unless `depends_on_headers`.

        """
        raise NotImplementedError

    def match_properties(
        self, routing_keys: list[str], properties: Properties
    ) -> list[Destination]:
        """Do the same as `match`, for a type that depends on properties."""
        return self.match(routing_keys, properties.headers())

    def stored_messages(self) -> list[Message]:
        """The messages it holds in memory that are to outlive the broker."""
        return []

    def append_held(self, records: list[list[bytes]]) -> None:
        """Add what a checkpoint has to tell of the messages that it holds."""

    def keeps(self, properties: Properties) -> int:
        """Return what the exchange does with a message besides: PASSES, KEEPS or HOLDS."""
        return PASSES

    def keep(self, message: Message, *, is_returned: bool) -> None:
        """Take a message that `keeps` was true of, and copy it if it is to be changed.

        Args:
            message: as it was published.
            is_returned: its publisher gets it back, since nothing could be done with it.

        """

    def vouches_for(self, routing_keys: list[str], properties: Properties) -> bool:
        """Whether a message that it holds may count as routed."""
        return False

    def find_binding(
        self, destination: Destination, routing_key: str, arguments: Arguments
    ) -> Binding | None:
        """Return the binding of this identity (rule B-01), if it is there."""
        return self.bindings.get(binding_key(destination, routing_key, arguments))

    def add_binding(
        self, destination: Destination, routing_key: str, arguments: Arguments
    ) -> Binding | None:
        """Bind, and return the new binding; None when it is there already (rule B-01).

        Call `validate_binding` before.
        """
        binding = Binding(self, destination, routing_key, arguments)
        if binding.identity in self.bindings:
            return None

        self.bindings[binding.identity] = binding
        destination.incoming[binding] = None
        self._index(binding)
        return binding

    def remove_binding(
        self, destination: Destination, routing_key: str, arguments: Arguments
    ) -> Binding | None:
        """Unbind, and return the binding that was; None when there was none (rule B-06)."""
        binding = self.find_binding(destination, routing_key, arguments)
        if binding is not None:
            self.drop_binding(binding)

        return binding

    def drop_binding(self, binding: Binding) -> None:
        """Remove a binding of this exchange."""
        del self.bindings[binding.identity]
        del binding.destination.incoming[binding]
        self._unindex(binding)

    def drop_all_bindings(self) -> list[Binding]:
        """Remove and return the bindings with this exchange as source: it is being deleted."""
        dropped = list(self.bindings.values())
        for binding in dropped:
            del binding.destination.incoming[binding]

        self.bindings.clear()
        self._clear_index()
        return dropped

    def _index(self, binding: Binding) -> None:
        """Take a new binding into the type's own index."""
        raise NotImplementedError

    def _unindex(self, binding: Binding) -> None:
        """Take a binding out of the type's own index."""
        raise NotImplementedError

    def _clear_index(self) -> None:
        """Empty the type's own index."""
        raise NotImplementedError


def remove_incoming_bindings(destination: Destination) -> list[Binding]:
    """Remove and return the bindings that lead to a destination being deleted (rule B-08)."""
    removed = list(destination.incoming)
    for binding in removed:
        binding.source.drop_binding(binding)

    return removed


def exhausted_sources(removed: list[Binding]) -> list[Exchange]:
    """Return the auto-delete exchanges that lost their last binding with `removed` (rule E-50).

    The caller deletes them, which removes bindings that lead to them, and asks again (rule E-51).
    """
    exhausted: dict[Exchange, None] = {}
    for binding in removed:
        source = binding.source
        if source.auto_delete and not source.bindings:
            exhausted[source] = None

    return list(exhausted)


DestinationCounts = dict[Destination, int]
"""Destinations, each with the number of bindings that lead to it, in order of arrival.

Bindings that differ in something the type does not look at, like arguments with a direct exchange,
lead to the same destination more than once (rule E-86).
"""


def add_destination(counts: DestinationCounts, destination: Destination) -> None:
    """Count one more binding to a destination."""
    counts[destination] = counts.get(destination, 0) + 1


def discard_destination(counts: DestinationCounts, destination: Destination) -> None:
    """Count one binding to a destination less; the last one takes it out."""
    count = counts[destination]
    if count > 1:
        counts[destination] = count - 1
    else:
        del counts[destination]
