"""YAML files of others, such as exported definitions (configuration layer).

Our own configuration is read with more care: it says where each mistake stands.
"""

from __future__ import annotations

import yaml

from broker.config.problems import ConfigProblems, Problem

__all__ = ["mapping_from_yaml"]


def mapping_from_yaml(text: str, path: str) -> dict[str, object]:
    """What a YAML (or JSON) text holds.

    Raises:
        ConfigProblems: it is no YAML, or no mapping.

    """
    try:
        found: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        why = getattr(error, "problem", None) or "not valid YAML"
        raise ConfigProblems([Problem(path, line, column, "", str(why))]) from None

    if not isinstance(found, dict):
        raise ConfigProblems([Problem(path, 1, 1, "", "expected a mapping")])

    return found
