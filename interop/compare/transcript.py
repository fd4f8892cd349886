"""What a broker did in one scenario, as lines of text that do not depend on the run."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from interop.compare.fields import Typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.compare.methods import Method

__all__ = ["Transcript", "show_content", "show_method"]

MADE_UP: Final = re.compile(r"amq\.(?:gen|ctag)-[A-Za-z0-9_-]{22}|amq\.rabbitmq\.reply-to\.[^' ]+")
TIME: Final = re.compile(r"\b(T:|timestamp=)(\d{9,11})\b")
SHOWN_BODY_BYTES: Final = 40
NOW_WITHIN_S: Final = 3600
PRODUCT_KEYS: Final = {
    "cluster_name", "copyright", "information", "leveret_version", "platform", "product",
    "version",
}  # fmt: skip


class Transcript:
    """Collects lines by connection and channel; only the order on one channel counts.

    Args:
        run_name: the part of all names that is of this run only.
        wall: the time of the broker, in seconds since 1970.

    """

    def __init__(self, run_name: str, wall: Callable[[], float]) -> None:
        self._run_name = run_name
        self._wall = wall
        self._made_up: dict[str, str] = {}
        self._lines: dict[tuple[str, int], list[str]] = {}

    def add(self, link_name: str, channel: int, line: str) -> None:
        """Append a line to those of a channel; channel 0 has the connection's own."""
        self._lines.setdefault((link_name, channel), []).append(self._normal(line))

    def mark(self, text: str) -> None:
        """Say on every channel that something was awaited here."""
        for lines in self._lines.values():
            lines.append(f"-- {text}")

    def lines(self) -> list[str]:
        """All lines, channel by channel."""
        return [
            f"{link_name}.{channel} {line}"
            for (link_name, channel), lines in sorted(self._lines.items())
            for line in lines
        ]

    def _normal(self, line: str) -> str:
        line = TIME.sub(self._relative, line.replace(self._run_name, "RUN"))
        return MADE_UP.sub(self._numbered, line)

    def _relative(self, match: re.Match[str]) -> str:
        """Replace the time of the run by a word; other times are data."""
        is_now = abs(int(match.group(2)) - self._wall()) < NOW_WITHIN_S
        return f"{match.group(1)}now" if is_now else match.group()

    def _numbered(self, match: re.Match[str]) -> str:
        """Replace what the broker made up by its kind and a number, the same for the same name."""
        name = match.group()
        kind = name[: len("amq.rabbitmq.reply-to")] if "reply-to" in name else name[:-22]
        return self._made_up.setdefault(name, f"{kind}#{len(self._made_up) + 1}")


def show_method(method: Method) -> str:
    """Write a method in one line, with all its arguments."""
    shown = dict(method.arguments)
    if method.name == "connection.start":
        shown["mechanisms"] = " ".join(sorted(str(shown["mechanisms"]).split()))
        shown["server_properties"] = _without_product(shown["server_properties"])

    words = [method.name] + [f"{name}={_show(value)}" for name, value in shown.items()]
    return " ".join(words)


def _without_product(properties: object) -> object:
    assert isinstance(properties, list)
    return [
        (key, Typed(value.kind, "...") if key in PRODUCT_KEYS else value)
        for key, value in properties
    ]


def show_content(properties: dict[str, object], body: bytes, frame_sizes: list[int]) -> str:
    """Write a content in one line; frame sizes only where there is more than one."""
    words = [f"{name}={_show(value)}" for name, value in
             properties.items()]  # fmt: skip
    if len(body) <= SHOWN_BODY_BYTES:
        words.append(f"body={body!r}")
    else:
        digest = hashlib.sha256(body).hexdigest()[:8]
        words.append(f"body=<{len(body)} bytes {digest}>")

    if len(frame_sizes) > 1:
        words.append(f"frames={frame_sizes}")

    return " ".join(words)


def _show(value: object) -> str:
    if isinstance(value, Typed):
        if value.kind in {"F", "A"}:
            return value.kind + _show(value.value)

        return f"{value.kind}:{_show(value.value)}"

    if isinstance(value, list):
        if value and isinstance(value[0], tuple) and not isinstance(value[0], Typed):
            # Their order is no promise (rule F-21), so it is not compared.
            ordered = sorted(value, key=lambda entry: str(entry[0]))
            return "{" + ", ".join(f"{key}={_show(field)}" for key, field in ordered) + "}"

        return "[" + ", ".join(_show(item) for item in value) + "]"

    return repr(value)
