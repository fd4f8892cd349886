from __future__ import annotations

import pytest

from broker.net.addresses import format_address, is_loopback_address, peer_of, plain_address
from broker.net.proxy_header import NOBODY, Proxied
from broker.protocol.link import Peer
from tests.helpers.rim import FakeTransport


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("127.0.0.1", True, id="ipv4"),
        pytest.param("127.255.0.9", True, id="all-of-127"),
        pytest.param("128.0.0.1", False, id="ipv4-outside"),
        pytest.param("::1", True, id="ipv6"),
        pytest.param("::ffff:127.0.0.1", True, id="mapped"),
        pytest.param("::ffff:192.0.2.1", False, id="mapped-outside"),
        pytest.param("fe80::1%lo", False, id="link-local-with-zone"),
        pytest.param("localhost", False, id="a-name-is-no-address"),
        pytest.param("", False, id="unknown"),
    ],
)
def test_loopback_is_what_rule_c36_says(host: str, expected: bool) -> None:
    assert is_loopback_address(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:1", "::ffff:1"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_addresses_are_written_plainly(host: str, expected: str) -> None:
    assert plain_address(host) == expected


def test_ipv6_is_bracketed() -> None:
    assert format_address("::1", 5672) == "[::1]:5672"
    assert format_address("127.0.0.1", 5672) == "127.0.0.1:5672"


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param(
            {"peername": ("::1", 7, 0, 0), "sockname": ("::1", 8, 0, 0)},
            Peer("::1", 7, "::1", 8, is_loopback=True, is_tls=False),
            id="ipv6",
        ),
        pytest.param(
            {"peername": ("::ffff:127.0.0.1", 7, 0, 0), "ssl_object": object()},
            Peer("127.0.0.1", 7, "192.0.2.1", 5672, is_loopback=True, is_tls=True),
            id="mapped-and-tls",
        ),
        pytest.param(
            {"peername": None, "sockname": ""},
            Peer("", 0, "", 0, is_loopback=False, is_tls=False),
            id="gone-again",
        ),
    ],
)
def test_both_ends_are_named(extra: dict[str, object], expected: Peer) -> None:
    assert peer_of(FakeTransport(extra)) == expected


@pytest.mark.parametrize(
    ("proxy", "proxied", "expected"),
    [
        pytest.param("127.0.0.1", Proxied("127.0.0.1", 7, "127.0.0.1", 1), True, id="both-near"),
        pytest.param("127.0.0.1", Proxied("192.0.2.7", 7, "192.0.2.1", 1), False, id="far-client"),
        pytest.param("192.0.2.9", Proxied("127.0.0.1", 7, "127.0.0.1", 1), False, id="far-proxy"),
        pytest.param("127.0.0.1", NOBODY, False, id="who-knows"),
        pytest.param("127.0.0.1", None, True, id="the-proxy-itself"),
    ],
)
def test_of_this_machine_are_those_who_come_from_it_through_a_proxy_of_it(
    proxy: str, proxied: Proxied | None, expected: bool
) -> None:
    """Rule C-36; whoever comes with a header that tells nothing may come from anywhere."""
    extra: dict[str, object] = {"peername": (proxy, 40_000), "sockname": ("127.0.0.1", 5672)}
    peer = peer_of(FakeTransport(extra), proxied)
    assert peer.is_loopback is expected
    assert peer.host == (proxied.host if proxied is not None and proxied.host else proxy)
