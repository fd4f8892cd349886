"""Writes the tables of docs/authorisation.md, by trying all of it against a broker.

Run ``python -m scripts.support.authorisation`` in the project. A test compares.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["DOCUMENT", "main", "updated"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "authorisation.md"
BLOCK: Final = re.compile(r"(<!-- tried: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


async def updated(text: str) -> str:
    """The text of the document with its tables as they are found to be now."""
    # With the tests' helpers comes all that they need.
    from tests.helpers.authorisation import REFUSALS, amqp_rows, http_rights_rows, role_rows

    tables = {
        "roles": _table(("route", *REFUSALS), role_rows()),
        "amqp": _table(("method", "needs"), amqp_rows()),
        "http-rights": _table(("route", "needs"), await http_rights_rows()),
    }
    return BLOCK.sub(lambda match: f"{match[1]}{tables[match[2]]}{match[3]}", text)


def main() -> int:
    """Write the tables."""
    old = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(asyncio.run(updated(old)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
