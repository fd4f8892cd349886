"""Every error the broker raises on purpose, and the reply code each carries.

::

    BrokerError
    ├─ AMQPError(reply_text)                      what a peer may be told
    │   ├─ AMQPChannelError     closes the channel
    │   │   ├─ ContentTooLarge     311
    │   │   ├─ NoConsumers         313
    │   │   ├─ AccessRefused       403
    │   │   ├─ NotFound            404
    │   │   ├─ ResourceLocked      405
    │   │   └─ PreconditionFailed  406
    │   ├─ AMQPConnectionError  closes the connection
    │   │   ├─ ConnectionForced    320
    │   │   ├─ InvalidPath         402
    │   │   ├─ LoginRefused        403
    │   │   ├─ FrameError          501
    │   │   ├─ AMQPSyntaxError     502
    │   │   ├─ CommandInvalid      503
    │   │   ├─ ChannelFault        504
    │   │   ├─ UnexpectedFrame     505
    │   │   ├─ ResourceFault       506
    │   │   ├─ NotAllowed          530
    │   │   ├─ NotImplementedByBroker 540
    │   │   └─ InternalFault       541
    │   └─ PeerDropped          the socket is closed without a word
    ├─ ConfigError              the configuration cannot be used
    ├─ StartError               a listener or resource cannot be had
    └─ StoreError               the data directory cannot be used

Anything else that escapes is a bug: it is logged with its traceback, the connection is closed
with 541, and nothing of it is told to the peer.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AMQPChannelError",
    "AMQPConnectionError",
    "AMQPError",
    "AMQPSyntaxError",
    "AccessRefused",
    "BrokerError",
    "ChannelFault",
    "CommandInvalid",
    "ConfigError",
    "ConnectionForced",
    "ContentTooLarge",
    "FrameError",
    "InternalFault",
    "InvalidPath",
    "LoginRefused",
    "NoConsumers",
    "NotAllowed",
    "NotFound",
    "NotImplementedByBroker",
    "PeerDropped",
    "PreconditionFailed",
    "ResourceFault",
    "ResourceLocked",
    "StartError",
    "StoreError",
    "UnexpectedFrame",
    "reply_text_of",
]

REPLY_TEXT_BYTES_MAX = 255
"""A reply text is a short string: one length octet."""


class BrokerError(Exception):
    """The root of every error raised on purpose."""


class AMQPError(BrokerError):
    """A peer fault with a reply code (AMQP 0-9-1 §1.1, rules T-01..T-06).

    Args:
        explanation: the part of the reply text after ``NAME - ``; empty for the bare name.
        class_id: class of the offending method; None means "the method being processed",
            0 means that no method is to blame (rule T-05).
        method_id: likewise.
        is_fatal: the socket closes three seconds after the close method whatever the peer answers
            (rules F-02, F-04).

    """

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"

    def __init__(
        self,
        explanation: str = "",
        *,
        class_id: int | None = None,
        method_id: int | None = None,
        is_fatal: bool = False,
    ) -> None:
        super().__init__(explanation)
        self.explanation = explanation
        self.class_id = class_id
        self.method_id = method_id
        self.is_fatal = is_fatal

    @property
    def reply_text(self) -> str:
        """``NAME - explanation``, at most 255 bytes of UTF-8 (rules T-02, T-03)."""
        return reply_text_of(self.name, self.explanation)


def reply_text_of(name: str, explanation: str) -> str:
    """Join and, where too long, cut a reply text between characters (rules T-02, T-03)."""
    text = f"{name} - {explanation}" if explanation else name
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) <= REPLY_TEXT_BYTES_MAX:
        return text

    # Cutting bytes may leave the head of a character behind: drop it. Bytes that were never UTF-8
    # are told apart from a cut character by how far from the end they stand.
    kept = raw[: REPLY_TEXT_BYTES_MAX - 3]
    for back in range(1, 4):
        lead = kept[-back]
        if lead < 0x80:
            break
        if lead >= 0xC0:
            wanted = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if wanted > back:
                kept = kept[:-back]
            break

    return kept.decode("utf-8", "surrogateescape") + "..."


class AMQPChannelError(AMQPError):
    """Closes the channel it is raised on; on channel 0 the connection (rule T-01)."""


class ContentTooLarge(AMQPChannelError):
    """311: never raised by the broker itself, kept for completeness."""

    code = 311
    name = "CONTENT_TOO_LARGE"


class NoConsumers(AMQPChannelError):
    """313: never raised, since immediate is not supported (rule P-01)."""

    code = 313
    name = "NO_CONSUMERS"


class AccessRefused(AMQPChannelError):
    """403: permissions, reserved names, exclusive consumers."""

    code = 403
    name = "ACCESS_REFUSED"


class NotFound(AMQPChannelError):
    """404: a queue or exchange that is not there."""

    code = 404
    name = "NOT_FOUND"


class ResourceLocked(AMQPChannelError):
    """405: another connection's exclusive queue."""

    code = 405
    name = "RESOURCE_LOCKED"


class PreconditionFailed(AMQPChannelError):
    """406: most semantic failures."""

    code = 406
    name = "PRECONDITION_FAILED"


class AMQPConnectionError(AMQPError):
    """Closes the whole connection."""


class ConnectionForced(AMQPConnectionError):
    """320: an operator's close or the broker's shutdown."""

    code = 320
    name = "CONNECTION_FORCED"


class InvalidPath(AMQPConnectionError):
    """402: never raised, an unknown virtual host is 530 (rule C-52)."""

    code = 402
    name = "INVALID_PATH"


class LoginRefused(AMQPConnectionError):
    """403 on the connection: the one use of that code there (rule C-30)."""

    code = 403
    name = "ACCESS_REFUSED"


class FrameError(AMQPConnectionError):
    """501: malformed frame or method."""

    code = 501
    name = "FRAME_ERROR"


class AMQPSyntaxError(AMQPConnectionError):
    """502: a malformed SASL response; it never reaches the wire (rule C-33)."""

    code = 502
    name = "SYNTAX_ERROR"


class CommandInvalid(AMQPConnectionError):
    """503: a method that is not valid in that direction or class."""

    code = 503
    name = "COMMAND_INVALID"


class ChannelFault(AMQPConnectionError):
    """504 CHANNEL_ERROR: channel not open, opened twice, method in the wrong state."""

    code = 504
    name = "CHANNEL_ERROR"


class UnexpectedFrame(AMQPConnectionError):
    """505: frames out of order."""

    code = 505
    name = "UNEXPECTED_FRAME"


class ResourceFault(AMQPConnectionError):
    """506: the delivery infrastructure failed."""

    code = 506
    name = "RESOURCE_ERROR"


class NotAllowed(AMQPConnectionError):
    """530: virtual host access, limits, a consumer tag in use."""

    code = 530
    name = "NOT_ALLOWED"


class NotImplementedByBroker(AMQPConnectionError):
    """540: features that RabbitMQ does not have either."""

    code = 540
    name = "NOT_IMPLEMENTED"


class InternalFault(AMQPConnectionError):
    """541: bugs, and the few peer faults RabbitMQ answers that way (rules T-04, F-18)."""

    code = 541
    name = "INTERNAL_ERROR"


class PeerDropped(AMQPError):
    """The socket is closed without a close method (``DROP`` in the rules).

    Args:
        reason: for the log only.
        after_s: seconds to wait before the socket closes; input is ignored meanwhile.

    """

    def __init__(self, reason: str, *, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after_s = after_s


class ConfigError(BrokerError):
    """The configuration cannot be used; the text says where and what would be right."""


class StartError(BrokerError):
    """A listener or another resource cannot be had at start-up."""


class StoreError(BrokerError):
    """The data directory cannot be used."""
