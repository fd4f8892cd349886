"""``python -m broker`` is the command ``leveret``."""

from __future__ import annotations

from broker.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
