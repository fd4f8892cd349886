"""The shape of JSON: keys and types without values, and how one shape differs from another."""

from __future__ import annotations

from typing import Final

__all__ = ["Shape", "differences", "shape_of"]

Shape = str | list["Shape"] | dict[str, "Shape"]

OPAQUE: Final = frozenset(
    {
        "arguments",
        "client_properties",
        "cluster_state",
        "definition",
        "effective_policy_definition",
        "headers",
        "memory",
        "metrics_gc_queue_length",
        "open_files",
        "ra_open_file_metrics",
        "readers",
        "socket_opts",
        "value",
    }
)
"""What is in these is up to users, or to the machine of Erlang."""


def shape_of(value: object, name: str = "") -> Shape:
    """The shape of a value: of a list, that of all its items together."""
    if name in OPAQUE:
        return "any"

    if isinstance(value, dict):
        return {key: shape_of(item, key) for key, item in sorted(value.items())}

    if isinstance(value, list):
        merged: Shape | None = None
        for item in value:
            shape = shape_of(item)
            merged = shape if merged is None else _merged(merged, shape)

        return [] if merged is None else [merged]

    if value is None:
        return "null"

    return {bool: "boolean", int: "integer", float: "number", str: "text"}[type(value)]


def _merged(one: Shape, other: Shape) -> Shape:
    if isinstance(one, dict) and isinstance(other, dict):
        keys = one.keys() & other.keys()
        return {key: _merged(one[key], other[key]) for key in sorted(keys)}

    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])] if one and other else []

    if one == other:
        return one

    if {str(one), str(other)} == {"integer", "number"}:
        return "number"

    return "any"


def differences(wanted: Shape, found: Shape, at: str = "") -> list[str]:
    """What a program that reads the one would miss in the other: keys, and types of values.

    More keys are no difference, nor a whole number where there may be fractions. What was null, and
    lists that were empty, say nothing of types.
    """
    if wanted in ("any", "null") or found == "any":
        return []

    if isinstance(wanted, dict) and isinstance(found, dict):
        missing = [f"{at}.{key}: missing" for key in wanted if key not in found]
        return missing + [
            text
            for key in wanted
            if key in found
            for text in differences(wanted[key], found[key], f"{at}.{key}")
        ]

    if isinstance(wanted, list) and isinstance(found, list):
        return differences(wanted[0], found[0], f"{at}[]") if wanted and found else []

    if wanted == found or (wanted, found) == ("number", "integer"):
        return []

    return [f"{at}: {_kind(found)} where {_kind(wanted)} was"]


def _kind(shape: Shape) -> str:
    if isinstance(shape, dict):
        return "object"

    return "list" if isinstance(shape, list) else shape
