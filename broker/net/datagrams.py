"""Publishes the datagrams that come to an address, within bounds. Layer: net.

Invariant: each datagram is counted exactly once, as published or by the reason for which it was
dropped; a flood costs a bounded share of the loop's time, and memory not at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import asyncio_dgram

from broker.config.datagram_templates import make_key
from broker.core.own_messages import publish_own
from broker.errors import StartError
from broker.net.addresses import format_address
from broker.net.datagram_formats import (
    ChunkStore,
    Malformed,
    Reading,
    read_gelf,
    read_raw,
    read_syslog,
)
from broker.wire.properties import set_headers
from broker.wire.tables import Arguments, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.schema import DatagramListenerConfig
    from broker.core.node import Node
    from broker.net.pump import Pump

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["DROP_REASONS", "DatagramListener", "DatagramReceiver"]

DROP_REASONS: Final = ("size", "rate", "malformed", "alarm", "exchange", "unroutable")
"""Why a datagram may be dropped: too large, too many, not what it should be, an alarm is on, its
exchange is not there, no queue wants it."""

RESTS_EVERY: Final = 64
"""Datagrams taken before others have a turn."""

COMPLAINT_INTERVAL_S: Final = 60.0
"""So often at most does the log say that datagrams are dropped."""

PERSISTENT: Final = 2


class Arrival(NamedTuple):
    """A datagram, and where it came from."""

    data: bytes
    host: str
    port: int


class DatagramReceiver:
    """Takes datagrams, one by one, and publishes them. No sockets here.

    Args:
        config: of the listener.
        node: publishes.
        clock: tells the time in seconds.

    Attributes:
        received: how many came.
        published: how many reached a queue.
        dropped: how many did not, by the reason.

    """

    def __init__(
        self, config: DatagramListenerConfig, node: Node, clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._node = node
        self._clock = clock
        self._chunks = ChunkStore(clock, config.size_bytes_max)
        self._allowance = float(config.rate_max)
        self._counted_s = clock()
        self.received = 0
        self.published = 0
        self.pending_parts = 0
        self.dropped = dict.fromkeys(DROP_REASONS, 0)

    @property
    def dropped_total(self) -> int:
        """How many were dropped, for whatever reason."""
        return sum(self.dropped.values())

    def take(self, arrival: Arrival) -> None:
        """Publish a datagram, or count why not."""
        self.received += 1
        reason = self._refusal(arrival)
        if reason is not None:
            self.dropped[reason] += 1
            return

        try:
            reading = self._read(arrival)
        except Malformed:
            self.dropped["malformed"] += 1
            return

        if reading is None:
            self.pending_parts += 1
            return

        self._publish(arrival, reading)

    def _refusal(self, arrival: Arrival) -> str | None:
        if len(arrival.data) > self._config.size_bytes_max:
            return "size"

        now_s = self._clock()
        rate = self._config.rate_max
        self._allowance = min(rate, self._allowance + (now_s - self._counted_s) * rate)
        self._counted_s = now_s
        if self._allowance < 1:
            return "rate"

        self._allowance -= 1
        # Nobody can hold back who sends datagrams: while publishers are, these are dropped.
        return "alarm" if self._node.alarms else None

    def _read(self, arrival: Arrival) -> Reading | None:
        if self._config.format == "raw":
            return read_raw(arrival.data)

        if self._config.format == "syslog":
            return read_syslog(arrival.data)

        whole = self._chunks.take(arrival.host, arrival.data)
        return None if whole is None else read_gelf(whole, self._config.size_bytes_max)

    def _publish(self, arrival: Arrival, reading: Reading) -> None:
        config = self._config
        fields = {"source": arrival.host, "port": str(arrival.port), **reading.fields}
        vhost = self._node.vhosts.get(config.vhost)
        reached = None
        if vhost is not None:
            reached = publish_own(
                vhost,
                config.exchange,
                make_key(config.routing_key, fields),
                properties=self._properties(fields),
                body=reading.body,
                is_persistent=config.is_persistent,
            )

        if reached is None:
            self.dropped["exchange"] += 1
        elif not reached:
            self.dropped["unroutable"] += 1
        else:
            self.published += 1

    def _properties(self, fields: dict[str, str]) -> bytes:
        headers: Arguments = {key: Field("S", text) for key, text in fields.items()}
        stamp = (self._node.deadlines.wall_ms // 1000).to_bytes(8, "big")
        # Delivery mode and timestamp, in the order of their bits (rule X-02).
        mode = bytes((PERSISTENT if self._config.is_persistent else 1,))
        return set_headers(b"\x10\x40" + mode + stamp, headers)


class DatagramListener:
    """A socket and its receiver; made by :meth:`open`.

    Attributes:
        name: its address, for logs and counters.

    """

    def __init__(
        self,
        stream: asyncio_dgram.DatagramServer,
        receiver: DatagramReceiver,
        pump: Pump,
        log: Log,
    ) -> None:
        host, port, *_ = cast("tuple[str, int]", stream.sockname)
        self.port: int = port
        self.name = format_address(host, port)
        self.receiver = receiver
        self._stream = stream
        self._pump = pump
        self._log = log
        self._complained_s = float("-inf")
        self._complained_of = 0
        self._arrival = Arrival(b"", "", 0)
        self._task = asyncio.create_task(self._run(), name=f"datagrams {self.name}")

    @classmethod
    async def open(
        cls, config: DatagramListenerConfig, node: Node, pump: Pump, log: Log
    ) -> DatagramListener:
        """Take datagrams from now on.

        Raises:
            StartError: the address cannot be had.

        """
        host = "127.0.0.1" if config.bind == "localhost" else config.bind
        try:
            stream = await asyncio_dgram.bind((host, config.port))
        except OSError as error:
            where = format_address(host, config.port)
            why = (error.strerror or str(error)).lower()
            raise StartError(f"cannot take datagrams on {where}: {why}") from None

        receiver = DatagramReceiver(config, node, node.clock.monotonic)
        return cls(stream, receiver, pump, log)

    async def stop(self) -> None:
        """Take no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._stream.close()

    async def _run(self) -> None:
        taken = 0
        while True:
            try:
                data, sender = await self._stream.recv()
            except asyncio_dgram.TransportClosed:
                return
            except OSError:
                # Of an earlier datagram; there is nothing to do about it.
                continue

            host, port, *_ = cast("tuple[str, int]", sender)
            self._arrival = Arrival(bytes(data), host, port)
            self._pump.run(self._take)
            taken += 1
            if taken % RESTS_EVERY == 0:
                self._complain()
                await asyncio.sleep(0)

    def _take(self) -> None:
        self.receiver.take(self._arrival)

    def _complain(self) -> None:
        dropped = self.receiver.dropped_total
        now_s = self._pump.loop.time()
        if dropped > self._complained_of and now_s - self._complained_s > COMPLAINT_INTERVAL_S:
            fields: dict[str, object] = {"listener": self.name}
            fields.update({key: count for key, count in self.receiver.dropped.items() if count})
            self._log("warning", "datagrams.dropped", fields)
            self._complained_s = now_s
            self._complained_of = dropped
