"""What every client's suite shares: deadlines, names, and a broker that can be stopped."""

from __future__ import annotations

__all__: list[str] = []
