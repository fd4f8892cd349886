"""The keys that keep out whoever does not belong: password hashing, failed logins, floods
(configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

from typing import Final

from broker.auth.passwords import PASSWORD_HASHING
from broker.config.records import Key, Record
from broker.config.schema import DEFAULT_CONFIG, FailedLoginsConfig
from broker.config.shapes import Choice, Integer, Nullable
from broker.config.units import Duration

__all__ = [
    "AUTH_FAILED_LOGINS",
    "AUTH_PASSWORD_HASHING",
    "LIMITS_HANDSHAKES",
    "LIMITS_PER_SOURCE",
    "LIMITS_RATE",
    "LIMITS_RATE_PER_SOURCE",
]

_COUNT_MAX: Final = 2**31 - 1
_D: Final = FailedLoginsConfig()
_L: Final = DEFAULT_CONFIG.limits

AUTH_PASSWORD_HASHING: Final = Key(
    "password_hashing",
    Choice(*PASSWORD_HASHING),
    DEFAULT_CONFIG.auth.password_hashing,
    "How new passwords are hashed: argon2id is slow, so that a stolen hash is of little use;"
    " RabbitMQ does not know it and takes definitions with sha256 or sha512 only.",
    written="argon2id",
)
PER_SOURCE: Final = Key(
    "per_source",
    Nullable(Integer(1, _COUNT_MAX)),
    _D.per_source_max,
    "From one address in a period; what is over is refused unheard. Null is no limit. Clients of"
    " this machine are not counted.",
    written="30",
)
PER_USER: Final = Key(
    "per_user",
    Nullable(Integer(1, _COUNT_MAX)),
    _D.per_user_max,
    "For one user in a period, but from addresses where it came in before. Null is no limit.",
    written="300",
)
PERIOD: Final = Key(
    "period",
    Duration(1, 86_400),
    _D.period_s,
    "After so much time they are forgotten, one by one.",
    written="1m",
)
DELAY: Final = Key(
    "delay",
    Duration(0, 10),
    _D.delay_s,
    "A refusal takes that long at least, but for clients of this machine; 0 is none.",
    written="100ms",
)
AUTH_FAILED_LOGINS: Final = Key(
    "failed_logins",
    Record(
        "failed logins",
        (PER_SOURCE, PER_USER, PERIOD, DELAY),
        lambda v: FailedLoginsConfig(v[PER_SOURCE], v[PER_USER], v[PERIOD], v[DELAY]),
    ),
    _D,
    "Who fails too often is held back.",
)

LIMITS_HANDSHAKES: Final = Key(
    "handshakes",
    Integer(1, _COUNT_MAX),
    _L.handshakes_max,
    "Connections at a time that have not logged in; of more, the oldest is closed.",
    written="2048",
)
LIMITS_PER_SOURCE: Final = Key(
    "connections_per_source",
    Nullable(Integer(1, _COUNT_MAX)),
    _L.connections_per_source_max,
    "Connections at a time from one address; null is no limit.",
    written="null",
)
LIMITS_RATE: Final = Key(
    "connection_rate",
    Nullable(Integer(1, _COUNT_MAX)),
    _L.connection_rate_max,
    "New connections a second of one listener, and twice as many at once; null is no limit.",
    written="null",
)
LIMITS_RATE_PER_SOURCE: Final = Key(
    "connection_rate_per_source",
    Nullable(Integer(1, _COUNT_MAX)),
    _L.connection_rate_per_source_max,
    "New connections a second from one address, and twice as many at once; null is no limit."
    " Clients of this machine are not counted.",
    written="200",
)
