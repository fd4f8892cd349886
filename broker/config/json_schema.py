"""The JSON schema of the configuration file, for editors (configuration layer).

Invariant: made from ``broker.config.fields`` alone, so it cannot fall behind. It is a help for
typing: what it cannot say (units, references, patterns) the loader checks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from broker.config.fields import ROOT, VERSION

if TYPE_CHECKING:
    from broker.config.shapes import JSON

__all__ = ["json_schema", "json_schema_text"]


def json_schema() -> JSON:
    """Build the schema; draft 7, which editors understand best."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Leveret configuration",
        "definitions": {
            "variable": {
                "type": "string",
                "pattern": "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}",
                "description": "Taken from the environment.",
            }
        },
        **ROOT.json_schema(),
        "type": "object",
        "required": [VERSION.name],
    }


def json_schema_text() -> str:
    """Render it as the file that is checked in."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
