"""Every bound the broker sets itself, with its unit in the name and its reason beside it.

Layer: none; anything may import it, it imports nothing. A bound that an operator may choose is
configuration and only has its default or its hard cap here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BINDINGS_PER_EXCHANGE_MAX",
    "CHECKPOINT_BYTES",
    "CLOSE_TIMEOUT_S",
    "COLD_READ_BYTES_MAX",
    "CONSUMERS_PER_CHANNEL_MAX",
    "COPIES_PER_TURN_MAX",
    "DEATHS_BYTES_MAX",
    "DELAYED_HOT_MAX",
    "DELAYED_PER_TURN_MAX",
    "DROP_DELAY_MS",
    "EARLY_BYTES_MAX",
    "EXCHANGES_PER_VHOST_MAX",
    "FAN_OUT_WIDE",
    "FRAME_BYTES_MAX_DEFAULT",
    "FRAME_BYTES_MAX_INITIAL",
    "FRAME_BYTES_MIN",
    "HOT_BYTES_MAX",
    "HOT_MESSAGES_MAX",
    "HOT_SHORT_MAX",
    "LINGER_BYTES_MAX",
    "LINGER_S",
    "MESSAGE_BYTES_MAX_DEFAULT",
    "MESSAGE_BYTES_MAX_HARD",
    "MOVED_BYTES_MAX",
    "OUTPUT_BYTES_HIGH",
    "OUTPUT_BYTES_LOW",
    "PENDING_BYTES_MAX",
    "POLICY_PATTERN_BYTES_MAX",
    "PROPERTIES_PER_CHANNEL_MAX",
    "QUEUES_PER_VHOST_MAX",
    "RECOVERY_PROGRESS_COUNT",
    "REMEMBERED_BYTES_MAX",
    "ROUTES_PER_CHANNEL_MAX",
    "ROUTES_PER_CHANNEL_MIN",
    "ROUTES_SPARE_MAX",
    "SHORT_STRING_BYTES_MAX",
    "SOCKETS_MAX",
    "SOCKETS_SPARED",
    "STORE_RETRY_MS",
    "STORE_SYNC_MS",
    "STREAM_CELLS_BYTES_MAX",
    "STREAM_FILTER_VALUES_MAX",
    "STREAM_HOT_BYTES_MAX",
    "STREAM_HOT_ENTRIES_MAX",
    "STREAM_SEGMENT_ENTRIES_MAX",
    "TABLE_BYTES_MAX",
    "TABLE_DEPTH_MAX",
    "TIMERS_PER_TURN_MAX",
    "TOPIC_CACHED_DESTINATIONS_MAX",
    "TOPIC_CACHED_KEYS_MAX",
    "UNCOMMITTED_PER_CHANNEL_MAX",
    "UNFINISHED_BYTES_MAX",
    "WIDE_ROUTE_QUEUES_MAX",
]

SHORT_STRING_BYTES_MAX: Final = 255
"""A short string has one length octet (AMQP 0-9-1 §4.2.5.3)."""

TABLE_DEPTH_MAX: Final = 64
"""Tables and arrays inside one another, the outermost table being 1. Decoding recurses, so without
a bound a 128 KiB frame could nest some 20,000 deep and overrun the stack. Programs nest about
four deep (x-death is two); JSON parsers stop between 100 and 1,000."""

TABLE_BYTES_MAX: Final = 1_048_576
"""Encoded size of one field table. A table is part of one frame, so the default frame_max of
128 KiB bounds it first; this bound holds where an operator raised frame_max or switched it off.
A decoded entry can take fifty times its encoded size."""

OUTPUT_BYTES_HIGH: Final = 256 * 1024
"""Unsent output of one socket at which its consumers get nothing more. Enough to keep a fast client
busy while the loop turns; a thousand stalled clients then hold 256 MiB at most, plus one budget."""

OUTPUT_BYTES_LOW: Final = 64 * 1024
"""Unsent output at which deliveries to that socket go on."""

LINGER_S: Final = 2.0
"""How long a socket that the broker has closed waits for its peer to read the last words and close
too. Two seconds outlast a few lost packets; nothing but a file descriptor waits with it."""

LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Input that is read and thrown away meanwhile, so that a flooding peer is not served for free."""

TOPIC_CACHED_KEYS_MAX: Final = 1_024
"""Routing keys a topic exchange remembers the destinations of (NATS keeps as many subjects).
Finding them again takes a few microseconds, so a full cache is simply emptied."""

TOPIC_CACHED_DESTINATIONS_MAX: Final = 262_144
"""Destinations in all of those lists together: two megabytes a topic exchange. With ``#`` bound to
100,000 queues two keys fill it, where 1,024 keys alone would be 800 megabytes."""

POLICY_PATTERN_BYTES_MAX: Final = 1_024
"""Longest pattern of a policy, RabbitMQ 4.3's bound too. Patterns are compiled once and searched in
the name of every queue and exchange, when one is made and when a policy changes."""

FRAME_BYTES_MAX_DEFAULT: Final = 131_072
"""frame_max offered in connection.tune unless configured (rule C-40)."""

FRAME_BYTES_MIN: Final = 4_096
"""Smallest frame_max a client may settle on (AMQP 0-9-1 §4.2.3, rule C-41)."""

FRAME_BYTES_MAX_INITIAL: Final = 8_192
"""Largest frame before connection.tune-ok: nobody is known yet (rule C-45)."""

MESSAGE_BYTES_MAX_DEFAULT: Final = 134_217_728
"""Largest body unless configured: RabbitMQ's 128 MiB of before 4.0, since programs of today send
more than its 16 MiB of after (rule P-02)."""

MESSAGE_BYTES_MAX_HARD: Final = 536_870_912
"""Largest body whatever is configured (rules P-02, F-15)."""

CONSUMERS_PER_CHANNEL_MAX: Final = 65_536
"""Consumers of one channel unless configured; each costs about half a kilobyte."""

QUEUES_PER_VHOST_MAX: Final = 1_000_000
"""Queues of a virtual host for which no max-queues is set: some three gigabytes when empty, and no
alarm holds back who declares. RabbitMQ has none by itself, and cluster_queue_limit."""

EXCHANGES_PER_VHOST_MAX: Final = 250_000
"""Exchanges of a virtual host, some 400 megabytes. RabbitMQ has none by itself, and
cluster_exchange_limit (rule E-26)."""

BINDINGS_PER_EXCHANGE_MAX: Final = 1_000_000
"""Bindings of one exchange, some 600 megabytes with short keys; RabbitMQ has no bound."""

ROUTES_PER_CHANNEL_MIN: Final = 1_024
"""Publish methods that any channel may remember, each some 700 bytes."""

ROUTES_PER_CHANNEL_MAX: Final = 16_384
"""Remembered publish methods of one channel that uses them again: enough for 10,000 queues in
turn. Beyond, all are forgotten and learnt again."""

ROUTES_SPARE_MAX: Final = 65_536
"""Publish methods that all channels of a virtual host together remember beyond the number that any
channel may: some 45 megabytes."""

PROPERTIES_PER_CHANNEL_MAX: Final = 256
"""Remembered property lists of one channel."""

REMEMBERED_BYTES_MAX: Final = 512
"""A publish method or property list longer than this is not worth remembering."""

DELAYED_PER_TURN_MAX: Final = 1_000
"""Delayed messages of one exchange that are routed at a time: some ten milliseconds of work."""

DELAYED_HOT_MAX: Final = 16_384
"""Delayed messages of one exchange, due within seconds, that are kept in memory although the log
has them; with more the next ones are read back when they are due."""

TIMERS_PER_TURN_MAX: Final = 1_000
"""Deadlines run between two turns of the loop, so that a million messages that expire together
leave room for everybody else."""

UNCOMMITTED_PER_CHANNEL_MAX: Final = 1_000_000
"""Publishes, one for each queue reached, and settlements of one transaction; RabbitMQ has no bound
but its memory."""

COPIES_PER_TURN_MAX: Final = 20_000
"""Queues that the wide publishes of one connection reach before everybody else has a turn, and the
memory alarm a look: some 20 milliseconds and three megabytes. A single read may hold 5,000
publishes of fifty bytes, which to 5,000 queues come to a minute and 3.6 gigabytes."""

FAN_OUT_WIDE: Final = 32
"""A publish that reaches more queues than that is counted as wide."""

WIDE_ROUTE_QUEUES_MAX: Final = 262_144
"""Queues in all remembered wide routes of a virtual host together: two megabytes. A channel
remembers a thousand routes and more, which to 2,000 queues each were 17 megabytes for 49 kilobytes
sent."""

STREAM_SEGMENT_ENTRIES_MAX: Final = 65_536
"""Messages in one segment of a stream. It is dropped as a whole, in some ten milliseconds then."""

STREAM_FILTER_VALUES_MAX: Final = 256
"""Values a consumer of a stream may filter by. RabbitMQ has no bound, but its filters have at most
255 bytes and let everything through long before."""

UNFINISHED_BYTES_MAX: Final = 1_073_741_824
"""Content that has come for all channels of one connection without being whole yet: eight messages
of the largest default size, two of the hard one. With every channel in the middle of a message it
would be 256 GiB. Where memory is scarcer, the memory alarm stops the client first."""

DEATHS_BYTES_MAX: Final = 32_768
"""Size of the header x-death, a quarter of a default frame: some 250 entries, the newest ones. A
header frame cannot be split, so a message that went a long way through dead letters would not fit
into any frame in the end. The broker itself goes on remembering all its deaths."""

CLOSE_TIMEOUT_S: Final = 30
"""How long a connection waits for the peer's close-ok, or its heartbeat if shorter (rule C-72)."""

DROP_DELAY_MS: Final = 3_000
"""How long a refused or faulty peer is kept waiting before its socket closes (rules C-31, F-02)."""

EARLY_BYTES_MAX: Final = 1_048_576
"""What a client may send before it has logged in. Some send all they have without waiting for an
answer; a handshake has a few hundred bytes: whoever sends a megabyte does not mean to log in."""

SOCKETS_MAX: Final = 65_536
"""Client sockets at once, where the system sets no lower bound: one buffer budget each, and about
as many as one event loop can serve. limits.connections of the configuration is the friendlier
bound: it answers with a text (rule C-56)."""

SOCKETS_SPARED: Final = 64
"""File descriptors kept back from clients: listeners, log, files, the loop's own, a debugger."""


HOT_MESSAGES_MAX: Final = 4_096
"""Ready messages of one queue, or of one of its levels, that are kept in memory although the log
has them. Fewer would be read back in smaller pieces; more cost memory and bring nothing."""

HOT_SHORT_MAX: Final = 256
"""The same while memory is short: transient messages go to the disk as well then."""

HOT_BYTES_MAX: Final = 16_777_216
"""Of bodies, likewise: large messages are fewer than 4,096."""

COLD_READ_BYTES_MAX: Final = 262_144
"""Of a log, read at a time to bring messages of a queue back: a few hundred small ones."""

PENDING_BYTES_MAX: Final = 33_554_432
"""Bodies that wait for the log while the batch before is on its way: a tenth of a second of a slow
disk. With more nobody is read from until it has caught up."""

CHECKPOINT_BYTES: Final = 67_108_864
"""What a log grows by before a checkpoint is worth its while; recovery reads as much in a second
or less."""

MOVED_BYTES_MAX: Final = 4_194_304
"""Of sparse segments, copied forward in one batch."""

STORE_SYNC_MS: Final = 100
"""How often each log is looked after; with ``storage.sync: interval``, how often it is synced."""

STORE_RETRY_MS: Final = 1_000
"""Between two tries to write to a disk that is full."""

RECOVERY_PROGRESS_COUNT: Final = 1_000_000
"""Messages after which recovery says how far it is."""

STREAM_HOT_ENTRIES_MAX: Final = 2_048
"""The newest entries of a stream that stay in memory although the log has them: those who read
what comes new find them there."""

STREAM_HOT_BYTES_MAX: Final = 2_097_152
"""Bytes of these."""

STREAM_CELLS_BYTES_MAX: Final = 4_194_304
"""Of one stream, read back and kept in memory for those who read what is older."""

RESERVE_BYTES_MAX: Final = 33_554_432
"""Kept back of the disk, to go on with when it is full: settlements of three million messages."""

RESERVE_BYTES_MIN: Final = 1_048_576
"""The same where there is not much to begin with."""

RESERVE_SHARE: Final = 8
"""No more is kept back than one in so many bytes that are free."""
