"""Publishes that lie whole in what was read: the fastest way through the broker.

When a basic.publish is followed in the buffer by its header frame and its one body frame (nearly
always), it is taken in one go: three bounds, three end octets, no state. Anything else about it
that is not plain is left to the general way (protocol/content.py), which knows every error.

Programs send the same message again and again but for the body, so everything up to the body is
remembered as one run of bytes: when the next publish begins with the same bytes, it is the same
publish, and all there is to do is to cut out its content. When only its address is another one,
its shape is the same: one look at the remembered routes says where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message import Address
from broker.core.publishing import Publisher, Route
from broker.limits import (
    PROPERTIES_PER_CHANNEL_MAX,
    REMEMBERED_BYTES_MAX,
    ROUTES_PER_CHANNEL_MAX,
    ROUTES_PER_CHANNEL_MIN,
)
from broker.wire.constants import FRAME_END
from broker.wire.properties import Properties, parse_properties

if TYPE_CHECKING:
    from mypy_extensions import i64

    from broker.protocol.content import ContentAssembly
    from broker.wire.framing import FrameDecoder

__all__ = ["PublishRun"]

PUBLISH_BYTES_MIN: Final = 39
"""The shortest publish: a method frame of 17 bytes and a header frame of 22, without a body."""

HEADER_BYTES_MIN: Final = 14
"""Class, weight, body size and property flags."""

PUBLISH_INDEX: Final = b"\x00\x3c\x00\x28"
PLAIN_HEADER: Final = b"\x00\x3c\x00\x00\x00\x00\x00\x00"
"""Class 60, weight 0, and the upper half of a body size that fits into 32 bits."""

NOT_PLAIN: Final = 0
NOT_WHOLE: Final = -1
"""What takes the place of an end, where a publish was not taken."""

UNIQUE_FLAGS: Final = 0x2000 | 0x0400 | 0x0080 | 0x0040 | 0x0003
"""Properties that mostly differ from message to message: headers, correlation-id, message-id,
timestamp. A list that holds one is not worth remembering."""


class PublishRun:
    """The publishes of one channel.

    Args:
        publisher: checks and routes them.
        channel_id: the channel number.

    """

    __slots__ = (
        "_body_size",
        "_body_start",
        "_content_start",
        "_counted",
        "_header_start",
        "_is_persistent",
        "_known_properties",
        "_known_routes",
        "_method_frame",
        "_method_start",
        "_prefix",
        "_properties",
        "_publisher",
        "_route",
        "_route_hits",
        "_routes_max",
        "_routes_may_grow",
        "_shape",
        "_shape_route",
        "_shape_size",
        "_size",
    )

    def __init__(self, publisher: Publisher, channel_id: i64) -> None:
        self._publisher = publisher
        channel = int(channel_id).to_bytes(2, "big")
        self._method_start: bytes = b"\x01" + channel
        self._header_start: bytes = b"\x02" + channel
        self._body_start: bytes = b"\x03" + channel
        self._known_routes: dict[bytes, Route] = {}
        self._known_properties: dict[bytes, Properties] = {}
        # How many routes it may remember, and how often one that it did was of use.
        self._routes_max: i64 = ROUTES_PER_CHANNEL_MIN
        self._route_hits: i64 = 0
        self._routes_may_grow = True
        # The last publish: its method frame, its bytes up to the body, and what they mean.
        self._method_frame = b""
        self._prefix = b""
        self._size: i64 = 0
        self._content_start: i64 = 0
        self._body_size: i64 = 0
        # Publishes whose sizes were told; what came since was like the last one.
        self._counted: i64 = 0
        self._is_persistent = False
        self._route: Route | None = None
        # Of the last publish what follows its method, up to the body; the size of all that with the
        # body; and where the last one of that shape went which had another address.
        self._shape = b""
        self._shape_size: i64 = 0
        self._shape_route: Route | None = None
        self._properties: Properties | None = None

    def take(self, decoder: FrameDecoder) -> bool:
        """Publish what lies whole in the buffer from the decoder's current frame on.

        Returns False when not even the first is whole and plain: then nothing was taken. The
        decoder stands behind each publish before that is checked, so that an error in it leaves
        the rest to be read.

        Raises:
            AMQPError: a publish was refused.

        """
        buffer = decoder.buffer
        end: i64 = decoder.end
        start: i64 = decoder.frame_start
        publisher = self._publisher
        is_taken = False
        while True:
            stop: i64 = start + self._size
            prefix = self._prefix
            if (
                prefix
                and stop <= end
                and buffer[start : start + len(prefix)] == prefix
                and buffer[stop - 1] == FRAME_END
            ):
                route = self._route
                properties = self._properties
                assert route is not None
                assert properties is not None
                decoder.position = stop
                content = buffer[start + self._content_start : stop]
                publisher.publish(route, properties, content, self._body_size)
            else:
                stop = self._take_alike(decoder, buffer, start)
                if stop == NOT_PLAIN:
                    stop = self._take_one(decoder, buffer, start)

                if stop == NOT_PLAIN:
                    return is_taken

                if stop == NOT_WHOLE:
                    return True

            is_taken = True
            start = stop

    def _take_alike(self, decoder: FrameDecoder, buffer: bytes, start: i64) -> i64:
        """Publish what is like the last one but for its address; returns where it ends.

        NOT_PLAIN: it is not, or its address is new.

        """
        shape = self._shape
        end: i64 = decoder.end
        if not shape or end - start < PUBLISH_BYTES_MIN:
            return NOT_PLAIN

        header: i64 = start + 8 + _size_at(buffer, start)
        stop: i64 = header + self._shape_size
        if (
            stop > end
            or buffer[header : header + len(shape)] != shape
            or buffer[stop - 1] != FRAME_END
            or buffer[header - 1] != FRAME_END
            or buffer[start : start + 3] != self._method_start
            or stop - start > decoder.payload_max
        ):
            return NOT_PLAIN

        route = self._known_routes.get(buffer[start + 7 : header - 1])
        if route is None:
            return NOT_PLAIN

        self._route_hits += 1
        if route is self._shape_route:
            # The same twice: a run of it may have begun.
            self._route = route
            self._method_frame = buffer[start:header]
            self._remember(buffer, start, header, header + len(shape), stop)

        self._shape_route = route
        properties = self._properties
        assert properties is not None
        decoder.position = stop
        self._publisher.publish(route, properties, buffer[header:stop], self._body_size)
        return stop

    def _take_one(self, decoder: FrameDecoder, buffer: bytes, start: i64) -> i64:
        """Publish what begins at ``start``; returns where it ends, or why it was not published.

        NOT_PLAIN leaves it to the general way. NOT_WHOLE: the body has begun to come, and the
        decoder waits for the rest of it, so that it is copied once.

        """
        end: i64 = decoder.end
        header: i64 = self._method_end_at(buffer, start, end)
        if header == NOT_PLAIN or end - header < 8 + HEADER_BYTES_MIN:
            return NOT_PLAIN

        header_size: i64 = _size_at(buffer, header)
        header_end: i64 = header + 7 + header_size
        if (
            header_size < HEADER_BYTES_MIN
            or header_end >= end
            or buffer[header_end] != FRAME_END
            or buffer[header : header + 3] != self._header_start
            or buffer[header + 7 : header + 15] != PLAIN_HEADER
        ):
            return NOT_PLAIN

        body_size: i64 = (
            (buffer[header + 15] << 24)
            | (buffer[header + 16] << 16)
            | (buffer[header + 17] << 8)
            | buffer[header + 18]
        )
        body: i64 = header_end + 1
        stop: i64 = body
        if body_size:
            stop = body + 8 + body_size

        if stop - start > decoder.payload_max:
            # One of its frames may be too large; whichever it is, the general way will say so.
            return NOT_PLAIN

        if body_size:
            if end - body < 8 or not self._is_whole_body_frame(buffer, body, body_size):
                return NOT_PLAIN

            if stop > end:
                decoder.wait_for(start, stop - start)
                return NOT_WHOLE

            if buffer[stop - 1] != FRAME_END:
                return NOT_PLAIN

        decoder.position = stop
        self._begin(body_size)
        if self._method_frame == b"":
            self._route = self.route_of(buffer[start + 7 : header - 1])
            self._method_frame = buffer[start:header]

        route = self._route
        assert route is not None
        raw = buffer[header + 19 : header_end]
        if ((raw[0] << 8) | raw[1]) & UNIQUE_FLAGS:
            # It will not come again: nothing but the method is worth remembering.
            properties = parse_properties(raw)
        else:
            properties = self.properties_of(raw)
            self._remember(buffer, start, header, body + 7 if body_size else body, stop)
            self._properties = properties

        self._is_persistent = properties.is_persistent
        self._publisher.publish(route, properties, buffer[header:stop], body_size)
        return stop

    def _method_end_at(self, buffer: bytes, start: i64, end: i64) -> i64:
        """Where the method frame at ``start`` ends, if it is a publish; NOT_PLAIN if not.

        The same address comes again and again, so the whole frame is compared first. After a
        different one the remembered frame is empty, and the route is looked up.

        """
        method = self._method_frame
        if method and buffer[start : start + len(method)] == method:
            return start + len(method)

        if end - start < PUBLISH_BYTES_MIN:
            return NOT_PLAIN

        method_end: i64 = start + 7 + _size_at(buffer, start)
        if (
            buffer[start : start + 3] != self._method_start
            or buffer[start + 7 : start + 11] != PUBLISH_INDEX
            or method_end >= end
            or buffer[method_end] != FRAME_END
        ):
            return NOT_PLAIN

        # The arguments must fill the frame exactly: ticket, exchange, key, bits.
        key: i64 = start + 14 + buffer[start + 13]
        if key >= method_end or key + buffer[key] + 2 != method_end:
            return NOT_PLAIN

        self._method_frame = b""
        self._prefix = b""
        return method_end + 1

    def _is_whole_body_frame(self, buffer: bytes, body: i64, body_size: i64) -> bool:
        """Whether a body frame begins here that holds the whole body."""
        return buffer[body : body + 3] == self._body_start and _size_at(buffer, body) == body_size

    def _remember(self, buffer: bytes, start: i64, header: i64, prefix_end: i64, stop: i64) -> None:
        """Keep the bytes up to the body, unless there are too many to be worth comparing."""
        if prefix_end - start > REMEMBERED_BYTES_MAX:
            self._prefix = b""
            self._shape = b""
            self._size = 0
            return

        self._prefix = buffer[start:prefix_end]
        self._shape = buffer[header:prefix_end]
        self._shape_size = stop - header
        self._content_start = header - start
        self._size = stop - start

    def route_of(self, method: bytes) -> Route:
        """What a publish method's payload resolves to; remembered, within bounds."""
        route = self._known_routes.get(method)
        if route is None:
            key: i64 = 7 + method[6]
            exchange = method[7:key].decode("utf-8", "surrogateescape")
            bits: i64 = key + 1 + method[key]
            routing_key = method[key + 1 : bits].decode("utf-8", "surrogateescape")
            address = Address(exchange, routing_key)
            route = Route(address, method[bits] & 1 != 0, method[bits] & 2 != 0)
            if len(self._known_routes) >= self._routes_max:
                self._make_room()

            self._known_routes[method] = route
        else:
            self._route_hits += 1

        return route

    def _make_room(self) -> None:
        """More addresses come than are remembered: remember more of them, or forget them all.

        Who goes through thousands of addresses in turn would otherwise never meet one again that is
        still known. Who never uses an address again is told apart by that, and given no more.

        """
        vhost = self._publisher.vhost
        more: i64 = self._routes_max
        if not self._routes_may_grow or more * 2 > ROUTES_PER_CHANNEL_MAX:
            self.forget_routes()
        elif vhost.spare_routes < more:
            self._known_routes.clear()
        else:
            vhost.spare_routes -= more
            self._routes_max += more

    def close(self) -> None:
        """Nothing more is published: leave the room to others."""
        self._routes_may_grow = False
        self.forget_routes()
        self._known_properties.clear()
        self._forget_last()

    def _forget_last(self) -> None:
        """Nothing that comes is like the last publish."""
        self._method_frame = b""
        self._prefix = b""
        self._shape = b""
        self._size = 0
        self._route = None
        self._shape_route = None
        self._properties = None

    def forget_routes(self) -> None:
        """Remember no address; leave to others what was remembered beyond the common share."""
        self._known_routes.clear()
        if self._route_hits < self._routes_max:
            self._routes_may_grow = False

        self._route_hits = 0
        if not self._routes_may_grow:
            self._publisher.vhost.spare_routes += self._routes_max - ROUTES_PER_CHANNEL_MIN
            self._routes_max = ROUTES_PER_CHANNEL_MIN

    def properties_of(self, raw: bytes) -> Properties:
        """The parsed properties; remembered, within bounds, when they may come again."""
        if len(raw) > REMEMBERED_BYTES_MAX:
            return parse_properties(raw)

        properties = self._known_properties.get(raw)
        if properties is None:
            properties = parse_properties(raw)
            if len(self._known_properties) >= PROPERTIES_PER_CHANNEL_MAX:
                self._known_properties.clear()

            self._known_properties[raw] = properties

        return properties

    def _begin(self, body_size: i64) -> None:
        """A publish is another one than the last: nothing is like it yet."""
        self.count_sizes()
        self._prefix = b""
        self._shape = b""
        self._body_size = body_size

    def count_sizes(self) -> None:
        """Tell of the publishes that came since this was done last: all were alike.

        So sizes cost nothing while a publish is like the one before it.

        """
        count: i64 = self._publisher.publish_count - self._counted
        if count:
            self._counted += count
            self._publisher.count_sizes(self._body_size, count, self._is_persistent)

    def publish_assembled(self, assembly: ContentAssembly) -> None:
        """Publish a message that came frame by frame; its method was decoded and is sound."""
        route = self.route_of(assembly.method_payload)
        properties = parse_properties(assembly.properties)
        self._begin(assembly.body_size)
        self._is_persistent = properties.is_persistent
        self._publisher.publish(route, properties, assembly.content, assembly.body_size)


def _size_at(buffer: bytes, start: i64) -> i64:
    """The payload size of the frame at ``start``."""
    return (
        (buffer[start + 3] << 24)
        | (buffer[start + 4] << 16)
        | (buffer[start + 5] << 8)
        | buffer[start + 6]
    )
