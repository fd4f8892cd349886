"""The keys of the log (configuration layer).

Invariant: see ``broker.config.fields``, whose part this is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.config.records import Key, Record, Values
from broker.config.schema import DEFAULT_CONFIG, LogConfig, LogFileConfig
from broker.config.shapes import Boolean, Choice, Integer, Nullable, Text
from broker.config.units import Size

if TYPE_CHECKING:
    from broker.config.problems import Keys
    from broker.config.tree import Report, Scalar

__all__ = ["LOG"]

_D: Final = DEFAULT_CONFIG.log
_LEVELS: Final = ("debug", "info", "warning", "error")

_CATEGORIES: Final = (
    ("connection", "Connections that come, go and are refused."),
    ("channel", "Channels closed for an error."),
    ("login", "Logins that were refused."),
    ("tls", "Certificates that were loaded, refused, or are about to expire."),
    ("queue", "Queues declared and deleted."),
    ("store", "The logs on disk."),
    ("management", "The HTTP API."),
    ("access", "HTTP requests, where access is on."),
)
"""First words of the names of events."""


class _File(Text):
    def __init__(self) -> None:
        super().__init__("the path of a file")

    def accept(self, node: Scalar, at: Keys, report: Report) -> str:
        if not node.text or "\0" in node.text:
            return self.refuse(node, at, report, "write null for standard error")

        return os.path.expanduser(node.text)


LOG_LEVEL: Final = Key(
    "level",
    Choice(*_LEVELS),
    _D.level,
    "debug, info, warning or error: this and what is worse is logged.",
    written="info",
)
LOG_FORMAT: Final = Key(
    "format", Choice("text", "json"), _D.format, "text or json.", written="text"
)
_LEVEL_KEYS: Final = tuple(
    Key(name, Nullable(Choice(*_LEVELS), "the level of all"), None, text, written="null")
    for name, text in _CATEGORIES
)
LOG_LEVELS: Final = Key(
    "levels",
    Record(
        "the levels",
        _LEVEL_KEYS,
        lambda v: tuple((key.name, level) for key in _LEVEL_KEYS if (level := v[key]) is not None),
    ),
    _D.levels,
    "Other levels for some kinds of events; null is as above.",
)
FILE_PATH: Final = Key(
    "path",
    Nullable(_File(), "standard error"),
    _D.file.path,
    "The file; a relative path starts at the configuration file. null is standard error. SIGHUP"
    " opens it anew.",
    written="null",
)
FILE_SIZE: Final = Key(
    "max_size",
    Size(4096, 2**40),
    _D.file.size_bytes_max,
    "A file that has grown so large is renamed to name.1 and a new one begun.",
    written="10MiB",
)
FILE_COUNT: Final = Key(
    "count", Integer(1, 1000), _D.file.files_max, "Files kept, old ones included.", written="5"
)
LOG_FILE: Final = Key(
    "file",
    Record(
        "the log file",
        (FILE_PATH, FILE_SIZE, FILE_COUNT),
        lambda v: LogFileConfig(v[FILE_PATH], v[FILE_SIZE], v[FILE_COUNT]),
    ),
    _D.file,
    "Where the log goes.",
)
LOG_ACCESS: Final = Key(
    "access",
    Boolean(),
    _D.has_access,
    "Whether each request to the HTTP API has a line.",
    written="false",
)
LOG_EXCHANGE: Final = Key(
    "exchange",
    Boolean(),
    _D.has_exchange,
    "Whether the virtual host / has the exchange amq.rabbitmq.log, a topic exchange that gets every"
    " line, with the level as routing key.",
    written="false",
)


def _log(values: Values) -> LogConfig:
    return LogConfig(
        level=values[LOG_LEVEL],
        format=values[LOG_FORMAT],
        levels=values[LOG_LEVELS],
        file=values[LOG_FILE],
        has_access=values[LOG_ACCESS],
        has_exchange=values[LOG_EXCHANGE],
    )


LOG: Final = Key(
    "log",
    Record(
        "the log",
        (LOG_LEVEL, LOG_FORMAT, LOG_LEVELS, LOG_FILE, LOG_ACCESS, LOG_EXCHANGE),
        _log,
        {"path": "it stands under file", "categories": "write levels"},
    ),
    _D,
    "What a person reads of the broker's life.",
)
