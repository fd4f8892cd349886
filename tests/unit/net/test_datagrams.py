"""Each datagram is published or counted as dropped, whatever it holds and however many come."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from broker.config.datagram_templates import make_key, template_problem
from broker.config.schema import DatagramListenerConfig
from broker.core.exchange_commands import BindingRequest, bind
from broker.core.message import content_body
from broker.net.datagram_formats import ChunkStore, Malformed, read_gelf, read_syslog
from broker.net.datagrams import Arrival, DatagramReceiver
from tests.helpers.core import CoreWorld

FROM = ("192.0.2.7", 514)


class Scene:
    """A receiver, and a queue that everything reaches which it publishes."""

    def __init__(self, config: DatagramListenerConfig | None = None) -> None:
        self.world = CoreWorld()
        self.now_s = 100.0
        client = self.world.client()
        self.queue = client.declare("all")
        request = BindingRequest("amq.topic", "all", True, "#", {})
        bind(self.world.vhost, client.actor, request)
        listener = config or DatagramListenerConfig()
        self.receiver = DatagramReceiver(listener, self.world.node, lambda: self.now_s)

    def take(self, *datagrams: bytes) -> None:
        for data in datagrams:
            self.receiver.take(Arrival(data, *FROM))

    def keys(self) -> list[str]:
        return [message.address.routing_key for message in self.queue.hot_messages()]

    def bodies(self) -> list[bytes]:
        return [content_body(message.content) for message in self.queue.hot_messages()]

    def dropped(self) -> dict[str, int]:
        return {reason: count for reason, count in self.receiver.dropped.items() if count}

    def is_settled(self) -> bool:
        """Every datagram is somewhere."""
        receiver = self.receiver
        known = receiver.published + receiver.dropped_total + receiver.pending_parts
        return receiver.received == known


def test_a_raw_datagram_is_published_as_it_came() -> None:
    scene = Scene(DatagramListenerConfig(routing_key="udp.{source}.{port}"))
    scene.take(b"\x00\xffany")
    assert scene.bodies() == [b"\x00\xffany"]
    assert scene.keys() == ["udp.192.0.2.7.514"]
    [message] = scene.queue.hot_messages()
    plain = message.properties().to_plain()
    assert plain["headers"] == {"source": "192.0.2.7", "port": "514"}
    assert not message.is_persistent
    assert scene.receiver.published == 1


@pytest.mark.parametrize("is_persistent", [True, False])
def test_messages_are_as_persistent_as_the_listener_says(is_persistent: bool) -> None:
    scene = Scene(DatagramListenerConfig(is_persistent=is_persistent))
    scene.take(b"x")
    [message] = scene.queue.hot_messages()
    assert message.is_persistent == message.properties().is_persistent == is_persistent


@pytest.mark.parametrize(
    ("data", "key"),
    [
        pytest.param(
            b"<34>1 2026-10-11T22:14:15.003Z web.example su - ID47 - failed",
            "auth.crit.web.example.su",
            id="RFC 5424",
        ),
        pytest.param(
            b"<165>Oct 11 22:14:15 web cron[123]: run", "local4.notice.web.cron", id="RFC 3164"
        ),
        pytest.param(b"<0>1 - - - - - -", "kern.emerg.unknown.unknown", id="nil values"),
        pytest.param(b"<191>whatever", "local7.debug.unknown.unknown", id="a priority alone"),
        pytest.param(b"<13>1 t \xff\xfe p - - - x", "user.notice.\ufffd\ufffd.p", id="no UTF-8"),
    ],
)
def test_syslog_has_facility_and_severity(data: bytes, key: str) -> None:
    scene = Scene(
        DatagramListenerConfig(
            format="syslog", routing_key="{facility}.{severity}.{hostname}.{program}"
        )
    )
    scene.take(data)
    assert scene.keys() == [key]
    assert scene.bodies() == [data]


@pytest.mark.parametrize("data", [b"", b"<>x", b"<192>x", b"34 x", b"<1234>x", b"< 1>x"])
def test_what_has_no_priority_is_no_syslog(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_syslog(data)


GELF = json.dumps({"version": "1.1", "host": "web1", "short_message": "x", "level": 3}).encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(GELF, id="plain"),
        pytest.param(gzip.compress(GELF), id="gzip"),
        pytest.param(zlib.compress(GELF), id="zlib"),
    ],
)
def test_gelf_has_host_and_severity(data: bytes) -> None:
    scene = Scene(DatagramListenerConfig(format="gelf", routing_key="gelf.{host}.{severity}"))
    scene.take(data)
    assert scene.keys() == ["gelf.web1.err"]
    assert scene.bodies() == [GELF]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="no JSON"),
        pytest.param(b"[1]", id="no object"),
        pytest.param(b"[" * 60_000, id="nested without end"),
        pytest.param(gzip.compress(GELF)[:-9], id="cut off"),
        pytest.param(b"\x1f\x8bno", id="damaged"),
        pytest.param(gzip.compress(bytes(1_000_000)), id="a bomb"),
    ],
)
def test_what_is_no_gelf_is_dropped(data: bytes) -> None:
    scene = Scene(DatagramListenerConfig(format="gelf"))
    scene.take(data)
    assert scene.dropped() == {"malformed": 1}


def parts(data: bytes, count: int, name: bytes = b"12345678") -> list[bytes]:
    step = -(-len(data) // count)
    return [
        b"\x1e\x0f" + name + bytes((number, count)) + data[number * step : (number + 1) * step]
        for number in range(count)
    ]


def test_parts_are_joined_in_their_order_whatever_that_of_their_coming() -> None:
    scene = Scene(DatagramListenerConfig(format="gelf", routing_key="{host}"))
    first, second, third = parts(gzip.compress(GELF), 3)
    scene.take(third, first)
    assert scene.bodies() == []
    scene.take(second)
    assert scene.bodies() == [GELF]
    assert scene.is_settled()


def test_parts_of_different_senders_do_not_mix() -> None:
    store = ChunkStore(lambda: 0.0, 1000)
    one, two = parts(GELF, 2)
    assert store.take("a", one) is None
    assert store.take("b", two) is None
    assert store.take("a", two) == GELF


def test_parts_are_not_waited_for_for_ever() -> None:
    now = [0.0]
    store = ChunkStore(lambda: now[0], 1000)
    one, two = parts(GELF, 2)
    store.take("a", one)
    now[0] = 6.0
    assert store.take("a", two) is None
    assert store.lost_count == 1


def test_parts_do_not_fill_the_memory() -> None:
    store = ChunkStore(lambda: 0.0, 1000)
    for number in range(10_000):
        store.take("a", parts(GELF, 2, number.to_bytes(8, "big"))[0])

    assert store.lost_count == 10_000 - 256
    with pytest.raises(Malformed):
        store.take("a", parts(bytes(3000), 2)[0])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x1e\x0f12345678\x00\x01", id="empty"),
        pytest.param(b"\x1e\x0f12345678\x02\x02x", id="beyond the last"),
        pytest.param(b"\x1e\x0f12345678\x00\x00x", id="of none"),
        pytest.param(b"\x1e\x0f12345678\x00\xffx", id="of too many"),
    ],
)
def test_impossible_parts_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        ChunkStore(lambda: 0.0, 1000).take("a", data)


def test_read_gelf_keeps_to_the_size_when_unpacking() -> None:
    packed = gzip.compress(json.dumps({"host": "h", "x": "y" * 5000}).encode())
    with pytest.raises(Malformed, match="larger"):
        read_gelf(packed, 1000)


def test_what_is_too_large_is_dropped() -> None:
    scene = Scene(DatagramListenerConfig(size_bytes_max=10))
    scene.take(bytes(10), bytes(11))
    assert scene.dropped() == {"size": 1}
    assert scene.receiver.published == 1


def test_more_than_the_rate_allows_is_dropped_until_time_passes() -> None:
    scene = Scene(DatagramListenerConfig(rate_max=10))
    scene.take(*[b"x"] * 15)
    assert scene.dropped() == {"rate": 5}
    scene.now_s += 0.5
    scene.take(*[b"x"] * 6)
    assert scene.dropped() == {"rate": 6}
    scene.now_s += 1000
    scene.take(*[b"x"] * 11)
    assert scene.dropped() == {"rate": 7}
    assert scene.is_settled()


def test_what_comes_under_an_alarm_is_dropped() -> None:
    scene = Scene()
    scene.world.node.set_alarm("disk", True)
    scene.take(b"x")
    scene.world.node.set_alarm("disk", False)
    scene.take(b"y")
    assert scene.dropped() == {"alarm": 1}
    assert scene.bodies() == [b"y"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param(DatagramListenerConfig(exchange="none"), "exchange", id="no exchange"),
        pytest.param(DatagramListenerConfig(vhost="none"), "exchange", id="no virtual host"),
        pytest.param(DatagramListenerConfig(exchange="amq.direct"), "unroutable", id="no queue"),
    ],
)
def test_what_nobody_wants_is_counted(config: DatagramListenerConfig, reason: str) -> None:
    scene = Scene(config)
    scene.take(b"x")
    assert scene.dropped() == {reason: 1}


def test_datagrams_count_as_published_messages() -> None:
    scene = Scene()
    scene.take(b"x" * 50, b"y" * 500)
    tally = scene.world.vhost.tally
    assert tally.publishes.published == 2
    assert tally.sizes.counts[:2] == [1, 1]


@pytest.mark.parametrize(
    ("template", "kind", "problem"),
    [
        ("a.{source}", "raw", None),
        ("a.{facility}", "syslog", None),
        ("a.{host}", "gelf", None),
        ("plain", "raw", None),
        ("{facility}", "raw", "{facility} is none of {source}, {port}"),
        ("{level}", "gelf", "{level} is none of {source}, {port}, {host}, {severity}"),
        ("a{", "raw", "it holds a brace that names nothing"),
        ("a}", "raw", "it holds a brace that names nothing"),
    ],
)  # fmt: skip
def test_templates_are_checked(template: str, kind: str, problem: str | None) -> None:
    assert template_problem(template, kind) == problem


def test_what_a_datagram_does_not_say_is_unknown() -> None:
    assert make_key("a.{host}.{severity}", {"host": "h"}) == "a.h.unknown"


def test_a_key_is_cut_to_what_a_short_string_holds() -> None:
    scene = Scene(DatagramListenerConfig(format="gelf", routing_key="{host}{host}"))
    scene.take(json.dumps({"host": "h" * 200}).encode())
    assert scene.keys() == ["h" * 255]
