"""What a person reads of the broker's life. Layer: rim.

Invariant: one event is one line (tracebacks apart, whose lines are all indented), whatever names a
peer chose; and no field that could hold a password is ever written.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from broker.config.schema import LogConfig
    from broker.log_file import LogFile

    Emit = Callable[[str, str, dict[str, object]], None]

__all__ = ["FORMATS", "LEVELS", "UNSAFE_ON_TERMINALS", "Log", "escape", "import_structlog_lightly"]

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

SECRET_FIELDS: Final = frozenset({"password", "password_hash", "secret", "token", "response"})
LEADING_FIELDS: Final = ("timestamp", "level", "event")
TRACEBACK_FIELD: Final = "traceback"

EVENT_WIDTH: Final = 24
"""Where the fields start in a text line, so that the eye finds them."""

VALUE_CHARACTERS_MAX: Final = 1024
"""A peer may choose names and properties of kilobytes; a line shall stay readable."""

UNSAFE_ON_TERMINALS: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
"""Within the brackets of a pattern: C0 and C1 controls, DEL; line and paragraph separators; marks
that reorder what is displayed."""

# Besides these the backslash that escapes begin with, and halves of surrogate pairs, which stand
# for bytes that are not UTF-8.
_UNSAFE: Final = re.compile(rf"[{UNSAFE_ON_TERMINALS}\\\ud800-\udfff]")
_SHORT_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}
_NEEDS_QUOTES: Final = re.compile(r'[\s"=]')


class Log:
    """Writes events at or above a level, one line each.

    structlog is loaded with the first event that is written: a broker inside a test writes none.

    Args:
        level: one of LEVELS.
        log_format: one of FORMATS.
        stream: standard error when None, whichever that is at the first event.

    Attributes:
        on_line: told the level and the text of each line that was written.

    """

    __slots__ = ("_config", "_emit", "_file", "_format", "_lines", "_rank", "_ranks", "on_line")

    def __init__(
        self, level: str = "info", log_format: str = "text", stream: TextIO | None = None
    ) -> None:
        self._rank = LEVELS.index(level)
        self._ranks: dict[str, int] = {}
        self._format = log_format
        self._lines = _Lines(stream)
        self._file: LogFile | None = None
        self._config: LogConfig | None = None
        self._emit: Emit | None = None
        self.on_line: Callable[[str, str], None] | None = None

    @classmethod
    def from_config(cls, config: LogConfig) -> Log:
        """Make the log that a configuration wants.

        Raises:
            StartError: its file cannot be opened.

        """
        log = cls()
        log.configure(config)
        return log

    def configure(self, config: LogConfig) -> None:
        """Be what a configuration wants from now on.

        Raises:
            StartError: its file cannot be opened; all stays as it was then.

        """
        old = self._config
        if old is None or old.file != config.file:
            self._move_to(config)

        if config.format != self._format:
            self._format = config.format
            self._emit = None

        self._rank = LEVELS.index(config.level)
        self._ranks = {category: LEVELS.index(level) for category, level in config.levels}
        self._config = config

    @property
    def config(self) -> LogConfig:
        """What it was told to be last."""
        if self._config is not None:
            return self._config

        from broker.config.schema import LogConfig

        return LogConfig(level=LEVELS[self._rank], format=self._format)

    def _move_to(self, config: LogConfig) -> None:
        file: LogFile | None = None
        if config.file.path is not None:
            from broker.log_file import LogFile

            file = LogFile(config.file.path, config.file.size_bytes_max, config.file.files_max)

        before = self._file
        self._file = file
        self._lines.target = file
        if before is not None:
            before.close()

    def reopen(self) -> None:
        """Open the file anew, if there is one: somebody may have moved it.

        Raises:
            StartError: it cannot be opened; the one before is gone on with.

        """
        if self._file is not None:
            self._file.reopen()

    def close(self) -> None:
        """Close the file, if there is one; what comes then goes to standard error."""
        file = self._file
        self._file = None
        self._lines.target = None
        if file is not None:
            file.close()

    def wants(self, level: str, event: str) -> bool:
        """Whether an event would be written."""
        category = event.partition(".")[0]
        return LEVELS.index(level) >= self._ranks.get(category, self._rank)

    def __call__(self, level: str, event: str, fields: dict[str, object]) -> None:
        """Write an event, for example ``log("info", "connection.opened", {"user": "guest"})``."""
        if not self.wants(level, event):
            return

        if self._emit is None:
            self._emit = _make_emit(self._format, self._lines)

        try:
            self._emit(level, event, fields)
        except (OSError, ValueError):
            # Standard error is closed, full or a broken pipe: the broker works on without a log.
            return

        if self.on_line is not None:
            self.on_line(level, self._lines.last.rstrip("\n"))


class _Lines:
    """Where lines go; the last one is remembered.

    Attributes:
        target: a file; None is the stream.

    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.target: LogFile | None = None
        self.last = ""

    def write(self, text: str) -> int:
        self.last = text
        if self.target is not None:
            return self.target.write(text)

        if self._stream is None:
            self._stream = sys.stderr

        return self._stream.write(text)

    def flush(self) -> None:
        if self.target is not None:
            self.target.flush()
        elif self._stream is not None:
            self._stream.flush()


def import_structlog_lightly() -> None:
    """Import structlog without rich; for a process where nothing else runs yet.

    structlog imports rich wherever it is installed, for tracebacks that this module renders itself:
    80 of the 110 ms that structlog takes, a quarter of the time from exec to accepting.
    """
    if "rich" in sys.modules:
        return

    sys.modules["rich"] = ModuleType("rich")  # empty: what should be in it cannot be imported
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def escape(text: str) -> str:
    """Make text from a peer harmless on a terminal and in a log file; reversible."""
    return _UNSAFE.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short

    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # surrogateescape: the byte itself

    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def _make_emit(log_format: str, lines: _Lines) -> Emit:
    import structlog

    class EventLogger(structlog.BoundLoggerBase):
        def emit(self, level: str, event: str, fields: dict[str, object]) -> None:
            self._proxy_to_logger("msg", event, level=level, fields=fields)

    logger: EventLogger = structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", lines)),
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _make_safe,
            structlog.processors.JSONRenderer() if log_format == "json" else _render_text,
        ],
        wrapper_class=EventLogger,
        context_class=dict,
    ).bind()
    return logger.emit


def _make_safe(
    _logger: object, _method: str, record: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    safe: dict[str, object] = {key: record[key] for key in LEADING_FIELDS}
    fields = cast("dict[str, object]", record["fields"])
    for name, value in fields.items():
        if name in SECRET_FIELDS:
            continue

        key = f"{name}_" if name in LEADING_FIELDS else name
        if key == TRACEBACK_FIELD:
            safe[key] = "\n".join(escape(line) for line in str(value).splitlines())
        elif value is None or isinstance(value, (bool, int, float)):
            safe[key] = value
        else:
            safe[key] = _shorten(escape(str(value)))

    return safe


def _shorten(text: str) -> str:
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text

    return f"{text[:VALUE_CHARACTERS_MAX]}... ({len(text)} characters)"


def _render_text(_logger: object, _method: str, record: MutableMapping[str, object]) -> str:
    stamp, level, event = (str(record.pop(key)) for key in LEADING_FIELDS)
    traceback = record.pop(TRACEBACK_FIELD, None)
    fields = " ".join(f"{key}={_render_value(value)}" for key, value in record.items())
    # Milliseconds are enough for people: 2024-02-29T12:00:00.123456Z
    line = f"{stamp[:23]}Z {level:<7} {event:<{EVENT_WIDTH}} {fields}".rstrip()
    if traceback is not None:
        line += "".join(f"\n  | {text}" for text in str(traceback).splitlines())

    return line


def _render_value(value: object) -> str:
    if value is None:
        return "-"

    if isinstance(value, bool):
        return "yes" if value else "no"

    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")

    text = str(value)
    if not text or _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '\\"') + '"'

    return text
