"""The scenarios in which the broker does not do what RabbitMQ 4.3 does, each with its reason.

Invariant: there is no other difference. ``tests/integration/test_compare_replay.py`` fails for a
difference that is not here, and for an entry that is none any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from interop.compare.recordings import OLD, OWN

__all__ = ["ACCEPTED", "Difference"]

VERSION: Final = "version"
"""RabbitMQ's versions differ, and the older one is followed."""

DELIBERATE: Final = "deliberate"
"""A sane answer in place of what only shows RabbitMQ's insides."""

DEFECT: Final = "defect"
"""To be mended."""


class Difference(NamedTuple):
    """How a scenario goes here, and why."""

    like: str
    """The recording it goes like: the older version's, or the broker's own."""

    kind: str
    """VERSION, DELIBERATE or DEFECT."""

    field: str
    """What differs."""

    reason: str


GLOBAL_QOS: Final = Difference(
    OLD,
    VERSION,
    "deliveries",
    "basic.qos with global=true limits the whole channel, as in 3.10 to 4.2; 4.3 takes it for "
    "global=false (rule QS-03)",
)

HEADER_REPLY: Final = Difference(
    OLD,
    VERSION,
    "the header that answers a wrong one",
    "AMQP 0-9-1 is what is spoken here; 4.x names AMQP 1.0 (rule C-05)",
)

SERVER_PROPERTIES: Final = Difference(
    OWN,
    DELIBERATE,
    "server-properties",
    "they have the broker's own version besides, under leveret_version (rule C-12)",
)

REDELIVERED: Final = Difference(
    OWN,
    VERSION,
    "redelivered",
    "a dead-lettered message comes with redelivered=false whatever it went through before, as in "
    "3.10; 4.3 says true after basic.reject, though not after basic.nack (rule DL-05)",
)

ONE_LINE: Final = Difference(
    OWN,
    DELIBERATE,
    "reply_text",
    "Erlang terms stay on one line, however long (rule T-15)",
)

CLOSE_INSTEAD_OF_DROP: Final = Difference(
    OWN,
    DELIBERATE,
    "connection.close",
    "the client is told what was wrong; RabbitMQ's process crashes and the socket closes without "
    "a word (rules F-07, F-08)",
)

FRAMES_AS_THEY_CAME: Final = Difference(
    OWN,
    DELIBERATE,
    "size of body frames",
    "body frames go out as they came in where they fit the receiver's frame size; RabbitMQ puts "
    "them together and splits them again (rule F-03)",
)

UNKNOWN_TYPE: Final = Difference(
    OWN,
    DELIBERATE,
    "reply_text",
    "every word that is no exchange type is unknown; RabbitMQ says invalid of those that happen to "
    "be atoms of its own (rule E-20)",
)

HEADER_BYTES_STAY: Final = Difference(
    OLD,
    VERSION,
    "headers",
    "properties are delivered byte by byte as they were published, as in 3.10; 4.x decodes and "
    "encodes them anew (rules F-20, F-21, F-18)",
)

CUT_BY_BYTES: Final = Difference(
    OLD,
    VERSION,
    "reply_text",
    "long texts are cut by bytes, as in 3.10; 4.3 counts characters, and fails where these are too "
    "many bytes (rule T-03)",
)

HASH_ARGUMENT: Final = Difference(
    OWN,
    DELIBERATE,
    "reply_code",
    "an argument of the wrong type is named in a 406; RabbitMQ crashes with 541 (rule E-121)",
)

RETURNS_COUNT: Final = Difference(
    OWN,
    VERSION,
    "x-delivery-count",
    "every return counts as a delivery, as up to 4.2; in 4.3 only basic.reject and what is lost "
    "with its channel (rules QQ-03, QQ-04)",
)

STREAM_OFFSET: Final = Difference(
    OWN,
    DELIBERATE,
    "reply_code",
    "an offset of the wrong type is named in a 406; RabbitMQ crashes with 541 (rule ST-04)",
)

STREAM_FILTER: Final = Difference(
    OWN,
    DELIBERATE,
    "reply_code",
    "a filter without a value, or with one that is no text, is named in a 406; 4.3 crashes with "
    "541, 3.10 knows no filters (rule ST-08)",
)

ANSWER_FIRST: Final = Difference(
    OWN,
    DELIBERATE,
    "order",
    "the answer comes before what is delivered for the credit that it gives back, for streams as "
    "for other queues (rules A-10, TX-04)",
)

POLICY_OF_A_WRONG_KIND: Final = Difference(
    OWN,
    DELIBERATE,
    "text",
    "a value of a wrong kind is named; RabbitMQ's API crashes with a bare 500 (rule PO-09)",
)

MIRRORING: Final = Difference(
    OWN,
    VERSION,
    "text",
    "settings of mirrored queues are accepted, whatever they are, and mean nothing (rule PO-06)",
)

PYTHON_PATTERN: Final = Difference(
    OWN,
    DELIBERATE,
    "text",
    "patterns are those of Python, and so are the texts of what is wrong with one (rule PO-09)",
)

REVOKED_AT_ONCE: Final = Difference(
    OWN,
    DELIBERATE,
    "channel.close",
    "rights that were taken are gone for open channels too; RabbitMQ goes on to allow what a "
    "channel has used before (rules PM-11, PM-20)",
)

LATE_ON_A_CHANNEL: Final = Difference(
    OLD,
    VERSION,
    "channel.close",
    "a delivery that is unsettled for too long closes its channel, whatever the type of the queue, "
    "as up to 4.2; 4.3 looks at quorum queues only (rules MA-10, MA-11)",
)

ACCEPTED: Final[dict[str, Difference]] = {
    "C/header-0-8": HEADER_REPLY._replace(
        like=OWN,
        reason="AMQP 0-8 is refused as in 4.3, with the header of 0-9-1 (rules C-02, C-05)",
    ),
    "C/header-0-9": SERVER_PROPERTIES,
    "C/header-0-9-1": SERVER_PROPERTIES,
    "C/header-100-3": HEADER_REPLY,
    "C/header-http": HEADER_REPLY,
    "C/header-no-amqp": HEADER_REPLY,
    "C/header-tls": HEADER_REPLY,
    "C/header-unknown": HEADER_REPLY,
    "C/handshake": SERVER_PROPERTIES,
    "C/nothing-before-the-header": SERVER_PROPERTIES,
    "C/opening-close": Difference(
        OWN,
        DELIBERATE,
        "connection.close-ok",
        "a client may think better of it before connection.open: it is answered close-ok, not 504",
    ),
    "CO/cancel-ok-of-a-client": Difference(
        OLD,
        VERSION,
        "reply_code",
        "503 unimplemented method as for other methods of the server; 4.3 crashes (rule CO-13)",
    ),
    "DL/expired-by-the-message": Difference(
        OWN,
        VERSION,
        "original-expiration",
        "the expiration stays the text that was published, as in 3.10; 4.3 writes the number anew "
        "(rule P-34)",
    ),
    "DL/missing-exchange": REDELIVERED,
    "DL/published-history": REDELIVERED,
    "DL/rejected": REDELIVERED,
    "DL/rejected-by-basic-reject": REDELIVERED,
    "DL/unroutable": REDELIVERED,
    "DL/user-id-is-kept": REDELIVERED,
    "DR/tag-in-use-for-a-queue": Difference(
        OWN,
        DELIBERATE,
        "reply_code",
        "the tag of the reply consumer is in use for queues too; RabbitMQ has two consumers of one "
        "tag then (rule CO-01)",
    ),
    "E/consistent-hash-header-that-is-boolean": HASH_ARGUMENT,
    "E/consistent-hash-header-that-is-bytes": HASH_ARGUMENT,
    "E/consistent-hash-header-that-is-number": HASH_ARGUMENT,
    "E/consistent-hash-header-that-is-void": HASH_ARGUMENT,
    "E/empty-type": UNKNOWN_TYPE,
    "E/headers-match-argument-given-twice-all": Difference(
        OWN,
        DELIBERATE,
        "NO_ROUTE",
        "an argument given twice counts once, the first time; in RabbitMQ such a binding matches "
        "nothing (rule E-93)",
    ),
    "E/headers-match-argument-given-twice-any": Difference(
        OLD,
        VERSION,
        "NO_ROUTE",
        "an argument given twice counts once, as in 3.10; in 4.3 either may match (rule E-93)",
    ),
    "E/headers-match-header-given-twice": Difference(
        OLD,
        VERSION,
        "NO_ROUTE",
        "of a header given twice the first counts, as in 3.10; in 4.3 the last (rule E-93)",
    ),
    "E/headers-match-numbers-by-value": Difference(
        OWN,
        VERSION,
        "NO_ROUTE",
        "a timestamp equals the integer of its seconds, as in 3.10; 4.3 compares milliseconds with "
        "seconds (rule E-96)",
    ),
    "E/known-word-that-is-no-type": UNKNOWN_TYPE,
    "E/topic-binding-with-many-wildcards": Difference(
        OLD,
        VERSION,
        "reply_code",
        "any number of # wildcards, as before 4.3.5 (rule E-85)",
    ),
    "F/arguments-cut-key-in-a-table": CLOSE_INSTEAD_OF_DROP,
    "F/arguments-cut-on-channel-zero": Difference(
        OWN,
        DELIBERATE,
        "reply_code",
        "501 with the bytes, as on other channels; RabbitMQ crashes with 541 (rule F-08)",
    ),
    "F/arguments-cut-value-in-a-table": CLOSE_INSTEAD_OF_DROP,
    "F/arguments-unknown-letter-in-a-table": CLOSE_INSTEAD_OF_DROP,
    "F/body-in-pieces": FRAMES_AS_THEY_CAME,
    "F/frames-of-channels-interleaved": FRAMES_AS_THEY_CAME,
    "F/properties-flag-bit-0-without-more": HEADER_BYTES_STAY,
    "F/properties-flag-bit-1": HEADER_BYTES_STAY,
    "F/unknown-class": CLOSE_INSTEAD_OF_DROP,
    "F/unknown-method": CLOSE_INSTEAD_OF_DROP,
    "F/wrong-end-octet-longer": ONE_LINE,
    "MA/timeout-after-basic-get": LATE_ON_A_CHANNEL,
    "MA/timeout-of-a-classic-queue": LATE_ON_A_CHANNEL,
    "MA/timeout-of-a-quorum-queue": LATE_ON_A_CHANNEL._replace(
        like=OWN,
        reason="it closes the channel, as up to 4.2, and counts as a return; 4.3 cancels the "
        "consumer (rules MA-10, MA-11, QQ-04)",
    ),
    "MA/timeout-of-one-channel": LATE_ON_A_CHANNEL,
    "P/all-kinds-of-headers": HEADER_BYTES_STAY,
    "P/duplicate-header": HEADER_BYTES_STAY,
    "P/expiration": Difference(
        OWN,
        VERSION,
        "expiration",
        "the expiration stays the text that was published, as in 3.10 (rule P-34); an error text "
        "stays on one line (rule T-15)",
    ),
    "PM/impersonator-on-an-open-connection": Difference(
        OWN,
        DELIBERATE,
        "channel.close",
        "tags count from when they are set or taken; in RabbitMQ those of the login (rule PM-32)",
    ),
    "PM/revoked-after-use-on-an-open-channel": REVOKED_AT_ONCE,
    "PM/topic-rights-that-change": REVOKED_AT_ONCE,
    "PO/dead-letter-exchange-comes-and-goes": REDELIVERED,
    "PO/definition-no-object": POLICY_OF_A_WRONG_KIND,
    "PO/keys-of-operators": MIRRORING,
    "PO/values-of-ha-mode": MIRRORING,
    "PO/values-of-ha-sync-mode": MIRRORING,
    "PO/values-of-max-age": POLICY_OF_A_WRONG_KIND,
    "PO/values-of-queue-master-locator": MIRRORING,
    "PO/wrong-apply-to": POLICY_OF_A_WRONG_KIND,
    "PO/wrong-everything": PYTHON_PATTERN,
    "PO/wrong-pattern": PYTHON_PATTERN,
    "Q/arguments-first-error-decides": Difference(
        OLD,
        VERSION,
        "reply_text",
        "of several arguments of another queue type the client's first is reported, as in 3.10; "
        "in 4.3 the first by name (rule Q-26)",
    ),
    "Q/text-cut-with-a-long-name-of-two-byte-characters": CUT_BY_BYTES,
    "Q/values-of-x-queue-version": Difference(
        OLD,
        VERSION,
        "reply_code",
        "x-queue-version 1 is accepted, as up to 4.2 (rule Q-25)",
    ),
    "QQ/delivery-limit": REDELIVERED,
    "QQ/global-prefetch": GLOBAL_QOS._replace(
        field="reply_code",
        reason="540 on a channel with a limit of its own, as in 3.10 to 4.2 (rule QS-08)",
    ),
    "QQ/nack-requeue": RETURNS_COUNT,
    "QQ/purge": RETURNS_COUNT,
    "QQ/single-active-consumer": Difference(
        OLD,
        VERSION,
        "reply_text",
        "the text says quorum queues, as in 3.10; that of 4.3 has a term in it (rule CO-33)",
    ),
    "QS/global-prefetch": GLOBAL_QOS,
    "QS/global-prefetch-and-per-consumer": GLOBAL_QOS,
    "QS/global-prefetch-counts-retroactively": GLOBAL_QOS,
    "QS/global-prefetch-holds-no-ack-back": GLOBAL_QOS,
    "QS/global-prefetch-is-lifted": GLOBAL_QOS,
    "QS/two-consumers-share-by-prefetch": Difference(
        OWN,
        DELIBERATE,
        "consumer_tag",
        "an ack of several frees all their consumers before anything is delivered, so they take "
        "turns; in RabbitMQ the first to be freed gets all (rule QS-10)",
    ),
    "ST/acks-in-a-transaction": ANSWER_FIRST,
    "ST/all-kinds-of-headers": Difference(
        OWN,
        DELIBERATE,
        "headers",
        "headers come back as they were published; RabbitMQ forgets tables and arrays, and 4.3 "
        "makes texts of bytes (rule ST-05)",
    ),
    "ST/delivery-modes": Difference(
        OLD,
        VERSION,
        "delivery_mode",
        "a message without a delivery mode is delivered without, as in 3.10; 4.3 says 1 "
        "(rule ST-05)",
    ),
    "ST/filter-array-of-numbers": STREAM_FILTER,
    "ST/filter-empty-array": STREAM_FILTER,
    "ST/global-prefetch-alone": GLOBAL_QOS._replace(
        like=OWN,
        field="reply_code",
        reason="a limit for the channel is none for the consumer, as in 3.10 to 4.2; the text is "
        "that of 4.3 (rules ST-02, QS-08)",
    ),
    "ST/global-prefetch-besides-its-own": GLOBAL_QOS._replace(
        field="reply_code",
        reason="540 on a channel with a limit of its own, as in 3.10 to 4.2 (rule QS-08)",
    ),
    "ST/offset-that-is-array": STREAM_OFFSET,
    "ST/offset-that-is-boolean": STREAM_OFFSET,
    "ST/offset-that-is-decimal": STREAM_OFFSET,
    "ST/offset-that-is-double": STREAM_OFFSET,
    "ST/offset-that-is-table": STREAM_OFFSET,
    "ST/offset-that-is-void": STREAM_OFFSET,
    "ST/recover": ANSWER_FIRST,
    "T/long-text-two-byte-characters": CUT_BY_BYTES,
    "TX/queue-deleted-after-the-publish": ONE_LINE,
}
