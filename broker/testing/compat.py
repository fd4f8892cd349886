"""Releases of RabbitMQ that a broker under test can be as strict as. Layer: testing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["config_with_compat"]

PREFIX: Final = "rabbitmq-"


def config_with_compat(config: Mapping[str, object], compat: str | None) -> Mapping[str, object]:
    """A configuration with the release in it that is to be followed.

    Raises:
        ValueError: the configuration names another one.

    """
    if compat is None:
        return config

    section = config.get("compatibility", {})
    if not isinstance(section, dict):
        return config

    release = compat.removeprefix(PREFIX)
    return {**config, "compatibility": {**section, "rabbitmq": release}}
