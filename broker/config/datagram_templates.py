"""Routing keys made of what a datagram says (configuration layer; pure, importable by the rim).

Invariant: a template without a problem can be filled in for any datagram.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["TEMPLATE_FIELDS", "UNKNOWN", "make_key", "template_problem"]

UNKNOWN: Final = "unknown"
"""Stands for what a datagram does not say."""

TEMPLATE_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "raw": ("source", "port"),
    "syslog": ("source", "port", "facility", "severity", "hostname", "program"),
    "gelf": ("source", "port", "host", "severity"),
}
"""What a routing key may be made of, by format."""

_FIELD: Final = re.compile(r"\{([a-z_]*)\}")


def template_problem(template: str, datagram_format: str) -> str | None:
    """What is wrong with a template for routing keys; None if nothing is."""
    known = TEMPLATE_FIELDS[datagram_format]
    for name in _FIELD.findall(template):
        if name not in known:
            return f"{{{name}}} is none of {', '.join(f'{{{one}}}' for one in known)}"

    rest = _FIELD.sub("", template)
    return "it holds a brace that names nothing" if "{" in rest or "}" in rest else None


def make_key(template: str, fields: dict[str, str]) -> str:
    """Fill in a template; what the datagram does not say is ``unknown``."""
    return _FIELD.sub(lambda match: fields.get(match[1], UNKNOWN), template)
