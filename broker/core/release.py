"""Releases of RabbitMQ, as far as they refuse what others take (layer: core).

Without a release, a broker takes what any of them does: programs of today are to run. A test that
wants to know whether a program runs on a certain one asks for that, and is refused what it refuses,
with its codes and texts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import (
    CommandInvalid,
    NotImplementedByBroker,
    PreconditionFailed,
)
from broker.limits import FRAME_BYTES_MIN

__all__ = ["NO_RELEASE", "RELEASES", "Release", "deprecated"]

MIB: Final = 1_048_576
MODERN_MECHANISMS: Final = frozenset({"ANONYMOUS"})
RANDOM: Final = "x-local-random"


class Release(NamedTuple):
    """What sets a release apart; the defaults refuse nothing that any release takes.

    Attributes:
        name: as configurations say it; empty for none.
        version: what connection.start tells clients; they gate on it (rule C-16).
        closes_on_unknown_type: an unknown type of exchange closes the connection (rule E-20).
        missing_types: types of exchange that it does not have.
        takes_first_version: ``x-queue-version: 1``.
        takes_any_mode: whatever ``x-queue-mode`` says.
        takes_master_locator: ``x-queue-master-locator`` (rule Q-29a).
        has_channel_limit: ``global`` means something in basic.qos (rule QS-03).
        takes_stream_nacks: basic.nack and basic.reject may concern streams (rule ST-06).
        delivery_limit: of quorum queues that name none; negative is none (rule QQ-09).
        counts_every_return: to a quorum queue; basic.nack and basic.recover too (rule QQ-03).
        hash_words_max: ``#`` in one binding key of a topic exchange; 0 is no limit (rule E-85).
        frame_bytes_min: the smallest that a client may settle (rule C-41).
        message_bytes_max: the largest body; 0 is the broker's own default (rule P-02).
        missing_mechanisms: SASL mechanisms that it does not have.

    """

    name: str = ""
    version: str = "4.2.0"
    closes_on_unknown_type: bool = False
    missing_types: frozenset[str] = frozenset()
    takes_first_version: bool = True
    takes_any_mode: bool = True
    takes_master_locator: bool = True
    has_channel_limit: bool = True
    takes_stream_nacks: bool = True
    delivery_limit: int = 20
    counts_every_return: bool = True
    hash_words_max: int = 0
    frame_bytes_min: int = FRAME_BYTES_MIN
    message_bytes_max: int = 0
    missing_mechanisms: frozenset[str] = frozenset()

    def check_exchange_type(self, name: str, *, is_known: bool) -> None:
        """Refuse a type of exchange that there is not (rule E-20).

        Raises:
            CommandInvalid, PreconditionFailed: as the release has it.

        """
        if is_known and name not in self.missing_types:
            return

        text = f"unknown exchange type '{name}'"
        if self.closes_on_unknown_type:
            raise CommandInvalid(text)

        raise PreconditionFailed(text)

    def check_stream_nack(self, resource: str) -> None:
        """Refuse to take deliveries of a stream back (rule ST-06).

        Raises:
            NotImplementedByBroker: the release does not.

        """
        if not self.takes_stream_nacks:
            raise NotImplementedByBroker(
                f"basic.nack and basic.reject not supported by stream queues {resource}"
            )


def deprecated(feature: str) -> str:
    """How a release says that it has given up on something."""
    return (
        f"Feature `{feature}` is deprecated.\nBy default, this feature is not permitted anymore.\n"
    )


NO_RELEASE: Final = Release()

_THREE: Final = Release(
    version="3.13.7",
    takes_any_mode=False,
    missing_types=frozenset({RANDOM}),
    delivery_limit=-1,
    message_bytes_max=128 * MIB,
    missing_mechanisms=MODERN_MECHANISMS,
)
_FOUR: Final = Release(version="4.0.9", takes_any_mode=False, message_bytes_max=16 * MIB)

RELEASES: Final[dict[str, Release]] = {
    "3.10": _THREE._replace(
        name="3.10", version="3.10.25", closes_on_unknown_type=True, takes_stream_nacks=False
    ),
    "3.13": _THREE._replace(name="3.13"),
    "4.0": _FOUR._replace(name="4.0"),
    "4.1": _FOUR._replace(name="4.1", version="4.1.8", frame_bytes_min=8_192),
    "4.2": _FOUR._replace(name="4.2", version="4.2.4", frame_bytes_min=8_192),
    "4.3": Release(
        name="4.3",
        version="4.3.6",
        takes_first_version=False,
        takes_master_locator=False,
        has_channel_limit=False,
        counts_every_return=False,
        hash_words_max=2,
        frame_bytes_min=8_192,
        message_bytes_max=16 * MIB,
    ),
}
"""By the names that configurations have for them."""
