"""What a test gets wrong, and what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from broker.testing import Broker


def test_a_release_is_a_text() -> None:
    release: Any = 4.3
    with pytest.raises(TypeError, match=r'compat is a text such as "rabbitmq-4.3", not 4.3'):
        Broker(compat=release)


def test_a_release_is_named_once() -> None:
    with pytest.raises(ValueError, match=r"compat is rabbitmq-4.3, and .* rabbitmq: '4.0'"):
        Broker({"compatibility": {"rabbitmq": "4.0"}}, compat="rabbitmq-4.3")

    Broker({"compatibility": {"rabbitmq": "4.3"}}, compat="rabbitmq-4.3")
