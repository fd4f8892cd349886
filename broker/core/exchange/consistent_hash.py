"""Core: x-consistent-hash: a hash chooses one destination, changes move few keys (E-120..E-124).

A destination owns as many *buckets* as its first binding's weight says. The hash of a message is
turned into the number of a bucket by Lamping and Veach's jump consistent hash, which spreads keys
evenly, needs no table, and when buckets are added at the end moves keys to those only.

When a destination goes, its buckets stay behind empty, and keys that fall into them are hashed
again until they hit an owner: so keys move only from the one that went. A new destination of the
same weight moves in there, and takes back exactly those keys: a queue that comes and goes with its
worker disturbs nobody else. When most buckets are empty they are all laid out anew.

Nothing here grows with the weights: buckets exist as runs, one for each destination.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from broker.core.erlterm import erl_binary
from broker.core.exchange.base import Exchange
from broker.core.exchange.values import INTEGER_KINDS, hash_octets, parse_integer
from broker.errors import PreconditionFailed
from broker.wire.tables import encode_field

if TYPE_CHECKING:
    from broker.core.binding import Binding, Destination
    from broker.core.exchange.base import ExchangeSettings
    from broker.wire.properties import Properties
    from broker.wire.tables import Arguments, Field

__all__ = ["WEIGHT_MAX", "ConsistentHashExchange"]

HEADER_ARGUMENT: Final = "hash-header"
PROPERTY_ARGUMENT: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
WEIGHT_MAX: Final = 10_000

EMPTY_RATIO_MAX: Final = 4
"""All buckets to owned ones, at which they are laid out anew: as many hashes a key needs at most,
on average."""

MASK: Final = (1 << 64) - 1


class ConsistentHashExchange(Exchange):
    """One destination for each hash of the routing key, of a header or of a property."""

    __slots__ = ("_header", "_owned", "_property", "_ring", "_runs")

    def __init__(self, settings: ExchangeSettings) -> None:
        super().__init__(settings)
        self._header: str = ""
        self._property: str = ""
        self._ring: _Ring = _Ring()
        self._runs: dict[Destination, _Run] = {}
        self._owned: int = 0
        """Buckets that have an owner."""

    def validate(self) -> None:
        """Rule E-121. RabbitMQ: an argument of another type crashes it (541)."""
        header = _text_argument(self.arguments, HEADER_ARGUMENT)
        name = _text_argument(self.arguments, PROPERTY_ARGUMENT)
        if header is not None and name is not None:
            raise PreconditionFailed(
                f"{HEADER_ARGUMENT} and {PROPERTY_ARGUMENT} are mutually exclusive"
            )

        if name is not None and name not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {name}")

        self._header = header or ""
        self._property = name or ""
        self.depends_on_headers = header is not None or name is not None
        self.depends_on_properties = name is not None

    def validate_binding(self, routing_key: str, arguments: Arguments) -> None:
        weight = parse_integer(routing_key)
        if weight is None:
            raw = routing_key.encode("utf-8", "surrogateescape")
            raise PreconditionFailed(f"The binding key must be an integer: {erl_binary(raw)}")

        if weight < 1:
            raise PreconditionFailed("The binding key must be greater than 0")

        if weight > WEIGHT_MAX:
            raise PreconditionFailed(f"The binding key must not exceed {WEIGHT_MAX}")

    def match(self, routing_keys: list[str], headers: Arguments | None) -> list[Destination]:
        if not self._owned:
            return []

        if self.depends_on_headers:
            field = headers.get(self._header) if headers is not None else None
            return self._owner_of(_octets_of(field))

        return self._owner_of(routing_keys[0].encode("utf-8", "surrogateescape"))

    def match_properties(
        self, routing_keys: list[str], properties: Properties
    ) -> list[Destination]:
        return self._owner_of(properties.octets_of(self._property)) if self._owned else []

    def _owner_of(self, octets: bytes) -> list[Destination]:
        value = hash_octets(octets)
        owner = self._ring.owner_at(value)
        while owner is None:
            value = _mix(value)
            owner = self._ring.owner_at(value)

        return [owner]

    def _index(self, binding: Binding) -> None:
        destination = binding.destination
        if destination in self._runs:
            # Rule E-123: a further binding of the same destination adds nothing.
            return

        weight = parse_integer(binding.routing_key)
        assert weight is not None
        self._runs[destination] = self._ring.add(destination, weight)
        self._owned += weight

    def _unindex(self, binding: Binding) -> None:
        """Whichever of its bindings goes, the destination's buckets go with it (rule E-123)."""
        run = self._runs.pop(binding.destination, None)
        if run is None:
            return

        self._ring.vacate(run)
        self._owned -= run.weight
        if self._owned * EMPTY_RATIO_MAX < self._ring.bucket_count:
            self._ring = _Ring()
            for destination, old in self._runs.items():
                self._runs[destination] = self._ring.add(destination, old.weight)

    def _clear_index(self) -> None:
        self._ring = _Ring()
        self._runs.clear()
        self._owned = 0


class _Run:
    """Consecutive buckets of one owner, or of none."""

    __slots__ = ("owner", "weight")

    def __init__(self, owner: Destination, weight: int) -> None:
        self.owner: Destination | None = owner
        self.weight: int = weight


class _Ring:
    """All buckets, as runs."""

    __slots__ = ("_ends", "_runs", "_vacant", "bucket_count")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._ends: list[int] = []
        """For each run, the number of the bucket behind its last."""
        self._vacant: dict[int, list[_Run]] = {}
        """Runs without an owner, by weight."""
        self.bucket_count: int = 0

    def add(self, owner: Destination, weight: int) -> _Run:
        """Give an owner a run of buckets: a vacant one, or a new one at the end."""
        vacant = self._vacant.get(weight)
        if vacant:
            run = vacant.pop()
            run.owner = owner
            return run

        run = _Run(owner, weight)
        self.bucket_count += weight
        self._runs.append(run)
        self._ends.append(self.bucket_count)
        return run

    def vacate(self, run: _Run) -> None:
        """Take the owner of a run away."""
        run.owner = None
        self._vacant.setdefault(run.weight, []).append(run)

    def owner_at(self, value: int) -> Destination | None:
        """Return whose bucket a hash falls into."""
        bucket = _jump(value, self.bucket_count)
        return self._runs[bisect_right(self._ends, bucket)].owner


def _jump(value: int, count: int) -> int:
    """Return the bucket of a hash among `count` ("A Fast, Minimal Memory, Consistent Hash")."""
    bucket = 0
    following = 0
    while following < count:
        bucket = following
        value = (value * 2862933555777941757 + 1) & MASK
        following = (bucket + 1) * (1 << 31) // ((value >> 33) + 1)

    return bucket


def _mix(value: int) -> int:
    """Return another hash that follows from a hash (the finalizer of MurmurHash3)."""
    value ^= value >> 33
    value = (value * 0xFF51AFD7ED558CCD) & MASK
    value ^= value >> 33
    value = (value * 0xC4CEB9FE1A85EC53 + 1) & MASK
    return value ^ (value >> 33)


def _text_argument(arguments: Arguments, name: str) -> str | None:
    field = arguments.get(name)
    if field is None:
        return None

    if field.kind != "S" or not isinstance(field.value, str):
        raise PreconditionFailed(f"Invalid argument, '{name}' must be a string")

    return field.value


def _octets_of(field: Field | None) -> bytes:
    """What of a header is hashed: its value, without the width of a number (rule E-122)."""
    if field is None:
        return b""

    value = field.value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")

    if isinstance(value, int) and field.kind in INTEGER_KINDS:
        return str(value).encode()

    return encode_field(field)
