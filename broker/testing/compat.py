"""Releases of RabbitMQ that a broker under test can be as strict as. Layer: testing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["config_with_compat"]

PREFIX: Final = "rabbitmq-"


def config_with_compat(config: Mapping[str, object], compat: str | None) -> Mapping[str, object]:
    """A configuration with the release in it that is to be followed.

    Raises:
        TypeError: it is not a text, or the configuration no mapping.
        ValueError: the configuration names another one.

    """
    if not isinstance(config, Mapping):
        raise TypeError(f"config is a mapping as in the configuration file, not {config!r:.60}")

    if compat is None:
        return config

    if not isinstance(compat, str):
        raise TypeError(f'compat is a text such as "rabbitmq-4.3", not {compat!r}')

    section = config.get("compatibility", {})
    if not isinstance(section, dict):
        return config

    release = compat.removeprefix(PREFIX)
    named = section.get("rabbitmq", release)
    if named != release:
        raise ValueError(f"compat is {compat}, and the configuration says rabbitmq: {named!r}")

    return {**config, "compatibility": {**section, "rabbitmq": release}}
