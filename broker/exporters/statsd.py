"""Sends counts to StatsD, or to an agent that speaks DogStatsD, over UDP (exporter layer).

Invariant: a receiver that is not there costs nothing but a line in the log; packets stay below what
an Ethernet frame carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Final

import asyncio_dgram

from broker.exporters.families import COUNTER, HISTOGRAM, Family, node_families, queue_depths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from broker.config.schema import StatsDConfig
    from broker.metrics.snapshot import Rows, Snapshot

    Log = Callable[[str, str, dict[str, object]], None]

__all__ = ["StatsDExporter", "StatsDLines", "packets_of"]

PACKET_BYTES_MAX: Final = 1432
"""Of 1500 in an Ethernet frame, less the headers of IPv6 and UDP, and some for tunnels."""

QUEUES_MAX: Final = 1_000
"""Queues told of one by one."""

_UNSAFE_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]")
_UNSAFE_TAG: Final = re.compile(r"[,|:#\s\x00-\x1f]")


class StatsDLines:
    """Makes lines of snapshots; counters become differences to the last one.

    Args:
        config: names, format and tags.

    """

    def __init__(self, config: StatsDConfig) -> None:
        self._config = config
        self._has_tags = config.format == "dogstatsd"
        self._last: dict[str, float] = {}

    def lines(self, snapshot: Snapshot, rows: Rows | None) -> list[str]:
        """What is to be sent.

        Args:
            snapshot: of the node.
            rows: with its queues, where they are wanted.

        """
        families = list(node_families(snapshot))
        if rows is not None:
            families += queue_depths(rows._replace(queues=rows.queues[:QUEUES_MAX]))

        found: list[str] = []
        for family in families:
            if family.kind != HISTOGRAM:
                found += self._of_family(family)

        return found

    def _of_family(self, family: Family) -> Iterator[str]:
        sums: dict[str, float] = {}
        for labels, value in zip(family.labels, family.values, strict=True):
            key = self._key(family.name, labels)
            sums[key] = sums.get(key, 0) + value

        for key, value in sums.items():
            name, _, tags = key.partition("|")
            suffix = f"|{tags}" if tags else ""
            if family.kind != COUNTER:
                yield f"{name}:{_number(value)}|g{suffix}"
                continue

            difference = value - self._last.get(key, 0)
            self._last[key] = value
            if difference > 0:
                yield f"{name}:{_number(difference)}|c{suffix}"

    def _key(self, family_name: str, labels: tuple[tuple[str, str], ...]) -> str:
        name = f"{self._config.prefix}.{family_name}" if self._config.prefix else family_name
        told = [(label, value) for label, value in labels if label != "protocol"]
        if self._has_tags:
            tags = [*self._config.tags, *told]
            texts = [f"{label}:{_UNSAFE_TAG.sub('_', value) or '_'}" for label, value in tags]
            return f"{name}|#{','.join(texts)}" if texts else name

        parts = [
            _UNSAFE_PLAIN.sub("_", value) or "_"
            for label, value in told
            if label in ("vhost", "queue")
        ]
        return ".".join([name, *parts])


def packets_of(lines: Iterable[str]) -> Iterator[bytes]:
    """Lines in packets of bounded size."""
    packet = b""
    for line in lines:
        raw = line.encode("utf-8", "replace")
        if packet and len(packet) + 1 + len(raw) > PACKET_BYTES_MAX:
            yield packet
            packet = b""

        packet = packet + b"\n" + raw if packet else raw

    if packet:
        yield packet


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"


class StatsDExporter:
    """Sends now and then, until it is stopped.

    Args:
        config: where to and how often.
        read: takes a snapshot, with rows if they are wanted.
        log: told when the receiver cannot be found, and when it can be again.

    """

    def __init__(
        self,
        config: StatsDConfig,
        read: Callable[[bool], Awaitable[tuple[Snapshot, Rows | None]]],
        log: Log,
    ) -> None:
        self._config = config
        self._read = read
        self._log = log
        self._lines = StatsDLines(config)
        self._stream: asyncio_dgram.DatagramClient | None = None
        self._is_lost = False
        self._task = asyncio.create_task(self._run(), name="statsd")

    async def stop(self) -> None:
        """Send no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._config.interval_s)
            await self.send()

    async def send(self) -> None:
        """Send everything now."""
        snapshot, rows = await self._read(self._config.has_queues)
        lines = self._lines.lines(snapshot, rows)
        try:
            if self._stream is None:
                self._stream = await asyncio_dgram.connect((self._config.host, self._config.port))

            for packet in packets_of(lines):
                with contextlib.suppress(ConnectionRefusedError):
                    # Nobody listened to an earlier packet; the next one may be heard.
                    await self._stream.send(packet)
        except (OSError, asyncio_dgram.TransportClosed) as error:
            self._close()
            self._tell(str(error))
        else:
            self._tell("")

    def _tell(self, problem: str) -> None:
        if bool(problem) == self._is_lost:
            return

        self._is_lost = bool(problem)
        fields: dict[str, object] = {"host": self._config.host, "port": self._config.port}
        if problem:
            self._log("warning", "statsd.unreachable", {**fields, "reason": problem})
        else:
            self._log("info", "statsd.reachable", fields)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
