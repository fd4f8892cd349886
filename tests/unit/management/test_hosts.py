"""Under which names plain HTTP is answered (DNS rebinding)."""

from __future__ import annotations

import pytest

from broker.management.hosts import KnownHosts


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        pytest.param("", True, id="http-1.0"),
        pytest.param("localhost:15672", True, id="localhost"),
        pytest.param("LOCALHOST.", True, id="capitals"),
        pytest.param("a.localhost", True, id="below-localhost"),
        pytest.param("127.0.0.1:15672", True, id="ipv4"),
        pytest.param("203.0.113.7", True, id="public-ipv4"),
        pytest.param("[::1]:15672", True, id="ipv6"),
        pytest.param("rabbitmq:15672", True, id="a-container"),
        pytest.param("mq.shop.svc.cluster.local:15672", True, id="a-service"),
        pytest.param("mq.internal", True, id="private"),
        pytest.param("broker.example.org:15672", True, id="named"),
        pytest.param("a.b.example.net", True, id="below-a-wildcard"),
        pytest.param("example.net", False, id="the-wildcard-itself"),
        pytest.param("evil.example.org", False, id="a-neighbour"),
        pytest.param("broker.example.org.evil.com", False, id="in-front"),
        pytest.param("127.0.0.1.evil.com", False, id="an-address-in-front"),
        pytest.param("notlocal", True, id="one-word"),
        pytest.param("evil.notlocal", False, id="ends-like-a-private-one"),
        pytest.param("0x7f.1", False, id="an-address-in-disguise"),
        pytest.param("[evil.com]", False, id="in-brackets"),
        pytest.param("evil.com:[::1]", False, id="an-address-as-port"),
    ],
)
def test_a_name_that_anybody_could_have_is_not_known(host: str, is_known: bool) -> None:
    known = KnownHosts(["broker.example.org", "*.example.net"])
    assert known.accepts(host) is is_known


def test_a_star_is_every_name() -> None:
    assert KnownHosts(["*"]).accepts("evil.com")
