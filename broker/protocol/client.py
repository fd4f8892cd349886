"""What a client says of itself in connection.start-ok (rules C-14, C-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.wire.tables import Arguments

__all__ = ["Client"]

INTRODUCTION: Final = {
    "connection_name": "connection_name",
    "product": "client_product",
    "version": "client_version",
    "platform": "client_platform",
}
"""Properties that a person wants to see in the log, and what they are called there."""


class Client:
    """The client's properties, and those of its capabilities that matter.

    Args:
        properties: as sent.

    """

    __slots__ = ("_capabilities", "properties", "wants_cancel_notify")

    def __init__(self, properties: Arguments) -> None:
        self.properties = properties
        self._capabilities: Arguments = {}
        field = properties.get("capabilities")
        if field is not None and isinstance(field.value, dict):
            self._capabilities = field.value

        self.wants_cancel_notify: bool = self.has_capability("consumer_cancel_notify")

    def has_capability(self, name: str) -> bool:
        """Whether it claims a capability: only a true boolean counts (rule C-14)."""
        field = self._capabilities.get(name)
        return field is not None and field.value is True

    def introduction(self) -> dict[str, object]:
        """What it calls itself, for the log."""
        fields: dict[str, object] = {}
        for key, name in INTRODUCTION.items():
            field = self.properties.get(key)
            if field is not None and isinstance(field.value, str):
                fields[name] = field.value

        return fields
