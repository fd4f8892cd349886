"""The states of connections and channels, and which way leads from one to another.

All transitions are in the tables of this file; nothing else decides whether one is allowed. A
method that a state does not list is the peer's fault.
"""

from __future__ import annotations

from typing import Final

from broker.wire.constants import (
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    CONNECTION_OPEN,
    CONNECTION_SECURE_OK,
    CONNECTION_START_OK,
    CONNECTION_TUNE_OK,
    CONNECTION_UPDATE_SECRET,
)

__all__ = [
    "AWAITING_HEADER",
    "CHANNEL_CLOSING",
    "CHANNEL_RUNNING",
    "CHANNEL_STATE_NAMES",
    "CHANNEL_TRANSITIONS",
    "CLOSED",
    "CLOSING",
    "CONNECTION_METHODS",
    "CONNECTION_TRANSITIONS",
    "DROPPING",
    "GONE",
    "OPENING",
    "RUNNING",
    "SECURING",
    "STARTING",
    "STATE_NAMES",
    "TUNING",
    "VERIFYING",
]

AWAITING_HEADER: Final = 0
"""Nothing is sent before the eight bytes of the protocol header have come (rule C-06)."""

STARTING: Final = 1
"""connection.start is sent."""

SECURING: Final = 2
"""connection.secure is sent: the SASL mechanism has a second step."""

VERIFYING: Final = 3
"""A password is being looked at elsewhere; nothing is read meanwhile."""

TUNING: Final = 4
"""The user is known, connection.tune is sent."""

OPENING: Final = 5
"""Limits are settled; the client has to choose its virtual host."""

RUNNING: Final = 6
"""The virtual host is open: channels live here."""

CLOSING: Final = 7
"""connection.close is sent: everything is ignored but close and close-ok (rule C-72)."""

CLOSED: Final = 8
"""The close handshake is done, the client closes the socket (rule C-70)."""

DROPPING: Final = 9
"""Nothing is read any more; the socket closes, now or after a delay (rules C-31, C-34, F-02)."""

GONE: Final = 10
"""The socket is closed."""

STATE_NAMES: Final = {
    AWAITING_HEADER: "pre_init",
    STARTING: "starting",
    SECURING: "securing",
    VERIFYING: "verifying",
    TUNING: "tuning",
    OPENING: "opening",
    RUNNING: "running",
    CLOSING: "closing",
    CLOSED: "closed",
    DROPPING: "dropping",
    GONE: "gone",
}
"""As RabbitMQ calls them, in texts (rule C-75) and listings."""

CONNECTION_TRANSITIONS: Final = {
    AWAITING_HEADER: frozenset({STARTING, DROPPING, GONE}),
    STARTING: frozenset({SECURING, VERIFYING, TUNING, CLOSING, DROPPING, GONE}),
    SECURING: frozenset({SECURING, VERIFYING, TUNING, CLOSING, DROPPING, GONE}),
    VERIFYING: frozenset({TUNING, CLOSING, DROPPING, GONE}),
    TUNING: frozenset({OPENING, CLOSING, DROPPING, GONE}),
    OPENING: frozenset({RUNNING, CLOSING, CLOSED, DROPPING, GONE}),
    RUNNING: frozenset({CLOSING, CLOSED, DROPPING, GONE}),
    CLOSING: frozenset({CLOSED, DROPPING, GONE}),
    CLOSED: frozenset({DROPPING, GONE}),
    DROPPING: frozenset({GONE}),
    GONE: frozenset({GONE}),
}
"""Where a connection may go from each state."""

CONNECTION_METHODS: Final = {
    STARTING: frozenset({CONNECTION_START_OK}),
    SECURING: frozenset({CONNECTION_SECURE_OK}),
    TUNING: frozenset({CONNECTION_TUNE_OK}),
    OPENING: frozenset({CONNECTION_OPEN, CONNECTION_CLOSE}),
    RUNNING: frozenset({CONNECTION_CLOSE, CONNECTION_UPDATE_SECRET}),
    CLOSING: frozenset({CONNECTION_CLOSE, CONNECTION_CLOSE_OK}),
    CLOSED: frozenset({CONNECTION_CLOSE}),
}
"""What may come on channel 0 in each state. Anything else is 504 while opening or running (rule
C-75), a dropped socket before that (rule C-34), and ignored afterwards (rules C-71, C-72)."""

CHANNEL_RUNNING: Final = 0
"""Methods are obeyed."""

CHANNEL_CLOSING: Final = 1
"""channel.close is sent: everything is ignored but close and close-ok (rule CH-07)."""

CHANNEL_STATE_NAMES: Final = {CHANNEL_RUNNING: "running", CHANNEL_CLOSING: "closing"}

CHANNEL_TRANSITIONS: Final = {
    CHANNEL_RUNNING: frozenset({CHANNEL_CLOSING}),
    CHANNEL_CLOSING: frozenset[int](),
}
"""Where an open channel may go from each state, besides being gone (rules CH-06..CH-08)."""
